"""Retention: periods by name, a purge in steps that may be the last, an erasure that says what it had to leave."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from reference_sender.life import FINAL, State
from reference_sender.policy.settings import InvalidSettings
from reference_sender.retention import DEFAULT_DAYS, Erased, Periods, Purged, erase, purge
from tests.reference_sender.samples import NOW


def test_what_is_not_named_keeps_its_default() -> None:
    periods = Periods.parse(" answers=7 , accepted=90.5,")
    assert periods.days == {**DEFAULT_DAYS, "answers": 7.0, "accepted": 90.5}
    assert periods.before("answers", NOW) == NOW - timedelta(days=7)


def test_six_months_is_the_usual_period_of_every_final_state_and_answers_go_sooner() -> None:
    days = Periods.parse("").days
    assert {days[state.value] for state in FINAL} == {183.0}
    assert days["answers"] < 183
    assert not {state.value for state in set(State) - FINAL} & days.keys()


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("pending=1", "OUTBOX_KEEP names 'pending'; there are accepted, "),
        ("accepted", "OUTBOX_KEEP gives accepted ''; it must be a number of days"),
        ("accepted=soon", "OUTBOX_KEEP gives accepted 'soon'"),
        ("accepted=-1", "OUTBOX_KEEP gives accepted '-1'"),
        ("accepted=nan", "OUTBOX_KEEP gives accepted 'nan'"),
    ],
)
def test_a_period_that_is_none_is_one_sentence(text: str, word: str) -> None:
    with pytest.raises(InvalidSettings, match=word):
        Periods.parse(text)


class Shelf:
    """A store that has so many old things of each kind, and remembers what it was asked."""

    def __init__(self, **counts: int) -> None:
        self.left = dict(counts)
        self.asked: list[tuple[str, datetime, int]] = []

    def _step(self, what: str, before: datetime, after: int, limit: int) -> tuple[int, int | None]:
        self.asked.append((what, before, after))
        count = min(self.left.get(what, 0), limit)
        self.left[what] = self.left.get(what, 0) - count
        return count, (after + count if count == limit else None)

    def purge_mails(
        self, state: State, *, before: datetime, after: int, limit: int
    ) -> tuple[int, int | None]:
        return self._step(state.value, before, after, limit)

    def purge_words(self, *, before: datetime, after: int, limit: int) -> tuple[int, int | None]:
        return self._step("words", before, after, limit)

    def purge_answers(self, *, before: datetime, after: int, limit: int) -> tuple[int, int | None]:
        return self._step("answers", before, after, limit)

    def purge_events(self, *, before: datetime, after: int, limit: int) -> tuple[int, int | None]:
        return self._step("events", before, after, limit)

    def purge_attachments(self, *, before: datetime, limit: int) -> int:
        return self._step("attachments", before, 0, limit)[0]

    def purge_lanes(self, *, before: datetime, limit: int) -> int:
        return self._step("lanes", before, 0, limit)[0]

    def purge_accesses(self, *, before: datetime, after: int, limit: int) -> tuple[int, int | None]:
        return self._step("accesses", before, after, limit)


def test_a_purge_goes_in_steps_and_each_thing_by_its_own_period() -> None:
    shelf = Shelf(accepted=5, answers=1, attachments=4)
    steps = list(purge(shelf, Periods.parse("accepted=30,attachments=3"), now=NOW, limit=2))
    assert steps == [
        Purged(what="answers", count=1),
        Purged(what="accepted", count=2),
        Purged(what="accepted", count=2),
        Purged(what="accepted", count=1),
        Purged(what="attachments", count=2),
        Purged(what="attachments", count=2),
    ]
    before = {what: moment for what, moment, _ in shelf.asked}
    assert (NOW - before["accepted"], NOW - before["attachments"]) == (timedelta(days=30), timedelta(days=3))
    assert [after for what, _, after in shelf.asked if what == "accepted"] == [0, 2, 4]
    assert shelf.asked[-1][0] == "accesses"


def test_words_are_only_looked_for_where_they_go_before_their_mail() -> None:
    shelf = Shelf()
    list(purge(shelf, Periods.parse(""), now=NOW))
    assert "words" not in {what for what, _, _ in shelf.asked}
    list(purge(shelf, Periods.parse("words=30"), now=NOW))
    assert "words" in {what for what, _, _ in shelf.asked}


def test_who_stops_after_a_step_has_done_that_step_and_no_other() -> None:
    shelf = Shelf(accepted=5)
    next(purge(shelf, Periods.parse(""), now=NOW, limit=2))
    assert shelf.left["accepted"] == 3
    assert sum(step.count for step in purge(shelf, Periods.parse(""), now=NOW, limit=2)) == 3


class Mails:
    """Mails to one person, in all states; and the order of what was done to them."""

    def __init__(self) -> None:
        self.mails = [
            (1, State.ACCEPTED, False),
            (2, State.PENDING, False),
            (3, State.PENDING, True),
            (4, State.SENDING, False),
            (5, State.UNKNOWN, True),
            (6, State.DEAD, False),
            (7, State.PENDING, False),
        ]
        self.events = 3
        self.done: list[tuple[str, object]] = []

    def mails_to(self, address: str) -> Sequence[tuple[int, State, bool]]:
        return self.mails

    def withhold(self, ids: Sequence[int], *, now: datetime) -> list[int]:
        self.done.append(("withhold", list(ids)))
        return [number for number in ids if number != 7]  # a worker was faster

    def erase_mails(self, ids: Sequence[int], *, address: str, now: datetime) -> int:
        self.done.append(("mails", list(ids)))
        return len(ids)

    def note_events(self, address: str, *, now: datetime, after: int, limit: int) -> tuple[int, int | None]:
        self.done.append(("noted", after))
        return 1, (after + 10 if after < 20 else None)

    def erase_events(self, address: str, ids: Sequence[int], *, limit: int) -> int:
        self.done.append(("events", list(ids)))
        self.events -= 1
        return 1 if self.events >= 0 else 0

    def events_left(self, address: str, ids: Sequence[int]) -> set[int]:
        return {99, *ids[:1]}

    def forget_suppression(self, address: str) -> int:
        self.done.append(("suppression", address))
        return 1


def test_what_is_finished_goes_what_waits_is_withheld_and_what_is_in_doubt_is_told() -> None:
    mails = Mails()
    done = erase(mails, "ann@example.com", now=NOW, keep_suppression=False, limit=2)
    # Left of the events: number 99, which was seen with each portion, the four beside it, and three that nobody can read.
    assert done == Erased(mails=3, withheld=1, events=3, events_left=8, suppressions=1, open=(3, 4, 5, 7))
    assert [each for what, each in mails.done if what == "mails"] == [[1, 6], [2]]


def test_the_mails_come_last_because_they_are_how_everything_else_is_found() -> None:
    mails = Mails()
    erase(mails, "ann@example.com", now=NOW, keep_suppression=False)
    assert [what for what, _ in mails.done] == [
        "withhold",
        *["noted"] * 3,
        *["events"] * 4,
        "suppression",
        "mails",
    ]


def test_an_address_may_stay_suppressed() -> None:
    mails = Mails()
    assert erase(mails, "ann@example.com", now=NOW, keep_suppression=True).suppressions == 0
    assert "suppression" not in {what for what, _ in mails.done}
