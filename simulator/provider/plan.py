"""A plan: the rules of an account in their order, or the strikes of a former run. Data that never changes.

Who decides by it, and counts, is `plan_state.PlanState`.
"""

from __future__ import annotations

from dataclasses import dataclass

from simulator.provider.rule import Rule
from simulator.provider.strike import Held, Hit


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A strike of a former run, and where it belongs."""

    wire: str
    stage: str
    mail: str
    """The mail by its recipients (`to:…`); empty: nothing was known of it."""
    nth: int
    """In which attempt of this mail; where none was known, on which occasion of this stage."""
    hits: tuple[Hit, ...] = ()
    held: Held | None = None
    """What a limit said; there are no hits then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The ordered rules of an account. The first rule that strikes decides.

    Some kinds let later rules decide too: `slow`, `fate`, `webhook_early`, and `refuse_recipients` where all recipients come at once.
    """

    rules: tuple[Rule, ...] = ()
    seed: int = 0
    recorded: tuple[Recorded, ...] | None = None
    """Not None: the strikes of a former run, to be struck again (`simulator.provider.replay`)."""


def wire_of(dialect: str) -> str:
    """Return the wire that a dialect is spoken over: `smtp` or `http`; `webhook` for our own way to a receiver."""
    return dialect if dialect in ("smtp", "webhook") else "http"
