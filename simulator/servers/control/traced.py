"""Request ids: every request to the control API has one, in its answer and in the log.

Whoever asks may bring one along (`X-Request-ID`), so that it is the same in both logs.
"""

from __future__ import annotations

import logging
import re
from itertools import count

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from simulator.clock import Clock

HEADER = b"x-request-id"
_GIVEN = re.compile(rb"[A-Za-z0-9._:+/=-]{1,128}")

log = logging.getLogger("simulator.control")


class Traced:
    """Gives each request an id and logs it: method, path, status and time; no query, for it names people."""

    def __init__(self, app: ASGIApp, clock: Clock) -> None:
        self._app = app
        self._clock = clock
        self._numbers = count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        id_ = self._id(scope)
        scope["request_id"] = id_.decode("ascii")
        began, status, is_logged = self._clock.monotonic(), 0, False

        def note() -> None:
            nonlocal is_logged
            is_logged = True
            if log.isEnabledFor(logging.INFO):
                facts = {
                    "request": scope["request_id"],
                    "status": status,
                    "took_ms": round((self._clock.monotonic() - began) * 1000, 1),
                }
                log.info("%s %s", scope["method"], scope["path"], extra={"facts": facts})

        async def say(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), (HEADER, id_)]}
            elif not message.get("more_body"):
                # Before the end of the answer: who has an answer finds its line in the log.
                note()
            await send(message)

        try:
            await self._app(scope, receive, say)
        finally:
            if not is_logged:
                note()

    def _id(self, scope: Scope) -> bytes:
        for name, value in scope["headers"]:
            if name == HEADER and _GIVEN.fullmatch(value):
                given: bytes = value
                return given
        return b"req_%d" % next(self._numbers)
