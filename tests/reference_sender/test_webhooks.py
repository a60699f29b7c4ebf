"""The processor of events: where each is put, and that nothing stops the loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from reference_sender.clock import Alarm
from reference_sender.events.kinds import MEANING, Happened, Irrelevant, Kind, Malformed
from reference_sender.life import Docket, State
from reference_sender.policy.hearing import Fate, Settled, Told
from reference_sender.sealing import MAGIC
from reference_sender.webhooks import Processor, place
from tests.reference_sender.samples import NOW, docket

TOLD = Told(id=1, source="webhook", event_id="evt_1", raw=b"{}", received_at=NOW, looks=0)
ROW = docket(state=State.ACCEPTED, provider_id="m1")
DELIVERED = Happened(kind=Kind.DELIVERED, at=NOW, provider_id="m1", recipient="ann@example.com")
BOUNCED = replace(DELIVERED, kind=Kind.HARD_BOUNCE)


def put(happened: Any, *mails: Docket, waited_s: float = 0.0) -> Settled:
    return place(TOLD, happened, mails, now=NOW + timedelta(seconds=waited_s), patience_s=3600.0)


def test_a_fact_about_an_accepted_mail_is_noted() -> None:
    settled = put(DELIVERED, ROW)
    assert (settled.fate, settled.docket, settled.move) == (Fate.APPLIED, ROW, None)
    assert settled.fact is not None
    assert (settled.fact.kind, settled.fact.happened_at, settled.fact.provider_id) == ("delivered", NOW, "m1")


def test_an_unknown_mail_becomes_accepted() -> None:
    settled = put(DELIVERED, docket(state=State.UNKNOWN, doubted_at=NOW))
    assert settled.fate is Fate.APPLIED
    assert settled.move is not None
    assert (settled.move.state, settled.move.provider_id) == (State.ACCEPTED, "m1")


def test_while_a_mail_is_being_sent_its_event_waits() -> None:
    settled = put(DELIVERED, docket(state=State.SENDING), waited_s=20)
    assert (settled.fate, settled.look_again_at) == (Fate.WAITING, NOW + timedelta(seconds=40))
    assert settled.fact is not None


def test_an_event_of_no_mail_of_ours_waits_and_is_given_up_where_somebody_sees_it() -> None:
    early = put(DELIVERED, waited_s=10)
    assert (early.fate, early.look_again_at) == (Fate.WAITING, NOW + timedelta(seconds=20))
    late = put(DELIVERED, waited_s=3600)
    assert (late.fate, late.look_again_at) == (Fate.PARKED, None)
    assert "waited long enough" in late.reason


def test_what_cannot_be_read_is_parked_and_what_concerns_nobody_is_not() -> None:
    assert put(Malformed(reason="it is no JSON object")).fate is Fate.PARKED
    assert put(Irrelevant(reason="nothing is known of it")).fate is Fate.IGNORED


def test_a_row_that_says_otherwise_is_left_alone_and_somebody_sees_it() -> None:
    settled = put(DELIVERED, docket(state=State.FAILED))
    assert (settled.fate, settled.move) == (Fate.PARKED, None)
    assert settled.fact is not None
    assert "failed" in settled.reason


def test_of_two_mails_with_one_name_the_recipient_decides() -> None:
    bob = docket(id=2, recipient="bob@example.com", state=State.ACCEPTED)
    assert put(DELIVERED, bob, ROW).docket == ROW
    settled = put(replace(DELIVERED, recipient=None), bob, ROW)
    assert (settled.fate, settled.docket, settled.fact) == (Fate.PARKED, None, None)


@pytest.mark.parametrize("kind", Kind)
def test_only_what_suppresses_suppresses(kind: Kind) -> None:
    settled = put(replace(DELIVERED, kind=kind), ROW)
    expected = ("ann@example.com", kind.value) if MEANING[kind].suppresses else None
    assert settled.suppress == expected


@pytest.mark.parametrize(
    ("told", "mails", "address"),
    [
        ("ANN@example.com", [ROW], "ANN@example.com"),
        (None, [ROW], "ann@example.com"),
        ("gone@example.com", [], "gone@example.com"),
        (None, [], None),
        # It was forwarded: that address is none of ours.
        ("ann@elsewhere.example", [ROW], None),
    ],
)
def test_whose_address_it_is(told: str | None, mails: list[Docket], address: str | None) -> None:
    settled = put(replace(BOUNCED, recipient=told), *mails)
    assert (settled.suppress and settled.suppress[0]) == address


def test_an_address_is_ours_also_where_its_domain_is_told_in_letters() -> None:
    """Or who bounced, or complained, would go on getting mail."""
    row = docket(recipient="ann@xn--bcher-kva.example", state=State.ACCEPTED)
    settled = put(replace(BOUNCED, recipient="Ann@bücher.example"), row)
    assert settled.suppress == ("Ann@bücher.example", "hard_bounce")


def test_a_complaint_that_names_an_address_only_counts_all_the_same() -> None:
    settled = put(Happened(kind=Kind.COMPLAINT, at=NOW, recipient="ann@example.com"))
    assert (settled.fate, settled.suppress) == (Fate.APPLIED, ("ann@example.com", "complaint"))


@pytest.mark.parametrize(
    ("told", "mails", "address"),
    [
        # Listed at the first look; a person may have taken it from the list since.
        ("ann@example.com", [ROW], None),
        ("gone@example.com", [], None),
        # Only now it is known whose it is.
        (None, [ROW], "ann@example.com"),
    ],
)
def test_an_event_that_waits_lists_an_address_once(
    told: str | None, mails: list[Docket], address: str | None
) -> None:
    settled = place(
        replace(TOLD, looks=1), replace(BOUNCED, recipient=told), mails, now=NOW, patience_s=3600.0
    )
    assert (settled.suppress and settled.suppress[0]) == address


# --- the loop ---------------------------------------------------------------------------------------


class Books:
    """An outbox with one accepted mail and some events."""

    def __init__(self, *raws: bytes) -> None:
        self.waiting = [replace(TOLD, id=n, event_id=f"evt_{n}", raw=raw) for n, raw in enumerate(raws)]
        self.concluded: list[tuple[int, Settled]] = []
        self.away: list[Exception] = []
        self.asked: list[dict[str, str | None]] = []

    def due_events(self, *, now: datetime, limit: int) -> list[Told]:
        if self.away:
            raise self.away.pop()
        taken, self.waiting = self.waiting[:limit], self.waiting[limit:]
        return taken

    def about(self, **names: str | None) -> list[Docket]:
        self.asked.append(names)
        if names["key"] == "poison":
            raise LookupError("a bug")
        return [ROW] if names["provider_id"] == "m1" else []

    def conclude(self, told: Told, settled: Settled, *, now: datetime) -> bool:
        self.concluded.append((told.id, settled))
        return True


class Clock:
    """Stands still; every rest is remembered, and at the last one the work is over."""

    def __init__(self, stop: asyncio.Event, rests: int) -> None:
        self.slept: list[float] = []
        self._stop, self._rests = stop, rests

    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("it has no reason to")

    def alarm(self, seconds: float, call: Callable[[], object]) -> Alarm:
        self.slept.append(seconds)
        if len(self.slept) >= self._rests:
            self._stop.set()
        return asyncio.get_running_loop().call_soon(call)


def event(**data: Any) -> bytes:
    return json.dumps({"type": "email.delivered", "timestamp": NOW.isoformat(), "data": data}).encode()


def run(books: Books, *, rests: int = 1) -> tuple[Clock, list[tuple[str, dict[str, Any]]]]:
    said: list[tuple[str, dict[str, Any]]] = []

    async def story() -> Clock:
        stop = asyncio.Event()
        clock = Clock(stop, rests)

        def log(name: str, /, **facts: object) -> None:
            said.append((name, facts))

        await Processor(store=books, clock=clock, poll_s=2.0, log=log).run(stop)
        return clock

    return asyncio.run(story()), said


def test_each_event_is_taken_up_and_told_of() -> None:
    books = Books(event(email_id="m1", recipient="ann@example.com"), b"null")
    clock, said = run(books)
    assert [(number, settled.fate) for number, settled in books.concluded] == [
        (0, Fate.APPLIED),
        (1, Fate.PARKED),
    ]
    assert clock.slept == [2.0]
    assert [(name, facts["event_id"], facts["state"]) for name, facts in said] == [
        ("event", "evt_0", "applied"),
        ("event", "evt_1", "parked"),
    ]
    assert "ann@example.com" not in str(said)


def test_an_event_that_nothing_can_deal_with_stops_no_other() -> None:
    books = Books(event(key="poison"), event(email_id="m1"))
    _, said = run(books)
    (_, poisoned), (_, fine) = books.concluded
    assert (poisoned.fate, poisoned.look_again_at) == (Fate.WAITING, NOW + timedelta(seconds=1))
    assert fine.fate is Fate.APPLIED
    assert [name for name, _ in said] == ["event_failed", "event", "event"]


def test_a_sealed_event_whose_key_is_missing_waits_and_stops_no_other() -> None:
    """It is not junk, though nobody can read it; with its key it will be an event like every other."""
    shut = MAGIC + b"2026-11\x00" + b"n" * 30
    books = Books(shut, event(email_id="m1"))
    run(books)
    (_, waiting), (_, fine) = books.concluded
    assert (waiting.fate, waiting.look_again_at) == (Fate.WAITING, NOW + timedelta(seconds=1))
    assert "OUTBOX_BODY_KEYS" in waiting.reason
    assert fine.fate is Fate.APPLIED
    late = Books()
    late.waiting = [replace(TOLD, raw=shut, received_at=NOW - timedelta(days=3))]
    run(late)
    assert [(each.fate, each.look_again_at) for _, each in late.concluded] == [(Fate.PARKED, None)]


def test_words_that_the_database_does_not_take_stop_no_other() -> None:
    class Picky(Books):
        def conclude(self, told: Told, settled: Settled, *, now: datetime) -> bool:
            if told.id == 0 and settled.fact is not None:
                raise ValueError("a NUL")
            return super().conclude(told, settled, now=now)

    books = Picky(event(email_id="m1"), event(email_id="m1"))
    run(books)
    assert [settled.fate for _, settled in books.concluded] == [Fate.WAITING, Fate.APPLIED]


def test_a_database_that_is_away_ends_nothing() -> None:
    books = Books(event(email_id="m1"))
    books.away = [ConnectionError("away")]
    _, said = run(books, rests=2)
    assert [name for name, _ in said] == ["process_failed", "event"]


def test_a_storm_is_worked_off_without_a_rest() -> None:
    books = Books(*[b"null"] * 250)
    clock, _ = run(books)
    assert len(books.concluded) == 250
    assert clock.slept == [2.0]


def test_whoever_is_told_something_looks_at_once() -> None:
    async def story() -> None:
        stop, books = asyncio.Event(), Books()

        class Patient(Clock):
            def alarm(self, seconds: float, call: Callable[[], object]) -> Alarm:
                return asyncio.get_running_loop().call_later(3_600, call)

        looked = asyncio.Event()

        def log(name: str, /, **facts: object) -> None:
            looked.set()

        processor = Processor(store=books, clock=Patient(stop, 9), log=log)
        running = asyncio.create_task(processor.run(stop))
        await asyncio.sleep(0)
        books.waiting = Books(b"null").waiting
        processor.wake()
        await asyncio.wait_for(looked.wait(), 5)
        stop.set()
        await asyncio.wait_for(running, 5)
        assert len(books.concluded) == 1

    asyncio.run(story())
