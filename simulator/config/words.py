"""The words of a rule in one line: how far they are read, what they stand for so far, and what is wrong with one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from simulator.config.durations import NAMES as UNIT_NAMES
from simulator.config.durations import seconds_of
from simulator.config.place import Place, PlanError, did_you_mean, shown

#: A word is a text in double quotes (which may stand behind `=`, as in `header X-Kind="a b"`) or what has no blank.
_WORD = re.compile(r'(?:[^\s"]|"(?:[^"\\]|\\.)*")+|"')
#: What is said to whoever does not know how to begin.
BEGINNING = 'a line begins with what goes wrong, like "503 for 10 s", "lose 2 answers" or "hang up at rcpt"'

Table = dict[str, Any]


class Words:
    """The words of a line, how far it was read, and what was read."""

    def __init__(self, place: Place, text: str) -> None:
        self._place = place
        self._text = text
        self._words: list[str] = [word.rstrip(",") for word in _WORD.findall(text) if word != ","]
        self._at = 0
        self.table: Table = {}
        self._after_s: float | None = None
        self._for_s: float | None = None
        if not self._words:
            raise place.wrong(f"the line is empty; {BEGINNING}")
        if '"' in self._words:
            raise place.wrong(f"a text in {shown(text)} begins with a double quote and never ends")

    def is_over(self) -> bool:
        return self._at >= len(self._words)

    def word(self) -> str:
        """Return the next word, or nothing, and leave it there."""
        return "" if self.is_over() else self._words[self._at]

    def next(self, wanted: str) -> str:
        """Take the next word; `wanted` says what it should be."""
        if self.is_over():
            raise self._place.wrong(
                f"behind {shown(self._words[-1])}, the last word of {shown(self._text)}, {wanted} is missing"
            )
        self._at += 1
        return self._words[self._at - 1]

    def last(self) -> str:
        """Return the word that was taken last."""
        return self._words[self._at - 1] if self._at else ""

    def phrase(self, known: Mapping[str, Any]) -> str | None:
        """Take the longest of these phrases that stands here; a hyphen is as good as a blank."""
        for size in (4, 3, 2, 1):
            words = self._words[self._at : self._at + size]
            found = " ".join(words).lower().replace("-", " ").replace("_", " ")
            if len(words) == size and found in known:
                self._at += size
                return found
        return None

    def wrong(self, says: str) -> PlanError:
        """Return the error about the word that was taken last."""
        return self._place.wrong(
            f"{shown(self._words[self._at - 1])} (word {self._at} of {shown(self._text)}) {says}"
        )

    def put(self, key: str, value: object) -> None:
        if key in self.table:
            raise self.wrong(f'gives "{key}" a second time; say it once')
        self.table[key] = value

    # --- forms --------------------------------------------------------------------------------------

    def text(self, wanted: str) -> str:
        return unquoted(self.next(wanted))

    def number(self, wanted: str = "a number") -> int:
        given = self.next(wanted)
        form = re.fullmatch(r"([0-9]{1,9})(?:st|nd|rd|th)?", given, re.IGNORECASE)
        if form is None:
            raise self.wrong(f"must be {wanted}")
        return int(form[1])

    def duration(self, wanted: str = "a length of time like 10 s or 5 minutes") -> float:
        """Take a length of time; without a unit these are seconds."""
        given = self.next(wanted)
        form = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)([a-z]*)", given, re.IGNORECASE)
        if form is None:
            raise self.wrong(f"must be {wanted}")
        unit = form[2]
        if not unit and seconds_of(self.word()) is not None:
            unit = self.next("a unit")
        seconds = seconds_of(unit or "s")
        if seconds is None:
            raise self.wrong(f"has no unit of time; {did_you_mean(unit, UNIT_NAMES)}")
        return round(float(form[1]) * seconds, 6)

    def is_duration(self) -> bool:
        """Tell whether a length of time with its unit stands here, and not only a number."""
        form = re.fullmatch(r"[0-9.]+([a-z]*)", self.word(), re.IGNORECASE)
        if form is None:
            return False
        behind = self._words[self._at + 1] if self._at + 1 < len(self._words) else ""
        return seconds_of(form[1] or behind) is not None

    def begins_s(self, seconds: float) -> None:
        if self._after_s is not None:
            raise self.wrong("says a second time when it begins; say it once")
        self._after_s = seconds

    def lasts_s(self, seconds: float) -> None:
        if self._for_s is not None:
            raise self.wrong("says a second time how long it lasts; say it once")
        self._for_s = seconds

    def finished(self) -> Table:
        """Return what the modifiers stand for."""
        if self._after_s is not None:
            self.table["from_s"] = self._after_s
        if self._for_s is not None:
            self.put("until_s", (self._after_s or 0.0) + self._for_s)
        return self.table


def unquoted(word: str) -> str:
    if len(word) >= 2 and word[0] == word[-1] == '"':
        return re.sub(r"\\(.)", r"\1", word[1:-1])
    return word
