"""A transport that gathers: mails that are handed over at the same moment go together, and each hears its own answer.

Whoever hands a mail over sees a transport like any other and need not know that others went with it: its row keeps its
own lease, marker, evidence and end. If the whole is refused, the bad mail among them is looked for here, because only
here is known who went together.
Must not hold: what an answer means (it is given how to tell a refusal), the wire.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from reference_sender.life import Parcel
from reference_sender.policy.batches import BatchEvidence, apart, together
from reference_sender.policy.evidence import Evidence, Phase, Wire

#: So long the first mail waits for company, in seconds: what one claim brought is handed over within it.
GATHER_S = 0.005


class BatchTransport(Protocol):
    """A wire that takes several mails at once."""

    most: int
    most_octets: int

    async def send_batch(
        self,
        parcels: Sequence[Parcel],
        *,
        keys: Sequence[str],
        point_of_no_return: Callable[[], Awaitable[bool]],
    ) -> BatchEvidence: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class _Handed:
    """One mail that waits for its answer."""

    parcel: Parcel
    key: str
    point_of_no_return: Callable[[], Awaitable[bool]]
    answer: asyncio.Future[Evidence]


class GatheringTransport:
    """Makes one request of what is handed over together; see `Evidence` for what each hears."""

    def __init__(
        self,
        inner: BatchTransport,
        *,
        refuses: Callable[[Evidence], bool],
        patience_s: float,
        gather_s: float = GATHER_S,
    ) -> None:
        self._inner = inner
        self._refuses = refuses
        self._patience_s = patience_s
        """Parts of a refused request may begin so long after it began: then each still ends within its lease."""
        self._gather_s = gather_s
        self._gathered: list[_Handed] = []
        self._timer: asyncio.TimerHandle | None = None
        self._under_way: set[asyncio.Task[None]] = set()

    async def send(
        self, parcel: Parcel, *, key: str, point_of_no_return: Callable[[], Awaitable[bool]]
    ) -> Evidence:
        """Make one attempt, together with whoever comes at the same time."""
        loop = asyncio.get_running_loop()
        handed = _Handed(parcel, key, point_of_no_return, loop.create_future())
        self._gathered.append(handed)
        if len(self._gathered) >= self._inner.most:
            self._go()
        elif self._timer is None:
            self._timer = loop.call_later(self._gather_s, self._go)
        return await handed.answer

    async def close(self) -> None:
        """Close the wire; attempts under way break off."""
        await self._inner.close()
        for task in list(self._under_way):
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def _go(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        # Who was called off meanwhile must not be sent: nobody would hear the answer.
        waiting = {_claim_of(each.parcel): each for each in self._gathered if not each.answer.done()}
        self._gathered = []
        parcels_given = [each.parcel for each in waiting.values()]
        for parcels in together(parcels_given, self._inner.most, self._inner.most_octets):
            task = asyncio.create_task(self._hand_over([waiting[_claim_of(parcel)] for parcel in parcels]))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def _hand_over(self, group: Sequence[_Handed]) -> None:
        try:
            await self._in_parts(group)
        except BaseException as error:
            for each in group:
                if not each.answer.done():
                    if isinstance(error, Exception):
                        each.answer.set_exception(error)
                    else:
                        each.answer.cancel()
            if not isinstance(error, Exception):
                raise

    async def _in_parts(self, group: Sequence[_Handed]) -> None:
        """Send all of them; where the whole is refused, ever smaller parts, until the bad one is alone."""
        clock = asyncio.get_running_loop().time
        began_s = clock()
        todo: list[Sequence[_Handed]] = [group]
        while todo:
            part = [each for each in todo.pop(0) if not each.answer.done()]
            if not part:
                continue
            if clock() - began_s > self._patience_s:
                # The bad one among them was not found yet; all of them come again.
                _answer(part, [_not_begun("no time left")] * len(part))
                continue
            stopped: list[_Handed] = []
            seen = await self._inner.send_batch(
                [each.parcel for each in part],
                keys=[each.key for each in part],
                point_of_no_return=_all_pass(part, stopped),
            )
            if stopped:
                # Somebody lost his row on the way. Nobody was sent; the others go without him.
                _answer(stopped, [_not_begun("withdrawn")] * len(stopped))
                todo.insert(0, [each for each in part if each not in stopped])
            elif seen.whole and len(part) > 1 and self._refuses(seen.items[0]):
                by_claim = {_claim_of(each.parcel): each for each in part}
                parts = apart([each.parcel for each in part], seen.bad)
                todo = [*([by_claim[_claim_of(parcel)] for parcel in smaller] for smaller in parts), *todo]
            else:
                _answer(part, seen.items)


def _claim_of(parcel: Parcel) -> tuple[int, int]:
    # Not the row alone: whoever lost it may still have it in hand while it is taken up again.
    return parcel.id, parcel.token


def _all_pass(part: Sequence[_Handed], stopped: list[_Handed]) -> Callable[[], Awaitable[bool]]:
    async def pass_() -> bool:
        for each in part:
            if not await each.point_of_no_return():
                stopped.append(each)
        return not stopped

    return pass_


def _answer(part: Sequence[_Handed], seen: Sequence[Evidence]) -> None:
    for each, evidence in zip(part, seen, strict=True):
        if not each.answer.done():
            each.answer.set_result(evidence)


def _not_begun(why: str) -> Evidence:
    return Evidence(wire=Wire.HTTP, phase=Phase.BODY, trouble=why)
