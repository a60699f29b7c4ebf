"""The reconciler: looks after mails whose outcome is unknown – evidence first, then the policy.

Every pass may be repeated and may run beside others: it only asks, and each move is fenced.
Must not hold: SQL, sockets, the rules themselves (`policy.lookup`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from reference_sender.clock import Clock
from reference_sender.life import Docket, State
from reference_sender.log import Log, cause_of, name_of, quiet
from reference_sender.policy.decision import Decision
from reference_sender.policy.hearing import proved
from reference_sender.policy.lookup import Found, LookedUp, after_lookup, without_lookup
from reference_sender.policy.routes import Mine
from reference_sender.policy.settings import Settings

_AT_ONCE = 100  # rows per pass


class Store(Protocol):
    """What the reconciler asks of the outbox."""

    def has_doubts(self, *, now: datetime, dedupes: bool, mine: Mine | None = None) -> bool: ...

    def park_lost(self, *, now: datetime, dedupes: bool, mine: Mine | None = None) -> list[int]: ...

    def doubtful(self, *, now: datetime, limit: int, mine: Mine | None = None) -> list[Docket]: ...

    def late_acceptance(self, docket: Docket) -> str | None: ...

    def told_of(self, docket: Docket) -> str | None: ...

    def resolve(self, docket: Docket, decision: Decision, *, now: datetime) -> bool: ...


class Lookup(Protocol):
    """Asks the provider whether it knows a mail. Never raises for expected trouble."""

    async def find(self, docket: Docket) -> LookedUp: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """What one pass did."""

    parked: int  # rows of lost workers, and rows that nobody takes, that became unknown
    looked_at: int
    resolved: int


class Reconciler:
    """Resolves unknown rows as far as evidence and policy allow; what is left waits for a person."""

    def __init__(
        self,
        *,
        store: Store,
        settings: Settings,
        clock: Clock,
        lookup: Lookup | None = None,
        log: Log = quiet,
        mine: Mine | None = None,
        beat: Callable[[], None] = lambda: None,
        keep_time: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._lookup = lookup
        self._log = log
        self._mine = mine
        self._beat = beat
        self._keep_time = keep_time
        self._woken = asyncio.Event()
        self._was_idle = False
        """The last pass found nothing to do."""

    async def run(self, stop: asyncio.Event) -> None:
        """Reconcile now and then until `stop`; without a rest as long as there is more than one pass takes."""
        stopping = asyncio.ensure_future(stop.wait())
        stopping.add_done_callback(self._alarm)
        try:
            while not stop.is_set():
                self._woken.clear()
                more = False
                try:
                    done = await self.run_once()
                    # Not only for what was looked at: rows that make trouble are found again at once.
                    more = done.looked_at >= _AT_ONCE and done.resolved > 0
                    self._beat()
                except Exception as error:
                    # The database or the look-up is away: the rows wait, and so do we.
                    self._log("reconcile_failed", error=type(error).__name__, cause=cause_of(error))
                if not more:
                    await self._rest(stop)
        finally:
            stopping.cancel()

    async def _rest(self, stop: asyncio.Event) -> None:
        """Wait for the next pass, or for the end."""
        if stop.is_set():
            return
        pause = self._clock.alarm(self._settings.reconcile_s, self._woken.set)
        try:
            await self._woken.wait()
        finally:
            pause.cancel()

    def _alarm(self, wait: asyncio.Future[Any]) -> None:
        if not wait.cancelled():
            self._woken.set()

    async def run_once(self) -> Reconciled:
        """One pass over everything that is due for a look."""
        if self._keep_time is not None:
            await self._keep_time()
        if self._was_idle and not await self._has_doubts():
            return Reconciled(parked=0, looked_at=0, resolved=0)
        parked = await asyncio.to_thread(
            self._store.park_lost,
            now=self._clock.now(),
            dedupes=self._settings.policy.dedupes,
            mine=self._mine,
        )
        for row_id in parked:
            self._log("parked", id=row_id, state=State.UNKNOWN.value)
        dockets = await asyncio.to_thread(
            self._store.doubtful, now=self._clock.now(), limit=_AT_ONCE, mine=self._mine
        )
        self._was_idle = not parked and not dockets
        resolved = 0
        failures: dict[int, Exception] = {}
        for docket in dockets:
            # One row that makes trouble must not keep those behind it in doubt, pass for pass.
            try:
                resolved += await self._look_after(docket)
                # A look-up may take its whole deadline for each: whoever comes back from one is alive.
                self._beat()
            except Exception as error:
                failures[docket.id] = error
        if failures and len(failures) == len(dockets):
            raise failures[dockets[-1].id]  # it is not the rows
        for row_id, failure in failures.items():
            self._log("reconcile_failed", id=row_id, error=type(failure).__name__, cause=cause_of(failure))
        return Reconciled(parked=len(parked), looked_at=len(dockets), resolved=resolved)

    async def _has_doubts(self) -> bool:
        """Whether there is a reason for a pass. Whoever has found nothing only asks, most of the time."""
        return await asyncio.to_thread(
            self._store.has_doubts,
            now=self._clock.now(),
            dedupes=self._settings.policy.dedupes,
            mine=self._mine,
        )

    async def _look_after(self, docket: Docket) -> bool:
        """Judge one row and move it; whether its doubt is over."""
        decision = await self._judge(docket)
        moved = await asyncio.to_thread(self._store.resolve, docket, decision, now=self._clock.now())
        if not moved or decision.state is State.UNKNOWN:
            return False
        self._log(
            "reconciled",
            id=docket.id,
            key=name_of(docket.key),
            message_id=docket.message_id,
            state=decision.state.value,
            reason=decision.reason,
            provider_id=decision.provider_id,
            traceparent=docket.traceparent,
        )
        return True

    async def _judge(self, docket: Docket) -> Decision:
        """Evidence first: an answer that came late, what was told of the mail, the look-up; only then the policy."""
        now = self._clock.now()
        late = await asyncio.to_thread(self._store.late_acceptance, docket)
        if late is not None:
            return after_lookup(Found(provider_id=late), docket, self._settings, now)
        told = await asyncio.to_thread(self._store.told_of, docket)
        if told is not None:
            return proved(docket, told)
        if self._lookup is not None:
            return after_lookup(await self._lookup.find(docket), docket, self._settings, self._clock.now())
        return without_lookup(docket, self._settings, now)
