"""Where a text may be cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.provider.characters import cut

#: Several code points each, one character to a reader.
WHOLE = {
    "an accent": "e\u0301",
    "two accents": "e\u0301\u0323",
    "a vowel sign": "क\u093f",
    "an emoji with a skin": "👍\U0001f3fd",
    "an emoji in colour": "❤\ufe0f",
    "a family": "👩\u200d👩\u200d👧",
    "a flag": "🇩🇪",
    "the flag of Wales": "🏴\U000e0067\U000e0062\U000e0077\U000e006c\U000e0073\U000e007f",
}


@pytest.mark.parametrize("character", WHOLE.values(), ids=list(WHOLE))
def test_a_character_is_there_whole_or_not_at_all(character: str) -> None:
    text = f"a{character}{character}b"

    for most in range(len(text) + 1):
        kept = cut(text, most)
        assert kept in ("", "a", f"a{character}", f"a{character}{character}", text)
        assert len(kept) <= most


def test_flags_in_a_row_are_told_apart() -> None:
    """Each is two letters, and nobody knows whose without counting from the first."""
    assert cut("🇩🇪🇫🇷🇮🇹", 5) == "🇩🇪🇫🇷"


def test_a_pile_of_accents_is_no_reason_to_show_nothing() -> None:
    assert cut("e" + "\u0301" * 10_000, 500) == "e" + "\u0301" * 499


@given(text=st.text(max_size=60), most=st.integers(0, 40))
def test_what_is_kept_is_the_beginning_and_nearly_all_of_it(text: str, most: int) -> None:
    kept = cut(text, most)

    assert text.startswith(kept)
    assert min(len(text), most) - 32 <= len(kept) <= most
