"""The listener: takes connections, keeps count of them, and ends them when the service stops."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from simulator.clock import Clock
from simulator.driven import Driven, Waiter
from simulator.provider.provider import Provider
from simulator.provider.smtp import SmtpRules
from simulator.servers.smtp.connection import Connection
from simulator.servers.smtp.session import SmtpSession
from simulator.servers.tls import Tls
from simulator.servers.wire import Wire
from simulator.store import StoreError

Commit = Callable[[], Awaitable[None]]
"""Returns when everything the provider decided so far is durable."""
TellWhenKept = Callable[[Waiter[StoreError | None]], None]
"""Sets a waiter when everything the provider decided so far is durable: to None, or to what went wrong."""


class SmtpServer:
    """Listens, and keeps count of who is connected."""

    def __init__(
        self,
        provider: Provider,
        wire: Wire,
        commit: Commit,
        moved: Callable[[], None],
        clock: Clock,
        *,
        hostname: str,
        tls: Tls | None = None,
        offers_starttls: bool = False,
        max_message_bytes: int = 64 * 1024 * 1024,
        trouble_with_ledger: Callable[[], str | None] = lambda: None,
        tell_when_kept: TellWhenKept | None = None,
        noticed: Callable[[], None] = lambda: None,
        in_tasks: bool = False,
    ) -> None:
        """Build a server that does not listen yet.

        With `tls` there can be encryption: from the first byte on ports that are started so, after STARTTLS elsewhere
        if `offers_starttls`. `commit` must have returned before an acceptance is answered; `moved` is called when an attempt changed.
        `max_message_bytes` holds where the account's own limit is larger or missing.
        While `trouble_with_ledger` says something, mail is put off with 451. Without `tell_when_kept` everything goes
        the long way; `noticed` is called in place of `moved` where nothing has to be kept. `in_tasks`: sessions are
        tasks, and go the long way; tests show that it makes no difference.
        """
        self.provider = provider
        self.wire = wire
        self.commit = commit
        self.moved = moved
        self.clock = clock
        self.hostname = hostname
        self.max_message_bytes = max_message_bytes
        self.trouble_with_ledger = trouble_with_ledger
        self.tell_when_kept = None if in_tasks else tell_when_kept
        self.noticed = noticed
        self.hello: tuple[SmtpRules, tuple[bool, int], bytes] | None = None
        """The last reply to EHLO of a session at ease: of which rules, whether under TLS and with which limit."""
        self._in_tasks = in_tasks
        self.tls = tls
        self.offers_starttls = offers_starttls
        self.connections_ever = 0
        self._sessions: set[Connection] = set()
        self._listeners: list[asyncio.Server] = []

    @property
    def connections(self) -> int:
        """How many connections are open now."""
        return len(self._sessions)

    async def start(self, host: str, port: int, *, implicit_tls: bool = False) -> int:
        """Listen (on one port more); return the port (0 asks for any free one). Raises `OSError` if it cannot be had."""
        assert self.tls is not None or not implicit_tls
        listener = await asyncio.get_running_loop().create_server(
            lambda: SmtpSession(self, implicit_tls=implicit_tls), host, port, backlog=1024
        )
        self._listeners.append(listener)
        return int(listener.sockets[0].getsockname()[1])

    async def stop(self, grace_s: float) -> None:
        """Take no more connections, let what is going on end within `grace_s` seconds, then close all.

        What hangs or is held is not waited for.
        """
        for listener in self._listeners:
            listener.close()
        for session in self._sessions:
            session.dismiss()
        busy = {
            s.task for s in self._sessions if s.task is not None and not s.task.done() and not s.is_stuck()
        }
        if busy:
            await asyncio.wait(busy, timeout=grace_s)
        # A connection that was accepted just before may still come in, so look again.
        while self._sessions:
            sessions = list(self._sessions)
            tasks = [session.task for session in sessions if session.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for session in sessions:
                session.drop()
            await asyncio.gather(*(session.closed for session in sessions))
        for listener in self._listeners:
            await listener.wait_closed()
        self._listeners.clear()

    def begin(self, conversation: Coroutine[Any, Any, None]) -> asyncio.Future[None]:
        """Let a session run; return what is done when it has ended."""
        loop = asyncio.get_running_loop()
        return loop.create_task(conversation) if self._in_tasks else Driven(conversation, loop)

    def joined(self, session: Connection) -> None:
        """A sender connected."""
        self.connections_ever += 1
        self._sessions.add(session)

    def left(self, session: Connection) -> None:
        """A connection is over."""
        self._sessions.discard(session)
