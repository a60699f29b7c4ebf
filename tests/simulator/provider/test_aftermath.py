"""Tests of what goes on after a mail was taken."""

from __future__ import annotations

from simulator.provider.aftermath import TIDY, Aftermath
from simulator.provider.events import PUSHED_KEPT
from simulator.provider.fate import Destiny, Fate, suppressed
from simulator.provider.suppression import Suppression
from tests.simulator.provider.mails import ANN, BOB, NOW, acceptance, after

BOUNCES = Destiny(fate=Fate.HARD_BOUNCE, after_s=5)


def test_the_list_comes_before_any_rule() -> None:
    """Whatever a rule foretold: mail to a suppressed address is suppressed."""
    it = Aftermath(account="default")
    it.suppress(Suppression(address=BOB, reason="complaint", since=NOW))

    assert it.destinies((ANN, BOB), {BOB: BOUNCES}, NOW) == ((BOB, suppressed("complaint")),)
    assert it.destinies((ANN,), {}, NOW) == ()
    assert it.destinies((ANN,), {ANN: BOUNCES, "not taken": BOUNCES}, NOW) == ((ANN, BOUNCES),)


def test_a_bounce_is_remembered_as_soon_as_it_is_decided() -> None:
    """A restart before the bounce must not lose it."""
    it, again = Aftermath(account="default"), Aftermath(account="default")
    notes = it.book(acceptance(1, [ANN, BOB], destinies=((BOB, BOUNCES),)))
    for note in notes:
        again.recall(note)

    assert len(notes) == 1
    assert again.suppressions.reason(BOB, after(4.9)) is None
    assert again.suppressions.reason(BOB, after(5)) == "hard_bounce"
    assert it.book(acceptance(2)) == []


def test_magic_addresses_never_get_on_the_list() -> None:
    it = Aftermath(account="default")

    assert it.book(acceptance(destinies=((BOB, Destiny(fate=Fate.HARD_BOUNCE, suppresses=False)),))) == []


def test_only_what_changes_is_remembered() -> None:
    it = Aftermath(account="default")
    entry = Suppression(address=BOB, reason="manual", since=NOW)

    assert len(it.suppress(entry)) == 1
    assert it.suppress(entry) == []
    assert [note.facts for note in it.lift(BOB)] == [None]
    assert it.lift(BOB) == []


def test_pushed_events_are_recalled_and_bounded() -> None:
    """The oldest are forgotten, numbers go on."""
    it, again = Aftermath(account="default"), Aftermath(account="default")
    it.events.pushed = PUSHED_KEPT
    for number in range(3):
        event, notes = it.push("email.opened", {"recipient": BOB}, after(number), told_at=NOW)
        for note in notes:
            it.notes.keep(note)
            again.recall(note)
    again.events.advance(after(9))

    assert [each for _, each in again.events.since(0)][-1] == event
    assert again.events.pushed == PUSHED_KEPT + 3
    other, _ = again.push("email.opened", {}, NOW)
    assert other.id not in {each.id for _, each in again.events.since(0)}


def test_the_oldest_notes_of_pushed_events_go() -> None:
    it = Aftermath(account="default")
    _, notes = it.push("email.opened", {}, NOW)
    it.notes.keep(notes[0])
    it.events.pushed = PUSHED_KEPT
    _, notes = it.push("email.opened", {}, NOW)

    assert [(note.name.partition("/")[0], note.facts is None) for note in notes] == [
        (str(PUSHED_KEPT + 1), False),
        ("1", True),
    ]


def test_what_happens_long_after_is_remembered_until_it_is_over() -> None:
    """A ledger may have let go of the mail by then."""
    it = Aftermath(account="default")
    far = Destiny(fate=Fate.OPENED, after_s=3600, suppresses=False)
    (note,) = it.book(acceptance(1, destinies=((BOB, far),)))
    it.notes.keep(note)

    assert it.ahead() == {"msg_1": after(3600)}
    assert it.book(acceptance(2, destinies=((BOB, Destiny(fate=Fate.DELIVERED, after_s=5)),))) == []
    for each in it.past(["msg_1"]):
        it.notes.keep(each)
    assert it.ahead() == {}


def test_those_that_are_over_are_forgotten_in_time() -> None:
    it = Aftermath(account="default")
    far = Destiny(fate=Fate.OPENED, after_s=60)
    for number in range(1, 2 * TIDY + 1):
        booked = acceptance(number, destinies=((BOB, far),), accepted_at=after(number))
        for note in it.book(booked):
            it.notes.keep(note)

    assert 60 <= len(it.ahead()) <= TIDY + 61
