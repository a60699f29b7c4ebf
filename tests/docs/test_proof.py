"""The page about the proof is true: it names every profile and every variant, and its example is a real one."""

from __future__ import annotations

import gc
import re
from pathlib import Path

import pytest

from scenarios.model import VARIANTS
from scenarios.simulation.cast import REFERENCE, cast
from scenarios.simulation.matrix import Size, blocks
from scenarios.simulation.playing import count
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.replay import look
from scenarios.simulation.schedule import Schedule, Step
from scenarios.simulation.senders import Disk
from scenarios.simulation.world import silence
from scenarios.simulation.zoo.visit import ALL
from tests.house.places import ROOT
from tests.scenarios.simulation import planted

PAGE = (ROOT / "docs" / "proof.md").read_text(encoding="utf-8")


def row_of(name: str) -> str:
    """Return the table row that begins with a name."""
    found = re.search(rf"^\| `{re.escape(name)}` \|(.*)\|$", PAGE, re.MULTILINE)
    assert found is not None, f"no row for {name}"
    return found[1]


@pytest.mark.parametrize("profile", list(BY_ID))
def test_every_profile_has_its_claim(profile: str) -> None:
    """Who passes a profile must be able to read what that means."""
    assert row_of(profile)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: str(variant.id))
def test_every_variant_says_what_it_is_guilty_of(variant: object) -> None:
    """The same in the table as in the model."""
    guilty = {each.value for each in variant.may_violate}  # type: ignore[attr-defined] # a Variant
    last = row_of(variant.id).rpartition("|")[2]  # type: ignore[attr-defined]

    assert {each for each in ("duplicated", "misreported", "lost", "stuck") if each in last} == guilty
    assert guilty or "nothing" in last


def test_the_zoo_is_as_large_as_the_page_says() -> None:
    """Every bad sender has a sin of its own."""
    said = re.search(r"with one sin, (\d+) times", PAGE)

    assert said is not None
    assert int(said[1]) == len(ALL)


def counts_of(name: str) -> list[int]:
    """Return the numbers of a row of the table of counts."""
    section = PAGE.partition("### How many\n")[2].partition("\n### ")[0]
    found = re.search(rf"^\| `?{re.escape(name)}`? \|(.*)\|$", section, re.MULTILINE)
    assert found is not None, f"no row for {name}"
    return [int(each.replace(",", "")) for each in found[1].split("|")]


@pytest.mark.parametrize("profile", list(BY_ID))
def test_there_are_as_many_blocks_as_the_page_says(profile: str) -> None:
    """In each size."""
    quick, _, single, _, full = counts_of(profile)

    assert [quick, single, full] == [len(blocks(size, (profile,))) for size in Size]


def test_the_sums_are_sums() -> None:
    """The last row adds up the others."""
    assert counts_of("all") == [sum(column) for column in zip(*map(counts_of, BY_ID), strict=True)]


def counted(size: Size, profile: str, folder: Path) -> int:
    disk = Disk(folder)
    sender = cast(REFERENCE, disk, BY_ID[profile])
    with silence():
        cells = sum(count(block, sender, disk) for block in blocks(size, (profile,)))
    # While what they leave behind is not taken for an error.
    gc.collect()
    return cells


@pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")
@pytest.mark.parametrize("profile", ["http-batches", "smtp-hearing"])
def test_there_are_about_as_many_cells_as_the_page_says(profile: str, tmp_path: Path) -> None:
    """By the dry runs of the blocks; to the last one they are counted in the long tests."""
    said = counts_of(profile)[1]

    assert said * 0.7 <= counted(Size.QUICK, profile, tmp_path) <= said * 1.3


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")
@pytest.mark.parametrize("profile", list(BY_ID))
def test_there_are_as_many_cells_as_the_page_says(profile: str, tmp_path: Path) -> None:
    """A minute for all of them. If the sender commits less often now, the page is to say so: on the right stands what."""
    said = counts_of(profile)

    cells = [counted(size, profile, tmp_path) for size in (Size.QUICK, Size.SINGLE)]
    assert [said[1], said[3]] == cells


@pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")
def test_the_example_is_what_the_tool_prints(tmp_path: Path) -> None:
    """Line by line, so that the page shows the tool of today."""
    disk = Disk(tmp_path)
    schedule = Schedule(
        profile="smtp-at-most-once",
        steps=(
            Step(do="enqueue", number=1),
            Step(do="doom", number=1, name="acceptance"),
            Step(do="wait", seconds=1.0),
        ),
    )

    seen = look(schedule, planted.unmarked(disk, BY_ID["smtp-at-most-once"]), disk)

    printed = "\n".join([str(schedule), *(line.text for line in seen.lines)])
    assert f"```\n{printed}\n```" in PAGE
