"""What a plan strikes, when, and with what: every count and every stickiness, one occasion at a time."""

from __future__ import annotations

from datetime import datetime

import pytest

from simulator.provider.answer import HangUp, Reply, Reset, Slow
from simulator.provider.faults import (
    Drop,
    Fault,
    HangUpOnThem,
    RefuseRecipients,
    ReplyWith,
    ResetTheLine,
    SlowDown,
    TellBeforeTheAnswer,
)
from simulator.provider.faults.webhooks import LoseIt, TellTwice
from simulator.provider.message import Moment
from simulator.provider.plan import Plan
from simulator.provider.plan_state import PlanState
from simulator.provider.rule import Pattern, Per, Rule, When, Who
from simulator.provider.strike import Strike
from tests.simulator.provider.mails import ANN, BOB, NOW, after

MESSAGE = frozenset({("smtp", "message"), ("http", "accept")})


def rule(
    fault: Fault = HangUpOnThem(),
    *,
    name: str = "r",
    stages: frozenset[tuple[str, str]] = MESSAGE,
    who: Who = Who(),
    when: When = When(),
    per: Per = Per.PLAN,
    sticks: bool = False,
) -> Rule:
    return Rule(name=name, fault=fault, stages=stages, who=who, when=when, per=per, sticks_to_mail=sticks)


def state(*rules: Rule, seed: int = 0) -> PlanState:
    return PlanState(Plan(rules=rules, seed=seed), planted_at=NOW)


def moment(
    *recipients: str, stage: str = "message", dialect: str = "smtp", connection: str = "c1", **known: object
) -> Moment:
    facts = {"account": "default", "recipients": recipients or (BOB,)} | known
    return Moment(stage=stage, dialect=dialect, connection=connection, **facts)  # type: ignore[arg-type] # of several types


def hits(plan: PlanState, count: int, at: datetime = NOW, **where: object) -> list[int]:
    """Return which of `count` equal occasions were struck, from 1."""
    return [n for n in range(1, count + 1) if plan.strike(moment(**where), at) is not None]  # type: ignore[arg-type] # the same


@pytest.mark.parametrize(
    ("when", "struck"),
    [
        (When(), [1, 2, 3, 4, 5, 6]),
        (When(first=2), [1, 2]),
        (When(first=0), []),
        (When(skip=4), [5, 6]),
        (When(skip=1, first=2), [2, 3]),
        (When(every=3), [3, 6]),
        (When(every=1), [1, 2, 3, 4, 5, 6]),
        (When(skip=1, every=2), [3, 5]),
        (When(every=2, first=4), [2, 4]),
        (When(every=3, first=2), []),
        (When(times=3), [1, 2, 3]),
        (When(times=1, every=2), [2]),
        (When(times=0), []),
        (When(probability=0.0), []),
        (When(probability=1.0), [1, 2, 3, 4, 5, 6]),
    ],
    ids=str,
)
def test_a_rule_strikes_on_its_occasions(when: When, struck: list[int]) -> None:
    assert hits(state(rule(when=when)), 6) == struck


@pytest.mark.parametrize(
    ("at_s", "struck"), [(9.9, False), (10, True), (19.9, True), (20, False)], ids=lambda value: str(value)
)
def test_a_time_window_begins_inclusive_and_ends_exclusive(at_s: float, struck: bool) -> None:
    plan = state(rule(when=When(from_s=10, until_s=20)))

    assert (plan.strike(moment(), after(at_s)) is not None) is struck


def test_what_happens_outside_the_window_is_no_occasion() -> None:
    """`first = 2` from second 10 on means the first two then, however many came before."""
    plan = state(rule(when=When(from_s=10, first=2)))

    assert hits(plan, 5) == []
    assert hits(plan, 5, after(10)) == [1, 2]


def test_chance_is_seeded() -> None:
    """The same seed gives the same hits, another one others, and the share is about right."""
    chance = rule(when=When(probability=0.3))

    assert hits(state(chance, seed=1), 400) == hits(state(chance, seed=1), 400)
    assert hits(state(chance, seed=1), 400) != hits(state(chance, seed=2), 400)
    assert 80 < len(hits(state(chance, seed=1), 400)) < 160


def test_a_rule_added_later_does_not_change_what_another_one_rolls() -> None:
    chance = rule(when=When(probability=0.5))
    alone, joined = state(chance), state(chance)
    joined.add([rule(name="other", stages=frozenset({("smtp", "rcpt")}), when=When(probability=0.5))], NOW)
    joined.strike(moment(stage="rcpt"), NOW)

    assert hits(alone, 50) == hits(joined, 50)


@pytest.mark.parametrize(
    ("per", "other"),
    [
        (Per.MAIL, {"recipients": (ANN,)}),
        (Per.RECIPIENT, {"recipients": (ANN,)}),
        (Per.CONNECTION, {"connection": "c2"}),
    ],
)
def test_counts_are_kept_per_mail_recipient_or_connection(per: Per, other: dict[str, object]) -> None:
    plan = state(rule(when=When(first=1), per=per))

    assert hits(plan, 3) == [1]
    assert hits(plan, 3, NOW, **other) == [1]


def test_per_recipient_counts_each_rcpt() -> None:
    rcpt = frozenset({("smtp", "rcpt")})
    plan = state(rule(ReplyWith(code=451), stages=rcpt, when=When(times=1), per=Per.RECIPIENT))
    struck = [
        plan.strike(moment(stage="rcpt", recipient=each), NOW) is not None for each in (BOB, ANN, BOB, ANN)
    ]

    assert struck == [True, True, False, False]


def test_a_sticky_rule_follows_a_mail_for_ever() -> None:
    """Once hit, each later attempt of that mail is hit, past every other condition; other mails are not."""
    plan = state(rule(when=When(first=1, until_s=10), sticks=True))

    assert hits(plan, 3) == [1, 2, 3]
    assert hits(plan, 3, recipients=(ANN,)) == []
    assert hits(plan, 2, after(1000)) == [1, 2]


def test_the_first_rule_that_strikes_decides() -> None:
    plan = state(rule(ReplyWith(code=451), name="a", when=When(first=1)), rule(ResetTheLine(), name="b"))

    assert plan.strike(moment(), NOW) == Strike(rules=("a",), answer=Reply(code=451))
    assert plan.strike(moment(), NOW) == Strike(rules=("b",), answer=Reset())
    assert [(each.rule.name, each.seen, each.fired) for each in plan.tally(NOW)] == [("a", 2, 1), ("b", 1, 1)]


def test_slow_lets_later_rules_decide_too() -> None:
    plan = state(
        rule(SlowDown(delay_s=1), name="a"),
        rule(SlowDown(delay_s=2), name="b"),
        rule(HangUpOnThem(), name="c"),
    )

    assert plan.strike(moment(), NOW) == Strike(
        rules=("a", "b", "c"), answer=Slow(delay_s=1, then=Slow(delay_s=2, then=HangUp()))
    )


def test_slow_alone_goes_on() -> None:
    assert state(rule(SlowDown(delay_s=1))).strike(moment(), NOW) == Strike(
        rules=("r",), answer=Slow(delay_s=1)
    )


def test_a_drop_says_nothing() -> None:
    assert state(rule(Drop())).strike(moment(), NOW) == Strike(rules=("r",), drop=True)


def test_a_rule_strikes_at_its_stage_and_wire_only() -> None:
    plan = state(rule(stages=frozenset({("http", "reply")})))

    assert plan.strike(moment(stage="reply"), NOW) is None
    assert plan.strike(moment(stage="accept", dialect="native"), NOW) is None
    assert plan.strike(moment(stage="reply", dialect="native"), NOW) is not None


VALIDATE = frozenset({("smtp", "rcpt"), ("http", "validate")})
NO_BOB = rule(RefuseRecipients(), name="no bob", stages=VALIDATE, who=Who(recipient=Pattern(BOB)))
NO_ANN = rule(
    RefuseRecipients(code=450, enhanced=None, text="full"),
    name="no ann",
    stages=VALIDATE,
    who=Who(recipient=Pattern(ANN)),
)


def test_recipients_are_refused_one_by_one_on_smtp() -> None:
    strike = state(NO_ANN, NO_BOB).strike(moment(stage="rcpt", recipient=BOB), NOW)

    assert strike is not None
    assert strike.answer == Reply(code=550, enhanced="5.1.1", text="no such mailbox")
    assert [each.recipient for each in strike.refused] == [BOB]


def test_on_http_each_rule_refuses_its_own_recipients() -> None:
    """All recipients come at once; the first rule must not keep the second one from its own."""
    strike = state(NO_BOB, NO_ANN).strike(moment(BOB, ANN, "c@x", stage="validate", dialect="native"), NOW)

    assert strike is not None
    assert strike.answer is None
    assert strike.rules == ("no bob", "no ann")
    assert [(each.recipient, each.code) for each in strike.refused] == [(BOB, 550), (ANN, 450)]


def test_a_recipient_is_refused_by_the_first_rule_only() -> None:
    everybody = rule(RefuseRecipients(code=451), name="all", stages=VALIDATE)
    plan = state(NO_BOB, everybody)
    strike = plan.strike(moment(BOB, ANN, stage="validate", dialect="native"), NOW)

    assert strike is not None
    assert [(each.recipient, each.code) for each in strike.refused] == [(BOB, 550), (ANN, 451)]


def test_a_wait_before_refused_recipients_is_not_lost() -> None:
    slow = rule(SlowDown(delay_s=3), name="slow", stages=VALIDATE)
    strike = state(slow, NO_BOB).strike(moment(BOB, ANN, stage="validate", dialect="native"), NOW)

    assert strike is not None
    assert strike.answer == Slow(delay_s=3)
    assert strike.rules == ("slow", "no bob")
    assert len(strike.refused) == 1


def test_each_recipient_is_an_occasion_of_its_own() -> None:
    second = rule(RefuseRecipients(), stages=VALIDATE, when=When(every=2))
    strike = state(second).strike(moment("a@x", "b@x", "c@x", "d@x", stage="validate", dialect="native"), NOW)

    assert strike is not None
    assert [each.recipient for each in strike.refused] == ["b@x", "d@x"]


def test_attempts_are_counted_wherever_they_end() -> None:
    """The second attempt is the second one, although the first never came as far as the rule's stage."""
    plan = state(rule(when=When(attempt=2)))
    plan.strike(moment(stage="connect", attempt="att_1"), NOW)
    plan.strike(moment(stage="connect", attempt="att_2"), NOW)

    assert plan.strike(moment(attempt="att_2"), NOW) is not None
    assert plan.strike(moment(attempt="att_1"), NOW) is None


def test_attempts_can_be_counted_per_mail() -> None:
    """Each mail has a second attempt of its own."""
    plan = state(rule(when=When(attempt=2), per=Per.MAIL))

    struck = [
        plan.strike(moment(recipient, attempt=attempt), NOW) is not None
        for recipient, attempt in (
            (ANN, "att_1"),
            (BOB, "att_2"),
            (ANN, "att_3"),
            (BOB, "att_4"),
            (BOB, "att_5"),
        )
    ]

    assert struck == [False, False, True, True, False]


# --- events on their way to a webhook ---------------------------------------------------------------


def event_rule(fault: Fault, name: str, who: Who = Who(), when: When = When()) -> Rule:
    return Rule(name=name, fault=fault, stages=frozenset({("webhook", "webhook")}), who=who, when=when)


def test_every_rule_that_means_an_event_strikes_it_in_order() -> None:
    """By type, by recipient and by count; rules of other stages are not asked."""
    plan = state(
        event_rule(LoseIt(), "bounces", Who(event=Pattern("*.bounced"))),
        event_rule(TellTwice(), "second", when=When(skip=1, times=1)),
        event_rule(LoseIt(), "ann", Who(recipient=Pattern(ANN))),
        rule(Drop()),
    )
    events = [("email.delivered", BOB), ("email.bounced", BOB), ("email.bounced", ANN)]

    assert [
        [
            each.rule
            for each in plan.strike_event(
                moment(to, stage="webhook", dialect="webhook", recipient=to, event=type_), NOW
            )
        ]
        for type_, to in events
    ] == [[], ["bounces", "second"], ["bounces", "ann"]]
    assert [(each.rule.name, each.fired) for each in plan.tally(NOW)] == [
        ("bounces", 2),
        ("second", 1),
        ("ann", 1),
        ("r", 0),
    ]
    assert state(rule(Drop())).strike_event(moment(stage="webhook", dialect="webhook"), NOW) == []


def test_telling_first_leaves_the_answer_to_later_rules() -> None:
    """The longest wait counts."""
    plan = state(
        rule(TellBeforeTheAnswer(within_s=2)),
        rule(TellBeforeTheAnswer(within_s=1)),
        rule(ReplyWith(code=451)),
    )

    assert plan.strike(moment(), NOW) == Strike(rules=("r", "r", "r"), answer=Reply(code=451), early_s=2)


# --- when a rule is over ----------------------------------------------------------------------------


def test_the_time_of_a_rule_that_was_added_begins_when_it_was_added() -> None:
    """Whoever adds an outage of ten seconds to a plan of yesterday means the next ten."""
    plan = state()
    plan.add([rule(when=When(until_s=10))], after(1000))

    assert plan.strike(moment(), after(1009)) is not None
    assert plan.strike(moment(), after(1010)) is None


@pytest.mark.parametrize(
    ("made", "strikes", "at_s", "over"),
    [
        (rule(), 3, 0, False),
        (rule(when=When(until_s=10)), 0, 9, False),
        (rule(when=When(until_s=10)), 0, 10, True),
        (rule(when=When(times=2)), 1, 0, False),
        (rule(when=When(times=2)), 2, 0, True),
        (rule(when=When(first=2, every=2)), 2, 0, True),
        (rule(when=When(skip=1, first=2)), 2, 0, False),
        (rule(when=When(times=1), per=Per.MAIL), 2, 0, False),
        (rule(when=When(times=1), sticks=True), 2, 0, False),
    ],
    # Not the rule: what it is printed as goes by the hashes of a set.
    ids=lambda value: "rule" if isinstance(value, Rule) else str(value),
)
def test_a_rule_is_over_when_its_time_or_its_count_is_used_up(
    made: Rule, strikes: int, at_s: float, over: bool
) -> None:
    plan = state(made)
    for _ in range(strikes):
        plan.strike(moment(recipients=("a@x",)), NOW)

    assert [each.over for each in plan.tally(after(at_s))] == [over]
