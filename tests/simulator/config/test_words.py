"""The words of a line: read one by one, in quotes or not, and pointed at where one is wrong."""

from __future__ import annotations

import pytest

from simulator.config.place import Place, PlanError
from simulator.config.words import Words, unquoted
from tests.simulator.config.plans import sentence


def test_words_are_taken_one_by_one_and_the_last_is_pointed_at() -> None:
    """Commas are for people; a text in quotes is one word."""
    line = Words(Place("p"), '503, saying "a b" first')

    assert [line.next("a word") for _ in range(3)] == ["503", "saying", '"a b"']
    assert (line.word(), line.last(), line.is_over()) == ("first", '"a b"', False)
    assert str(line.wrong("is odd")) == r'p: "\"a b\"" (word 3 of "503, saying \"a b\" first") is odd'
    assert line.next("a word") == "first"
    with pytest.raises(PlanError, match=r'behind "first", the last word of .*, more is missing'):
        line.next("more")


def test_the_longest_phrase_counts_and_a_hyphen_is_a_blank() -> None:
    known = {"hang": 1, "hang up": 2}
    line, hyphen = Words(Place("p"), "Hang up by hand"), Words(Place("p"), "hang-up by hand")

    assert (line.phrase(known), line.word()) == ("hang up", "by")
    assert (hyphen.phrase(known), hyphen.word()) == ("hang up", "by")
    assert (line.phrase(known), line.word()) == (None, "by")


@pytest.mark.parametrize(
    ("word", "text"), [('"a"', "a"), (r'"say \"no\""', 'say "no"'), ("a", "a"), ('"', '"')]
)
def test_quotes_are_taken_off(word: str, text: str) -> None:
    assert unquoted(word) == text


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", 'the line is empty; a line begins with what goes wrong, like "503 for 10 s"'),
        ("503 for 10minuts", '"10minuts" (word 3 of "503 for 10minuts") has no unit of time; did you mean "minutes"?'),
        ("503 for", 'behind "for", the last word of "503 for", a length of time like 10 s or 5 minutes is missing'),
        ("503 for ages", '"ages" (word 3 of "503 for ages") must be a length of time like 10 s or 5 minutes'),
        ("503 first", "a number is missing"),
        ("503 first two", '"two" (word 3 of "503 first two") must be a number'),
        ("503 first 2 first 3", '"3" (word 5 of "503 first 2 first 3") gives "first" a second time; say it once'),
        ("503 for 2 s for 3 s", "says a second time how long it lasts"),
        ("503 after 2 s after 3 s", "says a second time when it begins"),
        ("503 for 2 s until 3 s", 'gives "until_s" a second time'),
        ('503 "never ends', "begins with a double quote and never ends"),
    ],
)  # fmt: skip
def test_a_word_that_is_none_is_pointed_at(line: str, says: str) -> None:
    said = sentence({"rules": ["hang", line]})

    assert said.startswith("plan.toml: rule 2")
    assert says in said
