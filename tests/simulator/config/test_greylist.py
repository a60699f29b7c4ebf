"""The table `[greylist]` is read as it is meant, and every mistake is one sentence."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from simulator.config import read_plan
from simulator.config.greylist import FORMS
from simulator.config.written import setup_as_json
from simulator.provider.greylist import Greylist
from simulator.provider.rule import Pattern
from tests.simulator.config.plans import sentence

GIVEN: dict[str, Any] = {
    "delay_s": 10,
    "within_s": 100,
    "remember_s": 1_000,
    "whole_network": False,
    "whitelist": ["*@partner.example", "192.0.2.0/24"],
    "code": 450,
    "enhanced": "4.2.0",
    "text": "later",
    "tells": False,
}


def test_every_setting_can_be_written_and_is_shown_as_it_can_be_read_again() -> None:
    assert set(FORMS) == set(GIVEN) == {field.name for field in dataclasses.fields(Greylist)}
    setup = read_plan({"greylist": GIVEN}, "plan.toml")

    assert setup.greylist == Greylist(
        **GIVEN | {"whitelist": (Pattern("*@partner.example"), Pattern("192.0.2.0/24"))}
    )
    assert read_plan(setup_as_json(setup), "again").greylist == setup.greylist


def test_without_the_table_nobody_is_put_off() -> None:
    assert read_plan({}, "plan.toml").greylist is None
    assert read_plan({"greylist": None}, "plan.json").greylist is None
    assert read_plan({"greylist": {}}, "plan.toml").greylist == Greylist()


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ([], "this must be a table of settings, not []"),
        ({"delay": 3}, 'there is no key "delay"; did you mean "delay_s"?'),
        ({"delay_s": -1}, '"delay_s" is -1; it must be a number of 0 or more'),
        ({"delay_s": 9, "within_s": 9}, "nobody could come back in time"),
        ({"whitelist": "a@x.example"}, "it must be a list like"),
        ({"whitelist": ["/[/"]}, "which is no regular expression"),
        ({"code": 550}, '"code" is 550; who is to come back is told so by a code from 400 to 499'),
        ({"enhanced": "4.7"}, "it must be an enhanced code"),
        ({"tells": "yes"}, '"tells" is "yes"; it must be true or false'),
    ],
    ids=str,
)
def test_every_mistake_is_one_sentence(table: object, says: str) -> None:
    said = sentence({"greylist": table})

    assert said.startswith("plan.toml: [greylist]: ")
    assert says in said
