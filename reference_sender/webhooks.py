"""The processor of events: takes up what was told, finds its mail, and writes down what follows – and its promises.

`place` is the decision and is meant to be read from top to bottom; `Processor` acts on it. Whoever dies in between has
changed nothing; whoever is second is fenced out. The door has said 2xx long before.
Must not hold: SQL, sockets, the words of a provider (`events.reading`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, assert_never

from reference_sender.clock import Clock
from reference_sender.events.kinds import MEANING, Happened, Irrelevant, Malformed
from reference_sender.events.reading import read
from reference_sender.life import Docket
from reference_sender.log import Log, cause_of, quiet
from reference_sender.policy.addresses import spelled
from reference_sender.policy.hearing import Course, Fact, Fate, Settled, Told, look_again_at, on_event
from reference_sender.sealing import is_sealed

_AT_ONCE = 100  # events per pass
_SHUT = "it is sealed with a key that OUTBOX_BODY_KEYS does not name, or with another one of that name"


class Store(Protocol):
    """What the processor asks of the outbox; each method is one transaction."""

    def due_events(self, *, now: datetime, limit: int) -> list[Told]: ...

    def about(self, *, provider_id: str | None, message_id: str | None, key: str | None) -> list[Docket]: ...

    def conclude(self, told: Told, settled: Settled, *, now: datetime) -> bool: ...


def place(
    told: Told,
    read: Happened | Malformed | Irrelevant,
    mails: Sequence[Docket],
    *,
    now: datetime,
    patience_s: float,
) -> Settled:
    """What becomes of an event. `mails`: those that go by a name it gives; `patience_s`: how long it may wait."""
    match read:
        case Malformed(reason=reason):
            return Settled(fate=Fate.PARKED, reason=reason)
        case Irrelevant(reason=reason):
            return Settled(fate=Fate.IGNORED, reason=reason)
        case Happened():
            pass
        case _:
            assert_never(read)
    if len(mails) > 1:
        mails = [each for each in mails if _same(each.recipient, read.recipient)]
        if len(mails) != 1:
            return Settled(
                fate=Fate.PARKED,
                reason="its names lead to different mails",
                suppress=_suppress(read, None),
            )
    mail = mails[0] if mails else None
    again = look_again_at(told.received_at, now, patience_s=patience_s)
    suppress = _suppress(read, mail)
    if told.looks and suppress == _suppress(read, None):
        # Its address was listed at the first look. A person may have taken it from the list since.
        suppress = None
    if mail is None and not read.names_a_mail:
        # Some providers tell of complaints with an address only; there is no mail to wait for.
        return Settled(fate=Fate.APPLIED, reason="it names an address and no mail", suppress=suppress)
    if mail is None:
        return _later(again, "no mail of ours goes by its names", suppress=suppress)
    heard = on_event(mail, read.provider_id)
    fact = _fact(read) if heard.note_fact else None
    match heard.course:
        case Course.KEPT:
            return Settled(
                fate=Fate.APPLIED,
                reason=heard.reason,
                docket=mail,
                move=heard.move,
                fact=fact,
                suppress=suppress,
            )
        case Course.LATER:
            return _later(again, heard.reason, docket=mail, fact=fact, suppress=suppress)
        case Course.CONTRADICTS:
            return Settled(fate=Fate.PARKED, reason=heard.reason, docket=mail, fact=fact, suppress=suppress)
        case _:
            assert_never(heard.course)


def _later(again: datetime | None, reason: str, **more: Any) -> Settled:
    if again is None:
        return Settled(fate=Fate.PARKED, reason=f"{reason}, and it has waited long enough", **more)
    return Settled(fate=Fate.WAITING, reason=reason, look_again_at=again, **more)


def _fact(read: Happened) -> Fact:
    return Fact(kind=read.kind.value, happened_at=read.at, provider_id=read.provider_id, detail=read.detail)


def _suppress(read: Happened, mail: Docket | None) -> tuple[str, str] | None:
    """Address and reason, where the fact is one that suppresses.

    Also without a mail: the row may be gone when a complaint comes weeks later. Not where the event names somebody
    else than the mail went to: that address is one it was forwarded to, and none of ours.
    """
    if not MEANING[read.kind].suppresses:
        return None
    address = read.recipient or (mail.recipient if mail else None)
    if address is None or (mail is not None and not _same(mail.recipient, address)):
        return None
    return address, read.kind.value


def _same(ours: str, told: str | None) -> bool:
    return told is not None and spelled(ours) == spelled(told)


class Placing(Protocol):
    """Decides what becomes of an event; `place` is ours."""

    def __call__(
        self,
        told: Told,
        read: Happened | Malformed | Irrelevant,
        mails: Sequence[Docket],
        *,
        now: datetime,
        patience_s: float,
    ) -> Settled: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Processed:
    """What one pass did."""

    looked_at: int
    settled: int


class Processor:
    """Takes up events, now and then and whenever it is woken."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        poll_s: float = 1.0,
        patience_s: float = 3 * 86_400.0,
        log: Log = quiet,
        place: Placing = place,
        beat: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._poll_s = poll_s
        self._patience_s = patience_s
        self._log = log
        self._place = place
        self._beat = beat
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Look now: something was told."""
        self._woken.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Process until `stop`. Nothing that an event or the database does ends it."""
        stopping = asyncio.ensure_future(stop.wait())
        stopping.add_done_callback(self._alarm)
        try:
            while not stop.is_set():
                self._woken.clear()
                full = False
                try:
                    full = (await self.run_once()).looked_at >= _AT_ONCE
                    self._beat()
                except Exception as error:
                    # The database is away: the events wait in it, and so do we.
                    self._log("process_failed", error=type(error).__name__, cause=cause_of(error))
                if not full:
                    await self._rest(stop)
        finally:
            stopping.cancel()

    async def run_once(self) -> Processed:
        """One pass over everything that is due."""
        events = await asyncio.to_thread(self._store.due_events, now=self._clock.now(), limit=_AT_ONCE)
        settled = 0
        for told in events:
            settled += await self._take_up(told)
        return Processed(looked_at=len(events), settled=settled)

    async def _take_up(self, told: Told) -> bool:
        try:
            result = await self._placed(told)
            written = await self._conclude(told, result)
        except Exception as error:
            # A bug that one event meets, or words that the database does not take, must not stop the others: it waits,
            # and is parked in the end.
            self._log(
                "event_failed",
                event_id=told.event_id,
                error=type(error).__name__,
                cause=cause_of(error),
            )
            now = self._clock.now()
            again = look_again_at(told.received_at, now, patience_s=self._patience_s)
            result = _later(again, f"dealing with it failed: {type(error).__name__}")
            written = await self._conclude(told, result)
        if written:
            self._log(
                "event",
                event_id=told.event_id,
                source=told.source,
                state=result.fate.value,
                reason=result.reason,
                id=result.docket.id if result.docket else None,
                message_id=result.docket.message_id if result.docket else None,
                kind=result.fact.kind if result.fact else None,
                moved_to=result.move.state.value if result.move else None,
            )
        return written and result.look_again_at is None

    async def _conclude(self, told: Told, result: Settled) -> bool:
        return await asyncio.to_thread(self._store.conclude, told, result, now=self._clock.now())

    async def _placed(self, told: Told) -> Settled:
        if is_sealed(told.raw):
            # Nobody can say yet what it means; with the key it can be read.
            again = look_again_at(told.received_at, self._clock.now(), patience_s=self._patience_s)
            return _later(again, _SHUT)
        happened = read(told.raw)
        mails: Sequence[Docket] = ()
        if isinstance(happened, Happened) and happened.names_a_mail:
            mails = await asyncio.to_thread(
                self._store.about,
                provider_id=happened.provider_id,
                message_id=happened.message_id,
                key=happened.key,
            )
        return self._place(told, happened, mails, now=self._clock.now(), patience_s=self._patience_s)

    async def _rest(self, stop: asyncio.Event) -> None:
        if stop.is_set():
            return
        pause = self._clock.alarm(self._poll_s, self._woken.set)
        try:
            await self._woken.wait()
        finally:
            pause.cancel()

    def _alarm(self, wait: asyncio.Future[Any]) -> None:
        if not wait.cancelled():
            self._woken.set()
