"""Reading tables: what stores with tables have in common is in their contract; here is what it must not do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from simulator.provider.search import Search
from simulator.store import StoreError
from simulator.store.readings import Readings


class Spy(Readings):
    """Notes what is asked, and answers with what it was given."""

    name = "spy"

    def __init__(self, *answers: list[tuple[Any, ...]]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        assert query.count("?") == len(values)
        self.asked.append(query)
        return self.answers.pop(0)

    def _glance(self, query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        return self._rows(query, values)

    def _catch_up(self) -> None:
        self.asked.append("catch up")


def test_readings_catch_up_before_they_ask() -> None:
    """Look-ups by name do not: they must not wait."""
    spy = Spy([(1,)], [])
    assert spy.messages("default", Search(q="x")).found == ()
    assert [each.split()[0] for each in spy.asked] == ["catch", "SELECT", "SELECT"]
    assert "instr(text, ?) > 0" in spy.asked[2]

    spy = Spy([])
    assert spy.with_key("default", "k") == []
    assert len(spy.asked) == 1


def test_a_row_that_is_no_record_is_one_sentence() -> None:
    with pytest.raises(StoreError, match=r"the ledger spy is damaged \(.*\); restore it from a copy"):
        Spy([("{}",)]).with_key("default", "k")
