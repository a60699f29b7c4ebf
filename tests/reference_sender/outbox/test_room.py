"""The queue cap on every database: counted once in a while, and never for what is never refused."""

from __future__ import annotations

from datetime import timedelta

import pytest

from reference_sender.outbox.room import QueueCap
from reference_sender.policy.classes import MailClass, QueueFull
from tests.reference_sender.outbox.benches import SqlBench
from tests.reference_sender.samples import NOW


def test_what_is_refused_first_is_the_newsletter(outbox: SqlBench) -> None:
    cap = QueueCap(4)
    outbox.put("letter-1", mail_class="newsletter", cap=cap)
    outbox.put("order-1", cap=cap)
    with pytest.raises(QueueFull, match="newsletter is let in up to 2"):
        outbox.put("letter-2", mail_class="newsletter", cap=cap)
    outbox.put("order-2", cap=cap)
    outbox.put("order-3", cap=cap)
    with pytest.raises(QueueFull, match="confirmation is let in up to 4"):
        outbox.put("order-4", cap=cap)
    outbox.put("code-1", mail_class="code", cap=cap)
    assert len(outbox.claim()) == 5


def test_a_queue_that_got_shorter_is_seen_within_a_second(outbox: SqlBench) -> None:
    cap = QueueCap(2)
    outbox.put("order-1", cap=cap)
    outbox.put("order-2", cap=cap)
    with pytest.raises(QueueFull):
        outbox.put("order-3", cap=cap)
    outbox.claim()
    with outbox.begin() as transaction, pytest.raises(QueueFull):
        cap.check(transaction, MailClass.CONFIRMATION, NOW + timedelta(seconds=0.5))
    with outbox.begin() as transaction:
        cap.check(transaction, MailClass.CONFIRMATION, NOW + timedelta(seconds=1))


def test_what_is_beyond_the_cap_is_not_counted(outbox: SqlBench) -> None:
    for number in range(5):
        outbox.put(f"order-{number}")
    cap = QueueCap(3)
    with pytest.raises(QueueFull, match="3 mails are waiting"):
        outbox.put("order-9", cap=cap)
