"""A mistake is said with its place, with what was given, and with what would be right."""

from __future__ import annotations

import pytest

from simulator.config.place import Place, PlanError, did_you_mean, refuse_unknown, shown


def test_a_sentence_begins_with_the_place() -> None:
    place = Place("plan.toml")

    assert str(place.wrong("no")) == "plan.toml: no"
    assert str(place.at("[limits]").wrong("no")) == "plan.toml: [limits]: no"


def test_a_word_that_is_nearly_known_is_suggested_and_otherwise_all_are_named() -> None:
    assert did_you_mean("frist", ("first", "every")) == 'did you mean "first"?'
    assert did_you_mean("zzz", ("first", "every")) == "known are every, first"


def test_a_key_that_is_not_known_is_refused() -> None:
    refuse_unknown(Place("p"), {"a": 1}, ("a", "b"))
    with pytest.raises(PlanError, match='p: there is no setting "c"; known are a, b'):
        refuse_unknown(Place("p"), {"c": 1}, ("a", "b"), "setting")


@pytest.mark.parametrize(
    ("value", "text"),
    [("a", '"a"'), (True, "true"), (None, "null"), ({1}, "{1}"), ("x" * 99, '"' + "x" * 56 + "…")],
    ids=str,
)
def test_a_value_is_shown_as_it_would_be_written_and_not_at_any_length(value: object, text: str) -> None:
    assert shown(value) == text
