"""The hunt is a fair one: what gets away is told, and so is a ground on which nobody could stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios.simulation.zoo.keeper import BadSender, Ground, hunt, where

#: The killed leave their sessions behind, and say so whenever the garbage collector meets them.
pytestmark = pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")

SAINT = BadSender(
    name="saint",
    sin="None.",
    like="none",
    kind="duplicated",
    blocks=(where("http-keys", "taken, closed"), where("http-keys", dies=("commit",))),
)


def test_a_sender_without_sin_gets_away(tmp_path: Path) -> None:
    """All its cells are played, and nothing is found."""
    went = hunt(SAINT, tmp_path)

    assert went.caught is None
    assert went.finding is None
    assert went.seen == ()
    assert went.cells > 4


def test_being_seen_as_something_else_is_not_enough(tmp_path: Path) -> None:
    """The declared kind counts."""
    sender = BadSender(
        name="new key",
        sin="Another key in each attempt.",
        like="identity of the key",
        kind="lost",
        parts={"key_of": lambda parcel: f"{parcel.idempotency_key}/{parcel.token}"},
        blocks=(where("http-keys", "taken, closed"),),
    )

    went = hunt(sender, tmp_path)

    assert went.caught is None
    assert "duplicated" in went.seen


def test_a_ground_that_nobody_could_stand_on_is_told(tmp_path: Path) -> None:
    """If the sender without sin is accused as well, the cell proves nothing about the sin."""
    sender = BadSender(
        name="unlucky",
        sin="None.",
        like="none",
        kind="given up",
        ground=Ground(says="one attempt only", options={"max_attempts": 1}),
        blocks=(where("smtp-at-most-once", "RCPT 450"),),
    )

    went = hunt(sender, tmp_path)

    assert went.finding is not None
    assert [finding.kind for _, finding in went.innocent] == ["given up"]
