"""Where in a plan we are, and the one sentence that says what is wrong there."""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any


class PlanError(ValueError):
    """A plan cannot be used. The message is one sentence: where, what was given, what would be right."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a plan we are reading. Without a source: whoever shows the trouble says what it is about."""

    source: str
    part: str = ""

    def wrong(self, says: str) -> PlanError:
        where = "".join(f"{each}: " for each in (self.source, self.part) if each)
        return PlanError(f"{where}{says}")

    def at(self, part: str) -> Place:
        return Place(self.source, part)

    def inside(self, part: str) -> Place:
        """Return the place of a part that has parts itself."""
        return Place(f"{self.source}: {part}")

    def __str__(self) -> str:
        return f"{self.source}: {self.part}" if self.part else self.source


def shown(value: object) -> str:
    """Show a value as it would be written in a plan, shortened."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def did_you_mean(given: object, known: Collection[str]) -> str:
    """Return a did-you-mean, or the list of what is known."""
    text = str(given)
    close = difflib.get_close_matches(text, sorted(known), n=1, cutoff=0.6)
    if not close and len(text) >= 3:
        # Who writes `rate` may mean `rate_per_s`, which is far away letter by letter.
        close = [each for each in known if text.lower() in each]
        close = close if len(close) == 1 else []
    return f'did you mean "{close[0]}"?' if close else f"known are {', '.join(sorted(known))}"


def refuse_unknown(place: Place, data: Mapping[str, Any], known: Collection[str], what: str = "key") -> None:
    for key in data:
        if key not in known:
            raise place.wrong(f'there is no {what} "{key}"; {did_you_mean(key, known)}')
