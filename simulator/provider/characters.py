"""Texts cut where a reader sees a character end: never inside an accent, an emoji of several code points, or a flag."""

from __future__ import annotations

import unicodedata

_JOINER = "\u200d"
#: So far back a cut looks for a place between characters; piles of accents are cut anywhere.
_MOST_STEPS = 32


def cut(text: str, most: int) -> str:
    """Return the beginning of a text, `most` code points at the most, without half a character at its end."""
    if len(text) <= most:
        return text
    end = most
    while end > 0 and most - end < _MOST_STEPS and _belongs_to_the_one_before(text, end):
        end -= 1
    return text[: end if end > 0 and most - end < _MOST_STEPS else most]


def _belongs_to_the_one_before(text: str, at: int) -> bool:
    """Tell whether the code point there goes on with the character before it (UAX 29, without Hangul in pieces)."""
    here, before = text[at], text[at - 1]
    if unicodedata.category(here).startswith("M") or here == _JOINER or before == _JOINER:
        return True
    if _is_modifier(here) or "\U000e0020" <= here <= "\U000e007f":
        return True
    return _is_half_a_flag(here) and _flags_before(text, at) % 2 == 1


def _is_modifier(letter: str) -> bool:
    return "\U0001f3fb" <= letter <= "\U0001f3ff"  # of skin


def _is_half_a_flag(letter: str) -> bool:
    return "\U0001f1e6" <= letter <= "\U0001f1ff"


def _flags_before(text: str, at: int) -> int:
    count = 0
    while count < at and _is_half_a_flag(text[at - 1 - count]):
        count += 1
    return count
