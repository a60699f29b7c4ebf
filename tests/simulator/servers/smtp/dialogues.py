"""Dialogues written down: left what a sender says, right what it hears, from the beginning of a reply.

`EOF`, `RST` and `SILENCE` are heard, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.simulator.servers.smtp.house import PLAIN, RAW, Client, House

EOF, RST, SILENCE = "end of file", "reset", "silence"

EHLO = b"EHLO c.example\r\n"
AUTH = PLAIN + b"\r\n"
MAIL = b"MAIL FROM:<a@x.example>\r\n"
RCPT = b"RCPT TO:<b@y.example>\r\n"
DATA = b"DATA\r\n"
MESSAGE = RAW + b".\r\n"
NOOP = b"NOOP\r\n"
QUIT = b"QUIT\r\n"

GREETED: list[tuple[bytes, Any]] = [(b"", b"220 "), (EHLO, b"250-")]
TO_RCPT = [*GREETED, (MAIL, b"250 2.1.0"), (RCPT, b"250 2.1.5")]
TO_DATA = [*TO_RCPT, (DATA, b"354 ")]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A plan and a dialogue under it."""

    id: str
    rules: list[dict[str, Any]]
    says: list[tuple[bytes, Any]]
    booked: int = 0
    waits: list[float] = field(default_factory=list)
    tables: dict[str, Any] = field(default_factory=dict)
    """What else the plan has."""


def case(id_: str, *rules: dict[str, Any], says: list[tuple[bytes, Any]], **more: Any) -> Case:
    return Case(id=id_, rules=[{"dialect": "smtp"} | rule for rule in rules], says=says, **more)


async def heard(client: Client, home: House, expected: object) -> None:
    """Hear one reply, or what is in its place."""
    if expected == SILENCE:
        # Whoever is served after it shows that the server has had its chance to say something.
        other = await home.client()
        await other.line()
        other.sock.close()
        assert client.is_in_silence()
    elif expected == EOF:
        assert await client.rest() == b""
    elif expected == RST:
        with pytest.raises(ConnectionResetError):
            await client.rest()
    else:
        assert isinstance(expected, bytes)
        got = await client.reply()
        assert got.startswith(expected), (expected, got)
