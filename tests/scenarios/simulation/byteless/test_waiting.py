"""Who waits and who must not go, asked of rows in memory; that the answers are those of SQL says the contract."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from reference_sender.life import Bar, State
from scenarios.simulation.byteless.waiting import bar_of, may_go
from tests.reference_sender.samples import NOW

SOON = NOW + timedelta(seconds=1)


def row(number: int, **more: Any) -> dict[str, Any]:
    return {
        "id": number,
        "dedupe_key": f"order-{number}",
        "recipient": "ann@example.com",
        "state": State.PENDING,
        "next_attempt_at": None,
        "mail_class": "confirmation",
        **dict.fromkeys(("hold_until", "depends_on", "ordering_key", "slot", "campaign")),
        **more,
    }


def emails(*rows: dict[str, Any]) -> dict[int, dict[str, Any]]:
    return {each["id"]: each for each in rows}


def test_who_does_not_wait_is_not_let_through() -> None:
    assert not may_go(row(1), {}, NOW)
    assert not may_go(row(1, hold_until=NOW, next_attempt_at=NOW), {}, NOW)
    assert not may_go(row(1, hold_until=NOW, state=State.SENDING), {}, NOW)


def test_who_waited_long_enough_goes_whatever_he_waited_for() -> None:
    waits = row(2, hold_until=SOON, ordering_key="k")
    before = row(1, ordering_key="k", state=State.UNKNOWN)
    assert not may_go(waits, emails(before, waits), NOW)
    assert may_go(waits, emails(before, waits), SOON)


def test_the_campaign_says_whether_its_mails_go() -> None:
    mail = row(1, campaign="318")
    assert bar_of(mail, emails(mail), (), {"318": "paused"}, NOW) is Bar.PAUSED
    assert bar_of(mail, emails(mail), (), {"318": "running"}, NOW) is None
    assert bar_of(mail, emails(mail), (), {}, NOW) is None
