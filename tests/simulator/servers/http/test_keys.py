"""Idempotency over the wire: what a second request with a key meets."""

from __future__ import annotations

import pytest

from simulator.provider.api import PATHS
from tests.simulator.running import Running, Sender, ask, mail, request
from tests.simulator.servers.http.provider import SEND, accepted, is_yes, plan


@pytest.mark.parametrize(("path", "header"), [(path, name) for path, name in PATHS.items()])
def test_a_replayed_key_gets_the_first_answer_back(simulator: Running, path: str, header: str) -> None:
    """Same key, same body: the same answer, marked, and one acceptance. Each path has its header name."""
    again = request(mail(), path=path, headers={header: '"order-1"'})

    first, second = ask(simulator, again), ask(simulator, again)

    assert (first.status, second.status) == (200, 200)
    assert "idempotency-replayed" not in first.headers
    assert second.headers["idempotency-replayed"] == "true"
    assert second.body == first.body
    assert accepted(simulator) == 1


def test_a_key_with_another_body_is_refused(simulator: Running) -> None:
    """422 key_reused (draft-ietf-httpapi-idempotency-key-header, section 2.7)."""
    assert ask(simulator, SEND).status == 200

    seen = ask(simulator, request(mail(subject="Another"), key="order-1"))

    assert (seen.status, seen.json["code"]) == (422, "key_reused")


@pytest.mark.parametrize("sticks", ["once", "until_healed"])
def test_a_key_is_in_flight_while_its_answer_is_held(simulator: Running, sticks: str) -> None:
    """409 for the second request while the first waits at `accept`; afterwards the key is done."""
    plan(simulator, {"fault": "hold", "stage": "accept", "sticks": sticks})
    with Sender(simulator.http) as first, Sender(simulator.http) as second, simulator.control() as control:
        first.say(SEND)
        control.wait_for_attempts(state="held")
        second.say(SEND)
        if sticks == "until_healed":
            control.wait_for_attempts(state="held", count=2)
            control.release()
        refused = second.see()
        control.release()

        assert (refused.status, refused.json["code"]) == (409, "key_in_flight")
        assert is_yes(first.see())
        control.heal()
        assert second.say(SEND).see().headers["idempotency-replayed"] == "true"
    assert accepted(simulator) == 1


def test_a_held_answer_after_booking_is_replayed_to_the_next_request(simulator: Running) -> None:
    """The mail is in the ledger while the first answer is held: a second request gets it."""
    plan(simulator, {"fault": "accept_then_hold", "times": 1})
    with Sender(simulator.http) as first, simulator.control() as control:
        first.say(SEND)
        control.wait_for_attempts(state="held", stage="reply")

        assert ask(simulator, SEND).headers["idempotency-replayed"] == "true"

        control.release()
        assert is_yes(first.see())
    assert accepted(simulator) == 1


def test_a_missing_key_is_refused_where_keys_are_required(simulator: Running) -> None:
    """400 key_required."""
    plan(simulator, idempotency={"required": True})

    seen = ask(simulator, request(mail()))

    assert (seen.status, seen.json["code"]) == (400, "key_required")


def test_a_provider_that_ignores_keys_takes_every_copy(simulator: Running) -> None:
    """`honoured = false`: the worst provider a sender can meet."""
    plan(simulator, idempotency={"honoured": False})

    assert ask(simulator, SEND).json["id"] != ask(simulator, SEND).json["id"]
    assert accepted(simulator) == 2


def test_a_second_request_waits_for_the_first_where_keys_say_so(simulator: Running) -> None:
    """`in_flight = "wait"`: no answer until the request in front ends, then the same one."""
    plan(
        simulator,
        {"fault": "hold", "stage": "accept", "times": 1},
        idempotency={"in_flight": "wait", "in_flight_s": 60},
    )
    with Sender(simulator.http) as first, Sender(simulator.http) as second, simulator.control() as control:
        first.say(SEND)
        control.wait_for_attempts(state="held")
        assert second.say(SEND).see(silence_s=0.1).end == "silence"

        control.release()

        assert is_yes(first.see())
        assert second.see().headers["idempotency-replayed"] == "true"
    assert accepted(simulator) == 1


def test_a_second_request_does_not_wait_for_ever(simulator: Running) -> None:
    """409 with `Retry-After` in the end."""
    plan(
        simulator,
        {"fault": "hold", "stage": "accept", "times": 1},
        idempotency={"in_flight": "wait", "in_flight_s": 0.05},
    )
    with Sender(simulator.http) as first, simulator.control() as control:
        first.say(SEND)
        control.wait_for_attempts(state="held")

        seen = ask(simulator, SEND)

        assert (seen.status, seen.json["code"], seen.headers["retry-after"]) == (409, "key_in_flight", "1")
        control.release()
        assert is_yes(first.see())
