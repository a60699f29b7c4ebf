"""The matrix: every behaviour of the provider × every crash point of its victim, enumerated, never sampled.

A *block* is one script on one profile and shape: a dry run without a crash tells by which points the victim
comes, then one cell is played for each of them. Blocks are independent of each other, so they are spread over
processes, and a large run can be taken up where it ended.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from scenarios.simulation.behaviours import BY_WIRE, HEALTHY, IN_FLIGHT, columns
from scenarios.simulation.cell import FREEZE, Cell
from scenarios.simulation.crashes import FREEZE_ONCE
from scenarios.simulation.profiles import BY_ID, Profile
from scenarios.simulation.shapes import CAMPAIGNS, EXPIRING, FATED, KNOWING, SHAPES


class Size(StrEnum):
    """How much of the matrix is played."""

    QUICK = "quick"
    """All single behaviours × every commit, and the named points of a few: within the test command's budget."""
    SINGLE = "single"
    """All single behaviours × every crash point of worker, provider and application: every push.

    With one behaviour of each outcome also stops, wrong clocks, and every shape."""
    FULL = "full"
    """Besides, these with all behaviours, ordered pairs × every crash point, triples, all pairs of crashes: a night."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One script on one profile and shape, and which crash points of whom are played."""

    profile: str
    script: tuple[str, ...]
    shape: str
    victim: str
    kinds: tuple[str, ...]
    twice: bool = False
    """Play every pair: the crash, and the crash in the recovery from it."""
    then: tuple[tuple[str, ...], ...] = ()
    """Instead of the script alone: behind it, place by place, each of these behaviours."""
    skew_s: float = 0.0
    """By how much the clock of the other worker is wrong."""
    has_bytes: bool = True
    """False: at the model level (`scenarios.simulation.byteless`), ten times as fast."""

    @property
    def id(self) -> str:
        words = [self.profile, self.shape, self.victim, " > ".join(self.script), "+".join(self.kinds)]
        words += ["twice"] if self.twice else []
        words += [f"then {_named(each)}" for each in self.then]
        words += [] if self.has_bytes else ["without bytes"]
        words += [f"clock {self.skew_s:+g} s"] if self.skew_s else []
        return "/".join(words)

    def cell(self, **more: Any) -> Cell:
        """Return the cell of it in which nobody dies, or one that differs in `more`."""
        mine = {"profile": self.profile, "script": self.script, "shape": self.shape, "victim": self.victim}
        return Cell(**{**mine, "skew_s": self.skew_s, "is_asked": bool(self.then), **more})

    @property
    def scripts(self) -> Iterator[tuple[str, ...]]:
        """The scripts of the block, the first places changing slowest."""
        return ((*self.script, *more) for more in itertools.product(*self.then))


def _named(names: Sequence[str]) -> str:
    return " | ".join(names) if len(names) < 3 else f"{names[0]} | … {len(names)} … | {names[-1]}"


_COMMITS = ("commit",)
_ALL = ("step", "sql", "commit", "point", "reply")
#: All that there is without bytes and SQL.
_BARE = ("commit", "point", "reply", "step")
#: A clock that is wrong by most of a lease, either way.
SKEW_S = 25.0
#: In these profiles it matters that something went wrong, and little what: a gate does not ask, and of a request with
#: several mails what counts is which of them it was about. So all of a size is played of a few columns only – the provider
#: is well, away, has enough, refuses for good, took a mail and did not say so, lists results as it likes – and `QUICK` plays
#: no others; of the others only the crash points of the worker are played, or those of the intake: `SINGLE` dies at their commits, `FULL` at
#: every one.
FEW: Mapping[str, frozenset[str]] = {
    "http-limited": frozenset({HEALTHY.name, "503", "429 with retry-after", "422", "taken, closed"}),
    "http-with-spare": frozenset(
        {
            HEALTHY.name,
            "503",
            "422",
            "taken, closed",
            "spare: dot 451",
            "spare: RCPT 550",
            "spare: taken, closed",
            "spare: dot closed",
        }
    ),
    "http-hearing": frozenset({"nothing wrong", "before the answer", "nonsense in the batch", "everything"}),
    "smtp-hearing": frozenset({"the answer is lost and the event is not", "everything"}),
    "http-batches": frozenset(
        {
            HEALTHY.name,
            "503",
            "422",
            "taken, closed",
            "one result missing",
            "one refused, only ids",
            "one refused, so all are",
        }
    ),
}
#: The shape that is played where nothing else is said.
SIMPLEST = next(iter(SHAPES))
#: Where the gate orders a crowd, or a mail of several recipients has one answer, it does not matter either what exactly
#: went wrong: `SINGLE` plays these shapes with one behaviour of each outcome, `FULL` with all. A worker that is stopped, and
#: a wrong clock, matter to how an attempt ends and when: likewise. Sequences of several behaviours are played with one of
#: each outcome in all shapes but the simplest. A wrong clock matters to a mail, and to two workers about the same mails;
#: in the other shapes only `FULL` plays it.
WITH_FEW = frozenset({"three recipients", "eight mails, two workers", "twelve of bulk, then a code"})
#: What a crowd is to one worker and to two is a matter of the gate, and of the wire: `SINGLE` plays these two shapes in these profiles.
CROWDS = frozenset({"eight mails, two workers", "twelve of bulk, then a code"})
WITH_CROWDS = frozenset({"http-keys", "http-limited", "smtp-at-most-once"})
ONE_OF_EACH = frozenset(
    {HEALTHY.name, "503", "429 with retry-after", "422", "taken, closed"}
    | {"greeting 421", "dot 451", "RCPT 550", "dot closed"}
)
TELL_TIMES = frozenset(
    {"503 with retry-after", "429 until a date", "one mail in 20 s, until a date", "taken late, 409 until"}
)
SKEWED = frozenset({SIMPLEST, "two mails, two workers"})
#: Here `FULL` plays all pairs of behaviours × every crash point, one policy for each wire. What a policy does with a doubt is not
#: another thing for each way into it: under the others the first of a pair is one of each outcome, or tells a time.
WITH_ALL_PAIRS = frozenset({"http-keys", "smtp-at-most-once"})
#: The profile on which mails that know of each other are played, and with which behaviours: one of each outcome.
ASKED, KNOWN = "http-keys", frozenset({HEALTHY.name, "503", "422", "taken, closed"})
#: Where somebody asks, all of a size is played of a look-up that fails, one that lags and one that lies, each behind another way to lose an
#: answer; of the others `QUICK` plays nothing and `SINGLE` the commits of the worker.
ASKED_FEW = frozenset({"taken, asked: 503", "taken late, asked: stale", "not taken, asked: unfiltered"})
#: Where the time of a mail ends between the begin of its attempt and its first byte. Over HTTP there is nothing in between.
LAST_MOMENT = ("smtp-at-most-once", "tarpit")


def blocks(size: Size, profiles: Sequence[str] = tuple(BY_ID)) -> list[Block]:
    """List the blocks of a size, smallest scripts first, so that the first counterexample is a small one."""
    found: list[Block] = []
    for profile in (each for each in BY_ID.values() if each.id in profiles):
        for name in columns_of(profile, size):
            found += (_heard if profile.hears else _singles)(profile, name, size)
        if size is Size.FULL and not profile.hears:
            found += _full(profile)
    return sorted(found, key=lambda block: (len(block.script) + len(block.then), block.twice))


def columns_of(profile: Profile, size: Size) -> tuple[str, ...]:
    """Return the names of the behaviours that this size plays in a profile."""
    every = columns(profile.id, profile.wire)
    if size is not Size.QUICK:
        return every
    few = FEW.get(profile.id, every)
    return tuple(name for name in every if name in few and not _is_aside(profile, name))


def _is_aside(profile: Profile, name: str) -> bool:
    """Tell whether it is one of many that go wrong when somebody asks."""
    return BY_WIRE[profile.wire][name].is_asked and name not in ASKED_FEW


def _singles(profile: Profile, name: str, size: Size) -> Iterator[Block]:
    def block(victim: str, *kinds: str, shape: str = SIMPLEST, skew_s: float = 0.0) -> Block:
        return Block(
            profile=profile.id, script=(name,), shape=shape, victim=victim, kinds=kinds, skew_s=skew_s
        )

    shows = _shows(profile, name)
    if name == HEALTHY.name:
        yield block("application", "sql", "commit")
    if profile.id == ASKED and name in KNOWN:
        yield from _campaigns(name, size)
    if size is Size.QUICK:
        yield block("worker", *_COMMITS, shape=shows)
        if name in IN_FLIGHT:
            yield block("worker", FREEZE)
        return
    if name not in FEW.get(profile.id, (name,)) or _is_aside(profile, name):
        yield block("worker", *(_ALL if size is Size.FULL else _COMMITS), shape=shows)
        return
    yield block("worker", *_ALL, shape=shows)
    is_one_of_few = name in FEW.get(profile.id, ONE_OF_EACH | TELL_TIMES)
    if name in IN_FLIGHT:
        yield block("worker", FREEZE, shape=shows)
    elif size is Size.FULL or is_one_of_few:
        yield block("worker", FREEZE_ONCE, shape=shows)
    if not BY_WIRE[profile.wire][name].says_yes_early:
        yield block("provider", "ledger", "step", shape=shows)
    for shape in SHAPES:
        if size is Size.SINGLE and shape != shows:
            alone = profile.id in WITH_ALL_PAIRS and shape not in WITH_FEW
            if not (is_one_of_few or alone):
                continue
            if shape in CROWDS and profile.id not in WITH_CROWDS:
                continue
        if shape != shows:
            yield block("worker", *_COMMITS, shape=shape)
        if name not in ONE_OF_EACH | TELL_TIMES or (size is Size.SINGLE and shape not in SKEWED | {shows}):
            continue
        for skew_s in (-SKEW_S, SKEW_S):
            yield block("worker", *_COMMITS, shape=shape, skew_s=skew_s)
    if profile.id == ASKED and name in KNOWN:
        for shape in KNOWING:
            yield block("worker", *_COMMITS, shape=shape)
    if (profile.id, name) == LAST_MOMENT:
        yield block("worker", *_COMMITS, shape=EXPIRING.name)


def _campaigns(name: str, size: Size) -> Iterator[Block]:
    """List what is played of campaigns: above all, whoever writes their rows dies; `FULL` plays more than a healthy provider."""
    for shape in CAMPAIGNS.values():
        block = Block(profile=ASKED, script=(name,), shape=shape.name, victim="expander", kinds=_COMMITS)
        if size is Size.QUICK:
            if name == HEALTHY.name:
                yield block
        elif name == HEALTHY.name or size is Size.FULL:
            yield replace(block, kinds=_ALL)
            if shape.moves:
                yield replace(block, victim="person", kinds=("sql", "commit"))
            if shape.expanders == 1:
                yield replace(block, victim="worker")
            if size is Size.FULL:
                yield replace(block, twice=True)


def _heard(profile: Profile, name: str, size: Size) -> Iterator[Block]:
    """List what is played in a storm: above all, the intake dies; in a few of them somebody else, and with more mails."""

    def block(victim: str, *kinds: str, shape: str = profile.shape, twice: bool = False) -> Block:
        return Block(profile=profile.id, script=(name,), shape=shape, victim=victim, kinds=kinds, twice=twice)

    if size is Size.QUICK:
        yield block("intake", *_COMMITS)
        return
    is_one_of_few = name in FEW[profile.id]
    yield block("intake", *(_ALL if size is Size.FULL or is_one_of_few else _COMMITS))
    if size is Size.FULL or is_one_of_few:
        yield block("intake", *_COMMITS, shape=FATED.name)
        yield block("intake", FREEZE_ONCE)
        yield block("worker", *_ALL)
        if size is Size.FULL and is_one_of_few:
            yield block("intake", *_COMMITS, twice=True)
            for other in columns_of(profile, Size.QUICK):
                if other != name:
                    yield replace(block("intake", *_COMMITS), script=(name, other))


def _shows(profile: Profile, name: str) -> str:
    """Return the smallest shape in which a behaviour shows what it does, and the profile what it is about."""
    shape = BY_WIRE[profile.wire][name].shape
    return profile.shape if shape == SIMPLEST else shape


def _full(profile: Profile) -> Iterator[Block]:
    """List what `FULL` adds: crashes in the recovery from a crash, pairs and triples of behaviours.

    What one worker does is played with its bytes. Where two work, a crash of one leaves the memory of the other, so that
    almost nothing is the same as anything else; these, and what nobody dies in, are played without. So is a crash in the
    recovery, by when it is over what exactly went wrong: with bytes with one behaviour of each outcome. All behaviours meet
    all others with one mail, on the wire under one policy each; in the other shapes one of each outcome does, and those that only show there.
    """
    behaviours = BY_WIRE[profile.wire]
    every = columns(profile.id, profile.wire)
    few = FEW.get(profile.id)
    for name in every:
        is_one_of_few = name in (few or ONE_OF_EACH | TELL_TIMES | ASKED_FEW | {*IN_FLIGHT})
        if few is not None and not is_one_of_few:
            continue
        has_bytes = is_one_of_few or behaviours[name].needs_bytes
        yield Block(
            profile=profile.id,
            script=(),
            shape=_shows(profile, name),
            victim="worker",
            kinds=_ALL if has_bytes else _BARE,
            then=((name,),),
            twice=True,
            has_bytes=has_bytes,
        )
    if few is not None:
        names = tuple(name for name in every if name in few)
        for name in names:
            yield Block(
                profile=profile.id,
                script=(),
                shape=profile.shape,
                victim="worker",
                kinds=_ALL,
                then=((name,), names),
            )
        return
    # Terms are in force from the first attempt to the last: in which attempt they would stand makes no difference.
    lasting = {name for name in every if behaviours[name].terms}
    for shape in SHAPES.values():
        names = tuple(
            name
            for name in every
            if name not in lasting
            and (shape.name == SIMPLEST or name in ONE_OF_EACH or behaviours[name].shape == shape.name)
        )
        alone = shape.workers == 1
        for name in names:
            block = Block(
                profile=profile.id,
                script=(),
                shape=shape.name,
                victim="worker",
                kinds=_ALL if alone else _BARE,
                then=((name,), names),
                has_bytes=alone,
            )
            if shape.name != SIMPLEST or profile.id in WITH_ALL_PAIRS or name in ONE_OF_EACH | TELL_TIMES:
                yield block
            yield replace(block, kinds=(), then=((name,), names, names), has_bytes=False)
