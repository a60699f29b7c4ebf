"""Tests of replay files: the same end, byte for byte, and one sentence for a file that cannot be played."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scenarios.simulation.cell import Cell
from scenarios.simulation.processes import CrashPoint
from scenarios.simulation.replay import Counterexample, ReplayError, command, keep, read, replay, see, write
from scenarios.simulation.schedule import Schedule, Step
from scenarios.simulation.shapes import FATED

pytestmark = pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")

RENEWS = "tests.scenarios.simulation.planted:renews_keys"
DEAF = "tests.scenarios.simulation.planted:drops_what_comes_early"
GOOD = Cell(profile="http-keys", script=("taken, closed",), crash=CrashPoint("commit", "unreported", 2))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A replay file of a cell with nothing to find."""
    example = Counterexample(case=GOOD)
    return write(tmp_path, example, see(example))


def changed(file: Path, **facts: Any) -> Path:
    document = json.loads(file.read_text(encoding="utf-8")) | facts
    file.write_text(json.dumps(document), encoding="utf-8")
    return file


def test_a_failing_cell_comes_to_the_same_end_in_another_process(tmp_path: Path) -> None:
    """The command shows the timeline, says that the trace is the same, and ends with 1: it is still broken."""
    path, seen = keep(tmp_path, Cell(profile="http-keys", script=("503", "taken, hangs")), RENEWS)

    done = subprocess.run(
        [sys.executable, "-m", "scenarios", *command(path).split()[1:]],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (1, "")
    assert "\n".join(line.text for line in seen.lines) in done.stdout
    assert "the same as in the file; 2 findings: duplicated, identity changed" in done.stdout


def test_a_schedule_can_be_played_again(tmp_path: Path) -> None:
    """What a state machine found is a file like any other."""
    steps = (
        Step(do="plan", name="taken, hangs", count=1),
        Step(do="enqueue", number=1),
        Step(do="wait", seconds=90.0),
    )
    path, seen = keep(tmp_path, Schedule(profile="http-keys", steps=steps), RENEWS)

    example, facts = read(path)

    assert see(example) == seen
    assert facts["said"] == str(example.case)
    assert facts["findings"][0]["kind"] == "duplicated"


def test_storms_are_made_small_and_played_again_as_well(tmp_path: Path) -> None:
    """Of two storms the one that matters, of four mails one, and nobody has to die; and a machine's steps with an intake."""
    cell = Cell(
        profile="http-hearing",
        script=("nonsense beside it", "before the answer"),
        shape=FATED.name,
        victim="intake",
        crash=CrashPoint("commit", "lost", 9),
    )
    path, seen = keep(tmp_path, cell, DEAF)
    example, facts = read(path)

    assert see(example) == seen
    assert facts["said"] == "http-hearing · one mail · before the answer"
    assert facts["findings"][0]["kind"] == "event lost"

    steps = (
        Step(do="storm", name="before the answer"),
        Step(do="enqueue", number=1),
        Step(do="wait", seconds=45.0),
        Step(do="kill_intake"),
    )
    path, seen = keep(tmp_path, Schedule(profile="http-hearing", steps=steps), DEAF)
    example, facts = read(path)

    assert see(example) == seen
    assert "event lost" in {each["kind"] for each in facts["findings"]}
    assert "kill intake" not in facts["said"]


def test_a_good_end_is_0(file: Path) -> None:
    """A counterexample of yesterday that is mended today: nothing is broken."""
    result = CliRunner().invoke(replay, [str(file)])

    assert result.exit_code == 0
    assert "the same as in the file; nothing is broken" in result.output


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"schema": "mailproof-replay/9"}, "its schema is 'mailproof-replay/9'; this suite plays"),
        (
            {"schema": "mailproof-replay/1"},
            "its schema is 'mailproof-replay/1', of a former version of the suite (its mails are of no sort); "
            "this suite plays 'mailproof-replay/2'",
        ),
        ({"schema": None}, "it names no schema"),
        ({"schema": []}, "it names no schema"),
        ({"suite": "0.0.1"}, "written by version 0.0.1 of the suite, and this is"),
        ({"kind": "poem"}, "kind is 'poem'; right would be 'cell' or 'schedule'"),
        ({"case": 3}, "it does not say what to play"),
        ({"case": {}}, "case: there is no 'profile'"),
        ({"case": GOOD.as_json() | {"profile": "x"}}, "case: profile is 'x'; right would be one of"),
        ({"case": GOOD.as_json() | {"shape": "x"}}, "case: shape is 'x'; right would be one of"),
        ({"case": GOOD.as_json() | {"script": ["x"]}}, "case: no behaviour of this profile is called 'x'"),
        (
            {"case": GOOD.as_json() | {"victim": "intake"}},
            "case: victim is 'intake'; right would be one of worker",
        ),
        (
            {"case": GOOD.as_json() | {"script": ["twice"]}},
            "case: no behaviour of this profile is called 'twice'",
        ),
        ({"trace": 3}, "`trace` is missing or no str"),
    ],
)
def test_a_file_that_cannot_be_played_is_told_in_a_sentence(
    file: Path, facts: dict[str, Any], says: str
) -> None:
    """Which file, what is wrong with it, what would be right."""
    with pytest.raises(ReplayError, match=re.escape(says)) as raised:
        read(changed(file, **facts))

    assert str(raised.value).startswith(str(file))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"trace": "0" * 64}, "another trace than the file says (the programs in it have changed since)"),
        ({"trace": "0" * 64, "made_with": {}}, "another trace than the file says (python None is now"),
        ({"findings": [{"kind": "lost"}]}, "other findings than the file says"),
        ({"sender": "nobody"}, "no sender is called 'nobody'"),
    ],
)
def test_another_end_is_2(file: Path, facts: dict[str, Any], says: str) -> None:
    """A replay that is none must not pass for one."""
    result = CliRunner().invoke(replay, [str(changed(file, **facts))])

    assert result.exit_code == 2
    assert says in result.output


def test_no_file_is_2(tmp_path: Path) -> None:
    """And neither is one that is no JSON."""
    (tmp_path / "x.json").write_text("{", encoding="utf-8")
    for name, says in (("none.json", "cannot be read"), ("x.json", "no JSON text")):
        result = CliRunner().invoke(replay, [str(tmp_path / name)])
        assert result.exit_code == 2
        assert says in result.output
        assert "Traceback" not in result.output
