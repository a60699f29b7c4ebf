"""What a mail costs, counted: calls of functions, and CPU time of the loop's thread and of the one behind it.

The whole service with a SQLite ledger, but no sockets: connections stand on transports in memory, so that the kernel
and the load cost nothing. Calls do not depend on the machine; times do, and are those of a run without the counter.
"""

from __future__ import annotations

import asyncio
import cProfile
import json
import pstats
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from simulator.clock import SystemClock
from simulator.servers.options import Address, Options
from simulator.servers.service import Service
from simulator.servers.smtp.session import SmtpSession
from tests.benchmarks.servers.load import BODY, CONNECTIONS, SESSIONS
from tests.simulator.servers.smtp.tap import Tap

#: As `smtp-source` sends it.
_LETTER = (
    b"From: <a@example.org>\r\nTo: <b@example.com>\r\nDate: Mon, 30 Nov 2026 08:00:00 +0000\r\n"
    b"Message-Id: <%d.vm@example.org>\r\n\r\n" + (b"X" * 78 + b"\r\n") * 52 + b".\r\n"
)
_ENVELOPE = (b"MAIL FROM:<a@example.org>\r\n", b"RCPT TO:<b@example.com>\r\n", b"DATA\r\n")


class _Line(Tap):
    """Whose other side is known, and that may be listened to."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 5000) if name in ("peername", "sockname") else default


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one mail."""

    calls: float
    loop_us: float
    behind_us: float


async def smtp_one(service: Service, mails: int) -> None:
    """Ten sessions, a new connection for each mail."""
    for number in range(0, mails, SESSIONS):
        await _sessions(service, 1, number)


async def smtp_many(service: Service, mails: int) -> None:
    """Ten sessions, many mails on each connection."""
    await _sessions(service, mails // SESSIONS, 0)


async def smtp_pieces(service: Service, mails: int) -> None:
    """The same, each mail in three pieces."""
    await _sessions(service, mails // SESSIONS, 0, piece_bytes=1600)


async def _sessions(service: Service, mails_each: int, first: int, *, piece_bytes: int = 1 << 20) -> None:
    sessions, lines = [], []
    for _ in range(SESSIONS):
        session, line = SmtpSession(service._smtp), _Line()
        session.connection_made(line)
        sessions.append(session)
        lines.append(line)

    async def say(data: bytes, expected: bytes) -> None:
        for session in sessions:
            session.data_received(data)
        await _heard(lines, expected)

    await _heard(lines, b"220")
    await say(b"HELO vm\r\n", b"250")
    for number in range(mails_each):
        await say(_ENVELOPE[0], b"250")
        await say(_ENVELOPE[1], b"250")
        await say(_ENVELOPE[2], b"354")
        letter = _LETTER % (first + number)
        while len(letter) > piece_bytes:
            for session in sessions:
                session.data_received(letter[:piece_bytes])
            letter = letter[piece_bytes:]
        await say(letter, b"250")
    await say(b"QUIT\r\n", b"221")
    for session in sessions:
        session.connection_lost(None)
    await asyncio.sleep(0)


async def http(service: Service, mails: int) -> None:
    """Twenty connections, 1 KB of JSON, a new key for each mail."""
    run = service.provider.accounts["default"].booked
    body = json.dumps(BODY).encode()
    visitors, lines = [], []
    for _ in range(CONNECTIONS):
        visitor, line = service._http._visitor(), _Line()
        visitor.connection_made(line)
        visitors.append(visitor)
        lines.append(line)
    for number in range(mails // CONNECTIONS):
        for nth, visitor in enumerate(visitors):
            visitor.data_received(
                b"POST /v1/emails HTTP/1.1\r\nHost: 127.0.0.1:8025\r\nContent-Length: %d\r\n"
                b"Content-Type: application/json\r\nIdempotency-Key: 0x55d0c8-%d-%d-%d\r\n\r\n%b"
                % (len(body), run, number, nth, body)
            )
        await _heard(lines, b"HTTP/1.1 200 OK\r\n")
    for visitor in visitors:
        visitor.connection_lost(None)


async def _heard(lines: list[_Line], expected: bytes) -> None:
    """Return when everybody has been answered so."""
    for line in lines:
        while not line.written:  # noqa: ASYNC110 - turns of the loop are what is measured
            await asyncio.sleep(0)
    for line in lines:
        if not line.written.startswith(expected):
            raise RuntimeError(f"{expected!r} was expected: {bytes(line.written)!r}")
        line.written.clear()


#: Into how many parts a story is cut to find the fastest: on a busy machine others make most of them longer.
PARTS = 10
Story = Callable[[Service, int], Awaitable[None]]
STORIES: dict[str, Story] = {
    "SMTP, many mails a connection": smtp_many,
    "SMTP, many mails a connection, in three pieces": smtp_pieces,
    "SMTP, one mail a connection": smtp_one,
    "HTTP": http,
}


async def cost_of(story: Story, ledger: Path, mails: int, *, shown: int = 0) -> Cost:
    """Play a story, timed and counted; the loop's time is that of its fastest part. `shown`: so many functions are printed."""
    here = Address(host="127.0.0.1", port=0)
    service = Service(Options(http=here, smtp=here, ledger=str(ledger)), SystemClock())
    await service.start()
    try:
        await story(service, mails // 4)
        service.store._catch_up()  # type: ignore[attr-defined] # a ledger in a file has it
        all_s, parts_s = time.process_time(), []
        part = mails // PARTS
        for _ in range(PARTS):
            began_s = time.thread_time()
            await story(service, part)
            parts_s.append(time.thread_time() - began_s)
        service.store._catch_up()  # type: ignore[attr-defined]
        all_s = time.process_time() - all_s
        profile = cProfile.Profile()
        few = min(mails, 1_000)
        profile.enable()
        await story(service, few)
        profile.disable()
        stats = pstats.Stats(profile)
        if shown:
            stats.sort_stats("ncalls").print_stats(shown)
        calls = stats.total_calls / few  # type: ignore[attr-defined] # it has it
        behind_us = (all_s - sum(parts_s)) / mails * 1e6
        return Cost(calls=calls, loop_us=min(parts_s) / part * 1e6, behind_us=behind_us)
    finally:
        await service.stop()


def measure_calls(folder: Path, *, mails: int = 10_000) -> None:
    """Print what a mail costs."""
    table = Table("One mail", "calls", "loop, CPU µs", "mover, CPU µs", title="Without sockets")
    for name, story in STORIES.items():
        try:
            import uvloop

            run = uvloop.run
        except ImportError:
            run = asyncio.run  # type: ignore[assignment] # called alike, typed otherwise
        cost = run(cost_of(story, folder / f"{story.__name__}.db", mails))
        table.add_row(name, f"{cost.calls:,.0f}", f"{cost.loop_us:,.0f}", f"{cost.behind_us:,.0f}")
    Console(width=110).print(table)
