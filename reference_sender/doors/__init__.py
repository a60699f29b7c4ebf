"""The doors through which a provider tells what became of a mail: HTTP for webhooks, LMTP and Maildir for reports.

A door checks, keeps, and only then says yes. What an event means is found out later, behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol


class Keeper(Protocol):
    """What a door asks of the outbox: keep events (id, bytes). When it returns, they are durable."""

    def receive(self, items: Sequence[tuple[str, bytes]], *, source: str, now: datetime) -> int: ...
