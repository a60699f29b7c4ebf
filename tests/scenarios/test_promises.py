"""The table of promises."""

from __future__ import annotations

import re

import pytest

from scenarios import promises
from scenarios.promises import BY_NAME, PROFILES, PROMISES
from tests.house.places import ROOT


def test_names_are_unique_and_well_formed() -> None:
    """`family.case`, in small letters: ids are written into certificates for ever."""
    assert len(BY_NAME) == len(PROMISES)
    assert [each.name for each in PROMISES if not re.fullmatch(r"[a-z-]+\.[a-z0-9-]+", each.name)] == []


@pytest.mark.parametrize("promise", PROMISES, ids=lambda each: each.name)
def test_a_promise_is_a_sentence_with_a_source(promise: promises.Promise) -> None:
    """Who breaks it can read what he broke, and where it is written."""
    assert promise.requirement.endswith(".")
    assert promise.source
    assert set(promise.profiles) <= set(PROFILES)


@pytest.mark.parametrize("promise", PROMISES, ids=lambda each: each.name)
def test_every_promise_is_put_to_the_test(promise: promises.Promise) -> None:
    """No promise is certified by a scenario that does not exist."""
    scenarios = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "scenarios").glob("test_*.py"))

    assert f'"{promise.name}"' in scenarios


@pytest.mark.parametrize("promise", PROMISES, ids=lambda each: each.name)
def test_every_promise_is_documented(promise: promises.Promise) -> None:
    """docs/certification.md lists it."""
    assert f"`{promise.name}`" in (ROOT / "docs" / "certification.md").read_text(encoding="utf-8")


def test_an_id_leads_back_to_its_promise() -> None:
    """The profile is the first word of the id."""
    promise, profile = promises.of_id("smtp.lost-answer.fin")

    assert (promise.name, profile) == ("lost-answer.fin", "smtp")


@pytest.mark.parametrize(
    "wrong", ["smtp.lost-answer.server-error", "http.no-such", "", "fax.lost-answer.fin"]
)
def test_an_id_nobody_promised_is_a_key_error(wrong: str) -> None:
    """A promise that is not made on a wire has no id there."""
    with pytest.raises(KeyError):
        promises.of_id(wrong)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (None, True),
        ("lost-answer", True),
        ("http.*", False),
        ("smtp.*.fin", True),
        ("crash, lost", True),
        ("crash", False),
        ("", False),
    ],
)
def test_a_selection_is_a_wildcard_or_a_part(pattern: str | None, expected: bool) -> None:
    """Several of them are separated by commas."""
    assert promises.selected("smtp.lost-answer.fin", pattern) is expected


def test_exactly_once_over_smtp_is_not_for_sale() -> None:
    """The judge refuses the claim by name, with the reason."""
    assert "RFC 1047" in promises.NOT_CLAIMABLE["exactly once over SMTP"]
