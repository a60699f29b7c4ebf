"""Rules are read as they are meant, and every mistake is one sentence that names the place and the cure."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.config import (
    PARAMETERS,
    RULE_KEYS,
    STAGES,
    PlanError,
    explain,
    read_plan,
    read_rules,
)
from simulator.provider.faults import (
    AFTER_BOOKING,
    FAULTS,
    SPELLINGS,
    RefuseRecipients,
    ReplyWith,
    natural_stage,
)
from simulator.provider.rule import Pattern, Who
from tests.simulator.config.plans import about, one, sentence
from tests.simulator.provider.faults.samples import NEEDED


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_without_a_stage_strikes_at_its_natural_one_on_its_wires(name: str) -> None:
    rule = one(fault=name, **NEEDED.get(name, {}))

    assert rule.stages == {(wire, natural_stage(FAULTS[name], wire)) for wire in FAULTS[name].stages}


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_spelling_is_its_fault_after_booking(name: str) -> None:
    fault = SPELLINGS[name].fault
    rule = one(fault=name, **NEEDED.get(fault, {}))

    assert rule.stages == {(wire, "reply") for wire in FAULTS[fault].stages}
    assert rule.stages <= AFTER_BOOKING
    assert rule.fault.name == fault


def test_accept_then_reply_says_500_unless_told_otherwise() -> None:
    assert one(fault="accept_then_reply").fault == ReplyWith(code=500)
    assert one(fault="accept_then_reply", code=451).fault == ReplyWith(code=451)


def test_a_spelling_may_name_the_stage_of_the_acceptance() -> None:
    """`accept_then_hang_up` at `message` is how people say it; it still comes after booking."""
    assert one(fault="accept_then_hang_up", stage="message").stages == {("smtp", "reply")}
    assert one(fault="accept_then_hang_up", stage="accept").stages == {("http", "reply")}
    assert one(fault="accept_then_hang_up", stage="reply").stages == {("smtp", "reply"), ("http", "reply")}


def test_whom_to_refuse_may_be_written_in_the_plural() -> None:
    rule = one(fault="refuse_recipients", recipients="*@full.example")

    assert rule.who == Who(recipient=Pattern("*@full.example"))
    assert rule.fault == RefuseRecipients()


def test_every_parameter_of_every_fault_can_be_written() -> None:
    """The keys come from the faults' own fields; each of them has a reader, and no reader is idle."""
    fields = {field.name for kind in FAULTS.values() for field in dataclasses.fields(kind)}

    assert fields == set(PARAMETERS)
    assert not fields & set(RULE_KEYS)


@pytest.mark.parametrize("wire", STAGES)
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_can_be_written_at_exactly_its_stages(name: str, wire: str) -> None:
    for stage in STAGES[wire]:
        data = {"fault": name, "stage": stage, "dialect": wire} | NEEDED.get(name, {})
        if wire not in FAULTS[name].stages:
            assert "does not exist on" in about(**data)
        elif stage in FAULTS[name].stages[wire]:
            assert one(**data).stages == {(wire, stage)}
        else:
            assert "cannot strike at stage" in about(**data)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"fault": "hangup"}, '"fault" is "hangup", which is no fault; did you mean "hang_up"?'),
        ({"fault": "accept_than_hang"}, 'did you mean "accept_then_hang"?'),
        ({"fault": 7}, '"fault" is 7, which is no fault; known are accept_then_421,'),
        ({"fault": "zzz"}, "known are accept_then_421, "),
        ({"stage": "mesage"}, '"stage" is "mesage", which is no stage; did you mean "message"?'),
        ({"stage": 3}, '"stage" is 3; it must be a text'),
        ({"stage": "accept", "dialect": "smtp"}, 'the stage "accept" does not exist on SMTP; its stages are connect,'),
        ({"stage": "rcpt", "dialect": "native"}, 'the stage "rcpt" does not exist on HTTP; its stages are tls, connect,'),
        ({"fault": "reply", "code": 500, "stage": "body"}, 'the fault "reply" cannot strike at stage "body"; it can at'),
        ({"fault": "accept_then_drop", "stage": "connect"}, "it can at message, accept"),
        ({"fault": "slow", "delay_s": 1, "stage": "idle"}, 'the fault "slow" cannot strike at stage "idle"'),
        ({"fault": "accept_then_hang", "stage": "rcpt"}, 'strikes at stage "reply", not at "rcpt"'),
        ({"stage": "webhook"}, 'the stage "webhook" does not exist on SMTP and HTTP; its stages are connect,'),
        ({"event": "email.bounced"}, '"event" cannot be known at stage "accept" and "message"; events are told at stage webhook only'),
        ({"fault": "webhook_lose", "dialect": "smtp"}, "does not exist on SMTP; it is one of WEBHOOK"),
        ({"fault": "webhook_bad_signature", "forgery": "ink"}, '"forgery" is "ink"; known are garbage, missing, tampered, wrong_secret'),
        ({"fault": "webhook_malformed", "damage": "nul"}, 'did you mean "null"?'),
        ({"fault": "webhook_conflict", "says": "bounced"}, 'did you mean "email.bounced"?'),
        ({"fault": "webhook_duplicate", "copies": 1}, '"copies" is 1; it must be a whole number of 2 or more'),
        ({"frist": 2}, 'there is no key "frist"; did you mean "first"?'),
        ({"qqq": 2}, 'there is no key "qqq"; known are account, '),
        ({"code": 451}, 'the fault "hang" has no key "code"; it belongs to "reply"'),
        ({"recipients": "a"}, 'there is no key "recipients"; did you mean "recipient"?'),
        ({"fault": "reply"}, 'the fault "reply" needs the key "code"'),
        ({"fault": "slow"}, 'the fault "slow" needs the key "delay_s"'),
        ({"fault": "reply", "code": 199}, '"code" is 199; it must be a reply code from 200 to 599'),
        ({"fault": "reply", "code": 600}, "from 200 to 599"),
        ({"fault": "reply", "code": "451"}, '"code" is "451"; it must be a reply code'),
        ({"fault": "reply", "code": True}, '"code" is true; it must be a reply code'),
        ({"fault": "reply", "code": 451, "enhanced": "4.3"}, '"enhanced" is "4.3"; it must be an enhanced code like "4.3.0"'),
        ({"fault": "reply", "code": 451, "enhanced": "3.1.1"}, "(class 2, 4 or 5)"),
        ({"fault": "reply", "code": 451, "text": 5}, '"text" is 5; it must be a text'),
        ({"fault": "reply", "code": 503, "retry_after": "soon"}, '"retry_after" is "soon"; it must be a number of seconds,'),
        ({"fault": "reply", "code": 503, "retry_after": -1}, '"retry_after" is -1; it must be'),
        ({"fault": "reply", "code": 503, "retry_after": True}, '"retry_after" is true; it must be'),
        ({"fault": "reply", "code": 503, "retry_after": "date:x"}, '"retry_after" is "date:x"; it must be'),
        ({"fault": "reply", "code": 503, "retry_after": float("inf")}, '"retry_after" is Infinity; it must be'),
        ({"delay_s": -1}, '"delay_s" is -1; it must be a number of 0 or more'),
        ({"delay_s": "2"}, '"delay_s" is "2"; it must be a number'),
        ({"delay_s": float("nan")}, '"delay_s" is NaN; it must be a number'),
        ({"probability": 1.5}, '"probability" is 1.5; it must be a number from 0 to 1'),
        ({"probability": -0.1}, "it must be a number from 0 to 1"),
        ({"probability": float("nan")}, "it must be a number from 0 to 1"),
        ({"first": -1}, '"first" is -1; it must be a whole number of 0 or more'),
        ({"first": 1.5}, '"first" is 1.5; it must be a whole number'),
        ({"first": True}, '"first" is true; it must be a whole number'),
        ({"every": 0}, '"every" is 0; it must be a whole number of 1 or more'),
        ({"from_s": -1}, '"from_s" is -1; it must be a number of 0 or more'),
        ({"times": "twice"}, '"times" is "twice"; it must be a whole number'),
        ({"sticks": "mial"}, '"sticks" is "mial"; did you mean "mail"?'),
        ({"sticks": 0}, '"sticks" is 0; it must be "once", a whole number of times,'),
        ({"sticks": True}, '"sticks" is true; it must be "once"'),
        ({"sticks": [1]}, '"sticks" is [1]; it must be "once"'),
        ({"sticks": 2, "times": 2}, 'both "times" and "sticks" say how often'),
        ({"per": "mails"}, '"per" is "mails"; did you mean "mail"?'),
        ({"per": 1}, '"per" is 1; known are connection, mail, plan, recipient'),
        ({"dialect": "smpt"}, '"dialect" is "smpt"; did you mean "smtp"?'),
        ({"sender": "/[/"}, '"sender" is "/[/", which is no regular expression'),
        ({"recipient": ""}, '"recipient" is empty; give an exact text'),
        ({"recipient": 5}, '"recipient" is 5; it must be a text'),
        ({"header": "X-A"}, '"header" is "X-A"; it must be a table of header names and patterns'),
        ({"header": {}}, '"header" is {}; it must be a table'),
        ({"header": {"X A": "b"}}, '"header" names "X A", which is no header name'),
        ({"header": {"X-A": 1}}, '"header.X-A" is 1; it must be a text'),
        ({"stage": []}, '"stage" is an empty list; name a stage, or leave it out'),
        ({"stage": ["accept", "tea"]}, '"stage" is "tea", which is no stage'),
        ({"stage": ["accept", 7]}, '"stage" is 7; it must be a text'),
        ({"stage": ["idle", "mail"], "fault": "reply", "code": 451}, 'cannot strike at stage "idle"'),
        ({"name": ""}, '"name" is ""; give a short printable name'),
        ({"name": 5}, '"name" is 5; it must be a text'),
        ({"recipient": "a", "stage": "connect"}, '"recipient" cannot be known at stage "connect"; it is at rcpt,'),
        ({"recipient": "a", "stage": "mail"}, '"recipient" cannot be known at stage "mail"; it is at rcpt,'),
        ({"recipient": "a", "stage": "request"}, "it is at validate, accept, reply, body (HTTP)"),
        ({"sender": "a", "stage": "ehlo"}, '"sender" cannot be known at stage "ehlo"; it is at mail,'),
        ({"header": {"X-A": "b"}, "stage": "rcpt"}, '"header" cannot be known at stage "rcpt"; it is at body, message, reply (SMTP)'),
        ({"key": "k", "stage": "connect"}, '"key" cannot be known at stage "connect"; it is at upload, request,'),
        ({"key": "k", "dialect": "smtp"}, "SMTP has no idempotency keys"),
        ({"per": "mail", "stage": "mail"}, '"per" = "mail" cannot be known at stage "mail"'),
        ({"sticks": "mail", "stage": "connect"}, '"sticks" = "mail" cannot be known at stage "connect"'),
        ({"account": "a", "stage": "connect"}, '"account" cannot be known at stage "connect"; it is at auth,'),
    ],
    ids=str,
)  # fmt: skip
def test_a_mistake_is_named_with_its_cure(keys: dict[str, Any], says: str) -> None:
    said = about(**keys)

    assert said.startswith("plan.toml: rule 1")
    assert says in said


def test_the_rule_is_named_by_number_and_name() -> None:
    said = sentence({"rule": [{"fault": "hang"}, {"name": "outage", "fault": "hang", "first": "x"}]})

    assert said == 'plan.toml: rule 2 ("outage"): "first" is "x"; it must be a whole number of 0 or more'


def test_appended_rules_are_numbered_on() -> None:
    assert [rule.name for rule in read_rules([{"fault": "hang"}], "POST plan", start=4)] == ["rule 4"]


@pytest.mark.parametrize(
    ("rules", "counted_from", "says"),
    [
        ([{"fault": "hung"}], None, 'POST plan: "fault" is "hung"'),
        (["hung"], None, 'POST plan: "hung" (word 1 of "hung") is nothing'),
        ([{"name": "a", "fault": "hang", "first": "x"}], None, 'POST plan: rule ("a"): "first" is "x"'),
        (["outage", "hang", "hung"], 1, 'POST plan: rule 3: "hung" (word 1'),
        (["outage", {"name": "a", "fault": "hang", "first": "x"}], 1, 'POST plan: rule 2 ("a"): "first"'),
    ],
)
def test_a_mistake_is_counted_as_its_writer_counts(
    rules: list[object], counted_from: int | None, says: str
) -> None:
    """Not by where it would stand in a plan, nor as two where a line is a rule on each wire."""
    with pytest.raises(PlanError) as wrong:
        read_rules(rules, "POST plan", start=4, counted_from=counted_from)

    assert str(wrong.value).startswith(says)


def test_lines_and_tables_of_one_file_are_counted_together() -> None:
    said = sentence({"rules": ["outage", "hang"], "rule": [{"fault": "hung"}]})

    assert said.startswith('plan.toml: rule 3: "fault" is "hung"')


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None)
@given(
    st.dictionaries(st.sampled_from([*RULE_KEYS, *PARAMETERS]), JSON_VALUES, max_size=4),
    st.sampled_from([*FAULTS, *SPELLINGS]),
)
def test_whatever_is_written_is_read_or_named(keys: dict[str, Any], fault: str) -> None:
    """No plan leads to any other exception."""
    try:
        (rule,) = read_plan({"rule": [keys | {"fault": fault}]}, "plan.toml").plan.rules
    except PlanError:
        return
    assert rule.stages
    assert explain(rule)
