"""The table `[magic]` is read as it is meant."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.config.magic import read_magic
from simulator.config.place import Place
from simulator.provider.magic import Magic
from tests.simulator.config.plans import sentence


def test_what_is_not_given_stays_as_usual() -> None:
    assert read_magic({}, Place("p")) == Magic(on=True, domain="magic.test")
    assert read_magic({"on": False, "domain": "Sandbox.Example"}, Place("p")) == Magic(
        on=False, domain="sandbox.example"
    )


@pytest.mark.parametrize(
    ("magic", "says"),
    [
        ({"on": 1}, '[magic]: "on" is 1; it must be true or false'),
        ({"off": True}, 'there is no key "off"; known are domain, on'),
        ({"domain": "a@b"}, '"domain" is "a@b"; it must be a domain, like "magic.test"'),
        ({"domain": ""}, "it must be a domain"),
        ({"domain": 5}, "it must be a text"),
        (True, "[magic]: this must be a table of settings, not true"),
    ],
    ids=str,
)
def test_a_mistake_is_named_with_its_cure(magic: Any, says: str) -> None:
    assert says in sentence({"magic": magic})
