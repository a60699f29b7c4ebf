"""Tests of the shapes: what each is called, and whom its mails are for."""

from __future__ import annotations

import pytest

from reference_sender.audience import Member
from reference_sender.campaigns import key_of
from scenarios.simulation.shapes import (
    CAMPAIGN,
    CAMPAIGNS,
    COMPLAINT,
    EVERY_SHAPE,
    FATED,
    KNOWING,
    PAGE_ROWS,
    SHAPES,
    Shape,
)
from scenarios.simulation.storms import FATES


def test_a_shape_is_found_by_its_name() -> None:
    """Whatever table it stands in; the simplest one comes first."""
    assert all(name == shape.name for name, shape in EVERY_SHAPE.items())
    assert (
        SHAPES.keys() | KNOWING.keys() | CAMPAIGNS.keys() | {FATED.name, COMPLAINT.name} == EVERY_SHAPE.keys()
    )
    assert len(EVERY_SHAPE) == len(SHAPES) + len(KNOWING) + len(CAMPAIGNS) + 2
    first = next(iter(SHAPES.values()))
    assert (len(first.owed), first.workers) == (1, 1)


@pytest.mark.parametrize("shape", EVERY_SHAPE.values(), ids=EVERY_SHAPE)
def test_no_two_mails_are_for_one_person(shape: Shape) -> None:
    """Else the judge could not tell a second copy of one from the first copy of the other."""
    recipients = [each for owed in shape.owed for each in owed.recipients]
    assert len(set(recipients)) == len(recipients)
    assert len({owed.ref for owed in shape.owed}) == len(shape.owed)


def test_each_fate_has_its_mail() -> None:
    """The address says what becomes of it."""
    assert [owed.recipients[0].partition(".")[0] for owed in FATED.owed] == list(FATES)


def test_who_depends_on_a_mail_knows_it() -> None:
    """It is promised before."""
    met = 0
    for shape in KNOWING.values():
        known: set[str] = set()
        for owed in shape.owed:
            for key, value in owed.manner:
                if key == "depends_on":
                    met += 1
                    assert value in known
            known.add(owed.ref)
    assert met


def test_a_campaign_has_several_pages_and_somebody_who_must_not_be_written_to() -> None:
    """So that there is something between pages and in the middle of one; the keys are those of the sender."""
    assert {name for shape in CAMPAIGNS.values() for _, name in shape.moves or ()} == {
        "pause",
        "resume",
        "cancel",
    }
    assert {shape.expanders for shape in CAMPAIGNS.values()} == {1, 2}
    for shape in CAMPAIGNS.values():
        assert 2 * PAGE_ROWS < len(shape.owed) < 3 * PAGE_ROWS
        assert sum(owed.suppressed for owed in shape.owed) == 1
        assert shape.moves == tuple(sorted(shape.moves or ()))
        assert [owed.ref for owed in shape.owed] == [
            key_of(CAMPAIGN, Member(key=str(number), address="")) for number in range(1, len(shape.owed) + 1)
        ]
    assert all(shape.moves is None for name, shape in EVERY_SHAPE.items() if name not in CAMPAIGNS)
