"""Suspects: mails that were lost with their worker again and again, and go alone from then on.

A mail that kills its worker each time takes along whatever else that worker had in its hands. Which of them it was
nobody can tell, until each has gone by itself: the innocent ones are sent then, and the killer is lost with nobody.
Only such losses use up attempts for good (`policy.decision`).

Whoever kills its process does so soon. So a suspect goes alone for a short time only (`alone_for_s`), or one that hangs
would hold up everybody until its deadline. What goes beside it later and is lost with it is not counted: a claim beside
one takes a loss off in advance, so such a mail may have less than none. Why: docs/decisions/0011.
Must not hold: how rows are found (`outbox.suspects`), who has what in hand (`company`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: So often a mail is lost together with others; then it is a suspect. One loss happens to many: somebody turned a
#: machine off. Where machines go so often that innocent mails are lost twice, what hurts is how long they go alone, and
#: that is an option (`suspect_alone_s`); a third loss would only cost everybody around a killer one more.
LOST_TOGETHER = 2


_MOST_DOUBLED = 30  # longer than any attempt, and still a number of seconds


def is_suspect(losses: int | None) -> bool:
    """Whether a mail that was lost so often since its last end goes alone."""
    return losses is not None and losses >= LOST_TOGETHER


def lost_in_company(losses: int | None) -> bool:
    """Whether its last attempt may have been lost, and others with it: which of them was to blame is not known."""
    return losses is not None and losses <= LOST_TOGETHER


def alone_for_s(losses: int | None, alone_s: float) -> float:
    """So long nobody goes beside a suspect that was lost so often; in seconds. `alone_s`: the first time.

    Each further loss doubles it: who kills his worker late, and takes along who came beside it, does so alone soon.
    """
    return alone_s * 2.0 ** min(max((losses or 0) - LOST_TOGETHER, 0), _MOST_DOUBLED)


@dataclass(slots=True, kw_only=True)
class Suspects:
    """What a claim is told of suspects, and what it tells."""

    may_take: bool = True
    """Nothing else is in the hands of whoever claims: it may take one, alone, where there is nothing else."""
    first: bool = True
    """And it is their turn: it takes one before everything else."""
    waits: bool = False
    """There was one that it did not take."""
    beside: bool = False
    """One is out whose time alone is over: what is taken now goes beside it, and losing it with that one counts for nothing."""
    taken: bool = False
    """It took one, and nothing else."""

    def begin(self) -> None:
        """Forget what was told: the claim begins, perhaps once more."""
        self.waits = self.taken = False


def left_lying(found: Sequence[tuple[int, int]], told: Suspects) -> set[int]:
    """Of rows that a claim found, by (id, losses), the ids that it does not take: all but one suspect, or the suspects."""
    those = [row_id for row_id, losses in found if is_suspect(losses)]
    told.taken = bool(those) and told.may_take and (told.first or len(those) == len(found))
    told.waits = bool(those) and not told.taken
    return {row_id for row_id, _ in found} - {those[0]} if told.taken else set(those)
