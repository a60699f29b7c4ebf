"""Magic addresses do what their names say, to their own recipients only, and a name that is none is told so."""

from __future__ import annotations

import pytest

from simulator.provider.account import Setup
from simulator.provider.answer import (
    Accepted,
    Answer,
    Garble,
    Hang,
    HangUp,
    Refused,
    Reply,
    Reset,
    RetryAfter,
    RetryAfterKind,
    Slow,
    Truncate,
)
from simulator.provider.fate import Fate
from simulator.provider.faults import FAULTS, ReplyWith, SlowDown
from simulator.provider.ledger import Attempt
from simulator.provider.magic import FORMS, MAGIC_STAGES, TRICKS, Magic, trick
from simulator.provider.plan import Plan
from simulator.provider.provider import Provider, Verdict
from simulator.provider.rule import Rule
from tests.simulator.provider.mails import BOB, NOW, after, mail, provider, send

WIRES = ("smtp", "native")


def said(it: Provider, to: str, dialect: str) -> object:
    """Send a mail; return what was said in the end, an answer before booking included."""
    answer, _, _ = outcome(it, dialect, to)
    return answer


def outcome(it: Provider, dialect: str, *to: str) -> tuple[Answer | None, Attempt, Verdict | None]:
    heard: list[Answer] = []
    step = it.step

    def listening(*arguments: object, **more: object) -> Answer | None:
        answer = step(*arguments, **more)  # type: ignore[arg-type]
        if answer is not None:
            heard.append(answer)
        return answer

    it.step = listening  # type: ignore[method-assign]
    try:
        attempt, verdict = send(it, mail(*to, dialect=dialect))
    finally:
        it.step = step  # type: ignore[method-assign]
    return (heard[-1] if heard else None if verdict is None else verdict.answer), attempt, verdict


@pytest.mark.parametrize("dialect", WIRES)
@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("hang", Hang()),
        ("hang-up", HangUp()),
        ("reset", Reset()),
        ("451", Reply(code=451)),
        ("503", Reply(code=503)),
        ("slow-3", Slow(delay_s=3)),
    ],
)
def test_each_time(name: str, answer: Answer, dialect: str) -> None:
    it = provider()

    assert [said(it, f"{name}@magic.test", dialect) for _ in range(3)] == [answer] * 3


@pytest.mark.parametrize("dialect", WIRES)
@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("lost-answer", HangUp()),
        ("reset-answer", Reset()),
        ("garbled-answer", Garble()),
        ("429-once", Reply(code=429)),
    ],
)
def test_once_for_each_mailbox(name: str, first: Answer, dialect: str) -> None:
    it = provider()
    one, other = f"{name}@magic.test", f"{name}+2@MAGIC.test"

    assert said(it, one, dialect) == first
    assert isinstance(said(it, one, dialect), Accepted)
    assert said(it, other, dialect) == first
    assert isinstance(said(it, one, dialect), Accepted)


def test_what_is_said_may_differ_by_wire() -> None:
    wait = RetryAfter(kind=RetryAfterKind.SECONDS, seconds=5.0)

    assert said(provider(), "throttled@magic.test", "native") == Reply(code=429, retry_after=wait)
    over_smtp = said(provider(), "throttled@magic.test", "smtp")
    assert isinstance(over_smtp, Reply)
    assert (over_smtp.code, over_smtp.enhanced, over_smtp.retry_after) == (450, "4.7.1", wait)
    assert said(provider(), "lie@magic.test", "smtp") == Reply(code=554)
    assert said(provider(), "lie@magic.test", "native") == Reply(code=500)


@pytest.mark.parametrize("dialect", WIRES)
def test_what_was_taken_is_in_the_ledger(dialect: str) -> None:
    it = provider()
    for name in ("lost-answers", "truncated-answer", "lie", "hang", "451", "nobody"):
        outcome(it, dialect, f"{name}@magic.test")

    taken = [each.recipients[0].partition("@")[0] for each in it.account("default", NOW).ledger.acceptances]
    assert taken == ["lost-answers", "truncated-answer", "lie"]
    assert isinstance(said(it, "truncated-answer+2@magic.test", dialect), Truncate)


@pytest.mark.parametrize("dialect", WIRES)
def test_fates_are_those_of_their_own_recipients(dialect: str) -> None:
    it = provider()
    _, verdict = send(
        it, mail("bounce+1@magic.test", BOB, "complaint@magic.test", "drop@magic.test", dialect=dialect)
    )

    assert verdict is not None
    assert verdict.acceptance is not None
    acceptance = verdict.acceptance
    assert {to: acceptance.destiny_of(to).fate.value for to in acceptance.recipients} == {
        "bounce+1@magic.test": "hard_bounce",
        BOB: "delivered",
        "complaint@magic.test": "complaint",
        "drop@magic.test": "dropped",
    }


@pytest.mark.parametrize("dialect", WIRES)
def test_recipients_that_are_refused_leave_the_others(dialect: str) -> None:
    it = provider()
    attempt, _ = send(it, mail("nobody@magic.test", BOB, "full@magic.test", dialect=dialect), end=False)

    refused = {each.recipient: (each.code, each.enhanced) for each in attempt.refused}
    if dialect == "native":
        assert refused == {"nobody@magic.test": (550, "5.1.1"), "full@magic.test": (452, "4.2.2")}
        assert attempt.accepted == (BOB,)
    else:  # The dialogue of this test ends at the first no; a real one goes on with the next recipient.
        assert refused == {"nobody@magic.test": (550, "5.1.1")}


@pytest.mark.parametrize("dialect", WIRES)
def test_a_name_that_is_none_is_refused_and_says_so(dialect: str) -> None:
    attempt, _ = send(provider(), mail("bonce@magic.test", dialect=dialect))

    (refused,) = attempt.refused
    assert refused.code == 550
    assert refused.text == "there is no magic address 'bonce' here; docs/plans.md lists those that are"


def test_names_that_are_none_cost_no_memory() -> None:
    it = provider()
    for number in range(50):
        send(it, mail(f"x{number}@magic.test"))

    assert it.account("default", NOW).magic._states == {}


def test_the_rules_of_a_plan_come_first() -> None:
    broken = Rule(name="r", fault=ReplyWith(code=451), stages=frozenset({("smtp", "rcpt")}))
    it = provider(Setup(plan=Plan(rules=(broken,))))

    assert said(it, "550@magic.test", "smtp") == Reply(code=451)


def test_a_rule_that_only_delays_leaves_the_answer_to_magic() -> None:
    slow = Rule(name="slow", fault=SlowDown(delay_s=2), stages=frozenset({("smtp", "rcpt")}))
    it = provider(Setup(plan=Plan(rules=(slow,))))
    answer, attempt, _ = outcome(it, "smtp", "550@magic.test")

    assert answer == Slow(delay_s=2, then=Reply(code=550))
    assert attempt.rules == ("slow", "magic: 550@magic.test")
    assert [each.rules for each in it.account("default", NOW).decisions] == [
        ("slow", "magic: 550@magic.test")
    ]


def test_a_switch_turns_it_off_and_another_domain_may_be_named() -> None:
    off = provider(Setup(magic=Magic(on=False)))
    assert isinstance(said(off, "550@magic.test", "smtp"), Accepted)
    elsewhere = provider(Setup(magic=Magic(domain="sandbox.example")))
    assert isinstance(said(elsewhere, "550@magic.test", "smtp"), Accepted)
    assert said(elsewhere, "550@sandbox.example", "smtp") == Reply(code=550)
    assert isinstance(said(elsewhere, "550@not-sandbox.example", "smtp"), Accepted)


def test_accounts_and_setups_begin_anew() -> None:
    it = provider()
    assert said(it, "greylist@magic.test", "smtp") != said(it, "greylist@magic.test", "smtp")
    send(it, mail("greylist@magic.test"), account="other")
    assert it.account("other", NOW).ledger.acceptances == []
    it.set_up("default", Setup(), NOW)
    assert isinstance(said(it, "greylist@magic.test", "smtp"), Reply)


@pytest.mark.parametrize("name", [*TRICKS, "400", "599", "451-once", "slow-0"])
def test_every_trick_strikes_where_its_faults_can(name: str) -> None:
    known = trick(name)

    assert known is not None
    for fault, stages in known.faults:
        assert {stage for _, stage in stages} <= MAGIC_STAGES
        for wire, stage in stages:
            assert stage in FAULTS[fault.name].stages[wire]


@pytest.mark.parametrize(
    "name", ["", "600", "399", "45", "4511", "451-twice", "slow", "slow-x", "slow-1000", "Bounce"]
)
def test_what_is_no_trick(name: str) -> None:
    assert trick(name) is None


def test_forms_do_not_hide_names() -> None:
    assert not [name for name in TRICKS for form, *_ in FORMS if form.fullmatch(name)]


def test_a_refusal_over_http_is_one_of_the_recipient() -> None:
    answer = said(provider(), "nobody@magic.test", "native")

    assert isinstance(answer, Refused)
    assert [each.code for each in answer.refused] == [550]


def test_a_magic_address_bounces_each_time() -> None:
    """It never gets on the suppression list."""
    it = provider()
    for second in (0, 10):
        send(it, mail("bounce@magic.test"), after(second))

    assert [each.fate for each in it.accounts["default"].ledger.acceptances] == [Fate.HARD_BOUNCE] * 2
