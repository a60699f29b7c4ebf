"""The stages are sorted: what comes before the mail is not after booking."""

from __future__ import annotations

from simulator.provider.faults.stages import AFTER_BOOKING, BEFORE_THE_MAIL, HTTP_STAGES, SMTP_STAGES, all_but

STAGES = {"smtp": SMTP_STAGES, "http": HTTP_STAGES}


def test_no_stage_is_both_before_the_mail_and_after_booking() -> None:
    assert not BEFORE_THE_MAIL & {stage for _, stage in AFTER_BOOKING}


def test_what_is_said_of_stages_is_said_of_stages_there_are() -> None:
    assert all(stage in STAGES[wire] for wire, stage in AFTER_BOOKING)
    assert {*SMTP_STAGES, *HTTP_STAGES} >= BEFORE_THE_MAIL


def test_all_but_some_is_the_rest_in_order() -> None:
    assert all_but() == STAGES
    assert all_but("body", "idle")["http"] == tuple(stage for stage in HTTP_STAGES if stage != "body")
