"""The way of notices to a receiver: which request is due when, what its answer means, and when it is tried again.

Pure: instants are arguments, a request is a value. `simulator.servers.webhooks` makes the requests, and
`simulator.servers.returns` sends mails by the same rules.
"""

from __future__ import annotations

import dataclasses
import heapq
import json
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from simulator.provider.events import event_name
from simulator.provider.notices import Notice, notice_as_facts, notice_from

#: So many deliveries that are over are kept for whoever asks.
KEPT = 10_000
#: So many may wait; beyond that the oldest is given up, or a receiver that is away would cost memory without end.
WAITING = 50_000
#: Longest time a receiver may ask us to stay away (Retry-After), in seconds.
LONGEST_PAUSE_S = 86_400.0


class State(StrEnum):
    """How far a delivery is."""

    WAITING = "waiting"
    SENDING = "sending"
    DELIVERED = "delivered"
    FAILED = "failed"
    """The receiver did not take it as often as the schedule allows, or said that it never will."""
    LOST = "lost"
    """Never sent, because a rule says so."""
    DROPPED = "dropped"
    """Not sent any more: the endpoint was taken away or disabled, or too many were waiting."""


OVER = frozenset({State.DELIVERED, State.FAILED, State.LOST, State.DROPPED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One attempt at telling, and what came of it."""

    at: datetime
    took_s: float
    status: int | None = None
    """The receiver's status; None: there was no answer."""
    error: str | None = None
    """Why there was none, or what was wrong with it."""
    flaws: tuple[str, ...] = ()
    """What was wrong with our request, on purpose."""
    retry_after_s: float | None = None
    answer: str = ""
    """The beginning of what the receiver said."""

    @property
    def worked(self) -> bool:
        return self.error is None and self.status is not None and 200 <= self.status < 300


@dataclass(slots=True, kw_only=True)
class Delivery:
    """One request to be made until it is answered with yes."""

    key: str
    webhook_id: str
    """The id that stays the same over all attempts, and by which a receiver knows it again."""
    notices: tuple[Notice, ...]
    due_at: datetime
    tries: list[Try] = field(default_factory=list)
    number: int = 0
    """Its place among the deliveries of the account, as long as this process lives."""
    state: State = State.WAITING
    why: str | None = None
    """Why it is over without having been delivered."""

    @property
    def lane(self) -> str | None:
        """Requests about one mail go one after the other the first time, so that order is not left to chance."""
        return None if len(self.notices) != 1 else self.notices[0].event.email_id

    @property
    def flaws(self) -> tuple[str, ...]:
        """What will be wrong with the next attempt."""
        number = len(self.tries) + 1
        return tuple(dict.fromkeys(f.what.value for n in self.notices for f in n.flaws_at(number)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When a delivery that failed is tried again."""

    delays_s: tuple[float, ...]
    jitter: float = 0.0
    give_up_on: tuple[int, ...] = ()
    seed: int = 0

    def again_at(self, delivery: Delivery, now: datetime) -> datetime | None:
        """Return when to try again after the last try; None: never."""
        last = delivery.tries[-1]
        failed = len(delivery.tries)
        if failed > len(self.delays_s) or last.status in self.give_up_on:
            return None
        if any(notice.once for notice in delivery.notices):
            return None
        delay_s = self.delays_s[failed - 1]
        dice = random.Random(f"{self.seed}/{delivery.key}/{failed}")
        delay_s *= 1 + self.jitter * (2 * dice.random() - 1)
        if last.retry_after_s is not None:
            delay_s = max(delay_s, min(last.retry_after_s, LONGEST_PAUSE_S))
        return now + timedelta(seconds=delay_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    """How notices are gathered into one request. `size` None: each is a request of its own."""

    size: int | None = None
    wait_s: float = 0.0


@dataclass(slots=True)
class Deliveries:
    """The deliveries of one account to one endpoint."""

    kept: int = KEPT
    limit: int = WAITING
    all: dict[str, Delivery] = field(default_factory=dict)
    """By key, in the order in which they came up; those that are over only as long as they are kept."""
    _over: deque[str] = field(default_factory=deque)
    _untried: dict[str, Delivery] = field(default_factory=dict)
    """Those that have not been tried once."""
    _waiting: list[tuple[datetime, int, str]] = field(default_factory=list)
    _gathering: list[tuple[datetime, int, Notice]] = field(default_factory=list)
    """Those that shall share a request and are not due yet."""
    _ready: deque[Notice] = field(default_factory=deque)
    """Those that are due and wait for company."""
    _lanes: dict[str, deque[Delivery]] = field(default_factory=dict)
    """Behind whom in a lane others wait."""
    _sequence: int = 0
    _numbered: int = 0

    # --- coming up ----------------------------------------------------------------------------------

    def add(self, notices: Sequence[Notice], batching: Batching) -> list[Delivery]:
        """Take the notices of an event in. Returns deliveries that are over at once (lost ones)."""
        lost = []
        for notice in notices:
            if notice.lost:
                delivery = self._made((notice,), notice.due_at)
                delivery.why = "a rule wants it to be lost"
                self._end(delivery, State.LOST)
                lost.append(delivery)
            elif batching.size is None or notice.alone:
                self._push(self._made((notice,), notice.due_at))
            else:
                self._sequence += 1
                heapq.heappush(self._gathering, (notice.due_at, self._sequence, notice))
        return lost

    def restore(self, delivery: Delivery) -> None:
        """Take a delivery up that a former process left behind."""
        self._known(delivery)
        if delivery.state in OVER:
            self._over.append(delivery.key)
        else:
            delivery.state = State.WAITING
            self._push(delivery)

    # --- going out ----------------------------------------------------------------------------------

    def due(self, now: datetime, room: int, batching: Batching) -> list[Delivery]:
        """Return what is to be sent now, at most `room`; it is `SENDING` from here on."""
        self._gather(now, batching)
        started: list[Delivery] = []
        while self._waiting and len(started) < room and self._waiting[0][0] <= now:
            _, _, key = heapq.heappop(self._waiting)
            delivery = self.all.get(key)
            if delivery is None or delivery.state is not State.WAITING:
                continue
            if not delivery.tries and delivery.lane is not None:
                if delivery.lane in self._lanes:
                    self._lanes[delivery.lane].append(delivery)
                    continue
                self._lanes[delivery.lane] = deque()
            delivery.state = State.SENDING
            started.append(delivery)
        return started

    def next_at(self, batching: Batching) -> datetime | None:
        """Return when `due` may have something again, as far as waiting alone brings it about."""
        times = []
        if self._waiting:
            times.append(self._waiting[0][0])
        if self._gathering:
            times.append(self._gathering[0][0])
        if self._ready:
            times.append(self._ready[0].due_at + timedelta(seconds=batching.wait_s))
        return min(times, default=None)

    def done(self, delivery: Delivery, result: Try, now: datetime, schedule: Schedule) -> None:
        """An attempt is over: it worked, or is tried again, or is given up."""
        first = not delivery.tries
        delivery.tries.append(result)
        self._untried.pop(delivery.key, None)
        if first and delivery.lane is not None:
            for behind in self._lanes.pop(delivery.lane, ()):
                self._push(behind)
        if delivery.state is not State.SENDING:
            return  # Somebody dropped it meanwhile.
        if result.worked:
            self._end(delivery, State.DELIVERED)
            return
        again_at = schedule.again_at(delivery, now)
        if again_at is None:
            delivery.why = "the receiver did not take it"
            self._end(delivery, State.FAILED)
            return
        delivery.state = State.WAITING
        delivery.due_at = again_at
        self._push(delivery)

    def drop(self, why: str) -> list[Delivery]:
        """Give up everything that is not over; return it."""
        for notice in (*self._ready, *(each for _, _, each in self._gathering)):
            self._made((notice,), notice.due_at)
        self._gathering, self._waiting = [], []
        self._ready.clear()
        dropped = [each for each in self.all.values() if each.state not in OVER]
        for delivery in dropped:
            delivery.why = why
            self._end(delivery, State.DROPPED)
        self._lanes.clear()
        return dropped

    def overflow(self) -> list[Delivery]:
        """Give up the oldest of those that are too many; return them."""
        waiting = self.waiting
        dropped: list[Delivery] = []
        if waiting > self.limit:
            # A tenth more than must be, so that the next one does not search all of them again.
            enough = waiting - self.limit + self.limit // 10
            for delivery in self.open():
                if len(dropped) == enough:
                    break
                if delivery.state is State.WAITING:
                    delivery.why = f"more than {self.limit} were waiting"
                    dropped.append(delivery)
            for delivery in dropped:
                self._end(delivery, State.DROPPED)
        return dropped

    @property
    def waiting(self) -> int:
        """How many are not over."""
        return len(self.all) - len(self._over)

    def forget(self) -> list[Delivery]:
        """Return the oldest that are over and are more than are kept; they are known no longer."""
        gone = []
        while len(self._over) > self.kept:
            delivery = self.all.pop(self._over.popleft(), None)
            if delivery is not None:
                gone.append(delivery)
        return gone

    def numbered(self) -> Iterator[tuple[int, Delivery]]:
        """Yield all that are known, in the order in which they came up, with their numbers."""
        for delivery in list(self.all.values()):
            yield delivery.number, delivery

    def open(self) -> Iterator[Delivery]:
        """Yield what is not over, in the order in which it came up."""
        yield from (each for each in list(self.all.values()) if each.state not in OVER)

    def untold(self, wanted: Callable[[Notice], bool], now: datetime) -> bool:
        """Tell whether a notice that is wanted should have been told by `now` and has not been tried yet."""
        gathered = [*self._ready, *(notice for due, _, notice in self._gathering if due <= now)]
        untried = (notice for each in self._untried.values() if each.due_at <= now for notice in each.notices)
        return any(map(wanted, gathered)) or any(map(wanted, untried))

    # --- inside -------------------------------------------------------------------------------------

    def _made(self, notices: tuple[Notice, ...], due_at: datetime) -> Delivery:
        return self._known(delivery_of(*notices, due_at=due_at))

    def _known(self, delivery: Delivery) -> Delivery:
        if delivery.key not in self.all:
            self._numbered += 1
            delivery.number = self._numbered
            self.all[delivery.key] = delivery
            if not delivery.tries and delivery.state not in OVER:
                self._untried[delivery.key] = delivery
        return self.all[delivery.key]

    def _gather(self, now: datetime, batching: Batching) -> None:
        """Make requests of what is due: full ones, and those whose first notice has waited long enough."""
        while self._gathering and self._gathering[0][0] <= now:
            self._ready.append(heapq.heappop(self._gathering)[2])
        size = batching.size or 1
        while self._ready and (
            len(self._ready) >= size or self._ready[0].due_at + timedelta(seconds=batching.wait_s) <= now
        ):
            some = tuple(self._ready.popleft() for _ in range(min(size, len(self._ready))))
            self._push(self._made(some, some[0].due_at))

    def _push(self, delivery: Delivery) -> None:
        self._sequence += 1
        heapq.heappush(self._waiting, (delivery.due_at, self._sequence, delivery.key))

    def _end(self, delivery: Delivery, state: State) -> None:
        delivery.state = state
        self._over.append(delivery.key)
        self._untried.pop(delivery.key, None)


def delivery_of(*notices: Notice, due_at: datetime | None = None) -> Delivery:
    """Return the delivery that tells these notices, named by the first of them."""
    webhook_id = notices[0].event.id
    if len(notices) > 1:
        webhook_id = "bat_" + event_name(*(notice.key for notice in notices)).removeprefix("evt_")
    return Delivery(
        key=notices[0].key,
        webhook_id=webhook_id,
        notices=notices,
        due_at=notices[0].due_at if due_at is None else due_at,
    )


def keyed(notices: Iterable[Notice]) -> list[Notice]:
    """Give each notice of an event its key."""
    return [
        dataclasses.replace(notice, key=f"{notice.source}.{number}") for number, notice in enumerate(notices)
    ]


# --- kept over a restart ----------------------------------------------------------------------------


def delivery_as_facts(delivery: Delivery) -> str:
    """Write a delivery down, with what it tells and what came of it."""
    facts: dict[str, Any] = {
        "webhook_id": delivery.webhook_id,
        "due_at": delivery.due_at.isoformat(),
        "state": delivery.state.value,
        "why": delivery.why,
        "notices": [notice_as_facts(notice) for notice in delivery.notices],
        "tries": [_try_as_facts(each) for each in delivery.tries],
    }
    return json.dumps(facts, separators=(",", ":"))


def delivery_from(account: str, key: str, facts: str) -> Delivery:
    """Read a delivery that `delivery_as_facts` wrote."""
    read = json.loads(facts)
    return Delivery(
        key=key,
        webhook_id=read["webhook_id"],
        notices=tuple(notice_from(account, each) for each in read["notices"]),
        due_at=datetime.fromisoformat(read["due_at"]),
        tries=[_try_from(each) for each in read["tries"]],
        state=State(read["state"]),
        why=read["why"],
    )


def _try_as_facts(each: Try) -> dict[str, Any]:
    return {
        "at": each.at.isoformat(),
        "took_s": each.took_s,
        "status": each.status,
        "error": each.error,
        "flaws": list(each.flaws),
        "answer": each.answer,
    }


def _try_from(facts: Mapping[str, Any]) -> Try:
    return Try(
        at=datetime.fromisoformat(facts["at"]),
        took_s=facts["took_s"],
        status=facts["status"],
        error=facts["error"],
        flaws=tuple(facts["flaws"]),
        answer=facts["answer"],
    )
