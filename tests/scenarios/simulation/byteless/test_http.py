"""The HTTP door does what the HTTP server does: every fault at every stage."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.provider.dress import Chunks, Flaw, Shape
from tests.scenarios.simulation.byteless.exchanges import (
    differences,
    mail_to,
    on_the_wire,
    setup_of,
    without_bytes,
)

ADA = mail_to("ada@example.com")

STAGES = ("connect", "upload", "request", "validate", "accept", "reply", "body")
FAULTS: tuple[dict[str, Any], ...] = (
    {"fault": "reply", "code": 503},
    {"fault": "reply", "code": 429, "retry_after": 7},
    {"fault": "reply", "code": 422},
    {"fault": "reply", "code": 200, "text": "all is well"},
    {"fault": "slow", "delay_s": 3.0},
    {"fault": "slow", "delay_s": 12.0},
    {"fault": "hang"},
    {"fault": "hang", "delay_s": 3.0},
    {"fault": "hang_up"},
    {"fault": "reset"},
    {"fault": "garble"},
    {"fault": "garble", "code": 500},
    {"fault": "truncate"},
    {"fault": "hold"},
)
#: Stages at which a fault makes no sense, so that no plan can name it there.
NOT_AT: dict[str, tuple[str, ...]] = {"reply": ("body",)}
ONLY_AT: tuple[dict[str, Any], ...] = (
    {"stage": "upload", "fault": "hang_up"},
    {"stage": "upload", "fault": "reset"},
    {"stage": "upload", "fault": "hang"},
    {"stage": "upload", "fault": "slow", "delay_s": 3.0},
    *({"stage": "reply", "fault": "gzip", "flaw": each.value} for each in Flaw),
    *({"stage": "reply", "fault": "chunked", "chunks": each.value} for each in Chunks),
    *({"stage": "reply", "fault": "odd_body", "shape": each.value} for each in Shape),
    {"stage": "reply", "fault": "drip", "size_bytes": 8, "delay_s": 1.0},
    {"stage": "reply", "fault": "drip", "size_bytes": 100, "delay_s": 4.0},
    {"stage": "reply", "fault": "interim"},
    {"stage": "reply", "fault": "two_answers"},
    {"stage": "accept", "fault": "accept_then_drop"},
    {"stage": "validate", "fault": "refuse_recipients", "recipient": "ada@*"},
    {"stage": "validate", "fault": "refuse_recipients", "recipient": "ada@*", "code": 450},
)


@pytest.mark.parametrize("stage", STAGES)
def test_every_fault_at_every_stage(stage: str) -> None:
    """And a second attempt behind it, which nothing hits."""
    faults = [each for each in FAULTS if stage not in NOT_AT.get(each["fault"], ())]
    rules = [{"stage": stage, **each} for each in faults] + [
        each for each in ONLY_AT if each["stage"] == stage
    ]
    setups = {repr(rule): setup_of({"name": "it", "dialect": "http", "attempt": 1, **rule}) for rule in rules}

    assert differences("http", setups, [ADA, ADA]) == {}
    assert len(setups) >= 4


def test_waits_add_up() -> None:
    """Two rules that only delay, and one that answers."""
    setup = setup_of(
        {"name": "one", "dialect": "http", "stage": "accept", "fault": "slow", "delay_s": 2.0},
        {"name": "two", "dialect": "http", "stage": "accept", "fault": "slow", "delay_s": 1.5},
        {"name": "no", "dialect": "http", "stage": "accept", "fault": "reply", "code": 500},
    )

    seen = without_bytes("http", setup, [ADA])

    assert seen == on_the_wire("http", setup, [ADA])
    assert seen.sent[0].ended == 3.5
