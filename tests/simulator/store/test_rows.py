"""Rows and conditions: what a search wants is never filtered out by what narrows it down."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from hypothesis import example, given
from hypothesis import strategies as st

from simulator.provider.search import AttemptSearch, Page, Search, folded
from simulator.store.entries import encode
from simulator.store.rows import BACK, attempt_conditions, conditions, micros, paged, select, text_of
from simulator.store.schema import SCHEMA
from simulator.store.writer import Writer
from tests.simulator.store.records import NOW, at, booked


def ledger(*lives: Sequence[int]) -> sqlite3.Connection:
    """Return the tables of mails taken at these seconds, one after the other, in several lives."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.executescript(SCHEMA)
    number = 0
    for seconds in lives:
        writer = Writer(db)
        for each in seconds:
            number += 1
            writer.write([encode(booked(number, accepted_at=at(each)))])
        writer.flush()
    return db


def numbers(db: sqlite3.Connection, search: Search) -> list[int]:
    query, values = select("acceptance", conditions(1, search), None, newest_first=False)
    return [number for number, _ in db.execute(query.format(instr="instr"), (*values, 1_000))]


def test_instants_are_whole_microseconds() -> None:
    assert micros(NOW) % 1_000_000 == 678_901
    assert micros(at(1)) - micros(NOW) == 1_000_000


def test_everything_that_can_be_searched_in_parts_is_one_text() -> None:
    """Folded, so that no database needs to know what upper case is."""
    text = text_of(booked(subject="GRÜN", headers=(("X-Shop", "NORTH"),)).acceptance)

    assert "grün" in text.split("\n")
    assert "x-shop: north" in text.split("\n")
    assert "grüße@example.com" in text.split("\n")


@given(st.text(alphabet="aAΣσς:. \n'\u0301İ", max_size=8), st.text(alphabet="aAΣσς: .İ", max_size=8))
def test_a_text_is_folded_line_by_line(subject: str, value: str) -> None:
    """Folding all of it at once makes the same of it: what is searched for is folded alone."""
    mail = booked(subject=subject, headers=((value, subject), ("X", value))).acceptance

    lines = [subject, mail.sender, mail.message_id or "", mail.key or "", *mail.recipients]
    apart = [*map(folded, lines), f"{folded(value)}: {folded(subject)}", f"x: {folded(value)}"]
    assert text_of(mail) == "\n".join(apart)


_LIFE = st.lists(st.integers(0, 9), max_size=8)


@given(_LIFE, _LIFE, st.none() | st.integers(0, 9), st.none() | st.integers(0, 9))
@example([5, 9, 4], [6, 3], 4, 6)
def test_a_time_is_found_though_times_fell(
    first: list[int], second: list[int], since: int | None, until: int | None
) -> None:
    """Whichever life it was in, and also where nobody counted how far they fell."""
    db = ledger(first, second)
    search = Search(since=None if since is None else at(since), until=None if until is None else at(until))
    wanted = {
        number
        for number, each in enumerate([*first, *second], 1)
        if (since is None or each >= since) and (until is None or each < until)
    }

    assert wanted <= set(numbers(db, search))
    db.execute("DELETE FROM meta WHERE name = ?", (BACK,))
    assert wanted <= set(numbers(db, search))


def test_a_page_since_a_time_looks_at_few_rows() -> None:
    """A ledger of ten times as many mails makes no more work of it, if times have only risen."""

    def steps(mails: int) -> int:
        db, count = ledger(range(mails)), 0

        def step() -> int:
            nonlocal count
            count += 1
            return 0

        query, values = select(
            "acceptance", conditions(1, Search(since=at(5), until=at(mails - 5))), None, newest_first=False
        )
        db.set_progress_handler(step, 1)
        assert len(db.execute(query, (*values, 10)).fetchall()) == 10
        return count

    assert steps(1_000) < 1.2 * steps(100)


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
