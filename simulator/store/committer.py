"""Group commit: everybody who waits shares one write, and nobody is told yes before it is durable.

The only place that takes records out of the provider. A quick store is written on the event loop, once at the end of
its turn; a slow one in a thread, while the next records gather. A write that fails is not forgotten: its records wait
in front of the next ones, so that a later yes (a replay, say) again means that everything before is kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from simulator.driven import Waiter, parked
from simulator.provider.provider import Record
from simulator.store import Store, StoreError

#: How long records that nobody waits for (an attempt's end) may lie about, in seconds.
IDLE_S = 0.05
#: How long after a write that failed the next one is tried, in seconds, if nobody asks for it earlier.
RETRY_S = 1.0

_log = logging.getLogger("simulator.store")


class Committer:
    """Carries records from the provider into the store, many at a time. Lives on one event loop."""

    def __init__(
        self,
        take: Callable[[], Sequence[Record]],
        store: Store,
        kept: Callable[[Sequence[Record]], None] = lambda records: None,
    ) -> None:
        """`kept` is told, in order and on the loop, what has become durable; it must neither wait nor raise."""
        self._take = take
        self._store = store
        self._kept = kept
        self._left: list[Record] = []
        self._next: list[Waiter[StoreError | None]] | None = None
        """Who waits for the next write; None: nobody has asked for one."""
        self._writer: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.trouble: str | None = None
        """What the last write failed of; None while all is well."""

    @property
    def waiting(self) -> int:
        """How many records have been taken and are not durable yet."""
        return len(self._left)

    async def commit(self) -> None:
        """Return when everything handed out so far is durable. Raises `StoreError` if it is not."""
        waiter: Waiter[StoreError | None] = parked()
        self.tell(waiter)
        trouble = await waiter
        if trouble is not None:
            raise StoreError(str(trouble)) from trouble

    def tell(self, waiter: Waiter[StoreError | None]) -> None:
        """Set `waiter` when everything handed out so far is durable: to None, or to what went wrong."""
        self._round().append(waiter)

    def soon(self) -> None:
        """See to it that what was recorded gets written, without waiting for it."""
        if self._timer is None and self._next is None:
            self._timer = asyncio.get_running_loop().call_later(IDLE_S, self._round)

    async def close(self) -> None:
        """Write what is left. Raises `StoreError` if that is impossible."""
        try:
            await self.commit()
        finally:
            if self._writer is not None:
                await self._writer
            if self._timer is not None:
                self._timer.cancel()

    def _round(self) -> list[Waiter[StoreError | None]]:
        """Return who waits for the next write that begins after this call."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._next is None:
            self._next = []
            if self._store.is_quick:
                # Whatever else is decided in this turn of the loop goes along.
                asyncio.get_running_loop().call_soon(self._write_now)
        if self._writer is None and not self._store.is_quick:
            self._writer = asyncio.get_running_loop().create_task(self._write())
        return self._next

    def _write_now(self) -> None:
        waiting, self._next = self._next or [], None
        trouble: StoreError | None = None
        records: tuple[Record, ...] = ()
        try:
            self._left += self._take()
            if self._left:
                records = tuple(self._left)
                self._store.append(records)
                self._left.clear()
        except StoreError as problem:
            trouble = problem
        except Exception as problem:
            trouble = _broken(problem)
        self._settle(waiting, trouble)
        self._say_kept(records, trouble)

    async def _write(self) -> None:
        while self._next is not None:
            waiting, self._next = self._next, None
            trouble: StoreError | None = None
            records: tuple[Record, ...] = ()
            try:
                self._left += self._take()
                if self._left:
                    records = tuple(self._left)
                    await asyncio.to_thread(self._store.append, records)
                    self._left.clear()
            except StoreError as problem:
                trouble = problem
            except Exception as problem:
                trouble = _broken(problem)
            self._settle(waiting, trouble)
            self._say_kept(records, trouble)
        self._writer = None

    def _settle(self, waiting: Sequence[Waiter[StoreError | None]], trouble: StoreError | None) -> None:
        self._tell(trouble)
        if trouble is not None and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(RETRY_S, self._round)
        # As a result, not as an exception: nobody may be there any more to fetch it.
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(trouble)

    def _say_kept(self, records: Sequence[Record], trouble: StoreError | None) -> None:
        if trouble is not None or not records:
            return
        try:
            self._kept(records)
        except Exception:  # What was written is written, whatever becomes of the news of it.
            _log.exception("whoever is told what was kept broke its promise not to raise")

    def _tell(self, trouble: StoreError | None) -> None:
        """Say when it begins to fail and when it works again, not at every mail in between."""
        if trouble is not None and self.trouble is None:
            _log.error("%s; until it can, no mail is taken: it is put off with 503 or 451", trouble)
        elif trouble is None and self.trouble is not None:
            _log.warning("the ledger can be written again; nothing that was accepted is missing")
        self.trouble = None if trouble is None else str(trouble)


def _broken(problem: Exception) -> StoreError:
    """Whoever waits must not wait for ever because of a bug of ours."""
    _log.exception("a store broke its promise to raise nothing but StoreError")
    return StoreError(f"the ledger cannot be written: {problem}")
