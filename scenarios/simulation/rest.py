"""The rest: all that there is of a world besides the memory of the one worker that is about to die.

A killed worker leaves its memory behind and nothing else. Two worlds whose rests are equal, in whichever runs they came about,
have one future. What only a person reads is left out: the words of answers that have been said. See "Worlds that
come to the same" in docs/proof.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from reference_sender.outbox.schema import metadata
from scenarios import checks
from scenarios.history import Try
from scenarios.simulation import guards
from scenarios.simulation.asked import EACH, Notes
from scenarios.simulation.behaviours import LOOK_UP
from scenarios.simulation.processes import Process
from scenarios.simulation.world import World
from simulator.provider.ledger import Attempt, AttemptState
from simulator.provider.plan_state import Tally
from simulator.provider.provider import DEFAULT_ACCOUNT

#: Columns that the sender writes for people and never asks again.
WORDS = {
    "outgoing_email": ("last_code", "raw_answer"),
    "email_attempt": ("phase", "code", "enhanced", "trouble", "answer", "reason"),
}
#: Of these the judge asks only whether there is something.
GIVEN = {"outgoing_email": ("last_error",)}
#: What was written once, when the mail was promised, and is the same in every world of one shape.
WRITTEN_ONCE = ("raw", "template", "parameters")


@cache
def queries() -> tuple[str, ...]:
    """Return what is read of the sender's database: every table, every column that could decide anything."""
    found = []
    for table in metadata.sorted_tables:
        left_out = (*WORDS.get(table.name, ()), *WRITTEN_ONCE)
        given = GIVEN.get(table.name, ())
        columns = [
            f'"{column.name}" IS NULL' if column.name in given else f'"{column.name}"'
            for column in table.columns
            if column.name not in left_out
        ]
        found.append(f"SELECT {', '.join(columns)} FROM {table.name} ORDER BY 1")
    return (*found, "SELECT * FROM business", "SELECT * FROM sqlite_sequence")


def as_judged(attempt: Try) -> tuple[Any, ...]:
    """Return what a judge may make of an attempt that is over, whatever words it was answered with."""
    code = attempt.code
    return (
        attempt.opened_at,
        attempt.closed_at,
        attempt.recipients,
        attempt.message_id,
        attempt.key,
        attempt.accepted,
        attempt.told_yes,
        attempt.in_doubt,
        None if code is None else attempt.retry_after_s,
        *(ask(attempt) for ask in checks.QUESTIONS),
    )


@dataclass(frozen=True, slots=True)
class Left:
    """What a victim would leave behind."""

    digest: bytes
    over: tuple[int, ...]
    """Numbers of the attempts that have ended: what stands in a script for them decides nothing any more."""
    standing: frozenset[str]
    """Stages of which was asked whether any rule stands there: those in the script show by standing."""


class Rest:
    """Looks at the rest of one world, as often as something has changed in it."""

    overlooks: frozenset[str] = frozenset()
    """Parts that are not looked at, for whoever wants to see that each is needed."""

    def __init__(
        self,
        world: World,
        victim: Process,
        rows: Callable[[str], list[tuple[Any, ...]]],
        tries: Callable[[Attempt], Try],
        notes: Notes,
        since: float,
    ) -> None:
        """`rows` answers a query about what is committed; `since`: when the harness began to wait for the victim."""
        self._world = world
        self._victim = victim
        self._rows = rows
        self._try_of = tries
        self._notes = notes
        self._since = since
        self._queries = queries()
        self._seen_at: Hashable = None
        self._seen: Hashable = None

    def __call__(self) -> Hashable:
        """Return the rest as it is now: a `Left`.

        Only the state of the dice, if somebody else has a memory, too.
        """
        loop = self._world.loop
        now = loop.now, loop.outside, guards.dice()
        if now != self._seen_at:
            self._seen_at, self._seen = now, self._look()
        return self._seen

    def _look(self) -> Hashable:
        world = self._world
        service = world.service
        living = [each for each in world.processes if not each.dead]
        if service is None or len(living) != 2 or self._victim not in living:
            return guards.dice()
        account = service.provider.account(DEFAULT_ACCOUNT, world.clock.now())
        over, attempts = [], []
        for attempt in account.attempts.values():
            tried = self._try_of(attempt)
            is_open = attempt.state is not AttemptState.CLOSED
            number = self._notes.numbers.get(attempt.id)
            if number is not None and not is_open:
                over.append(number)
            as_it_is = (attempt.stage, attempt.rules, attempt.answer, attempt.drop) if is_open else ()
            attempts.append((attempt.id, number, attempt.kept, as_it_is, as_judged(tried)))
        foretold = service.provider._foretold
        keys = account.keys
        parts = {
            "clock": loop_state(world),
            "harness": (self._since, tuple(name for _, name, _ in world.deaths), tuple(world.complaints)),
            "dice": guards.dice(),
            "outbox": tuple(map(tuple, map(self._rows, self._queries))),
            "attempts": attempts,
            "ledger": (account.ledger.acceptances, account.booked),
            "keys": (keys._kept, keys._in_flight, keys._claims),
            "foretold": (foretold._destinies, foretold._early, len(service.provider._journal._records)),
            "look-ups": struck_at_look_ups(account.plan.tally(world.clock.now())),
            "limits": (account.limiter._meters, account.greylist, account.aftermath.events.happened),
        }
        seen = [part for name, part in parts.items() if name not in self.overlooks]
        text = repr(seen)
        assert " at 0x" not in text, "something has no value of its own, only a place in memory"
        digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
        standing = frozenset(stage for number, stage in self._notes.asked if number == EACH)
        return Left(digest, tuple(over), standing)


def struck_at_look_ups(tallies: Iterable[Tally]) -> list[tuple[str, int]]:
    """Return how often each rule for look-ups has struck: these are in no attempt."""
    return [(each.rule.name, each.fired) for each in tallies if ("http", LOOK_UP) in each.rule.stages]


def loop_state(world: World) -> Hashable:
    """Return the clock, the connections that are open and what is on its way on them, and how far others have got since.

    What others do after the last thing that was on the wire follows from it, so to count their steps is enough. When time
    advances everybody else is at rest, and waits for timers that follow from what is written down of connections and attempts.
    """
    network = world.network
    numbers = {end.number for end in network.ends}
    lines: dict[int, list[Any]] = {number: [] for number in numbers}
    for wired in network.seen:
        if wired.connection in numbers:
            # What the provider has said over it is in the attempts; that it spoke, and when, is kept.
            spoken = wired.data if wired.target.startswith("10.") else b""
            lines[wired.connection].append((wired.at, wired.what, spoken))
    first = min(numbers, default=0)
    ends = [
        (
            end.number - first,
            end.is_dialled,
            end.dead,
            end._closing,
            end.lingers_not,
            end._kernel_bytes > 0,
            end._in_flight_bytes > 0,
            end._waiting_bytes > 0,
            end._eof_arrived,
            end._eof_told,
            end._reading,
            end._reads,
        )
        for end in network.ends
    ]
    since = world.loop.outside - world.loop.outside_then
    return world.loop.now, since, [_still_counts(lines[number]) for number in sorted(numbers)], ends


def _still_counts(line: list[Any]) -> list[Any]:
    """Return what of a line's past still counts: RSET takes back all but the greeting (RFC 5321, section 4.1.1.5)."""
    greeting: tuple[Any, ...] = ()
    begin = 0
    for position, (_, _, spoken) in enumerate(line):
        verb = spoken[:4].upper()
        if verb in (b"EHLO", b"HELO"):
            greeting = (spoken,)
        elif verb == b"RSET":
            begin = position
    return [greeting, *line[begin:]] if begin else line
