"""Rows that nobody takes, in memory: told apart. That they are parked as in SQL is the contract (`test_outbox`)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from reference_sender.life import State
from reference_sender.outbox.strays import (
    AIMLESS,
    ENDLESS,
    GONE_PENDING,
    GONE_SENDING,
    LEASELESS,
    LOOKLESS,
    NEVER,
    STRAYS,
    Stray,
)
from reference_sender.policy.routes import Mine
from scenarios.simulation.byteless.strays import kind_of
from tests.reference_sender.samples import NOW

MINE = Mine(provider="main", providers=("main",))
ROW: dict[str, Any] = {
    "state": State.PENDING,
    "lease_until": None,
    "next_attempt_at": NOW,
    "hold_until": None,
    "doubted_at": None,
    "in_doubt": False,
    "provider": "main",
}
AT_SOLD = {"provider": "sold", "doubted_at": NOW}
LOST = {"state": State.SENDING, "lease_until": NOW - timedelta(seconds=1)}


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({}, None),
        ({"next_attempt_at": None}, AIMLESS),
        ({"next_attempt_at": None, "hold_until": NOW}, None),
        ({"next_attempt_at": None, "hold_until": NEVER + timedelta(seconds=1)}, ENDLESS),
        ({"hold_until": NEVER + timedelta(seconds=1)}, None),
        (AT_SOLD, GONE_PENDING),
        (AT_SOLD | {"doubted_at": None}, None),
        (AT_SOLD | {"provider": None}, None),
        ({"state": State.SENDING}, LEASELESS),
        (AT_SOLD | LOST, GONE_SENDING),
        (AT_SOLD | LOST | {"in_doubt": True}, None),
        (AT_SOLD | LOST | {"lease_until": NOW}, None),
        ({"state": State.UNKNOWN}, None),
        ({"state": State.UNKNOWN, "next_attempt_at": None}, None),
        ({"state": State.UNKNOWN, "next_attempt_at": NEVER + timedelta(seconds=1)}, LOOKLESS),
    ],
)
def test_a_row_is_one_of_them_or_none(changed: dict[str, Any], kind: Stray | None) -> None:
    assert kind_of(ROW | changed, STRAYS, MINE, NOW) is kind


def test_only_what_is_asked_for_is_told() -> None:
    assert kind_of(ROW | {"next_attempt_at": None}, (LEASELESS, GONE_SENDING), MINE, NOW) is None
