"""What is allowed but hardly meant is a warning; what makes sense is none."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.config import (
    doubts,
    read_plan,
    warnings,
)
from simulator.provider.rule import Who


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ([{"fault": "hang", "first": 0}], "can never strike: first = 0"),
        ([{"fault": "hang", "times": 0}], "can never strike: times = 0"),
        ([{"fault": "hang", "probability": 0}], "can never strike: probability = 0"),
        ([{"fault": "hang", "from_s": 5, "until_s": 5}], "its time window is empty"),
        ([{"fault": "hang", "until_s": 0}], "its time window is empty"),
        ([{"fault": "hang", "first": 2, "every": 3}], "the 3rd occasion is not among the first 2"),
        ([{"fault": "reply", "code": 451, "enhanced": "5.0.0"}], "says 451 and 5.0.0, which contradict each other"),
        ([{"fault": "reply", "code": 451, "body": "x", "dialect": "smtp"}], 'gives a "body", which has no place on SMTP'),
        ([{"fault": "reply", "code": 451, "enhanced": "4.0.0", "dialect": "http"}], "has no place on HTTP"),
        ([{"fault": "hang", "stage": "body"}], '"body" means two things; add "dialect"'),
        ([{"name": "a", "fault": "hang"}, {"name": "a", "fault": "hang", "stage": "rcpt"}], "has the name of an earlier rule"),
        ([{"name": "a", "fault": "hang"}, {"fault": "reset"}], 'rule 2 ("rule 2") can never strike: "a" always decides before it'),
        ([{"name": "a", "fault": "hang", "recipient": "x"}, {"fault": "reset", "recipient": "x", "first": 1}], '"a" always decides before it'),
        (["outage", "421 at connect on smtp"], 'rule 3 ("421 at connect on smtp") can never strike: "outage (smtp)" always decides before it'),
        ([{"name": "s", "fault": "hang", "dialect": "smtp"}, {"name": "h", "fault": "hang", "dialect": "http"}, "reset"], '"s" and "h" always decide before it'),
        (["reset to *@x", "hang to bob@x"], '"reset to *@x" always decides before it'),
        (["reset to *", "hang to /bob/"], '"reset to *" always decides before it'),
        (["reset for 60 s", "hang after 10 s for 20 s"], '"reset for 60 s" always decides before it'),
        (["reset 100%", "hang once"], '"reset 100%" always decides before it'),
        (["reset for 60 s", "451", "hang for 30 s on smtp"], '"reset for 60 s" always decides before it'),
        (["reset for 60 s", "reset after 60 s", "hang"], '"reset for 60 s" and "reset after 60 s" always decide before it'),
        (["503", "503", "hang on http at accept"], ('rule 3 ("hang on http at accept") can never strike: "503" always decides before it')),
        (["503 to bob"], 'can never strike: "recipient" is "bob", which is no address; "bob@*" is bob anywhere'),
        ([{"fault": "refuse_recipients", "recipient": "bob@"}], '"recipient" is "bob@", which is no address; "bob@*" is bob anywhere'),
        ([{"fault": "hang", "sender": "@shop.example"}], '"sender" is "@shop.example", which is no address; "*@shop.example" is everybody there'),
        ([{"fault": "hang", "recipient": "bob@@example"}], 'can never strike: "recipient" is "bob@@example", which is no address; one looks like "ada@example.com"'),
        ([{"fault": "hang", "recipient": "Bob <bob@example.com>"}], '"recipient" is "Bob <bob@example.com>", which is no address; one looks like'),
        ([{"fault": "hang", "sender": "bob smith"}], '"sender" is "bob smith", which is no address; one looks like'),
        ([{"fault": "hang", "sender": "postmaster"}], '"sender" is "postmaster", which is no address; "postmaster@*" is postmaster anywhere'),
        ([{"fault": "hang", "recipient": "bob@@*"}], '"recipient" is "bob@@*", which no address is like; one looks like "ada@example.com"'),
        ([{"fault": "hang", "recipient": "*@"}], '"recipient" is "*@", which no address is like; one looks like'),
        ([{"fault": "webhook_lose", "event": "email.bounce"}], 'can never strike: there is no event "email.bounce"; did you mean "email.bounced"?'),
        ([{"fault": "webhook_lose", "event": "mail.*"}], 'can never strike: there is no event "mail.*"; known are'),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_allowed_but_hardly_meant_is_a_warning(rules: list[Any], says: str) -> None:
    found = warnings(read_plan({"rule": rules}, "plan.toml"))

    assert any(says in each for each in found), found


@pytest.mark.parametrize(
    "rules",
    [
        [{"fault": "slow", "delay_s": 1}, {"fault": "hang"}],
        [{"fault": "hang", "first": 1}, {"fault": "reset"}],
        [{"fault": "hang", "recipient": "x@y"}, {"fault": "reset"}],
        [{"fault": "hang", "stage": "rcpt"}, {"fault": "reset"}],
        [{"fault": "refuse_recipients"}, {"fault": "hang", "stage": "validate"}],
        [{"fault": "hang", "dialect": "smtp"}, {"fault": "reset"}],
        [{"fault": "hang", "from_s": 1, "until_s": 2}],
        ["reset for 60 s", "hang"],
        ["reset for 60 s", "hang after 10 s for 60 s"],
        ["reset after 10 s", "hang"],
        ["reset to bob@x", "hang to *@x"],
        ["reset to /bob/", "hang to bob*"],
        ["reset 99%", "hang"],
        ["reset skip 1", "hang"],
        ["reset header X-A=1", "hang"],
        ["reset on smtp", "hang"],
        ["reset for 60 s", "reset after 61 s", "hang"],
        ["503 to bob@*", "451 to postmaster", "452 to *", "hang to /bob/", "reset to b?b"],
        # Odd, but they come over a wire.
        [
            {"fault": "hang", "recipient": each}
            for each in ('"bob@"@example', "bob@[192.0.2.1]", "bücher@exämple", "a_b@_x")
        ],
        [{"fault": "hang", "recipient": each} for each in ("*@*@*", "bob*", "*.example", "?@?", "/@@/")],
        [{"fault": "hang", "sender": ""}],
        [
            {"fault": "webhook_lose", "event": "email.*"},
            {"fault": "webhook_late", "delay_s": 1, "event": "/bounced$/"},
        ],
        # Whatever is pushed by hand may be about anybody.
        [{"fault": "webhook_lose", "recipient": "bob"}],
        [{"fault": "reply", "code": 451, "enhanced": "4.3.0"}],
    ],
    ids=str,
)
def test_a_plan_that_makes_sense_has_no_warnings(rules: list[Any]) -> None:
    assert warnings(read_plan({"rule": rules}, "plan.toml")) == []


@pytest.mark.parametrize(
    "line",
    ["503", "503 to ada{}@example.com", "503 from ada{}@example.com first 1", "503 to *@example{}.com"],
    ids=str,
)
def test_many_rules_cost_no_more_than_in_proportion(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0
    means_all = doubts._means_all

    def counted(wide: Who, narrow: Who) -> bool:
        nonlocal compared
        compared += 1
        return means_all(wide, narrow)

    monkeypatch.setattr(doubts, "_means_all", counted)
    rules = [line.format(number) for number in range(600)]

    found = warnings(read_plan({"rules": rules}, "plan.toml"))

    assert compared <= 100 * len(rules)
    assert sum(map(len, found)) < 250 * len(rules)


@pytest.mark.parametrize("smtp", [{"auth": []}, {"hide": ["AUTH"]}, {"ehlo": False}], ids=str)
def test_a_stage_that_nobody_comes_to_is_a_warning(smtp: dict[str, Any]) -> None:
    found = warnings(read_plan({"rules": ["535", "hang"], "smtp": smtp}, "plan.toml"))

    assert found == ['rule 1 ("535") can never strike: [smtp] lets nobody come to that stage']


@pytest.mark.parametrize(
    ("rule", "events", "left_out"),
    [
        ({"event": "email.opened"}, ["email.bounced"], '"email.opened"'),
        ({"event": "EMAIL.Opened"}, ["*.bounced", "*.delivered"], '"EMAIL.Opened"'),
        ({"event": "*ed"}, ["email.nothing*"], '"*ed"'),
        ({"event": "/open|click/"}, ["email.bounced"], '"/open|click/"'),
        ({}, ["mail.*"], "every event"),
        ({"event": "*.opened"}, ["email.o*"], None),
        ({"event": "*ed"}, ["email.bounced"], None),
        ({"event": "/open|click/"}, ["*.clicked"], None),
        ({"event": "email.opened"}, [], None),
        ({}, ["email.bounced"], None),
    ],
    ids=str,
)
def test_a_rule_about_events_that_are_not_told_is_a_warning(
    rule: dict[str, Any], events: list[str], left_out: str | None
) -> None:
    plan = {"rule": [{"fault": "webhook_lose"} | rule, "hang"], "webhooks": {"events": events}}

    found = warnings(read_plan(plan, "plan.toml"))

    says = f'rule 1 ("rule 1") can never strike: "events" of [webhooks] leaves {left_out} out'
    assert found == ([] if left_out is None else [says])


def test_an_event_that_there_is_not_is_left_out_by_nobody() -> None:
    """One warning says enough."""
    rule = {"fault": "webhook_lose", "event": "email.bounce"}

    (found,) = warnings(read_plan({"rule": [rule], "webhooks": {"events": ["email.opened"]}}, "plan.toml"))

    assert "there is no event" in found


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (
            "421 at connect",
            'can never strike: there no sender has named itself, and the plan of the account "default"',
        ),
        ("expired certificate", "can never strike"),
        ("hang up at connect", "can never strike"),
        ("drip", None),
        ("535", None),
        ("hang up at upload", None),
        ("hang up at connect and at auth", None),
        ("outage", None),
    ],
)
def test_a_stage_before_anybody_has_a_name_is_a_warning_in_an_account(rule: str, says: str | None) -> None:
    """There the plan of everybody without a name is asked, which is that of the default account."""
    setup = read_plan({"rules": [rule]}, "plan.toml")

    assert warnings(setup) == []
    found = warnings(setup, account="shop")
    assert len(found) == (0 if says is None else 1)
    assert says is None or says in found[0]
