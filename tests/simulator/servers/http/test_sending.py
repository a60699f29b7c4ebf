"""What a sender sees when it hands in one mail. Every fault at every stage is in `test_catalogue.py`."""

from __future__ import annotations

import pytest

from simulator.provider.faults import HTTP_STAGES
from tests.simulator.running import Running, Seen, Sender, ask, mail, request
from tests.simulator.servers.http.provider import BOOKED, SEND, accepted, is_yes, plan


@pytest.mark.parametrize("stage", [stage for stage in HTTP_STAGES if stage not in ("tls", "lookup")])
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
