"""The tables `[limits]` and `[[limit]]` are read as they are meant, and every mistake is one sentence."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from simulator.config.limits import LIMIT_KEYS, limit_as_json, read_limit, read_limits
from simulator.config.place import Place
from simulator.provider.limits import Counts, Limit, Limits, Scope, Told
from simulator.provider.rule import Pattern
from tests.simulator.config.plans import sentence


def test_what_is_not_given_stays_as_usual_and_null_is_no_limit() -> None:
    assert read_limits({}, Place("p")) == Limits()
    assert read_limits({"max_recipients": None, "burst": 3, "per_day": 7}, Place("p")) == Limits(
        max_recipients=None, burst=3, per_day=7
    )


WHOLE: dict[str, Any] = {
    "name": "l",
    "per": "recipient_domain",
    "only": "*.org",
    "rate_per_s": 0.5,
    "burst": 2,
    "per_minute": 3,
    "per_hour": 4,
    "per_day": 5,
    "smtp": 421,
    "enhanced": "4.7.28",
    "http": 503,
    "text": "slow down",
    "retry_after": "date",
}


def test_a_whole_limit_is_read_and_written_back() -> None:
    (limit,) = read_limit([WHOLE], Place("p"))

    assert limit == Limit(
        name="l",
        per=Scope.RECIPIENT_DOMAIN,
        only=Pattern("*.org"),
        rate_per_s=0.5,
        burst=2,
        per_minute=3,
        per_hour=4,
        per_day=5,
        smtp=421,
        enhanced="4.7.28",
        http=503,
        text="slow down",
        retry_after=Told.DATE,
    )
    assert json.loads(json.dumps(limit_as_json(limit))) == WHOLE


@pytest.mark.parametrize(
    "limit",
    [
        Limit(name="limit 1", per_day=3),
        Limit(name="x", per=Scope.IP, connections=2),
        Limit(name="x", rate_per_s=1.0, counts=Counts.RECIPIENTS, retry_after=Told.NOTHING),
    ],
    ids=str,
)
def test_what_is_written_is_read_back_equal(limit: Limit) -> None:
    assert read_limit([limit_as_json(limit)], Place("p")) == (limit,)


def test_every_key_can_be_written() -> None:
    assert set(LIMIT_KEYS) == {field.name for field in dataclasses.fields(Limit)}


@pytest.mark.parametrize(
    ("limit", "says"),
    [
        ({}, "limit 1: it limits nothing; give one of rate_per_s, per_minute, per_hour, per_day, connections"),
        ({"per_day": 0}, '"per_day" is 0; it must be a whole number of 1 or more'),
        ({"rate": 1}, 'there is no key "rate"; did you mean'),
        ({"rate_per_s": 1, "per": "domain"}, '"per" is "domain"; did you mean "recipient_domain"?'),
        ({"rate_per_s": 1, "per": "recipient"}, 'did you mean "recipient_domain"?'),
        ({"connections": 1, "per": "sender"}, 'connections are counted per account or ip, not per "sender"'),
        ({"rate_per_s": 1, "only": "x"}, '"only" needs a "per": ip, sender or recipient_domain'),
        ({"rate_per_s": 1, "per": "recipient_domain", "counts": "mails"}, 'leave "counts" out'),
        ({"rate_per_s": 1, "counts": "people"}, '"counts" is "people"; known are mails, recipients'),
        ({"rate_per_s": 1, "smtp": 250}, '"smtp" is 250; it must be a reply code from 400 to 599'),
        ({"rate_per_s": 1, "http": 200}, '"http" is 200; it must be a status from 400 to 599'),
        ({"rate_per_s": 1, "smtp": 450, "enhanced": "5.7.1"}, "it says 450 and 5.7.1, which contradict each other"),
        ({"rate_per_s": 1, "retry_after": 5}, '"retry_after" is 5; known are date, nothing, seconds'),
        ({"rate_per_s": 1, "name": "größe"}, "give a short name in ASCII"),
        ({"rate_per_s": 1, "name": " "}, "give a short name in ASCII"),
        ("fast", 'limit 1: a limit is a table of keys, not "fast"'),
    ],
    ids=str,
)  # fmt: skip
def test_a_mistake_is_named_with_its_cure(limit: object, says: str) -> None:
    said = sentence({"limit": [limit]})

    assert said.startswith("plan.toml: limit 1: ")
    assert says in said


def test_limits_are_a_list() -> None:
    assert "it must be a list ([[limit]] in TOML)" in sentence({"limit": {"per_day": 1}})
