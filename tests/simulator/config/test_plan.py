"""Whole plans are read as they are meant; what is wrong outside the rules is one sentence."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from simulator.config import (
    PLAN_KEYS,
    PlanError,
    read_plan,
    read_plan_file,
    warnings,
)
from simulator.provider.answer import RetryAfter, RetryAfterKind
from simulator.provider.faults import (
    HangThere,
    HangUpOnThem,
    ReplyWith,
)
from simulator.provider.idempotency import KeyRules
from simulator.provider.limits import Limits
from simulator.provider.provider import Setup
from simulator.provider.rule import Pattern, Per, Rule, When, Who
from tests.simulator.config.plans import sentence


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


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ([], f"a plan is an object with the keys {', '.join(PLAN_KEYS)}, not []"),
        ({"plan": "greylst"}, 'there is no plan "greylst" that comes along; did you mean "greylist"?'),
        ({"plan": 5}, '"plan" is 5; it must be the name of a plan that comes along, or a list'),
        ({"ruel": []}, 'there is no key "ruel"; did you mean "rule"?'),
        ({"rule": {"fault": "hang"}}, "they must be a list ([[rule]] in TOML)"),
        ({"rule": "hang"}, "they must be a list"),
        ({"rule": [7]}, 'rule 1: a rule is a line or a table of keys, not 7'),
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
        read_plan_file("./a\0b")


def test_the_plan_of_the_documentation_is_a_good_one() -> None:
    """The examples in docs/faults.md are read without an error or a warning."""
    page = Path(__file__).resolve().parents[3] / "docs" / "faults.md"
    blocks = [part.split("```")[0] for part in page.read_text(encoding="utf-8").split("```toml\n")[1:]]

    assert blocks
    for block in blocks:
        setup = read_plan(tomllib.loads(block), "docs/faults.md")
        assert warnings(setup) == []
