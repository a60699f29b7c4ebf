"""What became of mail, over the control API; and the suppression list."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from simulator.client import ControlClient
from tests.simulator.running import Running, ask, mail, request, running

ADA = "ada@example.com"
BOB = "bob@example.com"


def send(simulator: Running, to: str = ADA, **more: Any) -> str:
    told: dict[str, Any] = ask(simulator, request(mail(to=[to]), **more)).json
    return str(told["id"])


def types(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def test_events_come_when_their_time_has_come(
    simulator: Running, control: ControlClient, web: httpx.Client
) -> None:
    """By the account's clock, in order, numbered."""
    control.add_rules({"fault": "fate", "fate": "complaint", "recipient": BOB, "after_s": 3600})
    send(simulator, ADA, key="k1")
    bounced = send(simulator, BOB)

    assert types(control.events()) == ["email.accepted"] * 2
    control.advance(60)
    assert types(control.events(to=ADA)) == ["email.accepted", "email.delivered"]
    control.advance(3600)
    events = control.events()
    assert [event["number"] for event in events] == [1, 2, 3, 4, 5]
    assert types(control.events(email_id=bounced)) == [
        "email.accepted",
        "email.delivered",
        "email.complained",
    ]
    assert [event["data"]["key"] for event in control.events(key="k1")] == ["k1", "k1"]
    page = web.get("events", params={"limit": 2}).json()
    assert (page["events"], page["next"]) == (events[:2], "2")
    assert web.get("events", params={"after": "3"}).json() == {"events": events[3:], "next": None}
    page = web.get("events", params={"newest_first": "true", "after": "4"}).json()
    assert page["events"] == events[2::-1]
    assert types(control.events(type="email.complained")) == ["email.complained"]


def test_whoever_waits_for_an_event_is_woken_by_it(simulator: Running, control: ControlClient) -> None:
    """By the passing of time alone: nothing else moves."""
    control.add_rules({"fault": "fate", "fate": "hard_bounce", "after_s": 0.2})
    send(simulator)

    (event,) = control.wait_for_events(type="email.bounced", to=ADA.upper())
    assert event["data"]["reply"] == {"code": 550, "enhanced": "5.1.1", "text": "no such user here"}
    with pytest.raises(TimeoutError, match="only 0 of 1 events"):
        control.wait_for_events(type="email.opened", timeout_s=0.01)


def test_an_event_can_be_pushed(simulator: Running, control: ControlClient) -> None:
    """About a mail that is known, with other words; about none; and the same one again."""
    id_ = send(simulator, key="k1")
    pushed = control.push_event("email.bounced", email_id=id_, data={"bounce": "soft"}, id="evt_mine")
    control.push_event("email.bounced", id="evt_mine", timestamp="2001-02-03T04:05:06+01:00")
    control.push_event("email.opened", recipient=BOB, after_s=50)

    assert (pushed["data"]["key"], pushed["data"]["recipient"], pushed["data"]["bounce"]) == (
        "k1",
        ADA,
        "soft",
    )
    first, again = control.events(type="email.bounced")
    assert (first["id"], again["id"]) == ("evt_mine", "evt_mine")
    assert again["timestamp"] == "2001-02-03T03:05:06.000Z"
    assert again["data"]["email_id"] is None
    assert control.events(type="email.opened") == []
    control.advance(50)
    assert [event["data"]["recipient"] for event in control.events(type="email.opened")] == [BOB]


BAD_EVENTS: dict[str, Any] = {
    "no object": [],
    "no type": {},
    "unknown type": {"type": "email.eaten"},
    "unknown key": {"type": "email.opened", "to": ADA},
    "late": {"type": "email.opened", "after_s": -1},
    "not a time": {"type": "email.opened", "timestamp": "2030-01-01T00:00:00"},
    "null": {"type": "email.opened", "timestamp": None},
    "no text": {"type": "email.opened", "id": 7},
    "two lines": {"type": "email.opened", "recipient": "a\nb"},
    "no data": {"type": "email.opened", "data": []},
}


@pytest.mark.parametrize("name", BAD_EVENTS)
def test_a_bad_event_is_refused_with_one_sentence(
    control: ControlClient, web: httpx.Client, name: str
) -> None:
    answer = web.post("events", json=BAD_EVENTS[name])

    assert answer.status_code == 422
    assert "\n" not in answer.json()["detail"]
    assert control.events() == []


def test_who_bounced_is_suppressed_until_it_is_lifted(simulator: Running, control: ControlClient) -> None:
    control.add_rules({"fault": "fate", "fate": "hard_bounce", "after_s": 5, "times": 1})
    send(simulator)
    assert control.suppressions() == []
    control.advance(5)

    (entry,) = control.suppressions()
    assert (entry["address"], entry["reason"]) == (ADA, "hard_bounce")
    send(simulator)
    assert [each["fate"] for each in control.messages()] == ["hard_bounce", "suppressed"]
    assert control.lift(ADA.upper()) == 1
    assert control.lift(ADA) == 0
    control.suppress(ADA)
    control.suppress(BOB)
    assert control.lift() == 2
    control.suppress(BOB)
    assert [(each["address"], each["reason"]) for each in control.suppressions()] == [(BOB, "manual")]


@pytest.mark.parametrize("body", [[], {}, {"address": 1}, {"address": "a@x", "why": "?"}, {"address": ""}])
def test_a_bad_suppression_is_refused(web: httpx.Client, body: object) -> None:
    assert web.post("suppressions", json=body).status_code == 422


def test_what_was_pushed_and_suppressed_outlives_the_simulator(tmp_path: Any) -> None:
    """And what happened to mail is told again, with the same ids."""
    with running(ledger=str(tmp_path / "l.db")) as simulator, simulator.control() as control:
        send(simulator)
        control.push_event("email.opened", recipient=BOB)
        control.suppress(BOB)
        before = control.wait_for_events(count=3)
    with running(ledger=str(tmp_path / "l.db")) as simulator, simulator.control() as control:
        assert sorted(event["id"] for event in control.events()) == sorted(event["id"] for event in before)
        assert [each["address"] for each in control.suppressions()] == [BOB]
        assert control.push_event("email.opened")["id"] not in {event["id"] for event in before}
