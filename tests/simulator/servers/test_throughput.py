"""Limits on the wire: real senders on both, who hear it, wait as told, and are let in."""

from __future__ import annotations

import smtplib
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from simulator.client import ControlClient
from tests.simulator.running import Running, Sender, ask, mail, request, running

#: Far from the end of every window, so that none ends in the middle of a test.
NOON = datetime(2999, 1, 1, 12, 0, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def simulator() -> Iterator[Running]:
    with running() as service:
        yield service


@pytest.fixture
def control(simulator: Running) -> Iterator[ControlClient]:
    with simulator.control() as control:
        control.reset()
        yield control
        control.release()
        control.reset()


def post(simulator: Running) -> tuple[int, str | None]:
    seen = ask(simulator, request(mail()))
    return seen.status, seen.headers.get("retry-after")


def deliver(simulator: Running) -> tuple[int, bytes]:
    """Hand in a mail over SMTP; return the first reply that is no yes, or the last."""
    with smtplib.SMTP(*simulator.smtp) as smtp:
        smtp.ehlo()
        code, text = smtp.mail("shop@example.org")
        if code < 400:
            code, text = smtp.rcpt("ada@example.com")
        if code < 400:
            code, text = smtp.data(b"Subject: x\r\n\r\nx\r\n")
        return code, text


def test_a_rate_is_told_on_both_wires_and_waiting_helps(simulator: Running, control: ControlClient) -> None:
    control.set_plan({"limits": {"rate_per_s": 0.1}})

    assert post(simulator) == (200, None)
    assert post(simulator) == (429, "10")
    code, text = deliver(simulator)
    assert (code, text.partition(b";")[0]) == (451, b"4.7.0 too many mails just now")
    assert b"try again in 10 seconds" in text or b"try again in 9 seconds" in text
    control.advance(10)
    assert deliver(simulator)[0] == 250
    assert post(simulator)[0] == 429


def test_a_quota_is_used_up_until_midnight(simulator: Running, control: ControlClient) -> None:
    control.set_clock(NOON)
    control.set_plan({"limits": {"per_day": 1}})

    assert deliver(simulator)[0] == 250
    code, text = deliver(simulator)
    assert (code, text[:37]) == (452, b"4.5.3 the quota of mails is used up; ")
    status, wait = post(simulator)
    assert status == 429
    assert wait is not None
    control.advance(float(wait))
    assert post(simulator)[0] == 200


def test_a_limit_says_what_it_was_told_to_say(simulator: Running, control: ControlClient) -> None:
    control.set_clock(NOON)
    control.set_plan(
        {
            "limit": [
                {
                    "per": "recipient_domain",
                    "only": "example.com",
                    "per_hour": 1,
                    "smtp": 421,
                    "enhanced": "4.7.28",
                    "text": "unusual rate",
                    "http": 503,
                    "retry_after": "nothing",
                }
            ]
        }
    )

    assert post(simulator) == (200, None)
    assert post(simulator) == (503, None)
    assert deliver(simulator) == (421, b"4.7.28 unusual rate")


def test_connections_at_the_same_time(simulator: Running, control: ControlClient) -> None:
    """The one too many is greeted with 421 and closed; a place is free again when somebody has left."""
    control.set_plan({"limits": {"connections": 1}})
    with Sender(simulator.smtp) as first:
        assert first.socket.recv(100).startswith(b"220 ")
        with pytest.raises(smtplib.SMTPConnectError) as caught:
            smtplib.SMTP(*simulator.smtp)
        assert caught.value.smtp_code == 421
        first.say(b"QUIT\r\n")
        assert first.end() == "eof"
    assert deliver(simulator)[0] == 250


def test_requests_at_the_same_time(simulator: Running, control: ControlClient) -> None:
    """A kept connection on which nothing is asked does not count; one that waits for its answer does."""
    control.set_plan(
        {"limits": {"connections": 1}, "rules": [{"fault": "hold", "stage": "accept", "times": 1}]}
    )
    with Sender(simulator.http) as first, Sender(simulator.http) as second:
        first.say(request(mail(to=["held@example.com"])))
        control.wait_for_attempts(state="held")
        refused = second.say(request(mail())).see()
        assert (refused.status, refused.json["code"]) == (429, "too_many_connections")
        control.release()
        assert first.see().status == 200
        assert second.say(request(mail())).see().status == 200


# --- did the sender do as it was told? --------------------------------------------------------------


def test_the_verdict_says_whether_the_sender_came_back_too_early(
    simulator: Running, control: ControlClient
) -> None:
    """By the attempts of the ledger, and without calling anything lost or duplicated for it."""
    control.set_plan({"rules": ["429 retry-after 30 once"]})
    body = mail(to=["early@example.com"])
    assert ask(simulator, request(body, key="k")).headers["retry-after"] == "30"
    told = control.verdict()["obedience"]
    assert (told["obeyed"], told["told"]) == (True, 1)
    assert ask(simulator, request(body, key="k")).status == 200

    verdict = control.verdict()
    (finding,) = verdict["obedience"]["too_early"]
    assert verdict["obedience"]["obeyed"] is False
    assert (finding["told_s"], finding["by"], finding["recipients"]) == (
        30.0,
        "header",
        ["early@example.com"],
    )
    assert finding["waited_s"] < 30
    assert (verdict["lost"], verdict["duplicated"]) == ([], [])
    came, told_in = (attempt["id"] for attempt in reversed(control.attempts()))
    assert (finding["attempt"], finding["told_in"]) == (came, told_in)


def test_a_sender_that_waits_has_obeyed(simulator: Running, control: ControlClient) -> None:
    control.set_plan({"rules": ["429 retry-after 30 once"]})
    ask(simulator, request(mail(), key="k"))
    control.advance(30)
    ask(simulator, request(mail(), key="k"))

    obedience = control.verdict()["obedience"]
    assert (obedience["obeyed"], obedience["told"], obedience["too_early"]) == (True, 1, [])


def test_a_sender_that_presses_on_into_a_limit_is_found(simulator: Running, control: ControlClient) -> None:
    control.set_plan({"limits": {"rate_per_s": 0.001}})
    for number in range(3):
        ask(simulator, request(mail(to=[f"{number}@example.com"]), key=f"k{number}"))
        control.advance(2)

    obedience = control.verdict()["obedience"]
    assert obedience["obeyed"] is False
    assert [(each["limit"], each["count"]) for each in obedience["pressed"]] == [("account", 1)]
