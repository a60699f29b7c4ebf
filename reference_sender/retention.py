"""How long what is kept: periods by state, and the purge and erasure that keep to them, step by step.

Pure where it decides (`Periods`), and a walk over a store where it acts. Every step is one small transaction and may be
the last: who is killed and begins again goes on. Unfinished mail – pending, sending, unknown – is never touched by a purge.
Must not hold: SQL, clocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from reference_sender.life import FINAL, State
from reference_sender.policy.settings import InvalidSettings

#: Six months, as audits usually want the record of what was sent.
HALF_A_YEAR_DAYS = 183.0

#: What is kept → for how many days, unless somebody says otherwise. The states are those a mail ends in.
DEFAULT_DAYS: Mapping[str, float] = {
    **{state.value: HALF_A_YEAR_DAYS for state in sorted(FINAL)},
    "words": HALF_A_YEAR_DAYS,  # what a mail says, and the parameters it was made from
    "answers": 14.0,  # what the provider answered, word by word
    "events": 90.0,  # what the provider told afterwards, as it came
    "attachments": 7.0,  # contents that no mail names any more
    "lanes": 7.0,  # ordering keys under which nothing waits any more
    "accesses": 730.0,  # who looked
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Periods:
    """For each thing that is kept, after how long it goes."""

    days: Mapping[str, float]

    @classmethod
    def parse(cls, text: str) -> Periods:
        """Read `accepted=90,answers=7`; what is not named keeps its default. Raises `InvalidSettings`."""
        days = dict(DEFAULT_DAYS)
        for part in filter(None, (each.strip() for each in text.split(","))):
            name, _, number = (piece.strip() for piece in part.partition("="))
            if name not in days:
                raise InvalidSettings(
                    f"OUTBOX_KEEP names {name!r}; there are {', '.join(days)}, as in accepted=183,answers=14"
                )
            try:
                days[name] = float(number)
            except ValueError:
                days[name] = -1.0
            if not 0 <= days[name] <= 36_500:
                raise InvalidSettings(
                    f"OUTBOX_KEEP gives {name} {number!r}; it must be a number of days from 0 to 36500"
                )
        return cls(days=days)

    def before(self, name: str, now: datetime) -> datetime:
        """What is older than this has outlived its period."""
        return now - timedelta(days=self.days[name])


#: From (older than, behind) to (how many, where to go on).
_Step = Callable[[datetime, int], tuple[int, int | None]]


class _Again(Protocol):
    """Deletes some of those older than that; how many."""

    def __call__(self, *, before: datetime, limit: int) -> int: ...


class Store(Protocol):
    """What a purge asks of the outbox. Each call is one transaction over at most `limit` rows behind `after`.

    It returns how many it changed, and where to go on; None: that was the end.
    """

    def purge_mails(
        self, state: State, *, before: datetime, after: int, limit: int
    ) -> tuple[int, int | None]: ...

    def purge_words(self, *, before: datetime, after: int, limit: int) -> tuple[int, int | None]: ...

    def purge_answers(self, *, before: datetime, after: int, limit: int) -> tuple[int, int | None]: ...

    def purge_events(self, *, before: datetime, after: int, limit: int) -> tuple[int, int | None]: ...

    def purge_attachments(self, *, before: datetime, limit: int) -> int: ...

    def purge_lanes(self, *, before: datetime, limit: int) -> int: ...

    def purge_accesses(self, *, before: datetime, after: int, limit: int) -> tuple[int, int | None]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Purged:
    """One step: so many of these are gone."""

    what: str
    count: int


def purge(store: Store, periods: Periods, *, now: datetime, limit: int = 500) -> Iterator[Purged]:
    """Let go what has outlived its period, step by step; every step that changed something is told."""
    steps: list[tuple[str, _Step]] = [
        ("answers", lambda before, after: store.purge_answers(before=before, after=after, limit=limit)),
        ("events", lambda before, after: store.purge_events(before=before, after=after, limit=limit)),
    ]
    for state in sorted(FINAL):
        steps.append((state.value, _mails(store, state, limit)))
    if periods.days["words"] < max(periods.days[state.value] for state in FINAL):
        steps.append(
            ("words", lambda before, after: store.purge_words(before=before, after=after, limit=limit))
        )
    # Behind the mails: contents that only they named are free now.
    for name, purge_some in (("attachments", store.purge_attachments), ("lanes", store.purge_lanes)):
        steps.append((name, _again(purge_some, limit)))
    steps.append(
        ("accesses", lambda before, after: store.purge_accesses(before=before, after=after, limit=limit))
    )
    for what, step in steps:
        before, after = periods.before(what, now), 0
        while True:
            count, further = step(before, after)
            if count:
                yield Purged(what=what, count=count)
            if further is None:
                break
            assert further > after, "a walk that does not move would never end"
            after = further


def _mails(store: Store, state: State, limit: int) -> _Step:
    return lambda before, after: store.purge_mails(state, before=before, after=after, limit=limit)


def _again(purge_some: _Again, limit: int) -> _Step:
    def step(before: datetime, after: int) -> tuple[int, int | None]:
        # They have no number to walk along; what is gone is not found again.
        count = purge_some(before=before, limit=limit)
        return count, (after + 1 if count == limit else None)

    return step


@dataclass(frozen=True, slots=True, kw_only=True)
class Erased:
    """What an erasure came to."""

    mails: int  # whose address and words are gone
    withheld: int  # of them: were still to be sent, and are not
    events: int
    events_left: int
    """They name the person, and nobody has dealt with them yet; or they cannot be read, their key being missing."""
    suppressions: int
    open: tuple[
        int, ...
    ]  # mails that cannot be erased yet: under way, or nobody knows whether they were sent


class ErasingStore(Protocol):
    """What an erasure asks of the outbox."""

    def mails_to(self, address: str) -> Sequence[tuple[int, State, bool]]:
        """Every mail to this address that is not erased: number, state, whether an attempt is in doubt."""
        ...

    def withhold(self, ids: Sequence[int], *, now: datetime) -> list[int]: ...

    def erase_mails(self, ids: Sequence[int], *, address: str, now: datetime) -> int: ...

    def note_events(
        self, address: str, *, now: datetime, after: int, limit: int
    ) -> tuple[int, int | None]: ...

    def erase_events(self, address: str, ids: Sequence[int], *, limit: int) -> int: ...

    def events_left(self, address: str, ids: Sequence[int]) -> set[int]: ...

    def forget_suppression(self, address: str) -> int: ...


def erase(
    store: ErasingStore, address: str, *, now: datetime, keep_suppression: bool, limit: int = 200
) -> Erased:
    """Take a person out: addresses and words go; numbers, times, outcomes and a hash stay as the proof.

    What is still to be sent is withheld. What is under way or in doubt is left and told: it has to end first.
    """
    found = store.mails_to(address)
    pending = [number for number, state, doubted in found if state is State.PENDING and not doubted]
    withheld: list[int] = []
    for some in _portions(pending, limit):
        withheld += store.withhold(some, now=now)
    ended = [number for number, state, _ in found if state in FINAL] + withheld
    # Mostly there are none: whoever settles an event notes whom it names.
    shut = _walk(lambda after: store.note_events(address, now=now, after=after, limit=limit))
    events, left = 0, set[int]()
    for some in _portions([number for number, _, _ in found], limit) or [()]:
        while count := store.erase_events(address, some, limit=limit):
            events += count
        left |= store.events_left(address, some)
    suppressions = 0 if keep_suppression else store.forget_suppression(address)
    # The mails come last: as long as they bear the address, an erasure that broke off finds everything again.
    mails = sum(store.erase_mails(some, address=address, now=now) for some in _portions(ended, limit))
    return Erased(
        mails=mails,
        withheld=len(withheld),
        events=events,
        events_left=len(left) + shut,
        suppressions=suppressions,
        open=tuple(sorted({number for number, _, _ in found} - set(ended))),
    )


def _walk(step: Callable[[int], tuple[int, int | None]]) -> int:
    total, after = 0, 0
    while True:
        count, further = step(after)
        total += count
        if further is None:
            return total
        after = further


def _portions(numbers: Sequence[int], size: int) -> Sequence[Sequence[int]]:
    return [numbers[begin : begin + size] for begin in range(0, len(numbers), size)]
