"""What must hold of the mails that a schedule promises, at any moment of its run: order, dependency, codes, expiry, urgency.

As `manners`, of worlds in which mails come one after the other and anybody may be killed, stopped or cut off at any time. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import combinations

from scenarios.checks import ON_THE_WAY_S, Finding
from scenarios.history import History, Try
from scenarios.simulation.senders import Owed
from simulator.provider.obligations import ENDED_UNSENT, Reported


@dataclass(frozen=True, slots=True, kw_only=True)
class Promised:
    """A mail, and when the application has committed to it."""

    owed: Owed
    at: datetime

    @property
    def ends_at(self) -> datetime | None:
        seconds = self.owed.expires_s
        return None if seconds is None else self.at + timedelta(seconds=seconds)

    def says(self, name: str) -> str | None:
        """Return what the enqueue said of it."""
        return dict(self.owed.manner).get(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blur:
    """What an observer must allow for."""

    now: datetime
    skew_s: float
    """By so much the clock of a worker may be wrong."""
    held_up_s: float
    """So long something may have been on its way, or in the hands of one that was stopped."""
    is_calm: bool
    """Nobody was killed, stopped or cut off so far: then the urgent goes first."""
    is_heard: bool
    """What becomes of the mails is told, and puts addresses onto the suppression list."""


def judged(
    promised: Sequence[Promised], history: History, by_hand: Collection[str], blur: Blur
) -> list[Finding]:
    """Return what is broken. `promised` in the order of their commits; of mails that a person has moved nothing is asked."""
    mine = [each for each in promised if each.owed.ref not in by_hand]
    return [
        *_out_of_order(mine, history),
        *_too_soon(mine, history),
        *_gone_all_the_same(mine, history, blur),
        *_let_lie(promised, by_hand, history, blur),
        *_held_up(mine, history, blur),
    ]


def _out_of_order(promised: Sequence[Promised], history: History) -> Iterator[Finding]:
    """Of one ordering key a mail was accepted before an earlier one was."""
    for earlier, later in combinations(promised, 2):
        key = earlier.says("ordering_key")
        if key is None or key != later.says("ordering_key"):
            continue
        last = max(_taken(earlier, history), default=None)
        first = min(_taken(later, history), default=None)
        if last is not None and first is not None and first < last:
            yield _wrong(later, "out of order", f"accepted before {earlier.owed.ref} was")


def _too_soon(promised: Sequence[Promised], history: History) -> Iterator[Finding]:
    """A mail was tried before all of the one that it depends on was accepted."""
    by_ref = {each.owed.ref: each for each in promised}
    # In the order in which they began: moments may be the same.
    places = {each.id: place for place, each in enumerate(history.attempts)}
    for each in promised:
        needed = by_ref.get(each.says("depends_on") or "")
        begun = min((places[one.id] for one in _tries(each, history)), default=None)
        if needed is None or begun is None:
            continue
        copies = [history.copies_for(recipient) for recipient in needed.owed.recipients]
        if any(not taken or places.get(taken[0].attempt, -1) > begun for taken in copies):
            yield _wrong(each, "too soon", f"tried before {needed.owed.ref} was accepted")


def _gone_all_the_same(promised: Sequence[Promised], history: History, blur: Blur) -> Iterator[Finding]:
    """An attempt was begun when everybody could know that the mail must not go any more."""
    for each, (kind, since, why, by_clock) in _barred(promised):
        slack_s = ON_THE_WAY_S + blur.held_up_s + (blur.skew_s if by_clock else 0.0)
        late = [one for one in _tries(each, history) if one.opened_at > since + timedelta(seconds=slack_s)]
        if late:
            after_s = (late[0].opened_at - since) / timedelta(seconds=1)
            yield _wrong(each, kind, f"tried {after_s:.2f} s after {why}", late)


def _barred(promised: Sequence[Promised]) -> Iterator[tuple[Promised, tuple[str, datetime, str, bool]]]:
    """Every mail with a kind of finding, since when it must not go, why, and whether that is a matter of clocks."""
    for number, each in enumerate(promised):
        if each.ends_at is not None:
            yield each, ("overdue", each.ends_at, "its time was over", True)
        newer = _newer(each, promised[number + 1 :])
        if newer is not None:
            yield each, ("superseded and sent", newer.at, f"{newer.owed.ref} had taken its place", False)
        if each.owed.suppressed:
            yield each, ("suppressed and sent", each.at, "its recipient must not be written to", False)


def _newer(mail: Promised, behind: Sequence[Promised]) -> Promised | None:
    slot = mail.says("slot")
    return next((each for each in behind if slot is not None and each.says("slot") == slot), None)


def _let_lie(
    promised: Sequence[Promised], by_hand: Collection[str], history: History, blur: Blur
) -> Iterator[Finding]:
    """The sender says that it ended a mail by itself, and nothing that was promised speaks for that."""
    states: Mapping[tuple[str, str], Reported] = {
        (each.key, each.recipient): each.state for each in history.said
    }
    for number, each in enumerate(promised):
        told = {states.get((each.owed.ref, recipient)) for recipient in each.owed.recipients}
        if each.owed.ref in by_hand:
            continue
        if Reported.EXPIRED in told and not (
            _is_over(each, blur) or _newer(each, promised[number + 1 :]) or _is_orphan(each, by_hand, states)
        ):
            yield _wrong(each, "given up", "reported as expired, and its time is not over")
        if Reported.SUPPRESSED in told and not (each.owed.suppressed or blur.is_heard):
            yield _wrong(each, "given up", "reported as suppressed, and anybody may write to its recipient")
        if Reported.CANCELLED in told:
            yield _wrong(each, "given up", "reported as cancelled, and nobody has done so")


def _is_over(mail: Promised, blur: Blur) -> bool:
    return mail.ends_at is not None and mail.ends_at <= blur.now + timedelta(seconds=blur.skew_s)


def _is_orphan(mail: Promised, by_hand: Collection[str], states: Mapping[tuple[str, str], Reported]) -> bool:
    """What it depends on has ended without being sent, or had before a person moved it."""
    needed = mail.says("depends_on")
    return needed is not None and (
        needed in by_hand
        or any(ref == needed and state in ENDED_UNSENT for (ref, _), state in states.items())
    )


def _held_up(promised: Sequence[Promised], history: History, blur: Blur) -> Iterator[Finding]:
    """In calm weather a mail that can wait was begun while an urgent one was there and had not been."""
    # Somebody who did not come as far as to say for whom he came may have had the urgent one in his hands.
    if not blur.is_calm or not all(each.recipients for each in history.attempts):
        return
    for urgent in promised:
        if urgent.owed.priority <= 0:
            continue
        known = urgent.at + timedelta(seconds=ON_THE_WAY_S + blur.skew_s)
        begun = min((one.opened_at for one in _tries(urgent, history)), default=blur.now)
        for other in promised:
            before = [one for one in _tries(other, history) if known < one.opened_at < begun]
            if other.owed.priority < urgent.owed.priority and before:
                yield _wrong(urgent, "late", f"{other.owed.ref} was begun before it", before)


def _tries(mail: Promised, history: History) -> list[Try]:
    return [each for recipient in mail.owed.recipients for each in history.tries_for(recipient)]


def _taken(mail: Promised, history: History) -> list[int]:
    """Return the places in the ledger of the first copy for each recipient: moments may be the same."""
    wanted = {recipient.lower() for recipient in mail.owed.recipients}
    first: dict[str, int] = {}
    for place, each in enumerate(history.acceptances):
        for recipient in wanted & {taken.lower() for taken in each.recipients}:
            first.setdefault(recipient, place)
    return list(first.values())


def _wrong(mail: Promised, kind: str, sentence: str, tries: Sequence[Try] = ()) -> Finding:
    return Finding(
        kind=kind,
        ref=mail.owed.ref,
        recipient=mail.owed.recipients[0],
        sentence=sentence,
        attempts=tuple(each.id for each in tries),
    )
