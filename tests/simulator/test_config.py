"""Plans are read as they are meant, and every mistake is one sentence that names the place and the cure."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from pathlib import Path
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
    plan_as_json,
    read_plan,
    read_plan_file,
    read_rules,
    rule_as_json,
    warnings,
)
from simulator.provider.answer import RetryAfter, RetryAfterKind
from simulator.provider.faults import (
    AFTER_BOOKING,
    FAULTS,
    NATURAL_STAGE,
    SPELLINGS,
    HangThere,
    HangUpOnThem,
    RefuseRecipients,
    ReplyWith,
    SlowDown,
)
from simulator.provider.idempotency import KeyRules
from simulator.provider.limits import Limits
from simulator.provider.plan import Pattern, Per, Rule, When, Who
from simulator.provider.provider import Provider, Setup
from tests.simulator.provider.mails import NOW

#: What a fault cannot be written without.
NEEDED: dict[str, dict[str, Any]] = {"reply": {"code": 451}, "slow": {"delay_s": 1}}


def one(**keys: Any) -> Rule:
    """Read a plan of one rule; `hang` if no fault is named."""
    (rule,) = read_plan({"rule": [{"fault": "hang"} | keys]}, "plan.toml").plan.rules
    return rule


def sentence(data: object) -> str:
    """Return what is said about a broken plan."""
    with pytest.raises(PlanError) as caught:
        read_plan(data, "plan.toml")  # type: ignore[arg-type]
    said = str(caught.value)
    assert "\n" not in said
    return said


def about(**keys: Any) -> str:
    return sentence({"rule": [{"fault": "hang"} | keys]})


# --- what is read -----------------------------------------------------------------------------------


def test_an_empty_plan_is_a_provider_that_behaves() -> None:
    assert read_plan({}, "plan.toml") == Setup()


def test_a_whole_plan_is_read(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(
        """
        seed = 7
        [[rule]]
        name = "first answers get lost"
        fault = "accept_then_hang_up"
        dialect = "smtp"
        sender = "shop@*"
        recipient = "*@slow.example"
        header = { "X-Kind" = "bulk" }
        skip = 1
        first = 2
        per = "recipient"
        [[rule]]
        fault = "reply"
        stage = "accept"
        code = 429
        text = "not so fast"
        retry_after = "date:30"
        key = "/^order-/"
        sticks = 3
        [idempotency]
        honoured = true
        required = true
        window_s = 60
        lookup_lag_s = 1.5
        [limits]
        max_size_bytes = 1000
        max_recipients = 5
        rate_per_s = 2.5
        burst = 4
        """,
        encoding="utf-8",
    )
    setup = read_plan_file(path)

    assert setup.plan.seed == 7
    assert setup.plan.rules == (
        Rule(
            name="first answers get lost",
            fault=HangUpOnThem(),
            stages=frozenset({("smtp", "reply")}),
            who=Who(
                sender=Pattern("shop@*"),
                recipient=Pattern("*@slow.example"),
                headers=(("X-Kind", Pattern("bulk")),),
            ),
            when=When(skip=1, first=2),
            per=Per.RECIPIENT,
        ),
        Rule(
            name="rule 2",
            fault=ReplyWith(
                code=429, text="not so fast", retry_after=RetryAfter(kind=RetryAfterKind.DATE, seconds=30)
            ),
            stages=frozenset({("http", "accept")}),
            who=Who(key=Pattern("/^order-/")),
            when=When(times=3),
        ),
    )
    assert setup.keys == KeyRules(required=True, window_s=60, lookup_lag_s=1.5)
    assert setup.limits == Limits(max_size_bytes=1000, max_recipients=5, rate_per_s=2.5, burst=4)


def test_json_has_the_same_keys(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"rules": [{"fault": "hang"}], "limits": {"max_recipients": None}}))

    setup = read_plan_file(path)
    assert [rule.fault for rule in setup.plan.rules] == [HangThere()]
    assert setup.limits.max_recipients is None


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_without_a_stage_strikes_at_its_natural_one_on_both_wires(name: str) -> None:
    rule = one(fault=name, **NEEDED.get(name, {}))

    assert rule.stages == {(wire, NATURAL_STAGE[wire][name]) for wire in ("smtp", "http")}


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_spelling_is_its_fault_after_booking(name: str) -> None:
    rule = one(fault=name)

    assert rule.stages == {("smtp", "reply"), ("http", "reply")}
    assert rule.stages <= AFTER_BOOKING
    assert rule.fault.name == SPELLINGS[name].fault


def test_accept_then_reply_says_500_unless_told_otherwise() -> None:
    assert one(fault="accept_then_reply").fault == ReplyWith(code=500)
    assert one(fault="accept_then_reply", code=451).fault == ReplyWith(code=451)


def test_a_spelling_may_name_the_stage_of_the_acceptance() -> None:
    """`accept_then_hang_up` at `message` is how people say it; it still comes after booking."""
    assert one(fault="accept_then_hang_up", stage="message").stages == {("smtp", "reply")}
    assert one(fault="accept_then_hang_up", stage="accept").stages == {("http", "reply")}
    assert one(fault="accept_then_hang_up", stage="reply").stages == {("smtp", "reply"), ("http", "reply")}


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


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (30, RetryAfter(kind=RetryAfterKind.SECONDS, seconds=30)),
        (0.5, RetryAfter(kind=RetryAfterKind.SECONDS, seconds=0.5)),
        ("date:30", RetryAfter(kind=RetryAfterKind.DATE, seconds=30)),
        ("date:1.5", RetryAfter(kind=RetryAfterKind.DATE, seconds=1.5)),
        ("zero", RetryAfter(kind=RetryAfterKind.ZERO)),
        ("garbage", RetryAfter(kind=RetryAfterKind.GARBAGE)),
    ],
)
def test_retry_after_has_four_forms(written: object, read: RetryAfter) -> None:
    assert one(fault="reply", code=503, retry_after=written).fault == ReplyWith(code=503, retry_after=read)


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
        if stage in FAULTS[name].stages:
            assert one(**data).stages == {(wire, stage)}
        else:
            assert "cannot strike at stage" in about(**data)


# --- what is wrong ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"fault": "hangup"}, '"fault" is "hangup", which is no fault; did you mean "hang_up"?'),
        ({"fault": "accept_than_hang"}, 'did you mean "accept_then_hang"?'),
        ({"fault": 7}, '"fault" is 7, which is no fault; known are accept_then_drop,'),
        ({"fault": "zzz"}, "known are accept_then_drop, "),
        ({"stage": "mesage"}, '"stage" is "mesage", which is no stage; did you mean "message"?'),
        ({"stage": 3}, '"stage" is 3; it must be a text'),
        ({"stage": "accept", "dialect": "smtp"}, 'the stage "accept" does not exist on SMTP; its stages are connect,'),
        ({"stage": "rcpt", "dialect": "native"}, 'the stage "rcpt" does not exist on HTTP; its stages are connect,'),
        ({"fault": "reply", "code": 500, "stage": "body"}, 'the fault "reply" cannot strike at stage "body"; it can at'),
        ({"fault": "accept_then_drop", "stage": "connect"}, "it can at message, accept"),
        ({"fault": "slow", "delay_s": 1, "stage": "idle"}, 'the fault "slow" cannot strike at stage "idle"'),
        ({"fault": "accept_then_hang", "stage": "rcpt"}, 'strikes at stage "reply", not at "rcpt"'),
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
        ({"name": ""}, '"name" is ""; give a short printable name'),
        ({"name": 5}, '"name" is 5; it must be a text'),
        ({"recipient": "a", "stage": "connect"}, '"recipient" cannot be known at stage "connect"; it is at rcpt,'),
        ({"recipient": "a", "stage": "mail"}, '"recipient" cannot be known at stage "mail"; it is at rcpt,'),
        ({"recipient": "a", "stage": "request"}, "it is at validate, accept, reply, body (HTTP)"),
        ({"sender": "a", "stage": "ehlo"}, '"sender" cannot be known at stage "ehlo"; it is at mail,'),
        ({"header": {"X-A": "b"}, "stage": "rcpt"}, '"header" cannot be known at stage "rcpt"; it is at body, message, reply (SMTP)'),
        ({"key": "k", "stage": "connect"}, '"key" cannot be known at stage "connect"; it is at request,'),
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
    with pytest.raises(PlanError, match=r"POST plan: rule 4: "):
        read_rules([{"fault": "hung"}], "POST plan", start=4)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ([], "a plan is an object with the keys seed, rule, idempotency, limits, not []"),
        ({"rule": [], "rules": []}, 'both "rule" and "rules" are given'),
        ({"ruel": []}, 'there is no key "ruel"; did you mean "rule"?'),
        ({"rule": {"fault": "hang"}}, "they must be a list ([[rule]] in TOML)"),
        ({"rule": "hang"}, "they must be a list"),
        ({"rule": ["hang"]}, 'rule 1: a rule is a table of keys, not "hang"'),
        ({"rule": [{}]}, 'rule 1: the key "fault" is missing'),
        ({"seed": "7"}, '"seed" is "7"; it must be a whole number'),
        ({"seed": True}, '"seed" is true; it must be a whole number'),
        ({"idempotency": 1}, "[idempotency]: this must be a table of settings, not 1"),
        ({"idempotency": {"honored": True}}, '[idempotency]: there is no key "honored"; did you mean "honoured"?'),
        ({"idempotency": {"honoured": 1}}, '"honoured" is 1; it must be true or false'),
        ({"idempotency": {"window_s": -1}}, '"window_s" is -1; it must be a number of 0 or more'),
        ({"idempotency": {"honoured": False, "required": True}}, "a key that is asked for must be honoured"),
        ({"limits": []}, "[limits]: this must be a table of settings"),
        ({"limits": {"max_size": 1}}, '[limits]: there is no key "max_size"; did you mean "max_size_bytes"?'),
        ({"limits": {"rate_per_s": 0}}, '"rate_per_s" is 0; it must be a number above 0'),
        ({"limits": {"burst": 0}}, '"burst" is 0; it must be a whole number of 1 or more'),
        ({"limits": {"burst": None}}, '"burst" is null; it must be a whole number'),
    ],
    ids=str,
)  # fmt: skip
def test_a_mistake_outside_the_rules_is_named(data: object, says: str) -> None:
    assert says in sentence(data)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        (
            "plan.toml",
            b'seed = 1\nfault = = "x"\n',
            r"plan\.toml, line 2: this is not valid TOML: Invalid value",
        ),
        ("plan.toml", b"seed = 1\n[[rule]\n", r"plan\.toml, line 2: this is not valid TOML"),
        ("plan.toml", b'a = "never closed', r"plan\.toml, line 1: this is not valid TOML"),
        (
            "plan.toml",
            b"seed = 1\n# \xff\n",
            r"plan\.toml, line 2: this is not UTF-8; save the plan in UTF-8",
        ),
        ("plan.toml", b"a = " + b"[" * 5000, r"plan\.toml.*: this is not valid TOML"),
        ("plan.json", b"{\n1}", r"plan\.json, line 2: this is not valid JSON: Expecting property name"),
        ("plan.json", b"[" * 100_000, r"plan\.json: this is not valid JSON"),
        ("plan.json", b"[]", r"plan\.json: a plan is an object"),
    ],
)
def test_a_broken_file_is_named_with_its_line(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)

    with pytest.raises(PlanError, match=says) as caught:
        read_plan_file(path)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="there is no such file"):
        read_plan_file(tmp_path / "none.toml")
    with pytest.raises(PlanError, match="this is a directory"):
        read_plan_file(tmp_path)
    with pytest.raises(PlanError, match="the plan cannot be read"):
        read_plan_file("a\0b")


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


# --- what is shown ----------------------------------------------------------------------------------


def test_a_plan_is_shown_as_it_was_written_with_its_counts() -> None:
    written = {"name": "lost", "fault": "accept_then_hang_up", "stage": "message", "sticks": "once"}
    setup = read_plan({"seed": 3, "rule": [written], "limits": {"burst": 2}}, "plan.toml")
    account = Provider(setup=setup, now=NOW).account("default", NOW)

    assert plan_as_json(account) == {
        "seed": 3,
        "rules": [written | {"seen": 0, "fired": 0}],
        "idempotency": dataclasses.asdict(KeyRules()),
        "limits": dataclasses.asdict(Limits(burst=2)),
    }


WRITTEN: list[dict[str, Any]] = [
    {"fault": "hang", "stage": "rcpt", "recipient": "a@*"},
    {"fault": "hang", "delay_s": 2.5, "dialect": "smtp"},
    {"fault": "accept_then_reply", "code": 503, "retry_after": "date:1.5"},
    {"fault": "accept_then_hold", "dialect": "native", "key": "k"},
    {"fault": "reply", "code": 451, "enhanced": "4.3.0", "text": "no", "retry_after": 3, "body": "x"},
    {"fault": "reply", "code": 429, "retry_after": "zero", "stage": "accept"},
    {"fault": "refuse_recipients", "code": 450, "recipients": "b@*", "account": "*"},
    {"fault": "slow", "delay_s": 1, "skip": 1, "first": 9, "every": 2, "probability": 0.5},
    {"fault": "reset", "from_s": 1, "until_s": 2, "times": 3, "per": "mail", "sender": "", "sticks": "mail"},
    {"fault": "accept_then_drop", "header": {"X-Kind": "bulk"}},
    {"fault": "garble", "code": 202, "stage": "connect"},
]


@pytest.mark.parametrize("written", WRITTEN, ids=str)
def test_a_rule_made_in_code_is_shown_as_somebody_would_write_it(written: dict[str, Any]) -> None:
    """Read back, it is the same rule."""
    rule = dataclasses.replace(one(**written), written=None)
    shown = rule_as_json(rule)

    assert json.loads(json.dumps(shown)) == shown
    assert one(**shown) == rule


@pytest.mark.parametrize("written", WRITTEN, ids=str)
def test_a_rule_is_explained_in_one_sentence(written: dict[str, Any]) -> None:
    said = explain(one(**written))

    assert said.startswith("rule 1: at ")
    assert said.endswith(".")
    assert "\n" not in said


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (
            {"fault": "accept_then_hang_up", "dialect": "smtp", "first": 2},
            'r: at SMTP "reply" (already booked), on the first 2 occasions, hang up.',
        ),
        (
            {"fault": "reply", "code": 451, "stage": "rcpt", "recipient": "*@x", "every": 3},
            'r: at SMTP "rcpt", for recipient *@x, on every 3rd occasion, answer 451.',
        ),
        (
            {"fault": "slow", "delay_s": 2, "stage": "validate", "sticks": "once"},
            'r: at HTTP "validate", once, wait 2 s, then go on.',
        ),
        (
            {"fault": "accept_then_drop"},
            'r: at SMTP "message" and HTTP "accept", every time, take the mail, say yes and never deliver it.',
        ),
    ],
)
def test_an_explanation_says_where_whom_when_and_what(keys: dict[str, Any], said: str) -> None:
    assert explain(one(name="r", **keys)) == said


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
    ],
    ids=str,
)  # fmt: skip
def test_what_is_allowed_but_hardly_meant_is_a_warning(rules: list[dict[str, Any]], says: str) -> None:
    found = warnings(read_plan({"rule": rules}, "plan.toml"))

    assert any(says in each for each in found), found


@pytest.mark.parametrize(
    "rules",
    [
        [{"fault": "slow", "delay_s": 1}, {"fault": "hang"}],
        [{"fault": "hang", "first": 1}, {"fault": "reset"}],
        [{"fault": "hang", "recipient": "x"}, {"fault": "reset"}],
        [{"fault": "hang", "stage": "rcpt"}, {"fault": "reset"}],
        [{"fault": "refuse_recipients"}, {"fault": "hang", "stage": "validate"}],
        [{"fault": "hang", "dialect": "smtp"}, {"fault": "reset"}],
        [{"fault": "hang", "from_s": 1, "until_s": 2}],
        [{"fault": "reply", "code": 451, "enhanced": "4.3.0"}],
    ],
    ids=str,
)
def test_a_plan_that_makes_sense_has_no_warnings(rules: list[dict[str, Any]]) -> None:
    assert warnings(read_plan({"rule": rules}, "plan.toml")) == []


def test_the_plan_of_the_documentation_is_a_good_one() -> None:
    """The examples in docs/faults.md are read without an error or a warning."""
    page = Path(__file__).resolve().parents[2] / "docs" / "faults.md"
    blocks = [part.split("```")[0] for part in page.read_text(encoding="utf-8").split("```toml\n")[1:]]

    assert blocks
    for block in blocks:
        setup = read_plan(tomllib.loads(block), "docs/faults.md")
        assert warnings(setup) == []


def test_a_slow_rule_has_its_wait() -> None:
    assert one(fault="slow", delay_s=2).fault == SlowDown(delay_s=2.0)


@pytest.mark.parametrize("value", [10**400, -(10**400), float("inf"), float("nan"), True, "2"])
def test_a_number_that_is_none_is_one_sentence(value: object) -> None:
    """Whatever cannot be waited for is refused by its key, also a whole number that no float can hold."""
    with pytest.raises(PlanError, match=r'"delay_s" is .*; it must be a number'):
        read_plan({"rule": [{"fault": "slow", "delay_s": value}]}, "test")
