"""Did the sender do as it was told? Whoever hears "come back in 30 seconds" and comes back in one is found here.

Two sins are looked for: the same mail again before its time (`too_early`), and other mail into a limit that has told
everybody concerned to wait (`pressed`). It is judged by attempts alone, in the order in which they were opened, and it
never changes what is duplicated or lost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from simulator.provider.ledger import Advice, Attempt, ToldBy

#: Clocks and timers differ by this much; an HTTP-date has whole seconds only.
SLACK_S, SLACK_OF_DATES_S = 0.1, 1.1
#: What was on its way already when somebody else was told to wait is no sin.
ON_THE_WAY_S = 1.0
#: So many findings of each kind are shown; all are counted.
SHOWN = 100
#: So many attempts are named in one finding.
NAMED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TooEarly:
    """The same mail came again before its time."""

    attempt: str
    told_in: str
    """The attempt in which it was told."""
    recipients: tuple[str, ...]
    told_s: float
    waited_s: float
    by: ToldBy
    limit: str | None

    def as_json(self) -> dict[str, Any]:
        return {
            "attempt": self.attempt,
            "told_in": self.told_in,
            "recipients": list(self.recipients),
            "told_s": self.told_s,
            "waited_s": round(self.waited_s, 3),
            "by": self.by.value,
            "limit": self.limit,
        }


@dataclass(slots=True, kw_only=True)
class Pressed:
    """Other mail came into a limit that had told everybody concerned to wait."""

    limit: str
    scope: str
    told_in: str
    told_s: float
    by: ToldBy
    count: int = 0
    attempts: list[str] = field(default_factory=list)
    """The first of them."""

    def as_json(self) -> dict[str, Any]:
        return {
            "limit": self.limit,
            "scope": self.scope,
            "told_in": self.told_in,
            "told_s": self.told_s,
            "by": self.by.value,
            "count": self.count,
            "attempts": self.attempts,
        }


@dataclass(slots=True, kw_only=True)
class Obedience:
    """What was told, and what came of it."""

    told: int = 0
    """How often somebody was told when to come back."""
    too_early: list[TooEarly] = field(default_factory=list)
    too_early_count: int = 0
    pressed: list[Pressed] = field(default_factory=list)
    pressed_count: int = 0
    disobeyed: bool = False
    """A header was disregarded. Words of an SMTP reply are for people; nobody has to read them."""

    @property
    def obeyed(self) -> bool | None:
        """None: nobody was ever told anything."""
        return None if not self.told else not self.disobeyed

    def as_json(self) -> dict[str, Any]:
        return {
            "obeyed": self.obeyed,
            "told": self.told,
            "too_early": [each.as_json() for each in self.too_early],
            "too_early_count": self.too_early_count,
            "pressed": [each.as_json() for each in self.pressed],
            "pressed_count": self.pressed_count,
        }


@dataclass(slots=True)
class _Waiting:
    """An advice that is still in force."""

    advice: Advice
    told_in: str
    until: datetime
    pressed: Pressed | None = None

    def applies(self, at: datetime) -> bool:
        return self.advice.at <= at < self.until


def judge_obedience(attempts: Iterable[Attempt], *, promised_once: Collection[str] = ()) -> Obedience:
    """Look at attempts in the order in which they were opened.

    The same mail is known by its idempotency key or its Message-ID; by its recipients alone where nothing else was
    known of it when it was told to wait, or where only one mail was ever promised to them (`promised_once`, in lower
    case): senders that renew keys and Message-IDs are found out by that.
    """
    found = Obedience()
    mails: dict[tuple[str, ...], _Waiting] = {}
    limits: dict[tuple[str, str], dict[str, _Waiting]] = {}
    """By name and what it is counted per; then by whom it concerns."""
    for attempt in attempts:
        same = _first(mails, _names(attempt), attempt.opened_at)
        if same is not None:
            _came_early(found, same, attempt)
        for waiting in _pressed(limits, attempt):
            if same is None or same.advice.limit != waiting.advice.limit:
                _pressed_on(found, waiting, attempt)
        for advice in attempt.advice:
            found.told += 1
            slack_s = SLACK_OF_DATES_S if advice.by is ToldBy.DATE else SLACK_S
            until = advice.at + timedelta(seconds=max(0.0, advice.wait_s - slack_s))
            waiting = _Waiting(advice, attempt.id, until)
            for name in _told_names(attempt, advice, promised_once):
                mails[name] = waiting
            if advice.limit is not None and advice.per is not None:
                scopes = limits.setdefault((advice.limit, advice.per), {})
                former = scopes.get(advice.scope)
                if former is None or not former.applies(advice.at):
                    scopes[advice.scope] = waiting
                else:  # Told again in the meantime: it is one and the same pause, perhaps a longer one.
                    former.until = max(former.until, until)
    return found


def _first(
    mails: dict[tuple[str, ...], _Waiting], names: Iterable[tuple[str, ...]], at: datetime
) -> _Waiting | None:
    for name in names:
        waiting = mails.get(name)
        if waiting is not None and waiting.until <= at:
            del mails[name]  # Memory is for what is still in force.
        elif waiting is not None and waiting.applies(at):
            return waiting
    return None


def _names(attempt: Attempt) -> Iterator[tuple[str, ...]]:
    """Yield every name under which this mail may have been told to wait."""
    if attempt.key is not None:
        yield ("key", attempt.key)
    for recipient in map(str.lower, attempt.recipients):
        if attempt.message_id is not None:
            yield ("id", attempt.message_id, recipient)
        yield ("to", recipient)


def _told_names(
    attempt: Attempt, advice: Advice, promised_once: Collection[str]
) -> Iterator[tuple[str, ...]]:
    """Yield every name by which this mail can be known again."""
    if attempt.key is not None:
        yield ("key", attempt.key)
    recipients = attempt.recipients if advice.recipient is None else (advice.recipient,)
    for recipient in map(str.lower, recipients):
        if attempt.message_id is not None:
            yield ("id", attempt.message_id, recipient)
        if recipient in promised_once or (attempt.key is None and attempt.message_id is None):
            yield ("to", recipient)


def _came_early(found: Obedience, waiting: _Waiting, attempt: Attempt) -> None:
    advice = waiting.advice
    found.too_early_count += 1
    found.disobeyed = found.disobeyed or advice.by is not ToldBy.TEXT
    if len(found.too_early) < SHOWN:
        found.too_early.append(
            TooEarly(
                attempt=attempt.id,
                told_in=waiting.told_in,
                recipients=attempt.recipients,
                told_s=advice.wait_s,
                waited_s=(attempt.opened_at - advice.at).total_seconds(),
                by=advice.by,
                limit=advice.limit,
            )
        )


def _pressed(limits: dict[tuple[str, str], dict[str, _Waiting]], attempt: Attempt) -> list[_Waiting]:
    """Return the limits that had told everybody like this one to wait."""
    met = []
    for (_, per), scopes in limits.items():
        for scope in _scopes(attempt, per):
            waiting = scopes.get(scope)
            if waiting is not None and waiting.until <= attempt.opened_at:
                del scopes[scope]
            elif waiting is not None and waiting.applies(attempt.opened_at - timedelta(seconds=ON_THE_WAY_S)):
                met.append(waiting)
    return met


def _scopes(attempt: Attempt, per: str) -> Collection[str]:
    """Return under which names of a limit this attempt is counted."""
    match per:
        case "ip":
            return ((attempt.peer.rpartition(":")[0] or attempt.peer).strip("[]"),)
        case "sender":
            return () if attempt.sender is None else (attempt.sender.lower(),)
        case "recipient_domain":
            return {each.rpartition("@")[2].lower() for each in attempt.recipients}
        case _:
            return ("",)


def _pressed_on(found: Obedience, waiting: _Waiting, attempt: Attempt) -> None:
    advice = waiting.advice
    found.pressed_count += 1
    found.disobeyed = found.disobeyed or advice.by is not ToldBy.TEXT
    if waiting.pressed is None:
        waiting.pressed = Pressed(
            limit=advice.limit or "",
            scope=advice.scope,
            told_in=waiting.told_in,
            told_s=advice.wait_s,
            by=advice.by,
        )
        if len(found.pressed) < SHOWN:
            found.pressed.append(waiting.pressed)
    waiting.pressed.count += 1
    if len(waiting.pressed.attempts) < NAMED:
        waiting.pressed.attempts.append(attempt.id)
