"""What was really accepted, shown and waited for."""

from __future__ import annotations

import threading
from typing import Any

import httpx
import pytest

from simulator.client import ControlClient
from tests.simulator.running import Running, ask, mail, raw_mail, request


def send(simulator: Running, to: str, **more: Any) -> dict[str, Any]:
    told: dict[str, Any] = ask(simulator, request(mail(to=[to], **more))).json
    return told


def test_a_message_shows_what_was_accepted(simulator: Running, control: ControlClient) -> None:
    """One entry per acceptance, with everything but the bytes; those are next door."""
    raw = b"Message-ID: <m1@example.org>\r\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\nX-Obligation: ref-1\r\n\r\n.\r\n"
    body = raw_mail(raw, "ada@example.com", "bob@example.com")
    told = ask(simulator, request(body, key="order-1")).json

    (message,) = control.messages()
    assert message.pop("accepted_at")
    assert message == {
        "id": told["id"],
        "account": "default",
        "dialect": "native",
        "sender": "shop@example.org",
        "recipients": ["ada@example.com", "bob@example.com"],
        "message_id": "<m1@example.org>",
        "key": "order-1",
        "subject": "Grüße",
        "size_bytes": len(raw),
        "sha256": message["sha256"],
        "obligation": "ref-1",
        "fate": "delivered",
        "fates": {"ada@example.com": "delivered", "bob@example.com": "delivered"},
        "dsn": None,
        "copies_of_body": 1,
        "attempt": control.attempts()[0]["id"],
    }
    assert control.message(told["id"])["id"] == told["id"]
    assert control.raw(told["id"]) == raw


FILTERS: dict[str, str] = {
    "to": "BOB@example.com",
    "sender": "shop@example.org",
    "subject": "GREEN",
    "header": "x-order: 17",
    "key": "k2",
    "message_id": "2@x",
    "fate": "dropped",
    "q": "green",
}


@pytest.mark.parametrize("name", FILTERS)
def test_messages_are_found(simulator: Running, control: ControlClient, name: str) -> None:
    """By each filter; filters narrow each other."""
    control.add_rules({"fault": "accept_then_drop", "recipient": "bob@example.com"})
    red = raw_mail(b"Message-ID: <1@x>\r\nSubject: Red\r\n\r\n", "ada@example.com") | {
        "from": "a@example.org"
    }
    green = b"Message-ID: <2@x>\r\nSubject: Light Green\r\nX-Order: 0017\r\n\r\n"
    ask(simulator, request(red, key="k1"))
    ask(simulator, request(raw_mail(green, "bob@example.com"), key="k2"))

    assert [each["key"] for each in control.messages(**{name: FILTERS[name]})] == ["k2"]
    assert control.messages(**{"key": "k1", "message_id": "1@x", name: FILTERS[name]}) == []


def test_messages_are_found_by_time(simulator: Running, control: ControlClient) -> None:
    """From an instant on, and before one; whichever zone it is given in."""
    for key in ("k1", "k2"):
        ask(simulator, request(mail(), key=key))
    second = control.messages()[1]["accepted_at"]

    assert [each["key"] for each in control.messages(since=second)] == ["k2"]
    assert [each["key"] for each in control.messages(until=second)] == ["k1"]
    assert control.messages(until="2001-01-01T00:00:00+09:00") == []


def test_equal_bodies_are_counted(simulator: Running, control: ControlClient) -> None:
    """Two acceptances of the same bytes say so."""
    for key in ("k1", "k2"):
        ask(simulator, request(raw_mail(b"Subject: x\r\n\r\n", "ada@example.com"), key=key))

    assert [each["copies_of_body"] for each in control.messages()] == [2, 2]


def test_waiting_for_a_message_ends_when_it_comes(simulator: Running, control: ControlClient) -> None:
    """Not at the next tick, and not with somebody else's mail."""
    send(simulator, "somebody@example.com")
    found: list[Any] = []

    def wait() -> None:
        with simulator.control() as other:
            found.extend(other.wait_for_messages(to="ada@example.com", count=2))

    waiting = threading.Thread(target=wait)
    waiting.start()
    for _ in range(2):
        send(simulator, "ada@example.com")
    waiting.join(10)
    assert len(found) == 2


def test_waiting_in_vain_gives_what_there_is(
    simulator: Running, control: ControlClient, web: httpx.Client
) -> None:
    """200 with `complete: false`; the client makes an exception of it."""
    send(simulator, "ada@example.com")

    answer = web.get("messages/wait", params={"to": "ada@example.com", "count": 2, "timeout_s": 0.05})

    assert (answer.status_code, len(answer.json()["messages"])) == (200, 1)
    assert answer.json()["complete"] is False
    with pytest.raises(
        TimeoutError, match=r"only 1 of 2 messages came within 0\.05 s \(to=ada@example\.com\)"
    ):
        control.wait_for_messages(to="ada@example.com", count=2, timeout_s=0.05)
