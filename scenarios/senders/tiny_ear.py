"""The tiny sender's ear: webhooks in the standard library only, small enough to read at a sitting.

`hear` verifies the raw bytes (Standard Webhooks), keeps each event under its id, and says 204 when it is committed.
Where a mail stands is the heaviest of what was told of it. The known-bad ears are small patches of this one.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from scenarios.clock import now

SCHEMA = "CREATE TABLE IF NOT EXISTS told (id TEXT PRIMARY KEY, recipient TEXT, kind TEXT)"
TOLERANCE_S = 300.0
#: From light to heavy: what stands behind outweighs what stands before.
WEIGHTS = (
    "queued",
    "deferred",
    "soft_bounce",
    "delivered",
    "opened",
    "clicked",
    "unsubscribed",
    "suppressed",
    "hard_bounce",
    "complaint",
)
TYPES = {
    "email.accepted": "queued",
    "email.complained": "complaint",
    **{f"email.{name}": name for name in WEIGHTS},
}


class Ear:
    """What a sender with a database `db` needs to hear."""

    db: sqlite3.Connection

    def hear(self) -> None:
        """Take webhooks in, one after the other, until killed."""
        ear = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # A provider that keeps its connection would keep everybody else waiting.
            timeout = 0.2

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status = ear.answer({name.lower(): value for name, value in self.headers.items()}, body)
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.send_header("Connection", "close")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Nobody reads it."""

        server = HTTPServer(("127.0.0.1", int(os.environ["TINY_WEBHOOK_PORT"])), Handler)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        server.serve_forever()

    def answer(self, headers: Mapping[str, str], body: bytes) -> int:
        """The status of one request: what is kept gets a 204."""
        if not self.genuine(headers, body):
            return 401
        try:
            told = json.loads(body)
        except ValueError:
            return self.unreadable()
        rows, status = [], 204
        for item in told if isinstance(told, list) else [told]:
            try:
                rows.append((item["id"], item["data"]["recipient"], kind_of(item)))
            except (KeyError, TypeError):
                status = self.unreadable()
        if status == 204:
            self.keep(rows)
        return status

    def genuine(self, headers: Mapping[str, str], body: bytes) -> bool:
        """Tell whether the signature fits, and whether the request is of now."""
        id_, stamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
        if not stamp.isdecimal() or abs(now().timestamp() - int(stamp)) > TOLERANCE_S:
            return False
        key = base64.b64decode(os.environ["TINY_WEBHOOK_SECRET"].removeprefix("whsec_"))
        digest = hmac.digest(key, f"{id_}.{stamp}.".encode() + body, hashlib.sha256)
        right = b"v1," + base64.b64encode(digest)
        given = headers.get("webhook-signature", "").encode("utf-8", "replace").split(b" ")
        return any(hmac.compare_digest(right, each) for each in given)

    def unreadable(self) -> int:
        """What cannot be read does not get better by being told again, and its neighbours must not wait for it."""
        return 204

    def keep(self, rows: Sequence[tuple[str, str, str]]) -> None:
        """Commit what was told; the same event again changes nothing."""
        self.db.executemany("INSERT OR IGNORE INTO told VALUES (?, ?, ?)", rows)
        self.believe()

    def believe(self) -> None:
        """Whatever was told of a mail proves that the provider took it."""
        self.db.execute(
            "UPDATE mail SET state = 'accepted' WHERE state = 'unknown'"
            " AND recipient IN (SELECT recipient FROM told)"
        )

    def stands(self, recipient: str) -> str | None:
        """Where the mail stands."""
        kinds = self.db.execute("SELECT kind FROM told WHERE recipient = ? ORDER BY rowid", (recipient,))
        return self.weigh([kind for (kind,) in kinds])

    def weigh(self, kinds: Sequence[str]) -> str | None:
        """The heaviest, in whatever order they came."""
        return max((kind for kind in kinds if kind in WEIGHTS), key=WEIGHTS.index, default=None)


def kind_of(event: Mapping[str, Any]) -> str:
    """What an event is about; an empty text if nobody knows."""
    if event["type"] == "email.bounced":
        return "hard_bounce" if event["data"].get("bounce") == "hard" else "soft_bounce"
    return TYPES.get(event["type"], "")
