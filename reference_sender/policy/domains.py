"""How many mails may be under way to one recipient domain, whoever sends them.

Must not hold: how the rows are found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

ANY = "*"
"""Stands for every domain that has no limit of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which candidates may go, in their order, and the domains that are full then."""

    ids: tuple[int, ...]
    full: frozenset[str]


def most_of(domain: str, limits: Mapping[str, int]) -> int | None:
    """How many may be under way to this domain. None: as many as like."""
    return limits.get(domain, limits.get(ANY))


def choose(
    candidates: Sequence[tuple[int, str]],
    under_way: Mapping[str, int],
    limits: Mapping[str, int],
    *,
    most: int,
) -> Choice:
    """Take up to `most` of the candidates (id, domain), so that no domain gets more than it may."""
    busy = dict(under_way)
    ids: list[int] = []
    for number, domain in candidates:
        if len(ids) >= most:
            break
        limit = most_of(domain, limits)
        if limit is None or busy.get(domain, 0) < limit:
            busy[domain] = busy.get(domain, 0) + 1
            ids.append(number)
    return Choice(ids=tuple(ids), full=full(busy, limits))


def full(under_way: Mapping[str, int], limits: Mapping[str, int]) -> frozenset[str]:
    """The domains that take no more."""
    return frozenset(
        domain
        for domain, count in under_way.items()
        if (limit := most_of(domain, limits)) is not None and count >= limit
    )


def count(domains: Iterable[str]) -> dict[str, int]:
    """How often each occurs."""
    counted: dict[str, int] = {}
    for each in domains:
        counted[each] = counted.get(each, 0) + 1
    return counted
