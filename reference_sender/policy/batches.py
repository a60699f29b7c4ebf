"""Which mails go together in one request, and how the bad one among them is found when the request is refused.

Must not hold: the wire, the store, what a code means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reference_sender.life import Parcel
from reference_sender.policy.evidence import Evidence, Outcome, Refused, Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEvidence:
    """What one request with several mails saw."""

    items: tuple[Evidence, ...]
    """Of each mail, in the order in which they were handed over."""
    whole: bool
    """There was one answer (or silence) for all of them: what is refused so says nothing about a single mail."""
    bad: int | None = None
    """The place of the mail that the provider named as the reason of a refusal of the whole."""


def together(parcels: Sequence[Parcel], most: int, most_octets: int) -> list[tuple[Parcel, ...]]:
    """Sort claimed mails into requests of at most `most` mails of one class, in the order they came.

    No further mail makes a request larger than `most_octets`, counted in those of the mails themselves. A mail that was in doubt before goes alone: what is said of it must not depend on others.
    """
    groups: list[list[Parcel]] = []
    open_groups: dict[str, list[Parcel]] = {}
    for parcel in parcels:
        group = open_groups.get(parcel.mail_class)
        full = group is None or len(group) >= most or _octets(group) + len(parcel.raw) > most_octets
        if parcel.doubted:
            groups.append([parcel])
        elif full:
            groups.append([parcel])
            open_groups[parcel.mail_class] = groups[-1]
        else:
            assert group is not None
            group.append(parcel)
    return [tuple(group) for group in groups]


def is_about_one(outcome: Outcome) -> bool:
    """Whether an answer with this outcome, said of a whole request, may be about one of its mails: worth looking for.

    A key that the provider knows is one mail's as a bad address is; the others have a right to an answer of their own.
    """
    return isinstance(outcome, Refused) or (isinstance(outcome, Unknown) and outcome.futile)


def apart(parcels: Sequence[Parcel], bad: int | None) -> list[tuple[Parcel, ...]]:
    """Take a refused request apart: the mail that was named from the others, else into two halves."""
    if bad is not None:
        others = (*parcels[:bad], *parcels[bad + 1 :])
        return [part for part in (others, (parcels[bad],)) if part]
    middle = len(parcels) // 2
    return [tuple(parcels[:middle]), tuple(parcels[middle:])]


def _octets(parcels: Sequence[Parcel]) -> int:
    return sum(len(parcel.raw) for parcel in parcels)
