"""What a block of the matrix came to: counts, failures, and its line in the journal of a run."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from scenarios.simulation.crashes import Share, crash_of

#: What is counted in each square of the coverage table: crash points, those that failed, those that were not met, and
#: worlds that were run for them.
COUNTS = ("cells", "failed", "not_reached", "played")


@dataclass(slots=True, kw_only=True)
class Failure:
    """A cell with findings: enough to play it again."""

    cell: dict[str, Any]
    said: str
    findings: list[dict[str, Any]]


@dataclass(slots=True, kw_only=True)
class Played:
    """What a block came to; plain data, so that it can be kept and sent."""

    block: str
    profile: str
    total: int = 0
    """Cells that the block has. Without an error, as many are covered."""
    cells: int = 0
    """Cells that are covered: played, or one with a cell that was played."""
    played: int = 0
    """Worlds that were really run."""
    not_reached: int = 0
    coverage: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)
    """Behaviour → crash → `COUNTS`."""
    fired: list[str] = field(default_factory=list)
    events: dict[str, int] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    failed: int = 0
    error: str | None = None
    virtual_s: float = 0.0
    cpu_s: float = 0.0
    trace: str = ""
    """Hash over the traces of all cells, in order."""


def count_in(played: Played, share: Share, keep: int) -> None:
    """Add a world and what it stands for. The first `keep` failures are kept whole."""
    outcome, cell = share.outcome, share.outcome.cell
    row = played.coverage.setdefault(share.row, {})
    if share.played:
        played.played += share.played
        played.virtual_s += outcome.virtual_s
        _counts(row, crash_of(cell) + share.where)["played"] += share.played
    for column, number in share.columns.items():
        counts = _counts(row, column)
        played.cells += number
        counts["cells"] += number
        if not outcome.reached:
            played.not_reached += number
            counts["not_reached"] += number
        if outcome.findings:
            played.failed += number
            counts["failed"] += number
    if outcome.findings and share.columns and share.played and len(played.failures) < keep:
        played.failures.append(
            Failure(
                cell=cell.as_json(),
                said=str(cell),
                findings=[each.as_json() for each in outcome.findings],
            )
        )


def _counts(row: dict[str, dict[str, int]], column: str) -> dict[str, int]:
    return row.setdefault(column, dict.fromkeys(COUNTS, 0))


def as_line(played: Played) -> str:
    """Return one line of JSON: a finished block in the journal of a resumable run."""
    facts = {name: getattr(played, name) for name in Played.__dataclass_fields__ if name != "failures"}
    facts["failures"] = [
        {"cell": each.cell, "said": each.said, "findings": each.findings} for each in played.failures
    ]
    return json.dumps(facts, sort_keys=True)


def from_line(line: str) -> Played:
    """Read a line of the journal."""
    facts = json.loads(line)
    failures = [Failure(**each) for each in facts.pop("failures")]
    return Played(**facts, failures=failures)
