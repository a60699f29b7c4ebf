"""What the columns of the outbox hold that databases store differently: times and states.

Must not hold: tables.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import TIMESTAMP, DateTime, Dialect, String
from sqlalchemy.types import TypeDecorator, TypeEngine

from reference_sender.life import State

_TEXT_CHARS = len("2026-11-29 12:00:00.000000")


class UnreadableValue(ValueError):
    """A value that its column cannot mean: somebody edited the row by hand."""


class UtcDateTime(TypeDecorator[datetime]):
    """Aware UTC in Python; timestamptz where the database has it, naive UTC where it has not."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "mysql":
            # Late, because only those who speak MySQL should pay for its words.
            from sqlalchemy.dialects.mysql import DATETIME

            # It forgets the fraction of a second unless told how many digits of it are meant.
            return dialect.type_descriptor(DATETIME(fsp=6))
        if getattr(dialect, "native_datetime", False):
            # Somebody has taught sqlite3 itself to read times, like Django (docs/recipes/django.md).
            return dialect.type_descriptor(TIMESTAMP())
        return dialect.type_descriptor(DateTime(timezone=True))

    # Times are most of what is read of a claimed row, and the usual way is three calls for each.

    def bind_processor(self, dialect: Dialect) -> Callable[[datetime | None], Any] | None:
        return _as_text if _is_text(dialect) else super().bind_processor(dialect)

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], datetime | None] | None:
        if _is_text(dialect):
            return _from_text
        return _in_utc if dialect.name == "postgresql" else super().result_processor(dialect, coltype)

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        assert value.tzinfo is not None, "a naive time would be stored as if it were UTC"
        utc = value.astimezone(UTC)
        return utc if dialect.name == "postgresql" else utc.replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def _is_text(dialect: Dialect) -> bool:
    """Whether times are stored as texts, which are in the order of the times."""
    return dialect.name == "sqlite" and not getattr(dialect, "native_datetime", False)


def _as_text(value: datetime | None) -> str | None:
    if value is None:
        return None
    assert value.tzinfo is not None, "a naive time would be stored as if it were UTC"
    return value.astimezone(UTC).isoformat(" ", "microseconds")[:_TEXT_CHARS]


def _from_text(value: str | None) -> datetime | None:
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value + "+00:00")
    except (ValueError, TypeError) as error:
        raise UnreadableValue(f"{value!r} is no time") from error
    if moment.tzinfo is None:
        raise UnreadableValue(f"{value!r} is a day and no time")  # it took our zone for the time of day
    return moment


def _in_utc(value: datetime | None) -> datetime | None:
    return None if value is None else value.astimezone(UTC)


class StateName(TypeDecorator[State]):
    """A state by its name, readable in any database client."""

    impl = String(16)
    cache_ok = True

    # Every claimed row has two of them; the usual way through a type of one's own is four calls for each.

    def bind_processor(self, dialect: Dialect) -> Callable[[State | None], str | None]:
        return _name_of

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[str | None], State | None]:
        return _state_of

    def process_bind_param(self, value: State | None, dialect: Dialect) -> str | None:
        return _name_of(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> State | None:
        return _state_of(value)


def _name_of(value: State | None) -> str | None:
    return None if value is None else State(value).value


def _state_of(value: str | None) -> State | None:
    if value is None:
        return None
    try:
        return State(value)
    except ValueError as error:
        raise UnreadableValue(f"there is no state {value!r}") from error
