"""Tests of events: what an account is told of its mail, in which order and shape."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.provider.events import Event, EventLog, event_as_json, events_of, instant
from simulator.provider.fate import Destiny, Fate
from tests.simulator.provider.mails import ANN, BOB, NOW, acceptance, after

BOUNCED = Destiny(fate=Fate.HARD_BOUNCE, after_s=3, code=550, text="gone")


def types(log: EventLog, number: int = 0) -> list[str]:
    return [event.type for _, event in log.since(number)]


def test_an_event_tells_whose_mail_it_is_and_what_was_said() -> None:
    """The documented shape, whole."""
    mail = acceptance(4, [ANN, BOB], destinies=((BOB, BOUNCED),), obligation="order-4")
    *_, event = events_of(mail)

    assert event_as_json(event) == {
        "id": event.id,
        "type": "email.bounced",
        "timestamp": "2030-01-01T00:00:03.000Z",
        "account": "default",
        "data": {
            "email_id": "msg_4",
            "message_id": "<4@example.org>",
            "key": "key-4",
            "from": "shop@example.org",
            "recipient": BOB,
            "subject": "Hello",
            "obligation": "order-4",
            "accepted_at": "2030-01-01T00:00:00.000Z",
            "reply": {"code": 550, "enhanced": "5.0.0", "text": "gone"},
            "bounce": "hard",
            "category": "other",
            "reason": None,
            "url": None,
        },
    }
    assert event.id.startswith("evt_")
    assert "." not in event.id
    assert (event.recipient, event.email_id) == (BOB, "msg_4")


@settings(max_examples=50, deadline=None)
@given(fates=st.lists(st.sampled_from(Fate), min_size=1, max_size=3), number=st.integers(1, 9))
def test_every_event_has_the_same_keys_and_is_told_again_alike(fates: list[Fate], number: int) -> None:
    """Ids and times follow from the acceptance: a restart tells the same story."""
    recipients = [f"r{n}@example.org" for n in range(len(fates))]
    destinies = tuple((to, Destiny(fate=fate)) for to, fate in zip(recipients, fates, strict=True))
    first = list(events_of(acceptance(number, recipients, destinies=destinies)))
    again = list(events_of(acceptance(number, recipients, destinies=destinies)))

    assert first == again
    assert len({event.id for event in first}) == len(first)
    assert len({tuple(event.data()) for event in first}) == 1
    assert json.loads(json.dumps([event_as_json(event) for event in first])) == [
        event_as_json(event) for event in again
    ]


def test_events_happen_in_the_order_of_their_instants_whoever_they_are_about() -> None:
    """Nothing happens early, nothing twice; numbers go on."""
    log = EventLog()
    log.book(acceptance(1, [BOB], destinies=((BOB, Destiny(fate=Fate.HARD_BOUNCE, after_s=10)),)))
    log.book(
        acceptance(
            2, [ANN], accepted_at=after(1), destinies=((ANN, Destiny(fate=Fate.DELIVERED, after_s=2)),)
        )
    )

    assert log.is_fresh()
    assert log.advance(NOW) == 1
    assert not log.is_fresh()
    assert types(log) == ["email.accepted"]
    assert log.next_at() == after(1)
    assert log.advance(after(9)) == 3
    assert types(log, 1) == ["email.accepted", "email.delivered"]
    assert log.advance(after(9)) == 3
    assert log.advance(after(100)) == 4
    assert [(number, event.type) for number, event in log.since(3)] == [(4, "email.bounced")]
    assert log.next_at() is None


def test_a_pushed_event_happens_when_it_says_and_tells_what_it_was_given() -> None:
    log = EventLog()
    event = Event(
        id="evt_hand",
        type="email.clicked",
        account="default",
        at=after(5),
        order=(0,),
        given={"email_id": "msg_unknown", "recipient": BOB},
    )
    log.push(event)

    assert log.advance(after(4)) == 0
    assert log.advance(after(5)) == 1
    assert [each for _, each in log.since(0)] == [event]
    assert event_as_json(event)["data"] == {"email_id": "msg_unknown", "recipient": BOB}
    assert (event.recipient, event.email_id) == (BOB, "msg_unknown")


def test_old_events_are_forgotten_and_numbers_go_on() -> None:
    """Memory is bounded: at least `kept` newest are there, at most twice as many."""
    log = EventLog(kept=10)
    for number in range(1, 101):
        log.book(acceptance(number, destinies=((BOB, Destiny(fate=Fate.DROPPED)),)))
        log.advance(after(number))
        assert 10 <= len(log.happened) <= 20 or number < 10

    assert log.advance(after(200)) == 100
    kept = list(log.since(0))
    assert [number for number, _ in kept] == list(range(log.first, 101))
    assert kept[-1][1].email_id == "msg_100"


def test_headers_are_let_go_and_what_lies_ahead_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory does not follow the ledger: an event keeps what it tells."""
    monkeypatch.setattr("simulator.provider.events.AHEAD", 10)
    log = EventLog()
    for number in range(1, 101):
        log.book(acceptance(number, headers=(("Subject", "x"),)))
    log.advance(NOW)

    assert len(types(log)) == 100
    assert 100 < log.advance(after(60)) <= 110
    assert {event.mail.headers for _, event in log.since(0) if event.mail is not None} == {()}


def test_an_instant_is_written_in_utc() -> None:
    assert instant(after(0.25)) == "2030-01-01T00:00:00.250Z"
