"""A whole outbox sender in the standard library only: small enough to read at a sitting, and certified.

It shares no code with the reference sender. It shows what the suite asks of anybody's sender, and the
known-bad senders are small patches of it, so that what they break is their sin and nothing else.

One row per mail and recipient. `claim` commits before a byte leaves; over SMTP a doubt marker is committed
at the point of no return (after 354); over HTTP the key makes sending again safe. Without keys, and with
the other policy (TINY_KEYS, TINY_POLICY), it shows what else can be certified.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import json
import os
import signal
import smtplib
import sqlite3
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from scenarios.clock import now, wait_s
from scenarios.senders import tiny_ear

SCHEMA = """
CREATE TABLE IF NOT EXISTS mail (
    key TEXT, recipient TEXT, sender TEXT, raw BLOB, state TEXT DEFAULT 'pending', attempts INTEGER DEFAULT 0,
    due REAL DEFAULT 0, lease REAL DEFAULT 0, doubt INTEGER DEFAULT 0, provider_id TEXT,
    PRIMARY KEY (key, recipient)
)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What an attempt told us. `kind`: accepted, later, refused, doubt."""

    kind: str
    provider_id: str | None = None
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A mail to one recipient, as it was when it was claimed; `attempts` counts this one."""

    key: str
    recipient: str
    sender: str
    raw: bytes
    attempts: int
    doubt: bool
    taken_over: bool


class TinySender(tiny_ear.Ear):
    """The sender; known-bad ones override one method."""

    profile = os.environ.get("TINY_PROFILE", "http")
    timeout_s = float(os.environ.get("TINY_TIMEOUT_S", "2"))
    retry_s = float(os.environ.get("TINY_RETRY_S", "0.3"))
    lease_s = float(os.environ.get("TINY_LEASE_S", "3"))
    keys = os.environ.get("TINY_KEYS", "yes") == "yes"
    policy = os.environ.get("TINY_POLICY", "at-most-once")
    #: Which mail is taken, and which of it first, in SQL.
    among, first = "1", "due, rowid"

    def __init__(self) -> None:
        self.db = sqlite3.connect(os.environ["TINY_DATABASE"], timeout=20, isolation_level=None)
        with contextlib.suppress(sqlite3.OperationalError):
            # Nobody waits for his turn here: whoever is in the way is another one of us, doing the same, and it holds for all.
            self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("PRAGMA synchronous = NORMAL")
        self.db.execute(SCHEMA)
        self.db.execute(tiny_ear.SCHEMA)
        self.stopping = False

    # --- the application's side ---------------------------------------------------------------------

    def talk(self) -> None:
        """Answer one JSON line per line: `enqueue` and `status`."""
        for line in sys.stdin:
            try:
                question = json.loads(line)
                answer = self.enqueue(question) if question["op"] == "enqueue" else self.status()
            except (KeyError, ValueError, TypeError, sqlite3.Error) as error:
                answer = {"ok": False, "error": f"{type(error).__name__}: {error}"}
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()

    def enqueue(self, mail: dict[str, Any]) -> dict[str, Any]:
        """One business transaction: the mail's rows, then COMMIT (or ROLLBACK). A known key changes nothing."""
        created = 0
        raw = render(mail)
        sender = mail["from"].rpartition("<")[2].rstrip(">")
        self.db.execute("BEGIN IMMEDIATE")
        for to in mail["to"]:
            recipient = to.rpartition("<")[2].rstrip(">")
            created += self.db.execute(
                "INSERT OR IGNORE INTO mail (key, recipient, sender, raw) VALUES (?, ?, ?, ?)",
                (mail["key"], recipient, sender, raw),
            ).rowcount
        self.db.execute("ROLLBACK" if mail.get("rollback") else "COMMIT")
        return {"ok": True, "key": mail["key"], "created": created > 0}

    def status(self) -> dict[str, Any]:
        rows = self.db.execute("SELECT key, recipient, state, attempts, provider_id FROM mail").fetchall()
        names = ("key", "recipient", "state", "attempts", "provider_id")
        mails = [dict(zip(names, row, strict=True)) for row in rows]
        return {"ok": True, "mails": [each | {"delivery": self.stands(each["recipient"])} for each in mails]}

    # --- the worker ---------------------------------------------------------------------------------

    def work(self) -> None:
        """Send what is due until asked to stop; then finish the mail in hand and go."""
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "stopping", True))
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        self.loop()

    def loop(self) -> None:
        """Claim, send, settle, one mail after the other."""
        while not self.is_done():
            row = self.claim()
            if row is None:
                wait_s(0.05)
                continue
            self.settle(row, self.attempt(row))

    def is_done(self) -> bool:
        return self.stopping

    def claim(self) -> Row | None:
        """Take one due mail in hand and commit that, before anything is sent."""
        at = now().timestamp()
        self.db.execute("BEGIN IMMEDIATE")
        found = self.due(at)
        if found is not None:
            self.db.execute(
                "UPDATE mail SET state = ?, attempts = ?, lease = ? WHERE key = ? AND recipient = ?",
                (self.state_in_hand(), found.attempts, at + self.lease_s, found.key, found.recipient),
            )
        self.db.execute("COMMIT")
        return found

    def due(self, at: float) -> Row | None:
        found = self.db.execute(
            "SELECT key, recipient, sender, raw, attempts + 1, doubt, state = 'sending' FROM mail"
            " WHERE ((state = 'pending' AND due <= ?) OR (state = 'sending' AND lease <= ?))"
            f" AND {self.among} ORDER BY {self.first} LIMIT 1",
            (at, at),
        ).fetchone()
        if found is None:
            return None
        key, recipient, sender, raw, attempts, doubt, taken_over = found
        return Row(
            key=key,
            recipient=recipient,
            sender=sender,
            raw=bytes(raw),
            attempts=attempts,
            doubt=bool(doubt),
            taken_over=bool(taken_over),
        )

    def state_in_hand(self) -> str:
        return "sending"

    def may_repeat(self) -> bool:
        """Tell whether a mail in doubt is sent again: a key makes it safe, at-least-once makes it policy."""
        return (self.profile == "http" and self.keys) or self.policy == "at-least-once"

    def attempt(self, row: Row) -> Outcome:
        """Hand the mail over, unless nobody can know and the policy is to leave it to a person."""
        if self.profile == "http":
            # A request goes out in one piece: with a worker that died under it, everything is possible.
            doubtful = row.doubt or row.taken_over
            return self.over_http(row) if self.may_repeat() or not doubtful else Outcome(kind="doubt")
        return self.over_smtp(row) if self.may_repeat() or not row.doubt else Outcome(kind="doubt")

    def settle(self, row: Row, outcome: Outcome) -> None:
        """Store what became of it. A refusal after a doubt is no failure: nobody knows."""
        doubt = row.doubt or outcome.kind == "doubt"
        state = {"accepted": "accepted", "later": "pending", "refused": "failed", "doubt": "unknown"}[
            outcome.kind
        ]
        if outcome.kind == "doubt" and self.may_repeat():
            state = "pending"
        if outcome.kind == "refused" and doubt:
            state = "unknown"
        self.db.execute(
            "UPDATE mail SET state = ?, due = ?, doubt = ?, provider_id = ? WHERE key = ? AND recipient = ?",
            (
                state,
                now().timestamp() + max(self.retry_s, outcome.wait_s),
                doubt,
                outcome.provider_id,
                row.key,
                row.recipient,
            ),
        )
        self.believe()

    # --- HTTP ---------------------------------------------------------------------------------------

    def key_of(self, row: Row) -> str:
        """One key per mail and recipient, over all attempts and restarts."""
        return f"{row.key}/{row.recipient}"

    def over_http(self, row: Row) -> Outcome:
        url = urlsplit(os.environ["TINY_HTTP_URL"])
        line = http.client.HTTPConnection(str(url.hostname), url.port, timeout=self.timeout_s)
        body = {
            "from": row.sender,
            "to": [row.recipient],
            "raw": base64.b64encode(self.bytes_of(row)).decode(),
        }
        headers = {
            "Authorization": "Bearer " + os.environ.get("TINY_API_KEY", ""),
            "Content-Type": "application/json",
        } | ({"Idempotency-Key": self.key_of(row)} if self.keys else {})
        try:
            line.request("POST", "/v1/emails", json.dumps(body), headers)
            reply = line.getresponse()
            content = reply.read()
        except TimeoutError:
            return self.on_timeout()
        except (OSError, http.client.HTTPException):
            return Outcome(kind="doubt")
        finally:
            line.close()
        return self.read_http(reply.status, reply.headers.get("Retry-After"), content)

    def read_http(self, status: int, retry_after: str | None, content: bytes) -> Outcome:
        if status in (400, 413, 422):
            return Outcome(kind="refused")
        if status in (401, 403, 408, 409, 425, 429, 503):
            return Outcome(kind="later", wait_s=seconds(retry_after))
        try:
            provider_id = json.loads(content)["id"] if 200 <= status < 300 else None
        except (ValueError, KeyError, TypeError):
            provider_id = None
        return (
            Outcome(kind="accepted", provider_id=provider_id)
            if isinstance(provider_id, str)
            else Outcome(kind="doubt")
        )

    def on_timeout(self) -> Outcome:
        return Outcome(kind="doubt")

    # --- SMTP ---------------------------------------------------------------------------------------

    def over_smtp(self, row: Row) -> Outcome:
        line = smtplib.SMTP(timeout=self.timeout_s, local_hostname="shop.example.org")
        doubt = False
        try:
            code, _ = line.connect(os.environ["TINY_SMTP_HOST"], int(os.environ["TINY_SMTP_PORT"]))
            words = (
                "EHLO shop.example.org",
                f"MAIL FROM:<{row.sender}>",
                f"RCPT TO:<{row.recipient}>",
                "DATA",
            )
            for word in words:
                if not 200 <= code < 300:
                    return self.read_smtp(code)
                code, _ = line.docmd(word)
            if code != 354:
                return self.read_smtp(code)
            if not self.still_wanted(row):
                return Outcome(
                    kind="later"
                )  # Nothing of it has left; whoever takes it next will see the same.
            self.mark_doubt(row, True)
            doubt = True
            line.send(stuffed(self.bytes_of(row)))
            code, _ = line.getreply()
        except TimeoutError:
            return self.on_timeout() if doubt else Outcome(kind="later")
        except (OSError, smtplib.SMTPException):
            return Outcome(kind="doubt" if doubt else "later")
        finally:
            line.close()  # The outcome is known by now; QUIT could only confuse it.
        if not 200 <= code < 600:
            return Outcome(kind="doubt")  # No reply of this protocol.
        # A complete refusal after the dot says: not taken (RFC 5321, section 4.2.5).
        self.mark_doubt(row, False)
        return self.read_smtp(code)

    def read_smtp(self, code: int) -> Outcome:
        if 200 <= code < 300:
            return Outcome(kind="accepted")
        return Outcome(kind="refused" if 500 <= code < 600 else "later")

    def still_wanted(self, row: Row) -> bool:
        """Tell whether the mail is still worth sending, right before its first byte leaves."""
        return True

    def mark_doubt(self, row: Row, doubt: bool) -> None:
        """Commit that from here on nobody can know, until the answer is there."""
        self.db.execute(
            "UPDATE mail SET doubt = ? WHERE key = ? AND recipient = ?", (doubt, row.key, row.recipient)
        )

    def bytes_of(self, row: Row) -> bytes:
        """The bytes frozen at enqueue: every attempt sends the same."""
        return row.raw


def render(mail: dict[str, Any]) -> bytes:
    """Build the message once, when it is enqueued."""
    message = EmailMessage(policy=SMTP)
    message["From"], message["To"] = mail["from"], ", ".join(mail["to"])
    message["Subject"] = mail["subject"]
    message["Date"] = format_datetime(now())
    message["Message-ID"] = f"<{hashlib.sha256(mail['key'].encode()).hexdigest()[:24]}@shop.example.org>"
    for name, value in (mail.get("headers") or {}).items():
        message[name] = value
    message.set_content(mail["text"])
    files = mail.get("attachments") or []
    if mail.get("html"):
        message.add_alternative(mail["html"], subtype="html")
        page = list(message.iter_parts())[-1]
        assert isinstance(page, EmailMessage)
        for each in files:
            if each.get("content_id"):
                page.add_related(base64.b64decode(each["content"]), *each["content_type"].split("/"),
                                 cid=f"<{each['content_id']}>", filename=each["filename"], disposition="inline")  # fmt: skip
    for each in files:
        if not each.get("content_id") or not mail.get("html"):
            kind, subtype = each["content_type"].split("/")
            message.add_attachment(
                base64.b64decode(each["content"]), maintype=kind, subtype=subtype, filename=each["filename"]
            )
    return message.as_bytes()


def stuffed(raw: bytes) -> bytes:
    """Double the dots at line beginnings and end with the final dot (RFC 5321, section 4.5.2)."""
    text = raw if raw.endswith(b"\r\n") else raw + b"\r\n"
    text = text.replace(b"\r\n.", b"\r\n..")
    return (b"." + text if text.startswith(b".") else text) + b".\r\n"


def seconds(retry_after: str | None) -> float:
    """Read Retry-After in both forms (RFC 9110, section 10.2.3); nonsense is 0."""
    if retry_after is None:
        return 0.0
    if retry_after.isdigit():
        return min(float(retry_after), 3600.0)
    try:
        at: datetime = parsedate_to_datetime(retry_after)
    except ValueError:
        return 0.0
    return min(max(0.0, at.timestamp() - now().timestamp()), 3600.0)


def run(kind: type[TinySender], arguments: Sequence[str]) -> int:
    """`work`, `talk` or `hear`."""
    if list(arguments) not in (["work"], ["talk"], ["hear"]):
        sys.stderr.write("usage: work | talk | hear\n")
        return 2
    sender = kind()
    {"work": sender.work, "talk": sender.talk, "hear": sender.hear}[arguments[0]]()
    return 0


if __name__ == "__main__":
    sys.exit(run(TinySender, sys.argv[1:]))
