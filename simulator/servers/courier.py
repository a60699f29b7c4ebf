"""What carries events out of the provider: a courier, of one account and channel, on the clock of its account.

A courier takes events as they happen, writes down what it is about to do, does it, and writes down what came of it; it
never keeps a sender waiting. What a channel sends and how is the channel's (`webhooks`, `returns`); when, how often and
in which order is decided by `simulator.provider.deliveries`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from simulator.provider.deliveries import (
    Batching,
    Deliveries,
    Delivery,
    Schedule,
    State,
    Try,
    delivery_as_facts,
    delivery_from,
    delivery_of,
)
from simulator.provider.events import Event
from simulator.provider.notes import Noted
from simulator.provider.notices import Notice
from simulator.provider.provider import Account
from simulator.store import StoreError

if TYPE_CHECKING:
    from simulator.servers.couriers import Couriers

#: How long a courier waits before it looks again whether the ledger can be written, in seconds.
PAUSE_S = 1.0

_log = logging.getLogger("simulator.events")


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a channel wants the deliveries of an account handled."""

    target: str
    schedule: Schedule
    batching: Batching = Batching()
    connections: int = 1
    disable_after_s: float | None = None


class Channel(Protocol):
    """A way out of the provider."""

    name: str

    def terms(self, account: Account) -> Terms | None:
        """Return how an account's events go out here; None: they do not."""
        ...

    def notices(self, event: Event, account: Account) -> list[Notice]:
        """Return what is told of an event; nothing, if it is not wanted."""
        ...

    async def send(self, delivery: Delivery, account: Account) -> Try:
        """Make one attempt. Never raises for what the other side does."""
        ...


@dataclass(slots=True, kw_only=True)
class Standing:
    """How things stand with the other side; kept over a restart."""

    cursor: tuple[datetime, tuple[int, ...]] | None = None
    """Events up to this one have been taken."""
    failing_since: datetime | None = None
    disabled_at: datetime | None = None
    why: str | None = None

    def facts(self) -> str:
        cursor = self.cursor
        return json.dumps(
            {
                "cursor": None if cursor is None else [cursor[0].isoformat(), list(cursor[1])],
                "failing_since": None if self.failing_since is None else self.failing_since.isoformat(),
                "disabled_at": None if self.disabled_at is None else self.disabled_at.isoformat(),
                "why": self.why,
            }
        )


def standing_from(facts: str) -> Standing:
    """Read what `Standing.facts` wrote."""
    read = json.loads(facts)

    def instant(name: str) -> datetime | None:
        return None if read[name] is None else datetime.fromisoformat(read[name])

    cursor = read["cursor"]
    return Standing(
        cursor=None if cursor is None else (datetime.fromisoformat(cursor[0]), tuple(cursor[1])),
        failing_since=instant("failing_since"),
        disabled_at=instant("disabled_at"),
        why=read["why"],
    )


class Courier:
    """One account's way out through one channel."""

    def __init__(
        self, account: Account, channel: Channel, office: Couriers, *, from_the_start: bool = False
    ) -> None:
        """`from_the_start`: nobody has carried anything for this account, and whatever happened there is to be told."""
        self.account = account
        self.channel = channel
        self._office = office
        self._changed = asyncio.Event()
        self._progress = asyncio.Event()
        self._under_way: set[asyncio.Task[None]] = set()
        self._notes: list[Noted] = []
        self._seen = 0
        self.deliveries = Deliveries()
        self.standing = self._recalled(from_the_start)
        self._task = asyncio.get_running_loop().create_task(self._run())

    # --- from outside -------------------------------------------------------------------------------

    def wake(self) -> None:
        """Something may be to be done."""
        self._changed.set()

    async def told(self, wanted: Callable[[Notice], bool]) -> None:
        """Return when everything that is wanted and has happened by now has been tried once."""
        now = self._now()
        self._take(now)
        self.wake()
        while self.deliveries.untold(wanted, now):
            await self._progress.wait()

    def enable(self) -> None:
        """The other side is there again (or another one is): begin anew from here."""
        self._take(self._now())  # What happened while it was disabled is not told.
        self.standing = Standing(cursor=self.standing.cursor)
        self._note_standing()
        self.wake()

    async def close(self) -> None:
        """Stop; what is under way is broken off, and made again by the next one to take up."""
        tasks = [self._task, *self._under_way]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def end(self, why: str) -> None:
        """Nobody is to be told any more: drop what is left."""
        for delivery in self.deliveries.drop(why):
            self._over(delivery)
        self._remember(f"{self.channel.name}.standing", "", None)
        self._flush()

    # --- the round ----------------------------------------------------------------------------------

    async def _run(self) -> None:
        await self._office.begun.wait()
        while True:
            self._changed.clear()
            try:
                await self._round()
            except Exception:  # A bug of ours must not silence an account for ever.
                _log.exception("the courier of account %s stumbled; it goes on", self.account.name)
                await self._office.clock.sleep(PAUSE_S)

    async def _round(self) -> None:
        terms = self.channel.terms(self.account)
        if terms is None:
            await self._changed.wait()
            return
        # One instant for the whole round: what is sent at it is sent in the order of all that has happened by it.
        now = self._now()
        self._take(now)
        for delivery in self.deliveries.overflow():
            self._over(delivery)
        try:
            # Nobody hears of a mail that is not kept, and what is about to be done is written down before.
            await self._flushed()
        except StoreError:
            await self._office.clock.sleep(PAUSE_S)
            return
        room = terms.connections - len(self._under_way)
        for delivery in self.deliveries.due(now, room, terms.batching):
            self._note_batch(delivery)
            task = asyncio.get_running_loop().create_task(self._send(delivery))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
        for delivery in self.deliveries.forget():
            self._remember(f"{self.channel.name}.delivery", delivery.key, None)
        self._flush()
        self._step()
        await self._pause(terms)

    async def _pause(self, terms: Terms) -> None:
        """Wait until something changes or something is due."""
        times = [self.account.aftermath.events.next_at()]
        if len(self._under_way) < terms.connections:
            times.append(self.deliveries.next_at(terms.batching))
        next_at = min((time for time in times if time is not None), default=None)
        waits: set[asyncio.Future[Any]] = {asyncio.ensure_future(self._changed.wait())}
        if next_at is not None:
            seconds = max(0.0, (next_at - self._now()).total_seconds())
            waits.add(asyncio.ensure_future(self._office.alarms.sleep(self.account.name, seconds)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            for each in waits:
                each.cancel()
            raise
        for each in waits:
            each.cancel()

    def _take(self, now: datetime) -> None:
        """Take what has happened since the last time."""
        terms = self.channel.terms(self.account)
        if terms is None:
            return
        log = self.account.aftermath.events
        last = log.advance(now)
        if last == self._seen:
            return
        for _, event in log.since(self._seen):
            here = (event.at, event.order)
            if self.standing.cursor is not None and here < self.standing.cursor and self._seen == 0:
                continue  # Taken by a process before this one, or before anybody was to be told.
            if self.standing.disabled_at is not None:
                continue
            notices = self.channel.notices(event, self.account)
            for lost in self.deliveries.add(notices, terms.batching):
                self._office.count(self.channel.name, lost.state)
            for notice in notices:
                # One that waits for company is no delivery yet; should we die before it is, it goes alone.
                self._note(self.deliveries.all.get(notice.key) or delivery_of(notice))
        self._seen = last
        newest = log.happened[-1]
        self.standing.cursor = (newest.at, (*newest.order, 0))
        self._note_standing()

    async def _send(self, delivery: Delivery) -> None:
        result = await self.channel.send(delivery, self.account)
        now = self._now()
        terms = self.channel.terms(self.account)
        schedule = Schedule(delays_s=()) if terms is None else terms.schedule
        was_dropped = delivery.state is State.DROPPED
        self.deliveries.done(delivery, result, now, schedule)
        self._office.attempts[self.channel.name] += 1
        if not was_dropped:
            self._office.count(self.channel.name, delivery.state)
        self._note(delivery)
        self._judge(result, now, terms)
        self._flush()
        self._step()
        self.wake()

    def _judge(self, result: Try, now: datetime, terms: Terms | None) -> None:
        """Keep in mind whether the other side is well; give it up when it says so or has failed for too long."""
        standing, before = self.standing, self.standing.failing_since
        if result.worked:
            standing.failing_since = None
        elif standing.failing_since is None:
            standing.failing_since = now
        why = None
        if result.status == 410:
            why = "it answered 410 Gone"
        elif (
            terms is not None
            and terms.disable_after_s is not None
            and standing.failing_since is not None
            and (now - standing.failing_since).total_seconds() >= terms.disable_after_s
        ):
            why = f"nothing has got through for {terms.disable_after_s:g} s"
        if why is not None and standing.disabled_at is None:
            standing.disabled_at, standing.why = now, why
            _log.warning("account %s: %s is disabled: %s", self.account.name, self.channel.name, why)
            for delivery in self.deliveries.drop(f"the endpoint is disabled: {why}"):
                self._over(delivery)
        if why is not None or standing.failing_since != before:
            self._note_standing()

    def _step(self) -> None:
        self._progress.set()
        self._progress = asyncio.Event()
        self._office.moved()

    def _now(self) -> datetime:
        return self.account.clock.now(self._office.clock.now())

    # --- what is remembered -------------------------------------------------------------------------

    def _recalled(self, from_the_start: bool) -> Standing:
        """Take up what a former process left behind; without one, begin with what happens from now on."""
        notes = self.account.aftermath.notes
        deliveries = [
            delivery_from(self.account.name, key, facts)
            for key, facts in notes.all(f"{self.channel.name}.delivery").items()
        ]
        for delivery in sorted(deliveries, key=lambda each: (each.notices[0].event.at, each.key)):
            self.deliveries.restore(delivery)
        notes.forget(f"{self.channel.name}.delivery")
        facts = notes.get(f"{self.channel.name}.standing", "")
        if facts is not None:
            return standing_from(facts)
        standing = Standing(cursor=None if from_the_start else (self._now(), ()))
        # At once, before the next mail: should we die behind that, the next process knows that it was to be told of.
        self._remember(f"{self.channel.name}.standing", "", standing.facts())
        self._flush()
        return standing

    def _note(self, delivery: Delivery) -> None:
        self._remember(f"{self.channel.name}.delivery", delivery.key, delivery_as_facts(delivery))

    def _over(self, delivery: Delivery) -> None:
        self._office.count(self.channel.name, delivery.state)
        self._note(delivery)

    def _note_batch(self, delivery: Delivery) -> None:
        if len(delivery.notices) > 1 and not delivery.tries:
            self._note(delivery)
            for notice in delivery.notices[1:]:
                self._remember(f"{self.channel.name}.delivery", notice.key, None)

    def _note_standing(self) -> None:
        self._remember(f"{self.channel.name}.standing", "", self.standing.facts())

    def _remember(self, topic: str, name: str, facts: str | None) -> None:
        self._notes.append(Noted(account=self.account.name, topic=topic, name=name, facts=facts))

    def _flush(self) -> None:
        """Hand over what is to be remembered, unless the account has been reset meanwhile."""
        notes, self._notes = self._notes, []
        if self._office.provider.accounts.get(self.account.name) is self.account:
            self._office.provider.remember(notes, known=False)
            self._office.committer.soon()

    async def _flushed(self) -> None:
        self._flush()
        await self._office.committer.commit()
