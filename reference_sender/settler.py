"""The settler: the ends of attempts are written in groups, without anybody waiting for a group.

Who comes while nothing is being written waits for those who come in the same turn of the loop, who comes meanwhile
until that is over; the first of those who wait then writes for all of them, in one transaction. So a quiet sender
settles row by row, a busy one commits once for what ended within the last few milliseconds, and there is no timer in it. If a group fails, each of it goes its own
way: a row that cannot be written holds up no other.
Must not hold: SQL, decisions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from reference_sender.clock import Clock
from reference_sender.life import Docket
from reference_sender.log import Log, cause_of, quiet
from reference_sender.policy.decision import Decision, Ended
from reference_sender.policy.evidence import Evidence


class Store(Protocol):
    """What the settler asks of the outbox; each is one transaction, and doing it again is harmless."""

    def settle(
        self,
        docket: Docket,
        decision: Decision,
        *,
        now: datetime,
        evidence: Evidence | None = None,
        started_at: datetime | None = None,
    ) -> bool: ...

    def settle_all(self, group: Sequence[Ended], *, now: datetime) -> list[bool]: ...


class GroupFailed(Exception):
    """The group could not be written; none of it is."""


#: Told instead of a result: write for all who wait.
_LEAD = object()


class Settler:
    """Writes how attempts ended; calls from many tasks of one loop."""

    def __init__(self, *, store: Store, clock: Clock, pause_s: float, log: Log = quiet) -> None:
        self._store = store
        self._clock = clock
        self._pause_s = pause_s
        self._log = log
        self._is_writing = False
        self._waiting: list[tuple[Ended, asyncio.Future[object]]] = []

    async def settle(self, ended: Ended) -> bool | None:
        """Write it, and keep trying while the lease lasts: a lost answer would cost us doubt.

        True: written. False: the lease was lost, it is kept as a late result. None: given up with the lease.
        """
        write = self._in_turn
        while True:
            try:
                return await write(ended)
            except GroupFailed:
                write = self._alone
            except Exception as error:
                docket = ended.docket
                self._log(
                    "settle_failed",
                    id=docket.id,
                    token=docket.token,
                    error=type(error).__name__,
                    cause=cause_of(error),
                )
                if docket.lease_until is None or self._clock.now() >= docket.lease_until:
                    return None
                await self._clock.sleep(self._pause_s)
                write = self._alone

    async def _in_turn(self, ended: Ended) -> bool:
        """Wait for the turn of those who came at the same time."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[object] = loop.create_future()
        self._waiting.append((ended, turn))
        if not self._is_writing:
            self._is_writing = True
            loop.call_soon(self._hand_on)
        try:
            told = await turn
        except asyncio.CancelledError:
            # The row is written by whoever leads; who was told to lead himself must let another.
            if turn.done() and not turn.cancelled() and turn.exception() is None and turn.result() is _LEAD:
                self._hand_on()
            raise
        if told is _LEAD:
            told = await self._for_all(turn)
        return bool(told)

    async def _for_all(self, own: asyncio.Future[object]) -> bool:
        """Write everything that waits, our own end among it."""
        # Taken before anything is awaited: what comes from here on belongs to the next group.
        group, self._waiting = self._waiting, []
        told: dict[asyncio.Future[object], bool] = {}
        try:
            if len(group) == 1:
                return await self._alone(group[0][0])
            try:
                written = await asyncio.to_thread(
                    self._store.settle_all, [ended for ended, _ in group], now=self._clock.now()
                )
            except Exception as error:
                self._log("group_failed", count=len(group), error=type(error).__name__, cause=cause_of(error))
                raise GroupFailed from error
            told = {turn: held for (_, turn), held in zip(group, written, strict=True)}
            return told[own]
        finally:
            for _, turn in group:
                if turn.done():
                    continue
                if turn in told:
                    turn.set_result(told[turn])
                else:
                    turn.set_exception(GroupFailed())
            self._hand_on()

    def _hand_on(self) -> None:
        """Let the first of those who still wait write for all; or nobody, if nobody does."""
        for _, turn in self._waiting:
            if not turn.done():
                turn.set_result(_LEAD)
                return
        self._is_writing = False

    async def _alone(self, ended: Ended) -> bool:
        return await asyncio.to_thread(
            self._store.settle,
            ended.docket,
            ended.decision,
            now=self._clock.now(),
            evidence=ended.evidence,
            started_at=ended.started_at,
        )
