"""The worker: claim, send, settle, all three at the same time – and the promises it expects from a store and a transport.

`Worker.deliver` is one mail's way and is meant to be read from top to bottom. Three rules hold it up: `sending` is
committed before the first byte; where the provider cannot dedupe, a marker is committed at the point of no return;
every write is fenced by the attempt's token.
Must not hold: SQL, sockets, the meaning of codes.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Protocol

from reference_sender import settler
from reference_sender.clock import Clock
from reference_sender.company import Company
from reference_sender.gatekeeper import Gatekeeper
from reference_sender.life import Docket, Parcel, State
from reference_sender.log import Log, cause_of, name_of, quiet
from reference_sender.policy.backoff import backoff_s
from reference_sender.policy.caps import overdue
from reference_sender.policy.classify import classify as classify_evidence
from reference_sender.policy.decision import Backoff, Decision, Ended, before_sending, decide
from reference_sender.policy.evidence import Evidence, Outcome
from reference_sender.policy.gate import Gate
from reference_sender.policy.settings import Settings
from reference_sender.policy.suspects import Suspects

_QUICK_S = 0.25  # attempts that take no longer are worth to be claimed for in advance
_URGENT_S = 0.1  # so often, at most, urgent mail is looked for although our hands are full
_AHEAD = 2  # so many mails for each place wait in our hands then


class Store(settler.Store, Protocol):
    """What the worker asks of the outbox; plain synchronous methods, each one transaction."""

    def claim(
        self,
        *,
        now: datetime,
        limit: int,
        lease_s: float,
        dedupes: bool,
        gate: Gate | None = None,
        bulk: int | None = None,
        suspects: Suspects | None = None,
    ) -> list[Parcel]: ...

    def mark(self, docket: Docket, *, now: datetime) -> bool: ...

    def renew(self, docket: Docket, *, now: datetime, lease_s: float) -> datetime | None: ...


class Transport(Protocol):
    """What the worker asks of a wire: one attempt, evidence back, nothing raised for expected trouble."""

    async def send(
        self, parcel: Parcel, *, key: str, point_of_no_return: Callable[[], Awaitable[bool]]
    ) -> Evidence: ...


def frozen_key(parcel: Parcel) -> str:
    """The key that goes to the provider: the one that was frozen at enqueue, in every attempt."""
    return parcel.idempotency_key


class Worker:
    """Takes due mail out of the outbox and hands it over, several at a time."""

    def __init__(
        self,
        *,
        store: Store,
        transport: Transport,
        settings: Settings,
        clock: Clock,
        rng: random.Random,
        classify: Callable[[Evidence], Outcome] = classify_evidence,
        backoff: Backoff = backoff_s,
        key_of: Callable[[Parcel], str] = frozen_key,
        log: Log = quiet,
        keeper: Gatekeeper | None = None,
        beat: Callable[[], None] = lambda: None,
        keep_time: Callable[[], Awaitable[None]] | None = None,
        company: Company | None = None,
    ) -> None:
        self._store = store
        self._transport = transport
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._classify = classify
        self._backoff = backoff
        self._key_of = key_of
        self._log = log
        self._keeper = keeper
        self._beat = beat
        self._keep_time = keep_time
        self._settler = settler.Settler(store=store, clock=clock, pause_s=settings.poll_s, log=log)
        self._waiting: deque[Parcel] = deque()
        """Claimed, and no place on the wire is free for it yet."""
        self._running: set[asyncio.Task[None]] = set()
        """Begun and not settled."""
        self._on_wire: set[tuple[int, int]] = set()
        """Of them those that have a place on the wire, by id and token."""
        self._bulk_on_wire: set[tuple[int, int]] = set()
        """Of these those that are not urgent."""
        self._urgent_at_s = -math.inf
        """When it was last looked for urgent mail alone."""
        self._usual_s = math.inf
        """How long an attempt has taken of late."""
        self._woken = asyncio.Event()
        self._company = company or Company(clock)
        self._company.join(self)
        self._full = True
        """The last look for mail may have left some behind for want of room."""

    @property
    def in_flight(self) -> int:
        """How many mails are in our hands."""
        return len(self._waiting) + len(self._running)

    def wake(self) -> None:
        """Look for mail now instead of at the next poll (for callers in the same process and loop)."""
        self._woken.set()

    async def run(self, stop: asyncio.Event, *, ready: Callable[[], None] = lambda: None) -> None:
        """Work until `stop`, then finish what is in flight. `ready` is called after the first look for mail."""
        failures, announced = 0, False
        stopping = asyncio.ensure_future(stop.wait())
        stopping.add_done_callback(self._alarm)
        try:
            while not stop.is_set():
                self._woken.clear()
                try:
                    if self._keep_time is not None:
                        await self._keep_time()
                    await self.work_once()
                    failures = 0
                    self._beat()
                    if not announced:
                        ready()
                        announced = True
                except Exception as error:
                    # A database that is away for a minute must not end the worker.
                    failures += 1
                    self._log(
                        "claim_failed", error=type(error).__name__, cause=cause_of(error), failures=failures
                    )
                await self._rest(stop, failures)
        finally:
            stopping.cancel()
        await self._drain()

    async def work_once(self) -> int:
        """Claim as much as there is room for and begin to deliver it; how many were claimed."""
        room, keeper = self._wanted, self._keeper
        self._full = True
        if not self._company.lets(self):
            return 0
        if not room:
            room = self._wanted_urgent
        if not room:
            return 0
        with self._company.claiming(self) as suspects:
            parcels = await asyncio.to_thread(
                self._store.claim,
                now=self._clock.now(),
                limit=room,
                lease_s=self._settings.lease_s,
                dedupes=self._settings.policy.dedupes,
                suspects=suspects,
                **({} if keeper is None else keeper.terms(room, room + self.in_flight)),
            )
        self._full = len(parcels) >= room if keeper is None else keeper.gate.is_full
        self._take_in_hand(parcels)
        self._company.took(parcels, alone_s=self._settings.suspect_alone_s)
        return len(parcels)

    def _take_in_hand(self, parcels: Sequence[Parcel]) -> None:
        """They are ours from now on: begin with as many as there are places for, the others wait for theirs."""
        for parcel in parcels:
            if self._keeper is not None:
                self._keeper.begins(parcel)
            is_next = not self._waiting or self._waiting[0].priority < parcel.priority
            if is_next and self._may_begin(parcel):
                self._begin(parcel, has_waited=False)
            else:
                self._waiting.append(parcel)
        if len({parcel.priority for parcel in self._waiting}) > 1:
            # What is urgent waits behind nobody who is not.
            self._waiting = deque(sorted(self._waiting, key=lambda parcel: -parcel.priority))

    @property
    def _has_place(self) -> bool:
        """Whether one more may go on the wire: there is a place, and not too much is sent that is not settled yet.

        What a kill leaves behind as sent and not settled stays below one and a half times the concurrency.
        """
        most = self._settings.concurrency
        return len(self._on_wire) < most and len(self._running) < most + most // 2

    def _may_begin(self, parcel: Parcel) -> bool:
        """Whether this one may go on the wire: mail that is not urgent leaves those places free that are kept."""
        keeper = self._keeper
        if keeper is None or keeper.is_urgent(parcel):
            return self._has_place
        most = self._settings.concurrency
        return self._has_place and len(self._bulk_on_wire) < most - keeper.kept_of(most)

    def _begin(self, parcel: Parcel, *, has_waited: bool) -> None:
        self._on_wire.add((parcel.id, parcel.token))
        if self._keeper is not None and not self._keeper.is_urgent(parcel):
            self._bulk_on_wire.add((parcel.id, parcel.token))
        task = asyncio.create_task(self._guarded(parcel, has_waited=has_waited))
        self._running.add(task)
        task.add_done_callback(partial(self._done, parcel))

    def _begin_those_who_wait(self) -> None:
        while self._waiting and self._may_begin(self._waiting[0]):
            self._begin(self._waiting.popleft(), has_waited=True)

    def _leaves_wire(self, parcel: Parcel) -> None:
        self._on_wire.discard((parcel.id, parcel.token))
        self._bulk_on_wire.discard((parcel.id, parcel.token))
        self._begin_those_who_wait()

    @property
    def _ahead(self) -> int:
        """How many mails may wait for a place, besides those that have one.

        They keep the wire busy while the database is, and let it be asked for many rows at a time. Where attempts are
        slow nobody would gain by it, and the mails would wait in our hands for longer than others need for them.
        """
        if self._keeper is not None and not self._keeper.may_claim_ahead:
            return 0
        return self._settings.concurrency * _AHEAD if self._usual_s <= _QUICK_S else 0

    @property
    def _wanted(self) -> int:
        """How many mails to claim now, as far as there is room.

        While there is more mail than places, none until there is room for enough: many rows are cheaper at once.
        """
        ahead = self._ahead
        most = self._settings.concurrency if self._keeper is None else self._keeper.most
        room = most + ahead - self.in_flight
        if self._full and self._waiting and 2 * room < ahead:
            return 0
        return max(room, 0)

    @property
    def _wanted_urgent(self) -> int:
        """How many urgent mails to claim although there is no room for others, as far as places are kept for them.

        What was claimed ahead while attempts were quick would hold them up for as long as it takes, once they are slow.
        """
        now_s = self._clock.monotonic()
        if self._keeper is None or now_s - self._urgent_at_s < min(self._settings.poll_s, _URGENT_S):
            return 0
        self._urgent_at_s = now_s
        return self._keeper.room_for_urgent(self.in_flight, self._settings.concurrency)

    async def idle(self) -> None:
        """Wait until nothing is in flight."""
        while self._running:
            await asyncio.wait(set(self._running))

    async def deliver(self, parcel: Parcel, *, has_waited: bool = False) -> None:
        """One mail's way, from claimed to settled. `has_waited`: for its place, in our hands."""
        if has_waited and self._is_short(parcel):
            renewed = await self._renewed(parcel)
            if renewed is None:
                # Somebody else has it by now, and will say what became of it.
                return
            parcel = renewed
        started_at = self._clock.now()
        decision = self._before_sending(parcel, started_at, has_waited=has_waited)
        evidence, outcome, took_s, decided_at = None, None, 0.0, started_at
        if decision is None:
            began_s = self._clock.monotonic()
            evidence, outcome = await self._attempt(parcel)
            took_s = self._clock.monotonic() - began_s
            self._took(took_s)
            decided_at = self._clock.now()
            decision = decide(
                outcome,
                evidence,
                parcel,
                self._settings,
                now=decided_at,
                rng=self._rng,
                backoff=self._backoff,
            )
        self._leaves_wire(parcel)
        ended = Ended(docket=parcel, decision=decision, evidence=evidence, started_at=started_at)
        await self._settle(ended, decided_at)
        if self._keeper is not None and await self._keeper.tell(
            outcome, evidence, began_at=started_at, took_s=took_s
        ):
            # It may change what everybody may do; for the better, and we should look.
            self._woken.set()

    def _is_short(self, parcel: Parcel) -> bool:
        """Whether a whole attempt no longer fits into what is left of its lease."""
        if parcel.lease_until is None:
            return False
        left_s = (parcel.lease_until - self._clock.now()).total_seconds()
        return left_s < self._settings.total_timeout_s

    async def _renewed(self, parcel: Parcel) -> Parcel | None:
        """The mail with a whole lease, or as it was if nobody can be asked for one; None: it is no longer ours."""
        now = self._clock.now()
        try:
            until = await asyncio.to_thread(
                self._store.renew, parcel, now=now, lease_s=self._settings.lease_s
            )
        except Exception as error:
            self._log(
                "renew_failed",
                id=parcel.id,
                token=parcel.token,
                error=type(error).__name__,
                cause=cause_of(error),
            )
            return parcel
        if until is None:
            self._log("fenced_out", id=parcel.id, token=parcel.token)
            return None
        return replace(parcel, lease_until=until)

    def _before_sending(self, parcel: Parcel, now: datetime, *, has_waited: bool) -> Decision | None:
        """Reasons not to begin; the attempt must end within the lease, also where it had to wait for its place."""
        if has_waited and self._is_short(parcel):
            return Decision(
                state=State.PENDING,
                reason="its lease is too short for an attempt by now",
                next_attempt_at=now,
                refund=True,
            )
        if has_waited and self._keeper is not None and self._keeper.is_shut(now):
            return Decision(
                state=State.PENDING,
                reason="the provider wants nobody to come just now",
                next_attempt_at=now,
                refund=True,
            )
        return before_sending(parcel, self._settings, now)

    def _took(self, seconds: float) -> None:
        self._usual_s = (
            seconds if self._usual_s == math.inf else self._usual_s + (seconds - self._usual_s) / 8
        )

    async def _attempt(self, parcel: Parcel) -> tuple[Evidence, Outcome]:
        """Hand the mail over; what was seen, and what it means."""
        evidence = await self._transport.send(
            parcel,
            key=self._key_of(parcel),
            point_of_no_return=lambda: self._point_of_no_return(parcel),
        )
        return evidence, self._classify(evidence)

    async def _point_of_no_return(self, parcel: Parcel) -> bool:
        """Whether the next byte may leave. From here on a crash leaves doubt, and the row says so."""
        now = self._clock.now()
        if overdue(parcel, now):
            # It was worth sending when the attempt began; getting through to the provider took too long.
            self._log("overdue", id=parcel.id, token=parcel.token)
            return False
        if not self._settings.policy.dedupes:
            try:
                marked = await asyncio.to_thread(self._store.mark, parcel, now=now)
            except Exception as error:
                # Without the marker nothing may leave; the attempt ends here, and surely nothing was sent.
                self._log(
                    "mark_failed",
                    id=parcel.id,
                    token=parcel.token,
                    error=type(error).__name__,
                    cause=cause_of(error),
                )
                return False
            if not marked:
                self._log("fenced_out", id=parcel.id, token=parcel.token)
                return False
            # The commit took its time, and a stopped and continued process may be hours late here.
            now = self._clock.now()
        if parcel.lease_until is not None and now >= parcel.lease_until:
            self._log("lease_over", id=parcel.id, token=parcel.token)
            return False
        return True

    async def _settle(self, ended: Ended, decided_at: datetime) -> None:
        """Have the decision written, and say what became of the mail."""
        held = await self._settler.settle(ended)
        if held is None:
            return
        parcel, decision, evidence = ended.docket, ended.decision, ended.evidence
        self._log(
            "decided" if held else "late",
            id=parcel.id,
            key=name_of(parcel.key),
            token=parcel.token,
            message_id=parcel.message_id,
            attempt=parcel.attempts,
            state=decision.state.value,
            reason=decision.reason,
            provider_id=decision.provider_id,
            wire=evidence.wire.value if evidence else None,
            phase=evidence.phase.value if evidence else None,
            code=evidence.code if evidence else None,
            seconds=(decided_at - (ended.started_at or decided_at)).total_seconds(),
            waited_s=(decided_at - parcel.queued_at).total_seconds(),
            traceparent=parcel.traceparent,
            next_attempt_at=decision.next_attempt_at.isoformat() if decision.next_attempt_at else None,
        )

    async def _guarded(self, parcel: Parcel, *, has_waited: bool) -> None:
        try:
            await self.deliver(parcel, has_waited=has_waited)
        except Exception as error:
            # A bug in one mail's way must not stop the others. The row keeps its lease; when that runs out, the
            # marker on the row tells whether repeating is safe.
            self._log(
                "unexpected",
                id=parcel.id,
                token=parcel.token,
                error=type(error).__name__,
                cause=cause_of(error),
            )

    def _done(self, parcel: Parcel, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if self._keeper is not None:
            self._keeper.ends(parcel)
        self._company.left(parcel)
        # It has left the wire by now, unless something went wrong on its way. Also who is settled makes a place free.
        self._leaves_wire(parcel)
        # Room is a reason to look for more, if there may be more: a claim with room to spare took all.
        if self._full and not self._woken.is_set() and self._wanted and self._company.lets(self):
            self._woken.set()

    async def _rest(self, stop: asyncio.Event, failures: int) -> None:
        """Wait for something to do: a wake-up, a free slot, the next poll – or the end."""
        if stop.is_set():
            return
        pause_s = self._settings.poll_s * min(2.0 ** min(failures, 5), 30.0)
        if self._keeper is not None and not failures:
            pause_s = self._keeper.wait_s(pause_s)
        poll = self._clock.alarm(pause_s, self._woken.set)
        try:
            await self._woken.wait()
        finally:
            poll.cancel()

    def _alarm(self, wait: asyncio.Future[Any]) -> None:
        if not wait.cancelled():
            self._woken.set()

    async def _drain(self) -> None:
        """Finish what is in flight, within the drain deadline; what is left over keeps its lease and its marker."""
        if not self._running:
            return
        self._log("draining", in_flight=self.in_flight)
        deadline = asyncio.ensure_future(self._clock.sleep(self._settings.drain_s))
        idle = asyncio.ensure_future(self.idle())
        await asyncio.wait({deadline, idle}, return_when=asyncio.FIRST_COMPLETED)
        self._waiting.clear()
        for task in (deadline, idle, *self._running):
            task.cancel()
        await asyncio.gather(deadline, idle, *self._running, return_exceptions=True)
