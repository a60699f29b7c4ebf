"""Times come back as they went in, whatever they are stored as; and states that there are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from sqlalchemy.dialects import registry
from sqlalchemy.engine import Dialect

from reference_sender.outbox.columns import StateName, UtcDateTime

MOMENT = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))


def dialect(name: str) -> Dialect:
    kind: type[Dialect] = registry.load(name)
    return kind()


def stored(value: datetime | None, words: Dialect) -> Any:
    make = UtcDateTime().dialect_impl(words).bind_processor(words)
    return value if make is None else make(value)


def read(value: Any, words: Dialect) -> datetime | None:
    make = UtcDateTime().dialect_impl(words).result_processor(words, None)
    told: datetime | None = value if make is None else make(value)
    return told


@pytest.mark.parametrize("name", ["sqlite", "postgresql", "mysql"])
def test_a_time_comes_back_in_utc(name: str) -> None:
    words = dialect(name)
    for moment in (MOMENT, MOMENT + timedelta(microseconds=1)):
        told = read(stored(moment, words), words)
        assert (told, told and told.tzinfo) == (moment, UTC)
    assert read(stored(None, words), words) is None
    assert UtcDateTime().process_bind_param(None, words) is None


def test_on_sqlite_texts_are_in_the_order_of_the_times() -> None:
    words = dialect("sqlite")
    assert stored(MOMENT, words) == "2026-01-01 10:00:00.000000"
    assert stored(MOMENT.replace(microsecond=7), words) == "2026-01-01 10:00:00.000007"


@pytest.mark.parametrize("text", ["tomorrow", "29.11.2026", "2026-11-29 12:00:00+02:00", 5])
def test_what_is_no_time_is_not_read(text: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        read(text, dialect("sqlite"))


@pytest.mark.parametrize("name", ["sqlite", "postgresql", "mysql"])
def test_a_naive_time_is_a_bug(name: str) -> None:
    with pytest.raises(AssertionError, match="naive"):
        stored(datetime(2026, 1, 1), dialect(name))


def test_a_state_that_does_not_exist_cannot_be_stored() -> None:
    assert StateName().process_bind_param(None, dialect("sqlite")) is None
    with pytest.raises(ValueError, match="nonsense"):
        StateName().process_bind_param("nonsense", dialect("sqlite"))  # type: ignore[arg-type]
