"""What is found without bytes is played with them: the zoo as a whole, points without a name, and what is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios.checks import Finding
from scenarios.simulation.byteless.handover import hand_over, smallest
from scenarios.simulation.byteless.search import KINDS, Area, Found, kinds_of, search
from scenarios.simulation.byteless.sender import OnlyOnTheWire, of
from scenarios.simulation.cell import Cell
from scenarios.simulation.matrix import Block
from scenarios.simulation.processes import CrashPoint
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.senders import Disk
from scenarios.simulation.zoo.keeper import BadSender
from scenarios.simulation.zoo.visit import ALL
from tests.scenarios.simulation import planted

#: The killed leave their sessions behind, and say so whenever the garbage collector meets them.
pytestmark = pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")

#: Whose sin is in a statement of SQL, in bytes or in requests with several mails, in a campaign, in an application of its
#: own, or in what is said at enqueue: there is nothing to be played without.
ONLY_ON_THE_WIRE = {
    "recipients share a key",
    "each call is a new event",
    "all again for one",
    "one yes for all",
    "claims nothing",
    "looks, then takes",
    "looks only ahead",
    "believes its own clock",
    "resets at start",
    "marker at the claim",
    "marks first",
    "deletes the dead",
    "two transactions",
    "commits by itself",
    "changes its mind",
    "two for a doubt",
    "once more to be sure",
    "a limit for each worker",
    "first come, first served",
    "moves doubt",
    "order by enqueue",
    "welcome before verification",
    "sends old codes",
    "suppression at enqueue only",
    "first result for all",
    "one key for a batch",
    "believes the whole",
    "takes the first",
    "from the first page",
    "cursor before mails",
    "two write one page",
    "ignores a pause",
    "ignores a cancel",
    "everybody at once",
    "suppression at sending only",
    "sends what is over",
    "looks at the time once",
    "dies with its neighbours",
    "renews regardless",
}


def area_of(block: Block) -> Area:
    """The same place, with every kind of crash point that there is at this level."""
    return Area(
        profile=block.profile,
        script=block.script,
        shape=block.shape,
        victim=block.victim,
        kinds=KINDS if block.kinds else (),
    )


def hunted(sender: BadSender, folder: Path) -> tuple[Found, Block, Disk]:
    """Search its places until its sin is seen. Raises `OnlyOnTheWire`, `LookupError` if it gets away."""
    for number, block in enumerate(sender.blocks):
        place = folder / str(number)
        place.mkdir(parents=True)
        disk = Disk(place)
        searched = search(area_of(block), of(sender.made(disk, block.profile)))
        if searched.error is not None:
            raise OnlyOnTheWire(searched.error)
        for found in searched.found:
            if sender.kind in kinds_of(found.findings):
                return found, block, disk
    raise LookupError(sender.name)


@pytest.mark.parametrize(
    "sender", [each for each in ALL if each.name not in ONLY_ON_THE_WIRE], ids=lambda sender: sender.name
)
def test_the_zoo_is_found_without_bytes_and_confirmed_with_them(tmp_path: Path, sender: BadSender) -> None:
    """As what it is; and the sender without sin is clean in the same place."""
    found, block, disk = hunted(sender, tmp_path)
    handed = hand_over(found, sender.made(disk, block.profile), disk)

    assert handed.confirmed is not None, str(handed)
    assert sender.kind in {each.kind for each in handed.findings}
    assert handed.plays == 1, "a point with a name has it on both levels"
    innocent = search(area_of(block), of(sender.without_sin(disk, block.profile)))
    assert (innocent.failed, innocent.error) == (0, None)


@pytest.mark.parametrize("name", sorted(ONLY_ON_THE_WIRE))
def test_who_cannot_be_played_says_so(tmp_path: Path, name: str) -> None:
    """The list above is true: nobody is excused who could be searched."""
    (sender,) = (each for each in ALL if each.name == name)

    with pytest.raises(OnlyOnTheWire):
        hunted(sender, tmp_path)


def found_at(crash: CrashPoint, kind: str = "duplicated") -> Found:
    return Found(
        cell=Cell(profile="smtp-at-most-once", script=("ok",), crash=crash),
        findings=[Finding(kind=kind, recipient="user1.1@example.com", sentence="found")],
    )


def test_a_point_without_a_name_is_looked_for_among_the_steps(tmp_path: Path) -> None:
    """Steps are counted differently on each level: the nearest that shows the same is taken."""
    disk = Disk(tmp_path)
    sender = planted.unmarked(disk, BY_ID["smtp-at-most-once"])
    searched = search(Area(profile="smtp-at-most-once", script=("ok",), kinds=("step",)), of(sender))
    found = searched.found[0]
    assert found.cell.crash is not None
    assert found.cell.crash.kind == "step"

    handed = hand_over(found, sender, disk)

    assert handed.confirmed is not None
    assert handed.confirmed.crash is not None
    assert handed.confirmed.crash.kind == "step"
    assert {each.kind for each in handed.findings} == {"duplicated"}


def test_a_stop_without_a_name_is_looked_for_likewise(tmp_path: Path) -> None:
    """A sender that goes on regardless, stopped between two named points."""
    (bad,) = (each for each in ALL if each.name == "goes on regardless")
    disk = Disk(tmp_path)
    sender = bad.made(disk, "smtp-at-most-once")
    cell = Cell(profile="smtp-at-most-once", script=("ok",), crash=CrashPoint("freeze", "", 7))
    found = Found(cell=cell, findings=[Finding(kind="duplicated", recipient="", sentence="found")])

    handed = hand_over(found, sender, disk, plays=20)

    assert handed.confirmed is not None


def test_what_is_not_there_is_a_disagreement(tmp_path: Path) -> None:
    """Not a finding about the sender, and not swept under the carpet."""
    disk = Disk(tmp_path)
    sender = planted.unmarked(disk, BY_ID["smtp-at-most-once"])

    handed = hand_over(found_at(CrashPoint("commit", "lost", 3), kind="phantom"), sender, disk)

    assert handed.confirmed is None
    assert "the wire does not confirm it" in str(handed)
    assert 1 < handed.plays < 12


def test_a_count_may_differ(tmp_path: Path) -> None:
    """Where several mails go out at once, the order is the transport's: neighbours of the same name are tried.

    This sender commits twice, the claim and what the answer led to: who dies before the second has sent in vain.
    """
    disk = Disk(tmp_path)
    sender = planted.unmarked(disk, BY_ID["smtp-at-most-once"])

    handed = hand_over(found_at(CrashPoint("commit", "lost", 5)), sender, disk)

    assert handed.confirmed is not None
    assert handed.confirmed.crash == CrashPoint("commit", "lost", 2)


def test_one_counterexample_of_a_kind_is_enough() -> None:
    """The first, which is the smallest."""
    several = [
        found_at(CrashPoint("commit", "lost", 3)),
        found_at(CrashPoint("commit", "lost", 4)),
        found_at(CrashPoint("commit", "lost", 5), kind="lost"),
    ]

    assert smallest(several) == [several[0], several[2]]
    assert smallest(several, each=2) == several
