"""A sieve never holds back what a rule would mean."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.provider.message import Moment
from simulator.provider.rule import Pattern, Who
from simulator.provider.sieve import Sieve

PATTERNS = st.sampled_from(
    [
        "a@x.example",
        "A@X.example",
        "*@x.example",
        "b?c@*",
        "[10.0.0.1]",
        "*",
        "",
        "ſ@x",
        "S@x",
        "/^a/",
        "/(b|c)@/",
        "/\\d/",
    ]
).map(Pattern) | st.text("ab@*?[].S", max_size=6).map(Pattern)
VALUES = st.sampled_from(
    ["a@x.example", "b@x.example", "bac@y", "[10.0.0.1]", "ſ@x", "s@X", "order-7", ""]
) | st.text("ab@[].sſK", max_size=6)


def is_readable(pattern: Pattern | None) -> bool:
    try:
        return pattern is None or pattern.matches("") in (True, False)
    except re.error:
        return False


WHO = st.builds(
    Who,
    account=st.none() | PATTERNS,
    dialect=st.none() | PATTERNS,
    sender=st.none() | PATTERNS,
    recipient=st.none() | PATTERNS,
    key=st.none() | PATTERNS,
).filter(lambda who: all(map(is_readable, (who.account, who.dialect, who.sender, who.recipient, who.key))))


@settings(deadline=None)
@given(
    rules=st.lists(WHO, max_size=6),
    sender=VALUES,
    recipients=st.lists(VALUES, max_size=3),
    key=st.none() | VALUES,
)
def test_whatever_a_rule_means_gets_through(
    rules: list[Who], sender: str, recipients: list[str], key: str | None
) -> None:
    moment = Moment(
        stage="accept", dialect="native", account="a", sender=sender, recipients=tuple(recipients), key=key
    )
    through = Sieve(rules).lets_through(
        account="a", dialect="native", sender=sender, recipients=recipients, key=key
    )
    assert through or not any(who.meets(moment) for who in rules)


@pytest.mark.parametrize(
    ("who", "through"),
    [
        (Who(recipient=Pattern("b@x.example")), True),
        (Who(recipient=Pattern("B@X.*")), True),
        (Who(recipient=Pattern("c@x.example")), False),
        (Who(sender=Pattern("*@elsewhere.example")), False),
        (Who(key=Pattern("order-*")), False),
        (Who(), True),
        (Who(headers=(("Subject", Pattern("x")),)), True),
    ],
)
def test_what_no_rule_means_is_held_back(who: Who, through: bool) -> None:
    sieve = Sieve([who])
    seen = sieve.lets_through(
        account="a", dialect="native", sender="a@x.example", recipients=["b@x.example"], key=None
    )
    assert seen is through
