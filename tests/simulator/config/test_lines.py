"""A rule in one line is the table that somebody would have written, and a word that is none is pointed at."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.config import PlanError, explain, read_plan, rule_as_json
from simulator.config.lines import read_line
from simulator.config.modifiers import MODIFIERS
from simulator.config.place import Place
from simulator.config.whats import SPECIAL, WHATS
from tests.simulator.config.plans import sentence

SMTP_REPLY = {"fault": "reply", "dialect": "smtp"}
HTTP_REPLY = {"fault": "reply", "dialect": "http"}

LINES: list[tuple[str, dict[str, Any]]] = [
    ("503", HTTP_REPLY | {"code": 503}),
    ("503 for 10 s", HTTP_REPLY | {"code": 503, "until_s": 10}),
    ("503 after 1 minute for 30s", HTTP_REPLY | {"code": 503, "from_s": 60, "until_s": 90}),
    ("503 for 30s after 1 minute", HTTP_REPLY | {"code": 503, "from_s": 60, "until_s": 90}),
    ("503 until 1.5 h", HTTP_REPLY | {"code": 503, "until_s": 5400}),
    ("503 on smtp", SMTP_REPLY | {"code": 503}),
    ("429 retry-after 3 first 2", HTTP_REPLY | {"code": 429, "retry_after": 3, "first": 2}),
    ("429 retry after 2 minutes", HTTP_REPLY | {"code": 429, "retry_after": 120}),
    ("429 retry-after date 30 s", HTTP_REPLY | {"code": 429, "retry_after": "date:30"}),
    ("429 retry-after garbage", HTTP_REPLY | {"code": 429, "retry_after": "garbage"}),
    ("451", SMTP_REPLY | {"code": 451}),
    ('451 4.7.1 "come back, later" at rcpt', SMTP_REPLY | {"code": 451, "enhanced": "4.7.1", "text": "come back, later", "stage": "rcpt"}),
    (r'550 saying "he said \"no\""', SMTP_REPLY | {"code": 550, "text": 'he said "no"'}),
    ("535", SMTP_REPLY | {"code": 535, "stage": "auth"}),
    ("421 at connect after 5", SMTP_REPLY | {"code": 421, "stage": "connect", "skip": 5}),
    ("reply 451 once", SMTP_REPLY | {"code": 451, "times": 1}),
    ("lose 2 answers", {"fault": "accept_then_hang_up", "first": 2}),
    ("lose the answers", {"fault": "accept_then_hang_up"}),
    ("lose answers by reset 1%", {"fault": "accept_then_reset", "probability": 0.01}),
    ("lose 1 answer per mail on native", {"fault": "accept_then_hang_up", "first": 1, "per": "mail", "dialect": "native"}),
    ("hang", {"fault": "hang"}),
    ("hang 5 s twice", {"fault": "hang", "delay_s": 5, "times": 2}),
    ("hang up at rcpt", {"fault": "hang_up", "stage": "rcpt"}),
    ("expired certificate once", {"fault": "bad_certificate", "problem": "expired", "times": 1}),
    ("not-yet-valid certificate", {"fault": "bad_certificate", "problem": "not_yet_valid"}),
    ("wrong host certificate on http", {"fault": "bad_certificate", "problem": "wrong_host", "dialect": "http"}),
    ("untrusted certificate 5%", {"fault": "bad_certificate", "problem": "untrusted", "probability": 0.05}),
    ("refuse handshake alert=protocol_version", {"fault": "refuse_handshake", "alert": "protocol_version"}),
    ("451 at mail and at rcpt, at data", {"fault": "reply", "code": 451, "dialect": "smtp", "stage": ["mail", "rcpt", "data"]}),
    ("refuse ehlo once", {"fault": "refuse_ehlo", "times": 1}),
    ("hang up at tls", {"fault": "hang_up", "stage": "tls"}),
    ("hang-up", {"fault": "hang_up"}),
    ("accept then hang up 12.5 %", {"fault": "accept_then_hang_up", "probability": 0.125}),
    ("accept_then_reply 500", {"fault": "accept_then_reply", "dialect": "http", "code": 500}),
    ("slow 2 s", {"fault": "slow", "delay_s": 2}),
    ("delay by 1.5s every 3rd", {"fault": "slow", "delay_s": 1.5, "every": 3}),
    ("drop every other", {"fault": "accept_then_drop", "every": 2}),
    ("hold header X-Kind=bulk once", {"fault": "accept_then_hold", "header": {"X-Kind": "bulk"}, "times": 1} | {"fault": "hold"}),
    ('hold header X-Kind="a b"', {"fault": "hold", "header": {"X-Kind": "a b"}}),
    ("reset 3 times and for ever", {"fault": "reset", "times": 3, "sticks": "mail"}),
    ("reset from shop@* to *@example.org, key /^k/, account a*", {"fault": "reset", "sender": "shop@*", "recipient": "*@example.org", "key": "/^k/", "account": "a*"}),
    ('reset from ""', {"fault": "reset", "sender": ""}),
    ("reset attempt 2 per recipient skip 1", {"fault": "reset", "attempt": 2, "per": "recipient", "skip": 1}),
    ("refuse bob@*", {"fault": "refuse_recipients", "recipient": "bob@*"}),
    ("refuse bob@* with 450", {"fault": "refuse_recipients", "recipient": "bob@*", "code": 450, "enhanced": "4.0.0"}),
    ("refuse bob@* with 450 4.2.1", {"fault": "refuse_recipients", "recipient": "bob@*", "code": 450, "enhanced": "4.2.1"}),
    ("bounce to b@*", {"fault": "fate", "fate": "hard_bounce", "recipient": "b@*"}),
    ("soft bounce", {"fault": "fate", "fate": "soft_bounce"}),
    ("opened 50 %", {"fault": "fate", "fate": "opened", "probability": 0.5}),
    ("garble code=201", {"fault": "garble", "code": 201}),
    ("503 from_s=1.5", HTTP_REPLY | {"code": 503, "from_s": 1.5}),
]  # fmt: skip


@pytest.mark.parametrize(("line", "table"), LINES, ids=[line for line, _ in LINES])
def test_a_line_is_a_table(line: str, table: dict[str, Any]) -> None:
    (read,) = read_line(Place("p"), line)

    assert read == {"name": line} | table


@pytest.mark.parametrize("line", [line for line, _ in LINES])
def test_every_line_is_a_rule_that_can_be_shown_and_read_again(line: str) -> None:
    (rule,) = read_plan({"rules": [line]}, "p").plan.rules

    assert read_plan({"rules": [rule_as_json(rule)]}, "p").plan.rules == (rule,)
    assert explain(rule).startswith(f"{line}: at ")


@pytest.mark.parametrize(
    ("line", "names", "until_s"),
    [
        ("outage", ["outage (smtp)", "outage (http)"], None),
        ("outage of 4 minutes", ["outage of 4 minutes (smtp)", "outage of 4 minutes (http)"], 240),
        ("down for 10 s", ["down for 10 s (smtp)", "down for 10 s (http)"], 10),
        ("outage 10 s on smtp", ["outage 10 s on smtp"], 10),
        ("outage on native", ["outage on native"], None),
    ],
)
def test_an_outage_is_said_at_the_door_of_each_wire(
    line: str, names: list[str], until_s: float | None
) -> None:
    rules = read_plan({"rules": [line, "hang"]}, "p").plan.rules

    assert [rule.name for rule in rules] == [*names, "hang"]
    assert {rule.when.until_s for rule in rules[:-1]} == {until_s}
    assert {place for rule in rules[:-1] for place in rule.stages} <= {
        ("smtp", "connect"),
        ("smtp", "auth"),
        ("http", "request"),
    }


def test_a_greylist_puts_every_recipient_off_once() -> None:
    (table,) = read_line(Place("p"), "greylist")

    assert (table["code"], table["stage"], table["times"], table["per"]) == (451, "rcpt", 1, "recipient")


def test_lines_and_tables_may_be_mixed() -> None:
    rules = read_plan({"rules": ["hang", {"fault": "reset"}], "rule": [{"fault": "hang_up"}]}, "p").plan.rules

    assert [rule.name for rule in rules] == ["hang", "rule 2", "rule 3"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("503 at tea", '"stage" is "tea", which is no stage'),
        ("outage at rcpt", "is too much: this strikes at the door of each wire"),
        ("garble cod=201", 'there is no key "cod"; did you mean "code"?'),
        ("hang code=201", 'the fault "hang" has no key "code"'),
    ],
)  # fmt: skip
def test_a_word_that_is_none_is_pointed_at(line: str, says: str) -> None:
    said = sentence({"rules": ["hang", line]})

    assert said.startswith("plan.toml: rule 2")
    assert says in said


WORDS = st.sampled_from(
    [
        *MODIFIERS,
        *WHATS,
        *SPECIAL,
        "2",
        "10 s",
        "1%",
        "451",
        "503",
        "4.7.1",
        '"a b"',
        "*@x",
        "X-A=b",
        "code=5",
        ",",
    ]
)


@settings(deadline=None, max_examples=300)
@given(st.lists(WORDS | st.text(max_size=4), min_size=1, max_size=7).map(" ".join))
def test_whatever_is_written_is_read_or_named(line: str) -> None:
    """No line leads to any other exception."""
    try:
        rules = read_plan({"rules": [line]}, "plan.toml").plan.rules
    except PlanError:
        return
    assert rules
    assert all(rule.stages for rule in rules)
