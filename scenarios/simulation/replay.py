"""Counterexamples as files: written when a run fails, and played again to the same end, byte for byte.

A file says everything that decides the run (who plays, the cell or the schedule with its seed), what was found,
and the hash of all that was on the wire. `simulator replay FILE` ends here. Nothing here judges.
"""

from __future__ import annotations

import json
import platform
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

import click
from rich.console import Console
from rich.text import Text

from scenarios.checks import Finding
from scenarios.simulation import shrink
from scenarios.simulation.behaviours import BY_WIRE
from scenarios.simulation.campaign_machine import CampaignRun
from scenarios.simulation.cast import REFERENCE, CastError, cast
from scenarios.simulation.cell import CAMPAIGNERS, VICTIMS, Cell
from scenarios.simulation.listening import ListeningRun
from scenarios.simulation.machine import Run, perform
from scenarios.simulation.processes import CrashPoint
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.schedule import CAMPAIGN_STEPS, Schedule, schedule_from
from scenarios.simulation.senders import Disk, WorldSender, quick_disk
from scenarios.simulation.shapes import CAMPAIGNS, EVERY_SHAPE
from scenarios.simulation.stories import play
from scenarios.simulation.timeline import Line, Recorder, lines, show
from scenarios.simulation.world import World, silence
from simulator import __version__

SCHEMA = "mailproof-replay/2"
#: Of former files, by what they lack.
FORMER = {"mailproof-replay/1": "its mails are of no sort"}
#: What else decides the bytes on the wire: named when a trace differs.
LIBRARIES = ("aiohttp", "aiosmtplib", "aiosmtpd", "uvicorn", "starlette", "sqlalchemy")


class ReplayError(Exception):
    """This file cannot be played again. The message is one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counterexample:
    """What decides a run: who plays what."""

    case: Cell | Schedule
    sender: str = REFERENCE

    @property
    def kind(self) -> str:
        return "cell" if isinstance(self.case, Cell) else "schedule"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a run came to, with its timeline."""

    findings: tuple[Finding, ...]
    trace: str
    lines: tuple[Line, ...]


# --- playing ----------------------------------------------------------------------------------------


@contextmanager
def stage() -> Iterator[Disk]:
    """Give a disk that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="mailproof-", dir=quick_disk()) as folder:
        yield Disk(Path(folder))


def see(example: Counterexample) -> Seen:
    """Play it once, on a fresh disk, and look closely. Raises `CastError`."""
    case = example.case
    with stage() as disk:
        return look(case, cast(example.sender, disk, BY_ID[case.profile]), disk)


def look(case: Cell | Schedule, sender: WorldSender, disk: Disk) -> Seen:
    """Play a case with this sender on this disk and look closely."""
    if isinstance(case, Schedule):
        found, run = perform(case, sender, disk, _run_of(case))
        return Seen(findings=tuple(found), trace=run.trace, lines=tuple(lines(run.recorder.moments, found)))
    recorders: list[Recorder] = []

    def watch(world: World) -> None:
        recorders.append(Recorder(world, sender.said))

    outcome = play(case, sender, disk, watch)
    return Seen(
        findings=tuple(outcome.findings),
        trace=outcome.trace,
        lines=tuple(lines(recorders[0].moments, outcome.findings)),
    )


def shrunk(
    case: Cell | Schedule, sender: WorldSender, disk: Disk, *, plays: int = shrink.PLAYS
) -> Cell | Schedule:
    """Return the smallest case found that breaks what this one breaks first."""
    if isinstance(case, Cell):
        worst = play(case, sender, disk).findings[0].kind

        def cell_fails(cell: Cell) -> bool:
            outcome = play(cell, sender, disk)
            return outcome.reached and any(each.kind == worst for each in outcome.findings)

        return shrink.smallest(case, shrink.smaller_cells, cell_fails, plays=plays)
    run = _run_of(case)
    kind = perform(case, sender, disk, run)[0][0].kind

    def fails(schedule: Schedule) -> bool:
        return any(each.kind == kind for each in perform(schedule, sender, disk, run)[0])

    return shrink.smallest(case, shrink.smaller_schedules, fails, plays=plays)


def _run_of(schedule: Schedule) -> type[Run]:
    if BY_ID[schedule.profile].hears:
        return ListeningRun
    return CampaignRun if any(step.do in CAMPAIGN_STEPS for step in schedule.steps) else Run


# --- files ------------------------------------------------------------------------------------------


def as_json(example: Counterexample, seen: Seen) -> dict[str, Any]:
    """Return the content of a replay file."""
    return {
        "schema": SCHEMA,
        "suite": __version__,
        "made_with": made_with(),
        "kind": example.kind,
        "sender": example.sender,
        "case": example.case.as_json(),
        "seed": example.case.seed,
        "said": str(example.case),
        "findings": [each.as_json() for each in seen.findings],
        "trace": seen.trace,
        "timeline": [line.text for line in seen.lines],
    }


def made_with() -> dict[str, str]:
    """Return the versions of all that speaks on the wire."""
    return {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}}


def write(folder: Path, example: Counterexample, seen: Seen) -> Path:
    """Write a replay file, named after its trace; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"replay-{example.kind}-{seen.trace[:12]}.json"
    text = json.dumps(as_json(example, seen), indent=2, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def keep(folder: Path, case: Cell | Schedule, sender: str = REFERENCE) -> tuple[Path, Seen]:
    """Shrink a failing case, look at it closely and write its replay file."""
    with stage() as disk:
        player = cast(sender, disk, BY_ID[case.profile])
        example = Counterexample(case=shrunk(case, player, disk), sender=sender)
        seen = look(example.case, player, disk)
    return write(folder, example, seen), seen


def command(path: Path) -> str:
    """Return what a person types to play it again."""
    return f"simulator replay {path}"


def read(path: Path) -> tuple[Counterexample, dict[str, Any]]:
    """Read a replay file. Raises `ReplayError` with one sentence."""
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ReplayError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise ReplayError(f"{path}: no JSON text: {error}") from error
    schema = facts.get("schema") if isinstance(facts, dict) else None
    if schema != SCHEMA:
        given = f"its schema is {schema!r}" if schema else "it names no schema"
        if isinstance(schema, str) and schema in FORMER:
            given += f", of a former version of the suite ({FORMER[schema]})"
        raise ReplayError(f"{path}: {given}; this suite plays {SCHEMA!r}")
    if facts.get("suite") != __version__:
        raise ReplayError(
            f"{path}: written by version {facts.get('suite')} of the suite, and this is {__version__}: "
            "install that version to see the same run"
        )
    case, sender = facts.get("case"), facts.get("sender")
    if not isinstance(case, dict) or not isinstance(sender, str):
        raise ReplayError(f"{path}: it does not say what to play: `case` and `sender` are needed")
    for name, kind in (("findings", list), ("trace", str)):
        if not isinstance(facts.get(name), kind):
            raise ReplayError(f"{path}: `{name}` is missing or no {kind.__name__}")
    try:
        match facts.get("kind"):
            case "cell":
                return Counterexample(case=cell_from(case), sender=sender), facts
            case "schedule":
                return Counterexample(case=schedule_from(case), sender=sender), facts
    except (ValueError, KeyError, TypeError) as error:
        what = f"there is no {error}" if isinstance(error, KeyError) else str(error)
        raise ReplayError(f"{path}: case: {what}") from error
    raise ReplayError(f"{path}: kind is {facts.get('kind')!r}; right would be 'cell' or 'schedule'")


def cell_from(facts: Mapping[str, Any]) -> Cell:
    """Read what `Cell.as_json` wrote. Raises `ValueError`, `KeyError` or `TypeError`."""
    profile, shape, script = facts["profile"], facts["shape"], tuple(facts["script"])
    if profile not in BY_ID:
        raise ValueError(f"profile is {profile!r}; right would be one of {', '.join(BY_ID)}")
    if shape not in EVERY_SHAPE:
        raise ValueError(f"shape is {shape!r}; right would be one of {', '.join(EVERY_SHAPE)}")
    for name in script:
        behaviour = BY_WIRE[BY_ID[profile].wire].get(name)
        if behaviour is None or behaviour.is_told != BY_ID[profile].hears:
            raise ValueError(f"no behaviour of this profile is called {name!r}")
    victims = CAMPAIGNERS if shape in CAMPAIGNS else VICTIMS[BY_ID[profile].hears]
    if facts.get("victim", "worker") not in victims:
        raise ValueError(f"victim is {facts['victim']!r}; right would be one of {', '.join(victims)}")
    points = {
        name: None if facts.get(name) is None else CrashPoint(**facts[name]) for name in ("crash", "again")
    }
    return Cell(**{**facts, **points, "script": script})


# --- the command ------------------------------------------------------------------------------------


def difference(facts: Mapping[str, Any], seen: Seen) -> str | None:
    """Say what came out differently than the file says; None: nothing."""
    same = facts["trace"] == seen.trace
    if same and facts["findings"] == [each.as_json() for each in seen.findings]:
        return None
    then, now = facts.get("made_with", {}), made_with()
    others = [f"{name} {then.get(name)} is now {now[name]}" for name in now if then.get(name) != now[name]]
    why = "; ".join(others) if others else "the programs in it have changed since"
    what = "other findings" if same else "another trace"
    return f"{what} than the file says ({why})"


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
def replay(file: Path) -> NoReturn:
    """Play the counterexample in FILE again, and show what happened when.

    Exit code 0: the same end, and nothing is wrong with it. 1: the same end, with findings. 2: FILE cannot be
    played, or it came out differently.
    """
    console = Console(highlight=False)
    try:
        example, facts = read(file)
        console.print(Text(f"{example.sender} · {example.case}"), soft_wrap=True)
        with silence():
            seen = see(example)
    except (ReplayError, CastError) as error:
        click.echo(f"replay: {error}", err=True)
        sys.exit(2)
    show(console, seen.lines)
    differs = difference(facts, seen)
    if differs is not None:
        click.echo(f"replay: {file}: {differs}", err=True)
        sys.exit(2)
    end = f"trace {seen.trace[:16]}…: the same as in the file; {summary(seen.findings)}"
    console.print(Text(end), soft_wrap=True)
    sys.exit(1 if seen.findings else 0)


def summary(findings: Sequence[Finding]) -> str:
    """Return how many findings of which kinds, in words."""
    if not findings:
        return "nothing is broken"
    kinds = list(dict.fromkeys(each.kind for each in findings))
    return f"{len(findings)} finding{'s' if len(findings) > 1 else ''}: {', '.join(kinds)}"
