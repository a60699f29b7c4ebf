"""What goes wrong, in words: every fault and fate has some, and who misspells one hears what he may have meant."""

from __future__ import annotations

import pytest

from simulator.config.whats import SMTP_CODES, SPECIAL, WHATS
from simulator.dialects.smtp import USUAL
from simulator.provider.fate import Fate
from simulator.provider.faults import FAULTS, SPELLINGS
from tests.simulator.config.plans import sentence


def test_the_name_of_every_fault_and_fate_is_a_word() -> None:
    words = {*WHATS, *SPECIAL}

    assert {name.replace("_", " ") for name in (*FAULTS, *SPELLINGS) if name != "fate"} <= words
    assert {fate.value.replace("_", " ") for fate in Fate} <= words


def test_a_code_is_at_home_where_it_means_something() -> None:
    """500 to 504 are mistakes of the sender's syntax over SMTP; who writes 503 means HTTP."""
    assert set(USUAL) - SMTP_CODES == {500, 501, 502, 503, 504}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("los 2 answers", '"los" (word 1 of "los 2 answers") is nothing that can go wrong; did you mean "lose"?'),
        ("expird certificate", 'is nothing that can go wrong; did you mean "expired certificate"?'),
        ("wrong certificate", 'did you mean "wrong host certificate"?'),
        ("brake handshake", 'did you mean "break handshake"?'),
        ("xyzzy", "is nothing that can go wrong; known are bounce, chunked, clicked, complain, complaint, defer,"),
        ("first 2", '"first" (word 1 of "first 2") says whom or when, and what goes wrong comes first'),
        ("777", '"777" (word 1 of "777") is no reply code; those are from 200 to 599'),
        ("lose 2 mails", '"mails" (word 3 of "lose 2 mails") is not what can be lost'),
        ("lose answers by pigeon", "is no way to lose an answer; known are"),
        ("slow", 'behind "slow", the last word of "slow", how long, like 2 s is missing'),
    ],
)  # fmt: skip
def test_a_word_that_is_none_is_pointed_at(line: str, says: str) -> None:
    said = sentence({"rules": ["hang", line]})

    assert said.startswith("plan.toml: rule 2")
    assert says in said
