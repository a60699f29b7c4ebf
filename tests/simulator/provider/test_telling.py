"""Tests of how an event is told: which rules it meets, and what they leave."""

from __future__ import annotations

from simulator.provider.events import Event, events_of, pushed
from simulator.provider.faults import Fault
from simulator.provider.faults.webhooks import LoseIt, TellTwice
from simulator.provider.notices import Notice
from simulator.provider.plan import Plan
from simulator.provider.plan_state import PlanState
from simulator.provider.rule import Pattern, Rule, Who
from simulator.provider.telling import Headers, moment_of, tell
from tests.simulator.provider.mails import ANN, BOB, NOW, acceptance

MAIL = acceptance(1, [ANN, BOB], headers=(("X-Kind", "order"),))
ANNS, *_, BOBS = events_of(MAIL)


def rule(fault: Fault, name: str, who: Who = Who()) -> Rule:
    return Rule(name=name, fault=fault, stages=frozenset({("webhook", "webhook")}), who=who)


def state(*rules: Rule, seed: int = 0) -> PlanState:
    return PlanState(Plan(rules=rules, seed=seed), planted_at=NOW)


def told(event: Event, plan: PlanState, headers: Headers = lambda: ()) -> list[Notice]:
    return tell(event, plan.strike_event(moment_of(event, plan, headers), NOW), plan.plan.seed)


def test_without_a_rule_an_event_is_told_once_when_it_happens() -> None:
    (notice,) = told(ANNS, state())

    assert (notice.event, notice.due_at, notice.key) == (ANNS, ANNS.at, f"{ANNS.id}.0")
    assert (notice.flaws, notice.rules, notice.lost) == ((), (), False)


def test_rules_add_up_and_leave_their_names() -> None:
    """Keys are unique, the source is the event."""
    notices = told(BOBS, state(rule(TellTwice(copies=3), "thrice"), rule(LoseIt(), "lost")))

    assert [notice.key for notice in notices] == [f"{BOBS.id}.{n}" for n in range(3)]
    assert {notice.rules for notice in notices} == {("thrice", "lost")}
    assert {notice.source for notice in notices} == {BOBS.id}
    assert all(notice.lost for notice in notices)


def test_a_rule_may_mean_anything_that_is_known_of_the_mail() -> None:
    wanted = Who(
        recipient=Pattern(BOB),
        sender=Pattern("shop@*"),
        key=Pattern("key-1"),
        event=Pattern("*.delivered"),
        headers=(("X-Kind", Pattern("order")),),
    )
    plan = state(rule(LoseIt(), "r", wanted))

    assert told(BOBS, plan, lambda: MAIL.headers)[0].lost
    assert not told(BOBS, plan)[0].lost
    assert not told(ANNS, plan, lambda: MAIL.headers)[0].lost


def test_headers_are_looked_up_only_for_a_rule_that_asks() -> None:
    def nobody() -> tuple[tuple[str, str], ...]:
        raise AssertionError("nobody asked")

    assert told(BOBS, state(rule(LoseIt(), "all")), nobody)[0].lost


def test_a_pushed_event_is_matched_by_what_it_says() -> None:
    event = pushed(
        account="default",
        number=1,
        type="email.opened",
        data={"recipient": BOB, "key": "k", "message_id": 7, "from": "shop@example.org"},
        at=NOW,
    )
    moment = moment_of(event, state())

    assert (moment.recipient, moment.key, moment.message_id, moment.sender) == (
        BOB,
        "k",
        None,
        "shop@example.org",
    )
    assert moment.event == "email.opened"
