"""The door for webhooks: verify the raw bytes, keep them, say 2xx – in this order and nothing else.

A 2xx ends the telling for ever, so it is said only when the database has what was told. Everything slow (finding the
mail, moving it, suppressing) is done by the processor (`reference_sender.webhooks`).
Must not hold: SQL, what an event means.

| answer | when |
|---|---|
| 204 | kept, or kept before |
| 401 | the signature is missing, wrong, too old or from the future |
| 404, 405 | another path, another method |
| 413 | larger than the limit |
| 415 | compressed: what is signed are the bytes as they came |
| 503 with Retry-After | the database is away: tell it again |
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from aiohttp import web

from reference_sender.clock import Clock
from reference_sender.doors import Keeper
from reference_sender.events.reading import items_of
from reference_sender.events.signature import NotGenuine, Scheme, verify
from reference_sender.log import Log, cause_of, quiet

SOURCE = "webhook"
#: How long a provider is asked to wait while the database is away, in seconds. Few heed it: most repeat by a plan of their own.
RETRY_AFTER_S = 30
#: How long a body may take to come, in seconds: who drips bytes holds no place for ever.
#: Providers send theirs in one go, and the largest that is taken by default needs no more than 35 kB/s for that.
BODY_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Whom to believe."""

    scheme: Scheme
    keys: tuple[bytes, ...] = field(repr=False)
    tolerance_s: float = 300.0
    """How far the clocks may differ, in either direction."""
    most_bytes: int = 1_048_576
    path: str = "/webhooks"


class Door:
    """Takes webhooks in. `told` is called after something was kept, to wake whoever deals with it."""

    def __init__(
        self,
        *,
        keeper: Keeper,
        rules: Rules,
        clock: Clock,
        log: Log = quiet,
        told: Callable[[], None] = lambda: None,
    ) -> None:
        self._keeper = keeper
        self._rules = rules
        self._clock = clock
        self._log = log
        self._told = told
        self._runner: web.AppRunner | None = None

    async def open(self, host: str, port: int) -> tuple[str, int]:
        """Listen; return where. Raises `OSError` if nobody can listen there."""
        app = web.Application(client_max_size=self._rules.most_bytes)
        app.router.add_post(self._rules.path, self.take)
        app.router.add_get("/healthz", _healthy)
        # The bytes as they came are what is signed: nothing may unpack them before.
        self._runner = web.AppRunner(app, access_log=None, auto_decompress=False, shutdown_timeout=5.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()
        address = self._runner.addresses[0]
        return str(address[0]), int(address[1])

    async def close(self) -> None:
        """Say what is being said to the end, and listen no more."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def take(self, request: web.Request) -> web.Response:
        """One request, from its first byte to its answer."""
        coding = request.headers.get("Content-Encoding", "identity").strip().lower()
        if coding != "identity":
            return self._refuse(
                415, f"a body in the coding {coding[:40]!r} cannot be verified; send it plain"
            )
        try:
            async with asyncio.timeout(BODY_S):
                body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return self._refuse(413, f"the body has more than {self._rules.most_bytes} bytes")
        except TimeoutError:
            return self._refuse(408, f"the body did not come within {BODY_S:g} s")
        now = self._clock.now()
        genuine = verify(
            self._rules.scheme,
            self._rules.keys,
            {name.lower(): value for name, value in request.headers.items()},
            body,
            now=now,
            tolerance_s=self._rules.tolerance_s,
        )
        if isinstance(genuine, NotGenuine):
            return self._refuse(401, genuine.reason)
        items = [(each.event_id, each.raw) for each in items_of(body, request_id=genuine.id)]
        try:
            new = await asyncio.to_thread(self._keeper.receive, items, source=SOURCE, now=now)
        except Exception as error:
            # Not kept, so not acknowledged: the provider has it, and tells it again.
            self._log("webhook_not_kept", error=type(error).__name__, cause=cause_of(error))
            return web.Response(
                status=503,
                text="not kept; tell it again\n",
                headers={"Retry-After": str(RETRY_AFTER_S)},
            )
        self._log("webhook", request_id=genuine.id, events=len(items), new=new)
        if new:
            self._told()
        return web.Response(status=204)

    def _refuse(self, status: int, reason: str) -> web.Response:
        self._log("webhook_refused", status=status, reason=reason)
        return web.Response(status=status, text=f"{reason}\n")


async def _healthy(_request: web.Request) -> web.Response:
    return web.Response(text="ok\n")
