"""A line without a wire: a session runs on it without sockets."""

from __future__ import annotations

import asyncio
from typing import Any

from simulator.servers.smtp.session import SmtpSession


class Tap(asyncio.Transport):
    """A line without a wire."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.closed = False

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0


async def parted(session: SmtpSession) -> None:
    """Return when a session is over, as a task or without one."""
    while not session.has_parted:  # noqa: ASYNC110 - nobody is told of it
        await asyncio.sleep(0)
    if session.task is not None:
        await session.task
