"""A run of the matrix as a whole: kept in a journal, taken up where it ended, and summed up honestly.

The journal has one line of JSON per finished block, with the digest of the sources that decide what a block comes
to: after a change of any of them a block is played again. What must *sometimes* happen is said here, too: a run in
which it never did is invalid, not green. How a cell is played is said elsewhere.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import reference_sender
import scenarios
import simulator
from scenarios.checks import Finding
from scenarios.simulation import replay
from scenarios.simulation.behaviours import BY_WIRE
from scenarios.simulation.cast import REFERENCE
from scenarios.simulation.matrix import Block, Size, blocks, columns_of
from scenarios.simulation.played import COUNTS, Played, as_line, from_line
from scenarios.simulation.players import run
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.shapes import CAMPAIGNS
from scenarios.simulation.sometimes import SOMETIMES
from scenarios.stage import Broken, Invalid

#: The profile in which a promise is put to the test.
PROFILE_OF: Mapping[str, str] = {
    "exhaustive.keys": "http-keys",
    "exhaustive.keys-forgotten": "http-keys-forgotten",
    "exhaustive.lookup": "http-lookup-lagging",
    "exhaustive.at-most-once": "smtp-at-most-once",
    "exhaustive.at-least-once": "smtp-at-least-once",
    "exhaustive.limited": "http-limited",
    "exhaustive.spare": "http-with-spare",
    "exhaustive.batches": "http-batches",
    "exhaustive.webhooks": "http-hearing",
    "exhaustive.webhooks-in-doubt": "smtp-hearing",
}


# --- the journal ------------------------------------------------------------------------------------


@cache
def sources() -> str:
    """Return the digest of everything that decides what a block comes to."""
    digest = hashlib.blake2b(digest_size=8)
    for package in (reference_sender, scenarios, simulator):
        place = Path(next(iter(package.__path__)))
        for path in sorted(place.rglob("*.py")):
            if not path.name.startswith("test_"):
                digest.update(str(path.relative_to(place)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def read_journal(path: Path) -> dict[str, Played]:
    """Return what is done already, by block; a line of other sources or a half one counts for nothing."""
    done: dict[str, Played] = {}
    if not path.exists():
        return done
    for line in path.read_text(encoding="utf-8").splitlines():
        mark, _, rest = line.partition(" ")
        if mark != sources():
            continue
        try:
            played = from_line(rest)
        except (ValueError, TypeError, KeyError):
            # The run was interrupted while it wrote.
            continue
        if played.error is None:
            done[played.block] = played
    return done


def play(
    todo: Sequence[Block],
    *,
    jobs: int,
    journal: Path | None = None,
    each: Callable[[Played], None] = lambda played: None,
    sender: str = REFERENCE,
    every: bool = False,
) -> list[Played]:
    """Play what the journal does not know yet; `each` is told of every block, those of the journal first.

    `every`: play each crash point, also where several are one.
    """
    known = read_journal(journal) if journal is not None else {}
    done = [known[block.id] for block in todo if block.id in known]
    for played in done:
        each(played)
    left = [block for block in todo if block.id not in known]
    if not left:
        return done
    if journal is None:
        return done + run(left, jobs=jobs, each=each, sender=sender, every=every)
    journal.parent.mkdir(parents=True, exist_ok=True)
    with journal.open("a", encoding="utf-8") as lines:

        def keep(played: Played) -> None:
            lines.write(f"{sources()} {as_line(played)}\n")
            lines.flush()
            each(played)

        return done + run(left, jobs=jobs, each=keep, sender=sender, every=every)


# --- what it came to --------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Summary:
    """What a run of one profile covered and found. `cells` + `skipped` = `total`."""

    profile: str
    size: str
    blocks: int = 0
    total: int = 0
    """Cells there are, as far as the blocks could say."""
    cells: int = 0
    """Cells that are covered."""
    played: int = 0
    """Worlds that were run for them. Fewer, because crash points that are one are played once."""
    failed: int = 0
    not_reached: int = 0
    """Cells whose crash point was never met: covered, but they say no more than the run without it."""
    rows: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)
    """Behaviour → crash → `matrix.COUNTS`."""
    events: dict[str, int] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    """What should have happened sometimes and never did."""
    errors: list[str] = field(default_factory=list)
    failures: list[dict[str, Any]] = field(default_factory=list)
    virtual_s: float = 0.0
    cpu_s: float = 0.0

    @property
    def skipped(self) -> int:
        return self.total - self.cells

    def as_json(self) -> dict[str, Any]:
        """Return the values that a certificate keeps; the same run gives the same ones."""
        return {
            "profile": self.profile,
            "size": self.size,
            "blocks": self.blocks,
            "total": self.total,
            "cells": self.cells,
            "played": self.played,
            "skipped": self.skipped,
            "failed": self.failed,
            "not_reached": self.not_reached,
            "virtual_days": round(self.virtual_s / 86_400, 1),
            "rows": self.rows,
            "events": self.events,
            "missing": self.missing,
            "errors": self.errors,
        }


def summary(profile: str, size: Size, played: Iterable[Played], *, keep: int = 5) -> Summary:
    """Add up the blocks of one profile; the first `keep` failures are kept whole."""
    result = Summary(profile=profile, size=size.value)
    events: Counter[str] = Counter()
    fired: set[str] = set()
    # In the order of the blocks, not in that in which they were done: the same run, the same words.
    order = {block.id: number for number, block in enumerate(blocks(size, (profile,)))}
    for each in sorted(played, key=lambda each: order[each.block]):
        result.blocks += 1
        result.total += each.total
        result.cells += each.cells
        result.played += each.played
        result.failed += each.failed
        result.not_reached += each.not_reached
        result.virtual_s += each.virtual_s
        result.cpu_s += each.cpu_s
        events.update(each.events)
        fired.update(each.fired)
        if each.error is not None:
            result.errors.append(f"{each.block}: {each.error}")
        for failure in each.failures[: keep - len(result.failures)]:
            result.failures.append({"cell": failure.cell, "said": failure.said, "findings": failure.findings})
        for behaviour, crashes in each.coverage.items():
            row = result.rows.setdefault(behaviour, {})
            for crash, counts in crashes.items():
                cell = row.setdefault(crash, dict.fromkeys(COUNTS, 0))
                for name, count in counts.items():
                    cell[name] += count
    result.events = dict(sorted(events.items()))
    result.missing = [*sorted(SOMETIMES[profile] - set(events)), *never_struck(profile, fired, size)]
    return result


def never_struck(profile: str, fired: Iterable[str], size: Size) -> list[str]:
    """Return the behaviours whose rule never struck: the column was played in name only."""
    fired, wire = set(fired), BY_ID[profile].wire
    return [
        f"the provider never did {name!r}"
        for name in columns_of(BY_ID[profile], size)
        if not BY_WIRE[wire][name].has_struck(fired)
    ]


def told(summaries: Iterable[Summary]) -> str:
    """Return the count in one sentence."""
    everything = list(summaries)
    total, cells, played, failed = (
        sum(getattr(each, name) for each in everything) for name in ("total", "cells", "played", "failed")
    )
    days = sum(each.virtual_s for each in everything) / 86_400
    return (
        f"{cells:,} of {total:,} cells covered by {played:,} worlds, {total - cells:,} skipped, {failed:,} failed; "
        f"{days:,.1f} days went by in them"
    )


# --- as a scenario ----------------------------------------------------------------------------------


class Matrix:
    """The matrix as a place on which a promise is put to the test."""

    def __init__(
        self,
        promise: str,
        *,
        size: str,
        jobs: int,
        journal: Path | None = None,
        sender: str = REFERENCE,
        every: bool = False,
        replays: Path | None = None,
    ) -> None:
        self._profile = PROFILE_OF[promise]
        self._size = Size(size)
        self._jobs = jobs
        # The journal knows the sources of the reference sender only.
        self._journal = journal if sender == REFERENCE else None
        self._sender = sender
        self._every = every
        self._replays = replays
        self._replay: dict[str, Any] = {}
        self._summary: Summary | None = None

    def judge(self) -> None:
        """Play every cell of the profile. Raises `Broken` with what was found, `Invalid` for what says nothing."""
        todo = blocks(self._size, (self._profile,))
        if self._sender != REFERENCE:
            # Others have no campaigns, or such as nobody here knows.
            todo = [each for each in todo if each.shape not in CAMPAIGNS]
        played = play(todo, jobs=self._jobs, journal=self._journal, sender=self._sender, every=self._every)
        result = self._summary = summary(self._profile, self._size, played)
        if result.failures:
            self._keep(result.failures[0]["cell"])
            raise Broken(
                [
                    replace(Finding(**_finding(each)), sentence=f"{each['sentence']} [{failure['said']}]")
                    for failure in result.failures
                    for each in failure["findings"][:1]
                ]
            )
        if result.errors:
            raise Invalid(f"{len(result.errors)} blocks broke off, the first one: {result.errors[0]}")
        # What must sometimes happen to the reference sender need not happen to every other.
        if result.missing and self._sender == REFERENCE:
            raise Invalid(f"never in {result.cells} cells: {'; '.join(result.missing)}")

    def _keep(self, cell: Mapping[str, Any]) -> None:
        """Make the first counterexample small and keep it as a file, if there is a place for it."""
        if self._replays is None:
            return
        path, seen = replay.keep(self._replays, replay.cell_from(cell), self._sender)
        self._replay = {
            "replay": {
                "file": path.name,
                "command": replay.command(path),
                "timeline": [line.text for line in seen.lines],
            }
        }

    def evidence(self) -> dict[str, Any]:
        """Return what a certificate keeps."""
        if self._summary is None:
            return {}
        failures = self._summary.failures
        return {
            "matrix": self._summary.as_json(),
            "counterexamples": failures,
            **self._replay,
            "findings": [finding for failure in failures for finding in failure["findings"][:1]],
        }


def _finding(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in facts.items()}
