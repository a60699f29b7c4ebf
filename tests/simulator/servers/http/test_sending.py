"""What a sender sees when it hands in one mail: every fault at every stage, byte by byte, and the ledger."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from simulator.provider.faults import FAULTS, HTTP_STAGES
from tests.simulator.running import Running, Seen, Sender, ask, mail, request
from tests.simulator.servers.http.provider import BOOKED, SEND, accepted, is_yes, plan, the_attempt

#: Fault -> what makes it complete, besides name and stage.
PARAMETERS: dict[str, dict[str, Any]] = {
    "reply": {"code": 503, "retry_after": 7},
    "slow": {"delay_s": 0.01},
    "garble": {"code": 202},
    "refuse_recipients": {"recipient": "ada@*"},
    "fate": {"fate": "opened"},
    "odd_body": {"shape": "error"},
    "odd_results": {"listing": "fewer"},
    "drip": {"delay_s": 0, "size_bytes": 7},
}


MATRIX = [
    (name, stage)
    for stage in HTTP_STAGES
    if stage != "lookup"
    for name, fault in FAULTS.items()
    if stage in fault.stages.get("http", ())
]


def judge(fault: str, stage: str, seen: Seen, sender: Sender, simulator: Running) -> None:
    """Compare what the sender saw with what this fault promises at this stage."""
    headed = stage == "body"
    match fault:
        case "reply":
            assert (seen.end, seen.status) == ("open", 503)
            assert seen.headers["retry-after"] == "7"
            assert seen.headers["content-type"] == "application/problem+json"
        case "slow" | "accept_then_drop" | "fate" | "webhook_early" | "odd_results":
            assert is_yes(seen)
        case "hang":
            assert seen.end == "silence"
            assert seen.data == b"" or headed
        case "hang_up":
            assert seen.end == "eof"
            assert seen.data == b"" or headed
        case "reset":
            assert seen.end == "reset"
            assert seen.data == b"" or headed
        case "garble":
            assert (seen.end, seen.status) == ("open", 200 if headed else 202)
            with pytest.raises(ValueError, match=r"."):
                json.loads(seen.body)
        case "truncate":
            assert (seen.end, seen.status) == ("eof", 200)
            assert 0 < len(seen.body) < int(seen.headers["content-length"])
        case "hold":
            assert seen.end == "silence"
            assert seen.data == b"" or headed
            with simulator.control() as control:
                assert control.release() == 1
            assert is_yes(sender.see())
        case "refuse_recipients":
            assert seen.status == 422
            assert seen.json["rejected"] == [
                {
                    "recipient": "ada@example.com",
                    "code": 550,
                    "message": "no such mailbox",
                    "enhanced": "5.1.1",
                }
            ]
        case "redirect":
            assert (seen.end, seen.status, seen.headers["location"]) == ("open", 307, "/v1/emails")
        case "gateway":
            assert (seen.end, seen.status) == ("open", 504)
            assert seen.headers["content-type"] == "text/html; charset=utf-8"
            assert seen.body.startswith(b"<html>")
        case "odd_body":
            assert (seen.end, seen.status, seen.json["status"]) == ("open", 200, "error")
        case "gzip":
            assert seen.headers["content-encoding"] == "gzip"
            assert json.loads(gzip.decompress(seen.body))["status"] == "accepted"
        case "chunked":
            assert seen.headers["transfer-encoding"] == "chunked"
            assert sender.until(b"0\r\n\r\n").startswith(b'10\r\n{"id":"msg_')
        case "drip":
            assert is_yes(seen)
        case "interim":
            assert seen.data == b"HTTP/1.1 103 Early Hints\r\n\r\n"
            assert is_yes(sender.see())
        case "two_answers":
            assert is_yes(seen)
            assert sender.see().status == 500
        case "no_continue":
            assert is_yes(seen)
        case _:
            pytest.fail(f"nobody has said what {fault} looks like on HTTP")
    if headed:
        assert seen.data.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(("fault", "stage"), MATRIX, ids=[f"{fault}-at-{stage}" for fault, stage in MATRIX])
def test_each_fault_looks_as_promised_at_each_stage(simulator: Running, fault: str, stage: str) -> None:
    """The sender sees what the fault says; the mail is in the ledger exactly if the stage is after booking."""
    plan(simulator, {"fault": fault, "stage": stage, **PARAMETERS.get(fault, {})})
    quiet_s = 0.6 if fault in ("hang", "hold") else None

    with Sender(simulator.http) as sender:
        seen = sender.say(SEND).see(silence_s=quiet_s)
        judge(fault, stage, seen, sender, simulator)

    goes_on = fault in ("slow", "hold", "accept_then_drop", "fate", "webhook_early", "no_continue")
    attempt = the_attempt(simulator)
    booked = stage in BOOKED or goes_on
    assert accepted(simulator) == (1 if booked else 0)
    assert attempt["accepted"] == (["ada@example.com"] if booked else [])
    assert attempt["rules"] == ["rule 1"]
    sent = {
        "hang": "nothing", "hang_up": "nothing", "reset": "nothing", "garble": "partial", "truncate": "partial",
    }.get(fault, "complete")  # fmt: skip
    assert attempt["sent"] == ("partial" if stage == "body" and sent == "nothing" else sent)


@pytest.mark.parametrize("stage", [stage for stage in HTTP_STAGES if stage != "lookup"])
def test_after_a_fault_the_next_request_is_served(simulator: Running, stage: str) -> None:
    """A broken connection breaks nothing else."""
    plan(simulator, {"fault": "reset", "stage": stage, "times": 1})
    assert ask(simulator, SEND).end == "reset"

    assert is_yes(ask(simulator, SEND))
    assert accepted(simulator) == 1


@pytest.mark.parametrize("fault", ["hang_up", "reset", "truncate"])
@pytest.mark.parametrize("stage", ["request", "accept", "reply", "body"])
def test_a_fault_hits_the_request_it_is_meant_for(simulator: Running, fault: str, stage: str) -> None:
    """Of three pipelined requests the first is answered, the second struck, the third never looked at."""
    plan(simulator, {"fault": fault, "stage": stage, "skip": 1, "times": 1})
    three = b"".join(request(mail(to=[f"{n}@example.com"]), key=f"k{n}") for n in (1, 2, 3))

    with Sender(simulator.http) as sender:
        first = sender.say(three).see()
        second = sender.see()

    assert is_yes(first)
    assert first.json["accepted"] == ["1@example.com"]
    assert second.end == ("reset" if fault == "reset" else "eof")
    booked = ["1@example.com", "2@example.com"] if stage in BOOKED else ["1@example.com"]
    with simulator.control() as control:
        control.wait_for_attempts(count=2, state="closed")
        assert [each["recipients"][0] for each in control.messages()] == booked
        assert len(control.attempts()) == 2


def test_requests_on_one_connection_are_attempts_of_one_connection(simulator: Running) -> None:
    """An attempt is a request; the connection they share has a name."""
    with Sender(simulator.http) as sender:
        for number in range(3):
            assert is_yes(sender.say(request(mail(), key=f"k{number}")).see())

    with simulator.control() as control:
        attempts = control.wait_for_attempts(count=3, state="closed")
    assert len({each["id"] for each in attempts}) == 3
    assert len({each["connection"] for each in attempts}) == 1


def test_an_answer_is_slow_as_long_as_the_rule_says(simulator: Running) -> None:
    """Latency is felt in the answer; the mail is taken all the same."""
    plan(simulator, {"fault": "slow", "stage": "reply", "delay_s": 0.4})

    with Sender(simulator.http) as sender:
        assert sender.say(SEND).see(silence_s=0.1).end == "silence"
        assert is_yes(sender.see())


def test_a_hang_with_an_end_closes_the_line(simulator: Running) -> None:
    """`delay_s` bounds a hang."""
    plan(simulator, {"fault": "hang", "delay_s": 0.05})

    assert ask(simulator, SEND) == Seen(data=b"", end="eof")


def test_accepted_and_dropped_is_a_yes(simulator: Running) -> None:
    """The sender can see nothing of it; the ledger does."""
    plan(simulator, {"fault": "accept_then_drop"})

    assert is_yes(ask(simulator, SEND))
    with simulator.control() as control:
        assert [each["fate"] for each in control.messages()] == ["dropped"]


def test_some_recipients_refused_is_a_yes_for_the_others(simulator: Running) -> None:
    """A batch may fail in part."""
    plan(simulator, {"fault": "refuse_recipients", "recipient": "bob@*"})

    seen = ask(simulator, request(mail(to=["ada@example.com", "bob@example.com"])))

    assert seen.status == 200
    assert seen.json["accepted"] == ["ada@example.com"]
    assert [each["recipient"] for each in seen.json["rejected"]] == ["bob@example.com"]
    with simulator.control() as control:
        assert [each["recipients"] for each in control.messages()] == [["ada@example.com"]]


def test_a_sender_that_leaves_while_its_answer_is_held_ends_its_attempt_at_release(
    simulator: Running,
) -> None:
    """Accepted, and nothing was told: what the harness that kills senders relies on."""
    plan(simulator, {"fault": "accept_then_hold"})
    with simulator.control() as control:
        with Sender(simulator.http) as sender:
            sender.say(SEND)
            control.wait_for_attempts(state="held", to="ada@example.com")
        control.release()

        (attempt,) = control.wait_for_attempts(state="closed")
        assert (attempt["accepted"], attempt["sent"]) == (["ada@example.com"], "nothing")
