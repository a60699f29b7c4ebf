"""Tests of notes: small facts that outlive the process."""

from __future__ import annotations

from simulator.provider.notes import Noted, Notes


def note(name: str, facts: str | None, topic: str = "t") -> Noted:
    return Noted(account="default", topic=topic, name=name, facts=facts)


def test_the_last_note_of_a_name_counts_and_an_empty_one_is_none() -> None:
    notes = Notes()
    for each in (note("a", "1"), note("b", "2"), note("a", "3"), note("b", None), note("c", "4", topic="u")):
        notes.keep(each)

    assert notes.get("t", "a") == "3"
    assert notes.get("t", "b") is None
    assert notes.all("t") == {"a": "3"}
    assert notes.all("nothing") == {}
    notes.keep(note("never there", None))
    assert notes.all("t") == {"a": "3"}
