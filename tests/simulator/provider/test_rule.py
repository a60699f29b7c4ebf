"""Whom a rule means: every pattern and every condition."""

from __future__ import annotations

import pytest

from simulator.provider.message import Moment
from simulator.provider.rule import Pattern, Who
from tests.simulator.provider.mails import ANN, BOB


def moment(*recipients: str, stage: str = "message", **known: object) -> Moment:
    facts = {"account": "default", "dialect": "smtp", "recipients": recipients} | known
    return Moment(stage=stage, **facts)  # type: ignore[arg-type] # of several types


@pytest.mark.parametrize(
    ("pattern", "value", "meant"),
    [
        ("bob@example.org", "BOB@example.org", True),
        ("bob@example.org", "xbob@example.org", False),
        ("*@slow.example", "a@slow.example", True),
        ("*@slow.example", "a@slow.example.org", False),
        ("?@x", "a@x", True),
        ("?@x", "ab@x", False),
        ("/^order-[0-9]+$/", "order-17", True),
        ("/^order-[0-9]+$/", "order-x", False),
        ("/slow/", "very SLOW indeed", True),
        ("a@[10.0.0.1]", "a@[10.0.0.1]", True),
        ("a.b@x", "acb@x", False),
        ("*", "", True),
        ("", "", True),
        ("", "a", False),
    ],
)
def test_a_pattern_is_exact_a_wildcard_or_a_regex(pattern: str, value: str, meant: bool) -> None:
    assert Pattern(pattern).matches(value) is meant


def test_a_pattern_says_what_it_is() -> None:
    assert Pattern("/a/").is_regex
    assert not Pattern("/").is_regex
    assert not Pattern("a*").is_regex


@pytest.mark.parametrize(
    ("who", "met"),
    [
        (Who(), True),
        (Who(account=Pattern("def*")), True),
        (Who(account=Pattern("other")), False),
        (Who(dialect=Pattern("smtp")), True),
        (Who(dialect=Pattern("native")), False),
        (Who(sender=Pattern("shop@*")), True),
        (Who(sender=Pattern("x")), False),
        (Who(recipient=Pattern(ANN)), True),
        (Who(recipient=Pattern("nobody@*")), False),
        (Who(key=Pattern("/^order-/")), True),
        (Who(key=Pattern("order")), False),
        (Who(headers=(("x-kind", Pattern("bulk")),)), True),
        (Who(headers=(("X-Kind", Pattern("mail")),)), False),
        (Who(headers=(("X-Other", Pattern("*")),)), False),
        (Who(sender=Pattern("shop@*"), recipient=Pattern("nobody")), False),
    ],
    ids=str,
)
def test_all_conditions_must_be_met(who: Who, met: bool) -> None:
    here = moment(BOB, ANN, sender="shop@x", key="order-1", headers=(("X-Kind", "bulk"),))

    assert who.meets(here) is met


def test_what_is_not_known_is_not_met() -> None:
    here = Moment(stage="connect", dialect="smtp", account="default")

    assert not Who(sender=Pattern("*")).meets(here)
    assert not Who(recipient=Pattern("*")).meets(here)
    assert not Who(key=Pattern("*")).meets(here)


def test_at_rcpt_only_the_recipient_of_this_command_counts() -> None:
    here = moment(BOB, ANN, stage="rcpt", recipient=ANN)

    assert Who(recipient=Pattern(ANN)).meets(here)
    assert not Who(recipient=Pattern(BOB)).meets(here)
