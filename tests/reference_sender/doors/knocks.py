"""Knocking at the door for webhooks: signed requests, and a keeper that remembers what it was given."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import aiohttp
from standardwebhooks import Webhook

from reference_sender.doors.http import Door, Rules
from reference_sender.events.signature import Scheme, read_secrets
from tests.reference_sender.samples import NOW, ManualClock

SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()
RULES = Rules(scheme=Scheme.STANDARD, keys=read_secrets(SECRET, Scheme.STANDARD), most_bytes=2_000)


@dataclass(slots=True)
class Shelf:
    """Keeps what a door keeps; or is away."""

    kept: list[tuple[str, bytes]] = field(default_factory=list)
    sources: set[str] = field(default_factory=set)
    away: Exception | None = None
    before: Callable[[], None] = lambda: None

    def receive(self, items: Sequence[tuple[str, bytes]], *, source: str, now: datetime) -> int:
        self.before()
        if self.away is not None:
            raise self.away
        known = dict(self.kept)
        new = [each for each in items if each[0] not in known]
        self.kept += new
        self.sources.add(source)
        return len(new)


def signed(body: bytes, *, id_: str = "evt_1", at: datetime = NOW, secret: str = SECRET) -> dict[str, str]:
    return {
        "webhook-id": id_,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(secret).sign(id_, at, body.decode("utf-8")),
    }


@dataclass(slots=True)
class Caller:
    """A provider in front of the door."""

    url: str
    session: aiohttp.ClientSession

    async def post(
        self,
        body: bytes = b'{"id": "evt_1"}',
        headers: Mapping[str, str] | None = None,
        path: str = "/webhooks",
    ) -> tuple[int, str, Mapping[str, str]]:
        given = signed(body) if headers is None else headers
        async with self.session.post(self.url + path, data=body, headers=given) as response:
            return response.status, await response.text(), response.headers


async def knocking(
    story: Callable[[Caller], Awaitable[None]], shelf: Shelf, *, rules: Rules = RULES, **more: Any
) -> None:
    """Open a door, let somebody knock, close it."""
    door = Door(keeper=shelf, rules=rules, clock=ManualClock(), **more)
    host, port = await door.open("127.0.0.1", 0)
    try:
        async with aiohttp.ClientSession(auto_decompress=False) as session:
            await story(Caller(f"http://{host}:{port}", session))
    finally:
        await door.close()
