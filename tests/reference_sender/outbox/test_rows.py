"""What the queries of the outbox have in common."""

from __future__ import annotations

from reference_sender.life import State
from reference_sender.outbox.rows import in_state


def test_the_planner_can_see_the_state() -> None:
    """A partial index is used only if the condition is written out, not if it is a parameter."""
    assert str(in_state(State.PENDING)) == "outgoing_email.state = 'pending'"
