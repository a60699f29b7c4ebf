"""Records to keep, with everything in them that a store might lose."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from simulator.provider.acceptance import Acceptance
from simulator.provider.answer import RefusedRecipient
from simulator.provider.fate import Destiny, Fate
from simulator.provider.ledger import Attempt, AttemptState, Booked, Decided, Decision, Sent, Tried
from simulator.provider.obligations import Obligation, Reported

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
REFUSED = (RefusedRecipient(recipient="bob@example.com", code=550, enhanced="5.1.1"),)
RAW = b"Subject: x\r\n\r\n\x00\xff\r\n"

OWED = Obligation(
    account="default", ref="ref-1", recipient="Ada@example.com", copies=2, sha256="a" * 64, state=Reported.UNKNOWN
)  # fmt: skip


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def booked(number: int = 1, account: str = "default", raw: bytes = RAW, **changes: Any) -> Booked:
    facts: dict[str, Any] = {
        "id": f"msg_{account}_{number}",
        "number": number,
        "account": account,
        "attempt": f"att_{number}",
        "dialect": "native",
        "accepted_at": at(number),
        "sender": "shop@example.org",
        "recipients": ("ada@example.com", "grüße@example.com"),
        "refused": REFUSED,
        "message_id": "<m@example.org>",
        "key": "order-1",
        "fingerprint": "f" * 64,
        "subject": "Grüße",
        "size_bytes": len(raw),
        "sha256": sha256(raw).hexdigest(),
        "obligation": "ref-1",
        "fate": Fate.DROPPED,
        "destinies": (("ada@example.com", Destiny(fate=Fate.HARD_BOUNCE, code=550)),),
        "headers": (("Subject", "Grüße"), ("X-Shop", "north 7")),
    }
    return Booked(acceptance=Acceptance(**facts | changes), raw=raw)


def tried(number: int = 1, account: str = "default", **changes: Any) -> Tried:
    facts: dict[str, Any] = {
        "id": f"att_{number}",
        "number": number,
        "account": account,
        "dialect": "smtp",
        "connection": "c1",
        "peer": "127.0.0.1:1",
        "opened_at": at(number),
        "stage": "reply",
        "state": AttemptState.CLOSED,
        "sender": "",
        "recipients": ("ada@example.com",),
        "refused": REFUSED,
        "drop": True,
        "accepted": ("ada@example.com",),
        "answer": "250 2.0.0 OK",
        "sent": Sent.PARTIAL,
        "rules": ("rule 1",),
        "closed_at": at(number),
    }
    return Tried(attempt=Attempt(**facts | changes))


def decided(number: int = 1, account: str = "default") -> Decided:
    return Decided(
        decision=Decision(
            number=number,
            account=account,
            attempt="att_1",
            stage="reply",
            rules=("rule 1",),
            answer="reset",
            at=at(number),
        )
    )
