"""`python -m scenarios search`: what a person sees of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scenarios.simulation.byteless.command import search, searched
from scenarios.simulation.byteless.search import Size

pytestmark = pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")


def told(*arguments: str) -> Result:
    return CliRunner().invoke(search, ["--jobs", "1", *arguments])


def test_a_clean_sender_is_counted_and_left_in_peace(tmp_path: Path) -> None:
    """Cells, worlds, rate; exit code 0, and no file."""
    result = told(
        "--size", "random", "--seconds", "0.3", "--profile", "http-keys", "--replays", str(tmp_path / "r")
    )

    assert result.exit_code == 0, result.output
    assert "0 with findings" in result.output
    assert "per CPU-second" in result.output
    assert not (tmp_path / "r").exists()


def test_what_is_found_becomes_a_replay_file(tmp_path: Path) -> None:
    """Confirmed by the wire, made small, with its timeline; exit code 1."""
    result = told(
        "--size", "quick",
        "--profile", "smtp-at-most-once",
        "--sender", "tests.scenarios.simulation.planted:unmarked",
        "--seconds", "0.2",
        "--replays", str(tmp_path),
    )  # fmt: skip

    assert result.exit_code == 1, result.output
    assert "1 of 1 findings confirmed by the wire" in result.output
    assert "DUPLICATED" in result.output
    (file,) = tmp_path.iterdir()
    assert str(file) in result.output.replace("\n", "")
    facts = json.loads(file.read_text(encoding="utf-8"))
    assert facts["sender"] == "tests.scenarios.simulation.planted:unmarked"
    assert facts["case"]["crash"]["kind"] == "commit"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--sender", "nonsense"), "no sender is called 'nonsense'"),
        (("--size", "random"), "say --seconds"),
        (("--size", "huge"), "Invalid value for '--size'"),
        (("--profile", "pigeon"), "Invalid value for '--profile'"),
        (("--seconds", "-1"), "Invalid value for '--seconds'"),
    ],
)
def test_bad_input_is_one_sentence(arguments: tuple[str, ...], words: str) -> None:
    """Exit code 2."""
    result = told(*arguments)

    assert result.exit_code == 2
    assert words in result.output


def test_a_part_that_broke_off_is_not_called_clean(tmp_path: Path) -> None:
    """Exit code 1, and the reason."""
    result = told(
        "--size", "quick",
        "--profile", "smtp-at-most-once",
        "--sender", "tests.scenarios.simulation.planted:unfenced",
        "--seconds", "0.1",
        "--replays", str(tmp_path),
    )  # fmt: skip

    assert result.exit_code == 1
    assert "invalid: smtp-at-most-once/one mail/worker/ok" in result.output
    assert "in SQL" in result.output


def test_time_is_up_when_it_is_up() -> None:
    """A search of everything stops within its seconds, and says how far it came."""
    tally = searched(Size.PAIRS, profiles=["http-keys"], seconds=0.2)

    assert 0 < tally.areas < 100
    assert tally.cells >= tally.played > 0
    assert f"{tally.cells:,} cells in {tally.areas:,} areas" in str(tally)
