"""Rows and conditions: what a search wants is never filtered out by what narrows it down."""

from __future__ import annotations

from simulator.provider.search import AttemptSearch, Page, Search
from simulator.store.rows import attempt_conditions, conditions, micros, paged, select, text_of
from tests.simulator.store.records import NOW, at, booked


def test_instants_are_whole_microseconds() -> None:
    assert micros(NOW) % 1_000_000 == 678_901
    assert micros(at(1)) - micros(NOW) == 1_000_000


def test_everything_that_can_be_searched_in_parts_is_one_text() -> None:
    """Folded, so that no database needs to know what upper case is."""
    text = text_of(booked(subject="GRÜN", headers=(("X-Shop", "NORTH"),)).acceptance)

    assert "grün" in text.split("\n")
    assert "x-shop: north" in text.split("\n")
    assert "grüße@example.com" in text.split("\n")


def test_a_search_by_name_goes_by_an_index() -> None:
    """Equality, not a look into every text."""
    for search in (
        Search(key="k"),
        Search(message_id="<m>"),
        Search(sender="a"),
        Search(to="a"),
        Search(since=at(1)),
    ):
        narrowed = conditions(7, search)
        assert len(narrowed) == 2
        assert not any("instr" in text for text, _ in narrowed)
    assert [text for text, _ in conditions(7, Search(subject="x"))][1] == "{instr}(text, ?) > 0"
    assert len(attempt_conditions(7, AttemptSearch(state="held", rule="r"))) == 1


def test_a_query_has_its_values_in_order() -> None:
    query, values = select("acceptance", conditions(7, Search(key="k")), 9, newest_first=True)

    assert query.endswith("AND key = ? AND number < ? ORDER BY number DESC LIMIT ?")
    assert values == (7, "k", 9)


def test_a_page_is_fetched_until_enough_is_wanted() -> None:
    """What comes out of the database is looked at again, and more is asked for where little was wanted."""
    asked: list[tuple[int | None, int]] = []

    def fetch(after: int | None, how_many: int) -> list[tuple[int, int]]:
        asked.append((after, how_many))
        begin = after or 0
        return [(number, number) for number in range(begin + 1, min(begin + how_many, 20) + 1)]

    assert paged(fetch, lambda each: each % 5 == 0, None, 2) == Page(found=(5, 10), cursor=10)
    assert asked == [(None, 3), (3, 6), (9, 12)]
    assert paged(fetch, lambda each: each > 18, None, 2) == Page(found=(19, 20))
    assert paged(fetch, lambda each: False, 18, 2) == Page(found=())
