"""An SMTP line: aiosmtplib's protocol, with what is heard kept as it came, and writing that can be waited for.

Must not hold: which command comes next (`smtp_talk`), what a reply means.
"""

from __future__ import annotations

import asyncio
import ipaddress
from typing import Any

from aiosmtplib.protocol import SMTPProtocol
from aiosmtplib.response import SMTPResponse


class Line(SMTPProtocol):
    """aiosmtplib's protocol, with two additions: the reply is kept as it came, and writing can be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = bytearray()
        self._writable = asyncio.Event()
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        self.heard += data[: max(0, 65_536 - len(self.heard))]
        super().data_received(data)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._writable.clear()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._writable.set()

    async def room_or(self, answer: asyncio.Future[SMTPResponse]) -> None:
        """Wait until there is room to write on, or until the server answers early."""
        if self._writable.is_set():
            await asyncio.sleep(0)  # let an answer that is already here be seen
            return
        room = asyncio.ensure_future(self._writable.wait())
        either: tuple[asyncio.Future[Any], ...] = (answer, room)
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            room.cancel()

    def abort(self) -> None:
        """Close at once and throw away what was not written yet: a half mail must not go on leaving."""
        if isinstance(self.transport, asyncio.WriteTransport):
            self.transport.abort()


def own_name(line: Line | None) -> str:
    """What we call ourselves in EHLO."""
    # An address literal (RFC 5321 section 4.1.3): true, and no name server has to be asked for it.
    transport = line.transport if line is not None else None
    name: Any = transport.get_extra_info("sockname") if transport is not None else None
    try:
        address = ipaddress.ip_address(name[0].partition("%")[0])
    except (ValueError, TypeError, IndexError, AttributeError):
        return "[127.0.0.1]"
    return f"[IPv6:{address}]" if address.version == 6 else f"[{address}]"
