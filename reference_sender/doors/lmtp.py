"""The door for reports by LMTP (RFC 2033) or SMTP: a mail server hands over what came back, and is answered when it is kept.

Behind a mail server of one's own, like Postfix with `transport: lmtp:inet:127.0.0.1:2424`; it is none itself, and must
not face the internet: whoever can reach it can report bounces.
Must not hold: what a report says.
"""

from __future__ import annotations

import asyncio
from typing import Any

from aiosmtpd.lmtp import LMTP
from aiosmtpd.smtp import SMTP, Envelope, Session

from reference_sender.doors.reports import Letterbox

#: Reports bring the whole mail back, attachments and all.
MOST_BYTES = 33_554_432
#: Of a line: aiosmtpd's own limit of 1,000 would refuse reports about mails that broke it.
LONGEST_LINE = 1_048_576


class _Lmtp(LMTP):
    line_length_limit = LONGEST_LINE


class _Smtp(SMTP):
    line_length_limit = LONGEST_LINE


class _Handler:
    """The one thing that aiosmtpd asks."""

    def __init__(self, letterbox: Letterbox, *, for_each: bool) -> None:
        self._letterbox = letterbox
        self._for_each = for_each

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        content = envelope.content
        raw = content if isinstance(content, bytes) else (content or "").encode("utf-8", "surrogateescape")
        kept = await asyncio.to_thread(self._letterbox.put, raw)
        reply = "250 2.0.0 kept" if kept else "451 4.3.0 not kept; hand it over again"
        # RFC 2033 section 4.2: one reply for each recipient that was taken.
        return "\r\n".join([reply] * (len(envelope.rcpt_tos) if self._for_each else 1))


class ReportDoor:
    """Listens for reports."""

    def __init__(self, letterbox: Letterbox, *, protocol: str = "lmtp", most_bytes: int = MOST_BYTES) -> None:
        lmtp = protocol == "lmtp"
        self._handler = _Handler(letterbox, for_each=lmtp)
        self._kind: type[SMTP] = _Lmtp if lmtp else _Smtp
        self._most_bytes = most_bytes
        self._server: asyncio.Server | None = None

    async def open(self, host: str, port: int) -> tuple[str, int]:
        """Listen; return where. Raises `OSError` if nobody can listen there."""

        def session() -> Any:
            return self._kind(
                self._handler,
                hostname="reports",
                ident="reference-sender",
                data_size_limit=self._most_bytes,
                enable_SMTPUTF8=True,
                loop=asyncio.get_running_loop(),
            )

        self._server = await asyncio.get_running_loop().create_server(session, host, port)
        address = self._server.sockets[0].getsockname()
        return str(address[0]), int(address[1])

    async def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()
            self._server = None
