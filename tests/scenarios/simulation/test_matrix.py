"""Tests of the matrix: each size plays what it says it plays."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from scenarios.simulation.behaviours import BY_WIRE, HEALTHY, LOOKED_UP, LOOKS, columns
from scenarios.simulation.cell import FREEZE
from scenarios.simulation.matrix import (
    ASKED,
    ASKED_FEW,
    FEW,
    KNOWN,
    LAST_MOMENT,
    ONE_OF_EACH,
    TELL_TIMES,
    WITH_CROWDS,
    WITH_FEW,
    Block,
    Size,
    blocks,
)
from scenarios.simulation.profiles import BY_ID, PROFILES
from scenarios.simulation.shapes import CAMPAIGNS, EXPIRING, FATED, KNOWING


@pytest.mark.parametrize("size", list(Size))
def test_every_behaviour_of_every_profile_is_played(size: Size) -> None:
    """No column is left out, in no size; but of some profiles, and of what goes wrong at look-ups, the smallest one plays a choice."""
    played = {(block.profile, block.script) for block in blocks(size)}

    whole = PROFILES if size is Size.QUICK else tuple(BY_ID.values())
    aside = {each.name for each in LOOKED_UP} - ASKED_FEW if size is Size.QUICK else set()
    assert {
        (each.id, (name,)) for each in whole for name in columns(each.id, each.wire) if name not in aside
    } <= played
    assert not {(name,) for name in aside} & {script for _, script in played}
    assert {each.name for each in LOOKED_UP} > ASKED_FEW
    for profile, few in FEW.items():
        assert {(profile, (name,)) for name in few} <= played
        assert few <= set(columns(profile, BY_ID[profile].wire))


def is_within(block: Block, others: Sequence[Block]) -> bool:
    """Whether one of these plays all that this one does."""
    mine = dataclasses.replace(block, kinds=())
    return any(
        set(block.kinds) <= set(other.kinds) and mine == dataclasses.replace(other, kinds=())
        for other in others
        if other.script == block.script and other.profile == block.profile
    )


def test_a_bigger_size_leaves_nothing_out() -> None:
    """Each size has all that a smaller one has; a crowd meets one behaviour of each outcome before the whole, on both wires."""
    quick, single, full = (blocks(size) for size in Size)

    assert len(single) < len(full)
    assert all(is_within(block, full) for block in single)
    assert {block.id for block in quick if FREEZE in block.kinds} <= {block.id for block in single}
    # In a quick one a block has some of the crash points only.
    everything = {(block.profile, block.script, block.shape) for block in single}
    assert {(block.profile, block.script, block.shape) for block in quick} <= everything
    # Where somebody hears, four mails are a crowd.
    crowds = [block for block in single if block.shape in WITH_FEW - {"three recipients"} | {FATED.name}]
    assert {block.profile for block in crowds} == WITH_CROWDS | {
        each.id for each in BY_ID.values() if each.hears
    }
    for profile in (BY_ID[block.profile] for block in crowds):
        met = {block.script[0] for block in crowds if block.profile == profile.id}
        assert met == FEW.get(profile.id, (ONE_OF_EACH | TELL_TIMES) & set(columns(profile.id, profile.wire)))
    assert all(len(ONE_OF_EACH & set(BY_WIRE[wire])) >= 5 for wire in BY_WIRE)


def test_only_a_provider_that_says_yes_early_never_dies() -> None:
    """Of all that is played as a whole."""
    aside = {each.name for each in LOOKED_UP} - ASKED_FEW
    single = [
        block
        for block in blocks(Size.SINGLE)
        if block.profile not in FEW and not aside.intersection(block.script)
    ]
    immortal = {b.script for b in single} - {b.script for b in single if b.victim == "provider"}

    assert immortal == {(each.name,) for each in BY_WIRE["smtp"].values() if each.says_yes_early}


def test_whoever_writes_the_rows_of_a_campaign_dies_everywhere() -> None:
    """In each of its courses; so do who sends them and who interferes, at commits and statements. `QUICK` plays commits of the first."""
    played = {
        size: {
            (block.shape, block.victim, block.kinds)
            for block in blocks(size)
            if block.shape in CAMPAIGNS and not block.twice
        }
        for size in Size
    }
    everywhere = {(shape, "expander", ("step", "sql", "commit", "point", "reply")) for shape in CAMPAIGNS}
    workers = {(shape.name, "worker", ("commit",)) for shape in CAMPAIGNS.values() if shape.expanders == 1}
    people = {(shape.name, "person", ("sql", "commit")) for shape in CAMPAIGNS.values() if shape.moves}

    assert played[Size.QUICK] == {(shape, "expander", ("commit",)) for shape in CAMPAIGNS}
    assert played[Size.SINGLE] == played[Size.FULL] == everywhere | workers | people
    full = [block for block in blocks(Size.FULL) if block.shape in CAMPAIGNS]
    assert {(block.script[0], block.shape) for block in full if block.twice} == {
        (name, shape) for name in KNOWN for shape in CAMPAIGNS
    }
    assert {block.profile for block in full} == {ASKED}


def test_look_ups_meet_trouble_of_every_outcome() -> None:
    """One that fails, one that lags and one that lies, at every crash point of worker and provider; the others at every commit, or all."""
    for size, kinds in ((Size.SINGLE, ("commit",)), (Size.FULL, ("step", "sql", "commit", "point", "reply"))):
        played: dict[str, set[tuple[str, tuple[str, ...]]]] = {}
        for block in blocks(size):
            if block.script and BY_WIRE["http"].get(block.script[0], HEALTHY).is_asked:
                assert block.profile == LOOKS
                played.setdefault(block.script[0], set()).add((block.victim, block.kinds))
        for name in ASKED_FEW:
            assert {
                ("worker", ("step", "sql", "commit", "point", "reply")),
                ("provider", ("ledger", "step")),
            } <= played.pop(name)
        assert set(map(frozenset, played.values())) == {frozenset({("worker", kinds)})}


def test_mails_that_know_of_each_other_meet_one_behaviour_of_each_outcome() -> None:
    """At every commit of the worker, in every size but the quick one; so does a mail that expires, which also ends on its way."""
    for size in (Size.SINGLE, Size.FULL):
        played = {
            (block.profile, block.script[0], block.shape)
            for block in blocks(size)
            if block.shape in KNOWING and (block.victim, block.kinds) == ("worker", ("commit",))
        }
        asked = {(ASKED, name, shape) for name in KNOWN for shape in KNOWING}
        assert played == asked | {(*LAST_MOMENT, EXPIRING.name)}


def test_blocks_have_ids_of_their_own() -> None:
    """An id is what a run is taken up by."""
    todo = blocks(Size.FULL)

    assert len({block.id for block in todo}) == len(todo)
