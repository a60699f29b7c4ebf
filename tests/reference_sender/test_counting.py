"""A log that counts: what it makes of a table, and what it hears."""

from __future__ import annotations

from reference_sender.counting import Counting, Described

ROWS = (
    Described(name="sent_total", kind="counter", says="Sent.", labels=("code",)),
    Described(name="trouble_total", kind="counter", says="Went wrong.", labels=("event",)),
    Described(name="depth", kind="gauge", says="Waiting."),
)


def lines(counting: Counting) -> set[str]:
    return {each for each in counting.text().decode().splitlines() if each.startswith(("sent", "trouble"))}


def test_trouble_is_there_from_the_first_moment_and_counted_by_its_name() -> None:
    counting = Counting(ROWS, trouble="trouble_total", troubles=("lost", "late"))
    assert {'trouble_total{event="lost"} 0.0', 'trouble_total{event="late"} 0.0'} <= lines(counting)
    counting("lost", mail=7)
    counting("something else")
    assert {'trouble_total{event="lost"} 1.0', 'trouble_total{event="late"} 0.0'} <= lines(counting)


def test_a_line_is_heard_by_whom_its_name_is_for_and_no_other() -> None:
    counting = Counting(ROWS, trouble="trouble_total", troubles=("sent",))
    counting.hears["sent"] = lambda facts: counting.counters["sent_total"].labels(facts["code"]).inc()
    counting("sent", code=250)
    counting("received", code=550)
    assert {'sent_total{code="250"} 1.0', 'trouble_total{event="sent"} 1.0'} <= lines(counting)
    assert not any("550" in each for each in lines(counting))


def test_counters_are_made_of_their_rows_only() -> None:
    assert set(Counting(ROWS, trouble="trouble_total", troubles=()).counters) == {
        "sent_total",
        "trouble_total",
    }
