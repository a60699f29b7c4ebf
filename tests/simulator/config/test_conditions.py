"""Whom and when: conditions are read as they are meant, on the wires where they can be met."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.provider.rule import Pattern, When
from tests.simulator.config.plans import one


@pytest.mark.parametrize(
    ("dialect", "wires", "kept"),
    [
        ("smtp", {"smtp"}, None),
        ("http", {"http"}, None),
        ("native", {"http"}, Pattern("native")),
        ("*", {"smtp", "http"}, Pattern("*")),
        ("/nat|res/", {"http"}, Pattern("/nat|res/")),
    ],
)
def test_a_dialect_chooses_the_wire(dialect: str, wires: set[str], kept: Pattern | None) -> None:
    rule = one(dialect=dialect)

    assert {wire for wire, _ in rule.stages} == wires
    assert rule.who.dialect == kept


@pytest.mark.parametrize(
    ("keys", "stages"),
    [
        ({"stage": "rcpt"}, {("smtp", "rcpt")}),
        ({"stage": "validate"}, {("http", "validate")}),
        ({"stage": "connect"}, {("smtp", "connect"), ("http", "connect")}),
        # What can never be met on a wire leaves the other one.
        ({"key": "k"}, {("http", "accept")}),
        ({"stage": "reply", "key": "k"}, {("http", "reply")}),
        ({"stage": "request", "key": "k"}, {("http", "request")}),
        ({"fault": "webhook_lose", "stage": "webhook", "event": "*"}, {("webhook", "webhook")}),
        ({"fault": "webhook_lose", "key": "k", "recipient": "a@*"}, {("webhook", "webhook")}),
        ({"stage": "body", "header": {"X-A": "*"}, "dialect": "smtp"}, {("smtp", "body")}),
    ],
    # A set has no order of its own, and the names of tests must be the same in every process.
    ids=lambda value: str(sorted(value)),
)
def test_a_stage_is_on_every_wire_that_has_it(keys: dict[str, Any], stages: set[tuple[str, str]]) -> None:
    assert one(**keys).stages == stages


@pytest.mark.parametrize(
    ("sticks", "times", "to_mail"),
    [("once", 1, False), (1, 1, False), (4, 4, False), ("until_healed", None, False), ("mail", None, True)],
)
def test_stickiness_has_four_forms(sticks: object, times: int | None, to_mail: bool) -> None:
    rule = one(sticks=sticks)

    assert (rule.when.times, rule.sticks_to_mail) == (times, to_mail)


def test_times_may_be_a_word() -> None:
    assert one(times="once").when == one(times=1).when == When(times=1)
