"""Whether any of many rules could mean a mail at all: a few look-ups in place of a hundred comparisons.

Of each rule one condition goes in; a mail that does not meet it cannot be hit. A sieve lets through whatever a rule
could mean, and perhaps more; what is really hit is decided by the rules (`PlanState.strike`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import translate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulator.provider.rule import Pattern, Who

#: Which condition of a rule goes in, if it has several: the first of these.
_FIELDS = ("recipient", "sender", "key", "dialect", "account")


@dataclass(slots=True)
class Mesh:
    """What may stand in one field."""

    exact: set[str] = field(default_factory=set)
    wild: list[str] = field(default_factory=list)
    odd: list[Pattern] = field(default_factory=list)
    """Regular expressions of somebody else's, and what is not ASCII: asked one by one."""
    wilds: re.Pattern[str] | None = None

    def add(self, pattern: Pattern) -> None:
        text = pattern.text
        if pattern.is_regex or not text.isascii():
            self.odd.append(pattern)
        elif "*" in text or "?" in text:
            # As in `Pattern`: brackets are plain.
            self.wild.append(translate(text.replace("[", "[[]")))
            self.wilds = re.compile(rf"\A(?:{'|'.join(self.wild)})", re.IGNORECASE)
        else:
            self.exact.add(text.lower())

    def lets_through(self, value: str) -> bool:
        if not value.isascii():
            return True  # Where case is ignored, some of it is equal to ASCII.
        return (
            value.lower() in self.exact
            or (self.wilds is not None and self.wilds.search(value) is not None)
            or any(pattern.matches(value) for pattern in self.odd)
        )


class Sieve:
    """The rules of one wire."""

    def __init__(self, rules: Iterable[Who]) -> None:
        self._lets_all_through = False
        self._meshes: dict[str, Mesh] = {}
        for who in rules:
            name = next((each for each in _FIELDS if getattr(who, each) is not None), None)
            if name is None:
                self._lets_all_through = True
                return
            self._meshes.setdefault(name, Mesh()).add(getattr(who, name))

    def lets_through(
        self, *, account: str, dialect: str, sender: str, recipients: Iterable[str], key: str | None
    ) -> bool:
        """Tell whether a rule could mean this mail."""
        if self._lets_all_through:
            return True
        values = {"account": account, "dialect": dialect, "sender": sender, "key": key}
        for name, mesh in self._meshes.items():
            if name == "recipient":
                if any(map(mesh.lets_through, recipients)):
                    return True
            elif (value := values[name]) is not None and mesh.lets_through(value):
                return True
        return False
