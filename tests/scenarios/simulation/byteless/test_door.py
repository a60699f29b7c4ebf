"""What both doors share: what an answer of the core does on a line. How it looks is tested beside each door."""

from __future__ import annotations

import pytest

from scenarios.simulation.byteless.door import hangs
from scenarios.simulation.byteless.http import HttpDoor, Post
from scenarios.simulation.byteless.line import Line
from scenarios.simulation.byteless.loop import OutOfReach
from scenarios.simulation.byteless.outbox import Shelf
from scenarios.simulation.byteless.world import World
from simulator.provider import provider
from simulator.provider.answer import Answer, Hang, HangUp, Hold, Slow


def test_an_answer_that_is_not_known_is_told_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not taken for a silence: that would be a finding about somebody else."""

    class Riddle:
        """An answer of tomorrow."""

    world = World(seed=1, setup=provider.Setup(), shelf=Shelf())
    monkeypatch.setattr(world.provider, "step", lambda *asked: Riddle())
    with world.loop.current():
        line = Line(world.loop, world.process("worker 1"), world.events)
        line.serve(HttpDoor(world, line).serve())
        with pytest.raises(OutOfReach, match="Riddle"):
            line.tell(Post("key", b"{}"))
    assert world.loop.refused == ["the provider answers Riddle, which the model level does not know"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (None, False),
        (HangUp(), False),
        (Hang(), True),
        (Slow(delay_s=1.0), False),
        (Slow(delay_s=1.0, then=Hold(then=Hang())), True),
    ],
)
def test_a_hang_is_seen_behind_waits(answer: Answer | None, expected: bool) -> None:
    """It decides whether a dialogue goes on."""
    assert hangs(answer) is expected
