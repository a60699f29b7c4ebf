"""The SMTP door does what the SMTP server does: every fault at every stage."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenarios.simulation.byteless.exchanges import (
    differences,
    mail_to,
    on_the_wire,
    setup_of,
    without_bytes,
)

ADA = mail_to("ada@example.com")

#: Without `starttls`, `auth` and `rset`, which the sender of the worlds never says.
STAGES = ("connect", "ehlo", "mail", "rcpt", "data", "body", "message", "reply", "quit", "idle")
FAULTS: tuple[dict[str, Any], ...] = (
    {"fault": "reply", "code": 421},
    {"fault": "reply", "code": 451},
    {"fault": "reply", "code": 550},
    {"fault": "reply", "code": 250, "text": "as you like"},
    {"fault": "slow", "delay_s": 3.0},
    {"fault": "slow", "delay_s": 12.0},
    {"fault": "hang"},
    {"fault": "hang", "delay_s": 3.0},
    {"fault": "hang_up"},
    {"fault": "reset"},
    {"fault": "garble"},
    {"fault": "truncate"},
    {"fault": "hold"},
)
#: Stages at which a fault makes no sense, so that no plan can name it there.
NOT_AT: dict[str, tuple[str, ...]] = {
    "reply": ("body", "idle"),
    "slow": ("idle",),
    "garble": ("idle",),
    "truncate": ("idle",),
    "hold": ("idle",),
}
ONLY_AT: tuple[dict[str, Any], ...] = (
    {"stage": "ehlo", "fault": "refuse_ehlo"},
    {"stage": "mail", "fault": "tarpit", "delay_s": 3.0},
    {"stage": "connect", "fault": "tarpit", "delay_s": 0.5, "each": "line"},
    {"stage": "body", "fault": "cut_body", "after_bytes": 100},
    {"stage": "body", "fault": "cut_body", "after_bytes": 100_000},
    {"stage": "reply", "fault": "accept_then_421"},
    {"stage": "reply", "fault": "two_answers"},
    {"stage": "reply", "fault": "drip", "size_bytes": 4, "delay_s": 1.0},
    {"stage": "reply", "fault": "drip", "size_bytes": 30, "delay_s": 1.0},
    {"stage": "idle", "fault": "close_on_next"},
    {"stage": "message", "fault": "accept_then_drop"},
    {"stage": "rcpt", "fault": "refuse_recipients", "recipient": "ada@*"},
    {"stage": "rcpt", "fault": "refuse_recipients", "recipient": "ada@*", "code": 450},
)


@pytest.mark.parametrize("stage", STAGES)
def test_every_fault_at_every_stage(stage: str) -> None:
    """And a second attempt behind it, which nothing hits."""
    faults = [each for each in FAULTS if stage not in NOT_AT.get(each["fault"], ())]
    rules = [{"stage": stage, **each} for each in faults] + [
        each for each in ONLY_AT if each["stage"] == stage
    ]
    setups = {repr(rule): setup_of({"name": "it", "dialect": "smtp", "attempt": 1, **rule}) for rule in rules}

    assert differences("smtp", setups, [ADA, ADA]) == {}
    assert len(setups) >= 4


@pytest.mark.parametrize("fault", [{"fault": "hang"}, {"fault": "reset"}, {"fault": "garble"}])
def test_a_bad_goodbye(fault: dict[str, Any]) -> None:
    """Changes nothing any more."""
    setup = setup_of({"name": "it", "dialect": "smtp", "stage": "quit", **fault})

    seen = without_bytes("smtp", setup, [ADA])

    assert seen == on_the_wire("smtp", setup, [ADA])
    assert seen.attempts[0].rules == ("it",)
    assert seen.sent[0].evidence.code == 250
