"""The tiny sender with a gate: what all of its workers know of the provider stands in its database, small enough to read.

One rate for all, one pause for all, a breaker with one probe at a time, a lane of its own for urgent mail, and an end
for mail that is not worth sending any more. The known-bad gates are small patches of this one.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from scenarios.clock import now
from scenarios.senders.tiny import Outcome, Row, TinySender, run

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS gate (name TEXT PRIMARY KEY, value REAL)",
    "CREATE TABLE IF NOT EXISTS urgent (key TEXT PRIMARY KEY)",
    "CREATE TABLE IF NOT EXISTS ends (key TEXT PRIMARY KEY, at REAL)",
)
URGENT = "key IN (SELECT key FROM urgent)"


class GatedSender(TinySender):
    """The sender; known-bad ones override one method."""

    first = f"NOT {URGENT}, due, rowid"
    reserves = True
    rate_per_s = float(os.environ.get("TINY_RATE_PER_S", "20"))
    burst = float(os.environ.get("TINY_BURST", "5"))
    failures = int(os.environ.get("TINY_BREAKER_FAILURES", "5"))
    pause_s = float(os.environ.get("TINY_BREAKER_PAUSE_S", "1"))

    def __init__(self, main: GatedSender | None = None) -> None:
        super().__init__()
        self.main = main
        """Of the lane for urgent mail: the one that is told to stop."""
        for statement in SCHEMA:
            self.db.execute(statement)

    def enqueue(self, mail: dict[str, Any]) -> dict[str, Any]:
        """What is urgent and what ends is written first; without its mail it says nothing."""
        if mail.get("class") == "code":
            self.db.execute("INSERT OR IGNORE INTO urgent VALUES (?)", (mail["key"],))
        if mail.get("expires_in_s") is not None:
            ends_at = now().timestamp() + mail["expires_in_s"]
            self.db.execute("INSERT OR IGNORE INTO ends VALUES (?, ?)", (mail["key"], ends_at))
        return super().enqueue(mail)

    def loop(self) -> None:
        """Beside the lane for everything there is one that no newsletter can fill."""
        lane = None
        if self.main is None and self.reserves:
            lane = threading.Thread(target=self.urgent_lane, daemon=True)
            lane.start()
        super().loop()
        if lane is not None:
            lane.join()

    def urgent_lane(self) -> None:
        """Send urgent mail only, until the main lane stops."""
        lane = type(self)(self)  # with a connection of its own: SQLite's belong to a thread
        lane.among = URGENT
        lane.loop()

    def is_done(self) -> bool:
        return self.stopping or (self.main is not None and self.main.stopping)

    # --- what all workers know, within the transaction of a claim -------------------------------------

    def due(self, at: float) -> Row | None:
        self.end_overdue(at)
        if not self.may_go(at):
            return None
        found = super().due(at)
        if found is not None:
            self.goes(at)
        return found

    def may_go(self, at: float) -> bool:
        """Tell whether the provider wants anybody to come, and the rate has a token."""
        return at >= max(self.known("paused_until"), self.known("open_until")) and self.tokens(at) >= 1

    def goes(self, at: float) -> None:
        """One mail goes: a token less; and where the breaker is open it is the probe, and the next one waits."""
        self.spend(at)
        if self.known("failures") >= self.failures:
            self.know("open_until", at + self.pause_s)

    def tokens(self, at: float) -> float:
        """How many mails may go at once just now."""
        since_s = max(0.0, at - self.known("tokens_at"))
        return min(self.burst, self.burst - self.known("spent") + since_s * self.rate_per_s)

    def spend(self, at: float) -> None:
        self.know("spent", self.burst - self.tokens(at) + 1)
        self.know("tokens_at", at)

    def end_overdue(self, at: float) -> None:
        """What is not worth sending any more ends, unsent."""
        self.db.execute(
            "UPDATE mail SET state = 'expired' WHERE state = 'pending' AND NOT doubt"
            " AND key IN (SELECT key FROM ends WHERE at <= ?)",
            (at,),
        )

    def still_wanted(self, row: Row) -> bool:
        ends = self.db.execute("SELECT at FROM ends WHERE key = ?", (row.key,)).fetchone()
        return ends is None or now().timestamp() < ends[0]

    # --- what an attempt tells them -------------------------------------------------------------------

    def settle(self, row: Row, outcome: Outcome) -> None:
        super().settle(row, outcome)
        at = now().timestamp()
        self.db.execute("BEGIN IMMEDIATE")
        if outcome.wait_s:
            self.everybody_waits(at + outcome.wait_s)
        if outcome.kind in ("accepted", "refused"):
            self.is_well()
        else:
            self.is_ill(at)
        self.db.execute("COMMIT")

    def everybody_waits(self, until: float) -> None:
        self.know("paused_until", max(until, self.known("paused_until")))

    def is_well(self) -> None:
        if self.known("failures"):
            self.know("failures", 0)
            self.know("open_until", 0)

    def is_ill(self, at: float) -> None:
        count = self.known("failures") + 1
        self.know("failures", count)
        if count >= self.failures:
            self.know("open_until", at + self.pause_s)

    def known(self, name: str) -> float:
        found = self.db.execute("SELECT value FROM gate WHERE name = ?", (name,)).fetchone()
        return 0.0 if found is None else float(found[0])

    def know(self, name: str, value: float) -> None:
        self.db.execute("INSERT OR REPLACE INTO gate VALUES (?, ?)", (name, value))


if __name__ == "__main__":
    sys.exit(run(GatedSender, sys.argv[1:]))
