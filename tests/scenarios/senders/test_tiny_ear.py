"""The tiny ear: what it answers and what it keeps, and that a sender with it keeps every promise about webhooks."""

from __future__ import annotations

import base64
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from scenarios.clock import now
from scenarios.senders.tiny_ear import SCHEMA, TYPES, WEIGHTS, Ear, kind_of
from tests.scenarios.running import SENDERS, by_status, certificate_in, certify

SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()
EVENT: dict[str, Any] = {
    "id": "evt_1",
    "type": "email.bounced",
    "data": {"recipient": "ann@x", "bounce": "hard"},
}


class Listening(Ear):
    """An ear with a database in memory and one mail in doubt."""

    def __init__(self) -> None:
        self.db = sqlite3.connect(":memory:", isolation_level=None)
        self.db.execute(SCHEMA)
        self.db.execute("CREATE TABLE mail (recipient TEXT, state TEXT)")
        self.db.execute("INSERT INTO mail VALUES ('ann@x', 'unknown')")

    def told(self, body: Any, **headers: str) -> int:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        at = now()
        signed = {
            "webhook-id": "evt_1",
            "webhook-timestamp": str(int(at.timestamp())),
            "webhook-signature": Webhook(SECRET).sign("evt_1", at, raw.decode()),
        }
        return self.answer(signed | headers, raw)


@pytest.fixture
def ear(monkeypatch: pytest.MonkeyPatch) -> Listening:
    monkeypatch.setenv("TINY_WEBHOOK_SECRET", SECRET)
    return Listening()


def test_what_is_genuine_is_kept_once_and_believed(ear: Listening) -> None:
    assert [ear.told(EVENT), ear.told([EVENT, EVENT])] == [204, 204]
    assert ear.stands("ann@x") == "hard_bounce"
    assert ear.stands("bob@x") is None
    assert ear.db.execute("SELECT state FROM mail").fetchall() == [("accepted",)]
    assert ear.db.execute("SELECT count(*) FROM told").fetchone() == (1,)


@pytest.mark.parametrize(
    "headers",
    [
        {"webhook-signature": "v1,nonsense"},
        {"webhook-signature": "größe"},
        {"webhook-timestamp": "1"},
        {"webhook-timestamp": "soon"},
        {"webhook-id": "evt_2"},
    ],
)
def test_anything_else_is_not(ear: Listening, headers: dict[str, str]) -> None:
    assert ear.told(EVENT, **headers) == 401
    assert ear.stands("ann@x") is None


def test_what_cannot_be_read_costs_itself(ear: Listening) -> None:
    assert ear.told([None, "text", {"id": "x"}, EVENT]) == 204
    assert ear.told(b"<html>") == 204
    assert ear.stands("ann@x") == "hard_bounce"


def test_the_heaviest_counts_in_whatever_order(ear: Listening) -> None:
    assert ear.weigh(["hard_bounce", "delivered", "?"]) == "hard_bounce"
    assert ear.weigh([]) is None
    assert set(TYPES.values()) == set(WEIGHTS)
    assert kind_of(EVENT | {"type": "email.accepted"}) == "queued"
    assert kind_of(EVENT | {"type": "contact.created"}) == ""


def test_the_tiny_sender_with_an_ear_keeps_what_is_promised_about_webhooks(tmp_path: Path) -> None:
    done = certify("--sender", SENDERS / "tiny_hearing.toml", "--select", "webhooks", "--report", tmp_path)
    certificate = certificate_in(tmp_path)
    assert by_status(certificate, "fail") == set(), done.stdout
    assert len(by_status(certificate, "pass")) == 7
