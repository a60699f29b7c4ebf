"""What was tried, shown and waited for."""

from __future__ import annotations

from simulator.client import ControlClient
from tests.simulator.running import Running, Sender, ask, mail, request


def test_attempts_are_filtered(simulator: Running, control: ControlClient) -> None:
    """By stage, state, recipient, key, rule and what was said."""
    control.set_plan({"rules": [{"name": "no", "fault": "reply", "code": 503, "times": 1}]})
    ask(simulator, request(mail(to=["ada@example.com"]), key="k1"))
    ask(simulator, request(mail(to=["bob@example.com"]), key="k2"))
    control.wait_for_attempts(state="closed", count=2)

    for filters in (
        {"stage": "accept"},
        {"to": "ada@example.com"},
        {"key": "k1"},
        {"rule": "no"},
        {"answer": "503"},
    ):
        assert [each["key"] for each in control.attempts(**filters)] == ["k1"], filters
    assert control.attempts(state="open") == []


def test_waiting_for_a_held_attempt_and_releasing_it(simulator: Running, control: ControlClient) -> None:
    """The harness's way to catch a sender between acceptance and answer."""
    control.set_plan({"rules": [{"fault": "accept_then_hold"}]})
    with Sender(simulator.http) as sender:
        sender.say(request(mail()))
        (attempt,) = control.wait_for_attempts(state="held", stage="reply")
        assert attempt["accepted"] == ["ada@example.com"]
        assert attempt["answer"] == "held, then accepted"
        assert control.release() == 1
        assert sender.see().status == 200
    assert control.release() == 0


def test_releasing_one_account_leaves_the_others_waiting(simulator: Running, control: ControlClient) -> None:
    """Parallel runs do not meet."""
    with simulator.control("shop") as shop:
        shop.reset()
        shop.set_plan({"rules": [{"fault": "hold"}]})
        with Sender(simulator.http) as sender:
            sender.say(request(mail(), headers={"Authorization": "Bearer shop"}))
            shop.wait_for_attempts(state="held")
            assert control.release() == 0
            assert shop.release() == 1
            assert sender.see().status == 200
