"""A claim through a gate, step by step, wherever the rows lie: ask what may pass, find it, write down that it passed.

It runs within the transaction of the claim. So nobody takes a token without a mail or a mail without a token, whoever
dies, and all workers of all processes go by the same gate. The decisions are `policy.gate`'s.
Must not hold: SQL, what is done with the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple, Protocol

from reference_sender.policy import gate as gates
from reference_sender.policy.bucket import Bucket, Rate, refilled, spent
from reference_sender.policy.domains import choose, count, full
from reference_sender.policy.gate import NOTHING_KNOWN, Gate, GateRules, Shared
from reference_sender.policy.routes import Share, domain_of
from reference_sender.policy.suspects import Suspects

#: So often is looked again for mail to other domains when what was found may not go.
_ROUNDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which rows are looked for."""

    lost: bool  # those whose lease ran out; else those that are due
    share: Share
    most: int
    suspects: bool = False  # those that go alone; else those that do not
    tried: bool = False  # only those that were tried before
    from_priority: int | None = None  # this or higher
    below_priority: int | None = None
    above_priority: int | None = None
    not_to: frozenset[str] = frozenset()  # domains


class Found(NamedTuple):
    """A row that nobody else can take until the transaction is over."""

    id: int
    token: int
    recipient: str
    priority: int


class Place(Protocol):
    """What a passage asks of the place where rows and gates are kept, within one transaction."""

    def known(self) -> dict[str, Shared]:
        """What is known of each provider of which there is something to know."""
        ...

    def locked(self, provider: str) -> Shared:
        """The same of one, and nobody else may change it."""
        ...

    def keep(self, provider: str, shared: Shared) -> None: ...

    def bucket(self, name: str, rate: Rate) -> Bucket:
        """A bucket as it was left, or a full one; nobody else may change it."""
        ...

    def fill(self, name: str, bucket: Bucket) -> None: ...

    def under_way(self) -> Sequence[tuple[str, str | None]]:
        """(recipient, provider) of every mail that somebody holds a lease on."""
        ...

    def find(self, wanted: Wanted) -> list[Found]:
        """Rows of this sort, the most pressing first."""
        ...

    def has_suspects(self) -> bool:
        """Whether there are rows, of any provider, that go alone."""
        ...

    def sees(self, wanted: Wanted) -> bool:
        """Whether there is a row of this sort that nobody else holds; it is not taken."""
        ...


def pass_through(
    place: Place, gate: Gate, *, room: int, bulk: int, now: datetime, suspects: Suspects | None = None
) -> tuple[list[Found], list[Found]]:
    """The rows that may be taken now, lost ones and due ones; it is written down already that they were taken.

    A suspect is taken alone, and only where that is allowed; without `suspects` it is.
    """
    suspects = suspects or Suspects()
    rules = gate.rules
    known = place.known()
    shared = known.get(rules.provider, NOTHING_KNOWN)
    if gates.counts(rules, shared):
        # What is counted must not be counted by two at a time.
        shared = place.locked(rules.provider)
    # In one order, so that nobody waits in a circle.
    filled = {name: refilled(place.bucket(name, rate), rate, now) for name, rate in sorted(rules.rates)}
    busy = place.under_way() if rules.in_flight is not None or rules.domains else ()
    allowed = gates.allow(
        rules,
        shared,
        filled,
        under_way=sum(provider in (None, rules.provider) for _, provider in busy),
        room=room,
        bulk=bulk,
        now=now,
    )
    look = _Look(place, rules, count(domain_of(recipient) for recipient, _ in busy))
    wanted = Wanted(
        lost=True,
        share=gates.takes_now(rules, known, now),
        most=allowed.most,
        above_priority=rules.patient_to if gates.patient_waits(rules, shared, now) else None,
    )
    if place.has_suspects():
        lost, due = look.with_suspects(wanted, allowed.bulk, suspects)
    else:
        lost, due = [], []
        if gates.asks_with_tried(shared):
            lost, due = look.lost_and_due(replace(wanted, tried=True), allowed.bulk)
        if not (lost or due):
            lost, due = look.lost_and_due(wanted, allowed.bulk)
    if not (lost or due) and wanted.above_priority is not None and gates.wants_probes(shared):
        # Nobody else is there to ask how the provider is: if patient mail did not either, it would wait for ever.
        lost, due = look.lost_and_due(replace(wanted, above_priority=None), allowed.bulk)
    taken = [*lost, *due]
    after = gates.after_claim(rules, shared, len(taken), now)
    if after != shared:
        place.keep(rules.provider, after)
    if taken:
        filled = {name: spent(bucket, len(taken)) for name, bucket in filled.items()}
        for name, bucket in filled.items():
            place.fill(name, bucket)
    bulk_taken = sum(each.priority < rules.urgent_from for each in taken)
    gate.saw(
        after,
        filled,
        now=now,
        limited=allowed.most < room or allowed.bulk < bulk,
        is_full=len(taken) >= allowed.most or bulk_taken >= allowed.bulk,
    )
    return lost, due


class _Look:
    """Finds rows, urgent ones first, and keeps count of what is under way to each domain."""

    def __init__(self, place: Place, rules: GateRules, under_way: dict[str, int]) -> None:
        self._place = place
        self._rules = rules
        self._under_way = under_way

    def with_suspects(self, wanted: Wanted, bulk: int, told: Suspects) -> tuple[list[Found], list[Found]]:
        """One that goes alone, lost or due, if it is their turn or there is nothing else; else all the others."""
        one = replace(wanted, suspects=True, most=min(wanted.most, 1))
        lost, due = self.lost_and_due(one, min(bulk, 1)) if told.first else ([], [])
        told.taken = bool(lost or due)
        if told.taken:
            return lost, due
        lost, due = self.lost_and_due(wanted, bulk)
        if told.first:
            return lost, due
        if told.may_take and not (lost or due):
            lost, due = self.lost_and_due(one, min(bulk, 1))
            told.taken = bool(lost or due)
        elif one.most:
            told.waits = self._place.sees(one) or self._place.sees(replace(one, lost=False))
        return lost, due

    def lost_and_due(self, wanted: Wanted, bulk: int) -> tuple[list[Found], list[Found]]:
        """Lost rows, and with what is left of the room due ones."""
        lost = self.both(wanted, bulk)
        bulk_lost = sum(each.priority < self._rules.urgent_from for each in lost)
        due = replace(wanted, lost=False, most=wanted.most - len(lost))
        return lost, self.both(due, max(bulk - bulk_lost, 0))

    def both(self, wanted: Wanted, bulk: int) -> list[Found]:
        """Up to `wanted.most` rows, of them up to `bulk` that are not urgent."""
        if bulk >= wanted.most:
            return self._some(wanted)
        border = self._rules.urgent_from
        urgent = self._some(replace(wanted, from_priority=border))
        most = min(bulk, wanted.most - len(urgent))
        return urgent + self._some(replace(wanted, below_priority=border, most=most))

    def _some(self, wanted: Wanted) -> list[Found]:
        if wanted.most <= 0:
            return []
        limits = self._rules.domains
        if not limits:
            return self._place.find(wanted)
        chosen: dict[int, Found] = {}
        for _ in range(_ROUNDS):
            not_to = full(self._under_way, limits)
            # More than wanted, because some of it may be more than its domain takes.
            found = self._place.find(replace(wanted, not_to=not_to, most=4 * wanted.most))
            fresh = [each for each in found if each.id not in chosen]
            pairs = [(each.id, domain_of(each.recipient)) for each in fresh]
            choice = choose(pairs, self._under_way, limits, most=wanted.most - len(chosen))
            for each in fresh:
                if each.id in choice.ids:
                    chosen[each.id] = each
                    domain = domain_of(each.recipient)
                    self._under_way[domain] = self._under_way.get(domain, 0) + 1
            if len(chosen) >= wanted.most or len(choice.ids) == len(fresh):
                break
        return list(chosen.values())
