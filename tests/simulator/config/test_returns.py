"""The table `[returns]`: every setting can be written, every mistake is one sentence."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from simulator.config import read_plan
from simulator.config.place import Place
from simulator.config.returns import RETURN_KEYS, read_returns, returns_as_json
from simulator.provider.returns import ReturnRules
from tests.simulator.config.plans import sentence

WHOLE: dict[str, Any] = {
    "smtp": "127.0.0.1:2525",
    "of": ["smtp", "http"],
    "hostname": "mx.example.org",
    "delays": True,
    "complaints_to": "abuse@example.org",
    "timeout_s": 5,
    "schedule_s": [1, 2.5],
}


def test_every_setting_can_be_written_and_is_shown_as_it_was_written() -> None:
    rules = read_plan({"returns": WHOLE}, "plan").returns

    assert set(WHOLE) == set(RETURN_KEYS) == {field.name for field in dataclasses.fields(ReturnRules)}
    assert all(getattr(rules, field.name) != field.default for field in dataclasses.fields(rules))
    assert returns_as_json(rules) == WHOLE
    assert read_returns(returns_as_json(ReturnRules()), Place("x")) == ReturnRules()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ([], "this must be a table of settings"),
        ({"smtps": "x"}, 'there is no key "smtps"; did you mean "smtp"?'),
        ({"smtp": "127.0.0.1"}, 'it must be HOST:PORT, like "127.0.0.1:2525"'),
        ({"smtp": "127.0.0.1:99999"}, "it must be HOST:PORT"),
        ({"smtp": "smtp://127.0.0.1:25"}, "it must be HOST:PORT"),
        ({"smtp": "user@host:25"}, "it must be HOST:PORT"),
        ({"of": "smtp"}, "it must be a list of smtp and http"),
        ({"of": ["imap"]}, '"of" is "imap"; known are http, smtp'),
        ({"hostname": "a b"}, "it must be a host name"),
        ({"delays": 1}, '"delays" is 1; it must be true or false'),
        ({"complaints_to": "nobody"}, 'it must be an address, like "abuse@example.org"'),
        ({"complaints_to": "a@b\r\nRCPT TO:<c@d>"}, "it must be an address"),
        ({"schedule_s": ["soon"]}, '"schedule_s" is "soon"'),
    ],
)
def test_a_mistake_is_one_sentence(settings: Any, says: str) -> None:
    said = sentence({"returns": settings})

    assert says in said
    assert "[returns]" in said
