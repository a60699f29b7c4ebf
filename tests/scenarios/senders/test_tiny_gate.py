"""The tiny gate: what all of its workers know, step by step; and that a sender with it keeps every promise about gates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scenarios.clock import now
from scenarios.senders.tiny import Outcome, Row
from scenarios.senders.tiny_gate import URGENT, GatedSender
from tests.scenarios.running import SENDERS, by_status, certificate_in, certify

AT = 1_000_000.0


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TINY_DATABASE", str(tmp_path / "outbox.db"))
    return tmp_path


@pytest.fixture
def sender(place: Path) -> GatedSender:
    return GatedSender()


def put(sender: GatedSender, key: str, **more: Any) -> None:
    mail = {"key": key, "from": "s@example.org", "to": [f"{key}@example.com"], "subject": "x", "text": "y"}
    assert sender.enqueue(mail | more)["created"]


def row(key: str = "order-1") -> Row:
    return Row(
        key=key,
        recipient=f"{key}@example.com",
        sender="s",
        raw=b"",
        attempts=1,
        doubt=False,
        taken_over=False,
    )


def test_two_workers_spend_from_one_bucket(sender: GatedSender) -> None:
    for number in range(9):
        put(sender, f"order-{number}")
    other = GatedSender()
    took = [each.due(AT) is not None for each in (sender, other) * 4]
    assert took == [True] * 5 + [False] * 3
    assert other.due(AT + 0.04) is None
    assert other.due(AT + 0.05) is not None, "20 a second"


def test_a_pause_is_everybodys_and_the_longest_counts(sender: GatedSender) -> None:
    put(sender, "order-1")
    sender.settle(row("other"), Outcome(kind="later", wait_s=60))
    sender.settle(row("other"), Outcome(kind="later", wait_s=1))
    at = now().timestamp()
    assert GatedSender().due(at + 50) is None
    assert GatedSender().due(at + 61) is not None


def test_a_provider_that_is_down_gets_one_probe_a_pause(sender: GatedSender) -> None:
    for number in range(9):
        put(sender, f"order-{number}")
    for _ in range(5):
        sender.settle(row("other"), Outcome(kind="doubt"))
    at = now().timestamp()
    assert sender.due(at) is None
    assert [sender.due(at + 1.1 + wait) is not None for wait in (0, 0.5, 1.1, 1.5)] == [
        True,
        False,
        True,
        False,
    ]
    sender.settle(row("other"), Outcome(kind="refused"))
    assert sender.due(at + 3) is not None
    assert sender.due(at + 3) is not None


def test_what_is_urgent_goes_first_and_has_a_lane_of_its_own(sender: GatedSender) -> None:
    put(sender, "news-1", **{"class": "newsletter"})
    put(sender, "code-1", **{"class": "code"})
    lane = GatedSender(sender)
    lane.among = URGENT
    first = sender.due(AT)
    assert first is not None
    assert first.key == "code-1"
    sender.db.execute("UPDATE mail SET state = 'accepted' WHERE key = 'code-1'")
    assert lane.due(AT) is None
    sender.stopping = True
    assert lane.is_done()


def test_what_is_over_ends_unsent_and_is_looked_at_once_more_on_the_way(sender: GatedSender) -> None:
    put(sender, "code-1", expires_in_s=30)
    put(sender, "code-2", expires_in_s=-1)
    assert (sender.still_wanted(row("code-1")), sender.still_wanted(row("code-2"))) == (True, False)
    assert sender.still_wanted(row("order-1"))
    at = now().timestamp()
    found = sender.due(at)
    assert found is not None
    assert found.key == "code-1"
    states = {each["key"]: each["state"] for each in sender.status()["mails"]}
    assert states["code-2"] == "expired"


@pytest.mark.long
@pytest.mark.xdist_group("certifications")
def test_the_tiny_sender_with_a_gate_keeps_what_is_promised_about_gates(tmp_path: Path) -> None:
    done = certify("--sender", SENDERS / "tiny_gated.toml", "--select", "gate", "--report", tmp_path)
    certificate = certificate_in(tmp_path)
    assert by_status(certificate, "fail") == set(), done.stdout
    assert len(by_status(certificate, "pass")) == 10
