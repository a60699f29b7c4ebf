"""The table `[smtp]` is read as it is meant, and every mistake is one sentence."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from simulator.config import read_plan
from simulator.config.smtp import FORMS, NULLABLE
from simulator.config.written import setup_as_json
from simulator.provider.smtp import SmtpRules
from tests.simulator.config.plans import sentence

GIVEN: dict[str, Any] = {
    "banner": "mx.example says hello",
    "hide": ["dsn", "SIZE"],
    "offer": ["XCLIENT NAME ADDR"],
    "size": 0,
    "ehlo": False,
    "auth": ["login"],
    "require_auth": True,
    "require_tls": True,
    "max_messages": 100,
    "max_line_bytes": 998,
    "max_local_part_bytes": 100,
    "idle_timeout_s": 10,
    "message_timeout_s": 20,
}


def test_every_setting_can_be_written() -> None:
    assert set(FORMS) == set(GIVEN) == {field.name for field in dataclasses.fields(SmtpRules)}
    assert {
        "banner",
        "size",
        "max_messages",
        "max_line_bytes",
        "idle_timeout_s",
        "message_timeout_s",
    } == NULLABLE


def test_settings_are_read_in_one_order_and_shown_as_they_can_be_read_again() -> None:
    setup = read_plan({"smtp": GIVEN}, "plan.toml")

    assert setup.smtp.hide == ("SIZE", "DSN")
    assert setup.smtp.auth == ("LOGIN",)
    assert setup.smtp.idle_timeout_s == 10.0
    assert read_plan(setup_as_json(setup), "again").smtp == setup.smtp
    assert read_plan(setup_as_json(read_plan({}, "none")), "again").smtp == SmtpRules()


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ([], "this must be a table of settings, not []"),
        ({"hid": []}, 'there is no key "hid"; did you mean "hide"?'),
        ({"hide": "SIZE"}, '"hide" is "SIZE"; it must be a list of EHLO keywords'),
        ({"hide": ["SIZES"]}, '"hide" names "SIZES"; did you mean "SIZE"?'),
        ({"hide": [1]}, '"hide" is 1; it must be a text'),
        ({"auth": ["CRAM-MD5"]}, '"auth" names "CRAM-MD5"; known are LOGIN, PLAIN'),
        ({"offer": ["X Y\r\nZ"]}, "a line of EHLO is a keyword and its parameters"),
        ({"banner": "two\nlines"}, "it must be one printable line"),
        ({"size": -1}, '"size" is -1; it must be a whole number of 0 or more'),
        ({"max_messages": 0}, '"max_messages" is 0; it must be a whole number of 1 or more'),
        ({"require_auth": 1}, '"require_auth" is 1; it must be true or false'),
        ({"require_auth": None}, '"require_auth" is null; it must be true or false'),
        ({"idle_timeout_s": 0}, '"idle_timeout_s" is 0; it must be a number above 0'),
    ],
    ids=str,
)
def test_every_mistake_is_one_sentence(table: object, says: str) -> None:
    said = sentence({"smtp": table})

    assert said.startswith("plan.toml: [smtp]: ")
    assert says in said
