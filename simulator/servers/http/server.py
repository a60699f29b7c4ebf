"""The HTTP listener around uvicorn's protocol."""

from __future__ import annotations

import asyncio
import copy
from email.utils import format_datetime
from functools import cache, partial
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from uvicorn.server import ServerState

from simulator.clock import Clock
from simulator.servers.http.connection import KEEP_ALIVE_S, Door, Visitor
from simulator.servers.http.line import HttpLine
from simulator.servers.http.quick import QuickDesk
from simulator.servers.http.secure import SecureVisitor
from simulator.servers.tls import Tls


@cache
def _config() -> Config:
    """Return uvicorn's settings, worked out once: loading them sets up logging and looks through all loggers."""

    async def nobody(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("each server has an application of its own")

    config = Config(
        app=nobody,
        http=Visitor,
        ws="none",
        lifespan="off",
        interface="asgi3",
        proxy_headers=False,
        server_header=False,
        access_log=False,
        log_config=None,
        log_level="error",
        timeout_keep_alive=KEEP_ALIVE_S,
    )
    config.load()
    return config


class HttpServer:
    """A listener of our own around uvicorn's protocol: no signal handlers, no ticking main loop, no lifespan."""

    def __init__(self, app: ASGIApp, door: Door, clock: Clock, *, quick: QuickDesk | None = None) -> None:
        self._app = app
        self._quick = quick
        self._door = door
        self._clock = clock
        self._state = ServerState()
        self._server: asyncio.Server | None = None
        self._here: set[Visitor] = set()
        """Every connection, from the moment it is accepted; uvicorn counts it when it is made."""
        self.connections_ever = 0
        self._stopping = False
        self._second = -1
        self._config = copy.copy(_config())
        # Nothing stands between uvicorn and us: no proxy headers, no tracing.
        self._config.loaded_app = self._serve

    @property
    def connections(self) -> int:
        """How many connections are open now."""
        return len(self._here)

    async def start(self, host: str, port: int, *, tls: Tls | None = None) -> int:
        """Listen, with `tls` under TLS; return the port. Raises `OSError`."""
        loop = asyncio.get_running_loop()
        visit = self._visitor if tls is None else partial(self._secure_visitor, tls)
        self._server = await loop.create_server(visit, host, port, backlog=2048)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def stop(self, grace_s: float) -> None:
        """Stop listening, let requests end for `grace_s` at most, then cut what is left."""
        self._stopping = True
        if self._server is not None:
            self._server.close()
        for visitor in list(self._state.connections):
            visitor.shutdown()
        if self._state.tasks:
            await asyncio.wait(list(self._state.tasks), timeout=grace_s)
        if self._quick is not None:
            await self._quick.idle(grace_s)
        await self._cut()
        # Only now: a request that is cancelled must know that its connection is over.
        left = list(self._state.tasks)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()

    async def _cut(self) -> None:
        """Abort all connections; each reports its end in one of the next turns of the loop."""
        for _ in range(100):
            for visitor in list(self._here):
                if visitor.transport is not None:
                    visitor.transport.abort()
            if not self._here:
                return
            await asyncio.sleep(0)

    def _visitor(self) -> Visitor:
        return Visitor(**self._for_visitors())

    def _secure_visitor(self, tls: Tls) -> Visitor:
        return SecureVisitor(tls=tls, **self._for_visitors())

    def _for_visitors(self) -> dict[str, Any]:
        self.connections_ever += 1
        return {
            "door": self._door,
            "here": self._here,
            "quick": self._quick,
            "date": self._date,
            "config": self._config,
            "server_state": self._state,
            "app_state": {},
        }

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        line: HttpLine = scope["state"]["line"]
        cycle = getattr(receive, "__self__", None)
        assert isinstance(cycle, RequestResponseCycle), "this is not the uvicorn we know"
        line.cycle = cycle
        self._date()
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            # uvicorn would log a traceback and try to say 500 on a line that we cut ourselves.
            if not self._stopping:
                raise

    def _date(self) -> None:
        """RFC 9110, section 6.6.1: an origin server with a clock sends Date."""
        now = self._clock.now()
        second = int(now.timestamp())
        if second != self._second:
            self._second = second
            self._state.default_headers = [(b"date", format_datetime(now, usegmt=True).encode())]
