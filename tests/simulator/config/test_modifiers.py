"""Where, whom and when: a word that is none is pointed at, and one that makes a table is there."""

from __future__ import annotations

import pytest

from simulator.config.lines import read_line
from simulator.config.modifiers import MODIFIERS
from simulator.config.place import Place
from tests.simulator.config.plans import sentence


@pytest.mark.parametrize("word", sorted(set(MODIFIERS) - {"and", "for ever"}))
def test_a_modifier_stands_for_a_key_of_a_rule(word: str) -> None:
    """Whatever it wants behind it; `and` is for people."""
    behind = {"at": "rcpt", "on": "smtp", "per": "mail", "header": "X-A=b", "once": "", "twice": ""}.get(
        word, "1"
    )
    (table,) = read_line(Place("p"), f"503 {word} {behind}")

    assert len(set(table) - {"name", "fault", "code", "dialect"}) == (0 if word == "on" else 1)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("429 retry-aftr 3", '"retry-aftr" (word 2 of "429 retry-aftr 3") is not understood; did you mean "retry-after"?'),
        ("503 for 10 sek", '"sek" (word 4 of "503 for 10 sek") is not understood; did you mean "sec"?'),
        ("503 for 10 minuts", 'did you mean "minutes"?'),
        ("503 7", '"7" (word 2 of "503 7") stands alone; write "first 2", "2 times", "2 %" or "for 2 s"'),
        ("503 101%", "is more than all; give a chance from 0 to 100 %"),
        ("503 on pigeon", '"pigeon" (word 3 of "503 on pigeon") is no wire and no dialect; known are'),
        ("503 on htp", 'did you mean "http"?'),
        ("503 per mial", '"mial" (word 3 of "503 per mial") is nothing to count by; did you mean "mail"?'),
    ],
)  # fmt: skip
def test_a_word_that_is_none_is_pointed_at(line: str, says: str) -> None:
    said = sentence({"rules": ["hang", line]})

    assert said.startswith("plan.toml: rule 2")
    assert says in said
