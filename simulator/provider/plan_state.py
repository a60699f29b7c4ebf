"""A plan at work: what each rule has counted, the dice it rolls, and what it strikes."""

from __future__ import annotations

import random
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from simulator.provider.counts import Attempts, Counts
from simulator.provider.faults import RefuseEhlo
from simulator.provider.message import Moment, short_name
from simulator.provider.plan import Plan, wire_of
from simulator.provider.rule import Per, Rule, When
from simulator.provider.sieve import Sieve
from simulator.provider.strike import Held, Hit, Hits, Strike, by_recipient


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What became of a rule so far."""

    rule: Rule
    seen: int
    """How often it was met."""
    fired: int
    """How often it struck."""
    over: bool
    """Its time or its count is used up: it will not strike any more."""


class PlanState:
    """A plan at work: its counters, its dice, and since when each rule stands."""

    def __init__(self, plan: Plan, *, planted_at: datetime) -> None:
        self.plan = plan
        self._counts: list[Counts] = []
        self._by_stage: dict[tuple[str, str], list[int]] = {}
        self._attempts = Attempts()
        self._counts_attempts: tuple[Per, ...] = ()
        self._wires: set[str] = set()
        """Where rules stand."""
        self.blind_to: frozenset[str] = frozenset()
        """The wires on which nothing that happens matters."""
        self._sieves: dict[str, Sieve] = {}
        """By wire, made when somebody asks."""
        self._index(0, planted_at)

    def add(self, rules: Sequence[Rule], now: datetime) -> None:
        """Append rules, which stand from now on; the counters of those already there stay."""
        known = len(self.plan.rules)
        self.plan = replace(self.plan, rules=(*self.plan.rules, *rules))
        self._index(known, now)

    def planted(self) -> list[datetime]:
        """Return since when each rule stands."""
        return [counts.planted_at for counts in self._counts]

    def replant(self, since: datetime | Sequence[datetime]) -> None:
        """Let every rule stand since this instant, or each since its own."""
        each = [since] * len(self._counts) if isinstance(since, datetime) else since
        for counts, instant in zip(self._counts, each, strict=True):
            counts.planted_at = instant

    def _index(self, start: int, now: datetime) -> None:
        for position, rule in enumerate(self.plan.rules[start:], start):
            # Each rule has dice of its own, so that adding a rule never changes what another one rolls.
            dice = random.Random(f"{self.plan.seed}/{position}/{rule.name}")
            self._counts.append(Counts(rule.name, dice, now, lasts=rule.per is not Per.CONNECTION))
            self._wires.update(wire for wire, _ in rule.stages)
            for place in rule.stages:
                self._by_stage.setdefault(place, []).append(position)
        self._sieves.clear()
        self._counts_attempts = tuple(
            {rule.per: None for rule in self.plan.rules if rule.when.attempt is not None}
        )
        if not self._counts_attempts and not self.replays:
            self.blind_to = frozenset(("smtp", "http", "webhook")) - self._wires
        else:
            self.blind_to = frozenset()

    @property
    def replays(self) -> bool:
        """Tell whether it is a recording, of which limits are a part."""
        return False

    def is_blind(self, wire: str, stage: str) -> bool:
        """Tell whether nothing that happens there matters: no rule stands there, and none counts attempts."""
        return not self._counts_attempts and (wire, stage) not in self._by_stage

    def misses(
        self,
        wire: str,
        *,
        account: str,
        dialect: str,
        sender: str,
        recipients: Sequence[str],
        key: str | None,
    ) -> bool:
        """Tell whether no rule of this wire can hit a mail like this one, or count it, at any stage of its attempt."""
        if self._counts_attempts:
            return False
        sieve = self._sieves.get(wire)
        if sieve is None:
            stages = {
                place for place in self._by_stage if place[0] == wire and place[1] not in ("tls", "lookup")
            }
            sieve = self._sieves[wire] = Sieve(
                rule.who for rule in self.plan.rules if not stages.isdisjoint(rule.stages)
            )
        return not sieve.lets_through(
            account=account, dialect=dialect, sender=sender, recipients=recipients, key=key
        )

    def stands_at(self, wire: str, stage: str) -> bool:
        """Tell whether any rule could strike there."""
        return (wire, stage) in self._by_stage

    def tally(self, now: datetime) -> list[Tally]:
        """Return every rule with how often it was met and struck, and whether it can strike again."""
        return [
            Tally(rule=rule, seen=counts.seen, fired=counts.fired, over=_is_over(rule, counts, now))
            for rule, counts in zip(self.plan.rules, self._counts, strict=True)
        ]

    def strike(self, moment: Moment, now: datetime) -> Strike | None:
        """Decide what hits this moment, and count it. None: nothing does."""
        self._count_attempt(moment)
        places = self._by_stage.get((wire_of(moment.dialect), moment.stage))
        if not places:
            return None
        hits = Hits(moment)
        for position in places:
            rule = self.plan.rules[position]
            recipients: tuple[str, ...] | None = None
            if by_recipient(rule.fault, moment):
                recipients = tuple(self._hit(rule, position, moment, hits.settled(rule.fault), now))
                if not recipients:
                    continue
            elif (
                (isinstance(rule.fault, RefuseEhlo) and moment.command != rule.fault.command)
                or not rule.who.meets(moment)
                or not self._due(rule, self._counts[position], moment, now)
            ):
                continue
            strike = hits.add(Hit(rule=rule.name, fault=rule.fault, recipients=recipients))
            if strike is not None:
                return strike
        return hits.together()

    @property
    def asks_for_headers_of_events(self) -> bool:
        """Tell whether a rule of stage `webhook` wants to know a mail's headers."""
        return any(
            self.plan.rules[position].who.headers
            for position in self._by_stage.get(("webhook", "webhook"), ())
        )

    def held(self, moment: Moment) -> Held | None:
        """Return what a limit said at this moment of a recording; a plan of rules knows nothing of limits."""
        return None

    def strike_event(self, moment: Moment, now: datetime) -> list[Hit]:
        """Return what hits an event on its way to a webhook, in order: each hit changes it."""
        places = self._by_stage.get(("webhook", moment.stage))
        if not places:
            return []
        self._count_attempt(moment)
        return [
            Hit(rule=rule.name, fault=rule.fault)
            for position in places
            if (rule := self.plan.rules[position]).who.meets(moment)
            and self._due(rule, self._counts[position], moment, now)
        ]

    def _count_attempt(self, moment: Moment) -> None:
        for per in self._counts_attempts:
            # Also where no rule stands: an attempt that ends early is one all the same.
            if per in (Per.PLAN, Per.CONNECTION) or moment.recipient or moment.recipients:
                self._attempts.count(
                    f"{per} {_scope(per, moment)}", moment.attempt, lasts=per is not Per.CONNECTION
                )

    def _hit(
        self, rule: Rule, position: int, moment: Moment, already: Container[str], now: datetime
    ) -> list[str]:
        """Where all recipients come at once, each is an occasion of its own; return those that are hit."""
        hit = []
        for recipient in moment.recipients:
            if recipient in already:
                continue
            each = replace(moment, recipient=recipient)
            if rule.who.meets(each) and self._due(rule, self._counts[position], each, now):
                hit.append(recipient)
        return hit

    def _due(self, rule: Rule, counts: Counts, moment: Moment, now: datetime) -> bool:
        counts.meet()
        if rule.sticks_to_mail and counts.sticks_to(moment.mail):
            counts.fire(None)
            return True
        if not _in_window(rule.when, counts, now):
            return False
        scope = _scope(rule.per, moment)
        seen = counts.see(scope)
        if (
            rule.when.attempt is not None
            and self._attempts.nth(f"{rule.per} {scope}", moment.attempt) != rule.when.attempt
        ):
            return False
        if not _strikes_now(rule.when, counts, scope, seen):
            return False
        counts.fire(scope)
        if rule.sticks_to_mail:
            counts.stick(moment.mail)
        return True

    # --- over a restart -----------------------------------------------------------------------------

    def news(self, *, whole: bool) -> Iterator[tuple[str, str | None]]:
        """Hand out what was counted since the last call and must not wait, by name; None: it is forgotten.

        `whole`: everything.
        """
        is_urgent = self._attempts.is_urgent
        for position, counts in enumerate(self._counts):
            if counts.is_urgent or whole:
                is_urgent = True
                for name, facts in counts.news():
                    yield f"{position}{name}", facts
        if is_urgent:
            for scope, facts in self._attempts.news():
                yield _ATTEMPTS + scope, facts

    def recall(self, known: Mapping[str, str]) -> None:
        """Take up what was handed out before a restart. Raise `ValueError` or `TypeError` for damage."""
        mine = set()
        for position, counts in enumerate(self._counts):
            facts = known.get(str(position))
            if facts is not None and counts.recall("", facts):
                mine.add(position)
        for name, facts in known.items():
            if name.startswith(_ATTEMPTS):
                self._attempts.recall(name.removeprefix(_ATTEMPTS), facts)
            elif (part := _PART.fullmatch(name)) is not None and int(part[1]) in mine:
                self._counts[int(part[1])].recall(part[2], facts)

    def names(self) -> Iterator[str]:
        """Yield every name under which counts may be remembered."""
        for position, counts in enumerate(self._counts):
            yield from (f"{position}{name}" for name in counts.names())
        yield from (_ATTEMPTS + scope for scope in self._attempts.names())


#: What the names of notes about attempts begin with, and those about a part of a rule's counts.
_ATTEMPTS = "@"
_PART = re.compile(r"([0-9]+)([^0-9].*)", re.DOTALL)


def _strikes_now(when: When, counts: Counts, scope: str, seen: int) -> bool:
    occasion = seen - when.skip
    if occasion <= 0:
        return False
    if when.first is not None and occasion > when.first:
        return False
    if when.every is not None and occasion % when.every != 0:
        return False
    if when.times is not None and counts.fired_in(scope) >= when.times:
        return False
    return when.probability is None or counts.roll() < when.probability


def _in_window(when: When, counts: Counts, now: datetime) -> bool:
    if when.from_s is None and when.until_s is None:
        return True
    age_s = (now - counts.planted_at).total_seconds()
    if when.from_s is not None and age_s < when.from_s:
        return False
    return when.until_s is None or age_s < when.until_s


def _is_over(rule: Rule, counts: Counts, now: datetime) -> bool:
    when = rule.when
    if rule.sticks_to_mail and counts.sticks:
        return False
    if when.until_s is not None and (now - counts.planted_at).total_seconds() >= when.until_s:
        return True
    if rule.per is not Per.PLAN:
        return False  # The next mail, recipient or connection has its own counts.
    if when.times is not None and counts.fired_in("") >= when.times:
        return True
    return when.first is not None and counts.seen_in("") >= when.skip + when.first


def _scope(per: Per, moment: Moment) -> str:
    match per:
        case Per.PLAN:
            return ""
        case Per.MAIL:
            return moment.mail
        case Per.RECIPIENT:
            return moment.recipient or short_name(",".join(sorted(moment.recipients)))
        case Per.CONNECTION:
            return moment.connection
