"""Senders whose gate is wrong: breakers that latch or flood, limits that are not shared, doubts that are moved."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Engine, case, literal

from reference_sender.gatekeeper import Gatekeeper
from reference_sender.life import Parcel
from reference_sender.outbox.gated import SqlPlace, fits
from reference_sender.outbox.schema import outgoing_email
from reference_sender.outbox.store import Store
from reference_sender.policy import gate as gates
from reference_sender.policy.breaker import Position
from reference_sender.policy.bucket import Bucket, Rate, full
from reference_sender.policy.evidence import Evidence, Outcome
from reference_sender.policy.gate import NOTHING_KNOWN, GateRules, Shared
from reference_sender.policy.routes import Share
from reference_sender.worker import Transport
from scenarios.simulation.profiles import WITH_A_SPARE
from scenarios.simulation.zoo.keeper import BadSender, Ground, where
from scenarios.simulation.zoo.patience import Deaf

_row = outgoing_email.c
_NEVER = datetime(2999, 1, 1, tzinfo=UTC)


# --- breakers ---------------------------------------------------------------------------------------


class LatchesOpen(Store):
    """Once open it stays open: nobody ever asks whether the provider is well again."""

    def hear(self, rules: GateRules, *seen: Any, now: datetime, **more: Any) -> Shared:
        after = super().hear(rules, *seen, now=now, **more)
        if after.breaker.position is Position.OPEN:
            after = replace(after, breaker=replace(after.breaker, until=_NEVER))
            with self._write() as connection:
                self._place(connection, now).keep(rules.provider, after)
        return after


# --- pauses -----------------------------------------------------------------------------------------


class KeepsItToItself(Gatekeeper):
    """What a worker is told it knows, and nobody else does."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self._own = NOTHING_KNOWN

    def terms(self, room: int, in_hand: int) -> dict[str, Any]:
        until = self._own.paused_until
        waits = until is not None and self._clock.now() < until
        return {"gate": self.gate, "bulk": 0 if waits else room}

    async def tell(
        self, outcome: Outcome | None, evidence: Evidence | None, *, began_at: datetime, took_s: float
    ) -> bool:
        now = self._clock.now()
        self._own = gates.after(self.gate.rules, self._own, outcome, evidence, now=now, began_at=began_at)
        return False


# --- limits -----------------------------------------------------------------------------------------


class OwnBuckets(SqlPlace):
    """Buckets of one process."""

    def __init__(self, buckets: dict[str, Bucket], *place: Any, **more: Any) -> None:
        super().__init__(*place, **more)
        self._buckets = buckets

    def bucket(self, name: str, rate: Rate) -> Bucket:
        return self._buckets.setdefault(name, full(rate, self._now))

    def fill(self, name: str, bucket: Bucket) -> None:
        self._buckets[name] = bucket


class EachItsOwnLimit(Store):
    """Every worker keeps the whole limit, by itself."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._buckets: dict[str, Bucket] = {}

    def _place(self, connection: Connection, now: datetime, *, unmarked: bool = False) -> SqlPlace:  # type: ignore[override] # no longer static: it has something of its own
        return OwnBuckets(self._buckets, connection, now, unmarked=unmarked)


# --- who goes first ---------------------------------------------------------------------------------


class InOrder(SqlPlace):
    """Rows as they came."""

    due_order = (_row.id,)


class FirstComeFirstServed(Store):
    """Mail goes out in the order in which it was put in, whatever it is."""

    @staticmethod
    def _place(connection: Connection, now: datetime, *, unmarked: bool = False) -> SqlPlace:
        return InOrder(connection, now, unmarked=unmarked)


class Dawdles:
    """A provider that takes a few seconds for each mail, for every other a little more."""

    def __init__(self, inner: Transport, seconds: float) -> None:
        self._inner = inner
        self._seconds = seconds

    async def send(
        self, parcel: Parcel, *, key: str, point_of_no_return: Callable[[], Awaitable[bool]]
    ) -> Evidence:
        await asyncio.sleep(self._seconds + (0.0 if parcel.id % 2 else 0.5))
        return await self._inner.send(parcel, key=key, point_of_no_return=point_of_no_return)


# --- several providers ------------------------------------------------------------------------------


class AnyoneWillDo(SqlPlace):
    """The rules alone say whose a mail is, whatever became of it before."""

    def mine(self, share: Share) -> Any:
        rules = [(fits(route), literal(int(own))) for route, own in share.rules]
        return case(*rules, else_=literal(int(share.rest))) == 1


class MovesDoubt(Store):
    """Who stands in takes over everything, also what the other may have taken already."""

    @staticmethod
    def _place(connection: Connection, now: datetime, *, unmarked: bool = False) -> SqlPlace:
        return AnyoneWillDo(connection, now, unmarked=unmarked)


#: One that would send a mail in doubt again; at-most-once would leave it to a person, wherever it came from.
WITH_A_BOLD_SPARE = replace(
    WITH_A_SPARE,
    options={**WITH_A_SPARE.options, "spare": {**WITH_A_SPARE.options["spare"], "policy": "at-least-once"}},
)
MANY = "eight mails, two workers"

ONE_BY_ONE = Ground(
    says="each worker sends one mail at a time, and the provider takes three seconds for it",
    options={"concurrency": 1},
    around_transport=lambda inner: Dawdles(inner, 3.0),
)

SENDERS: tuple[BadSender, ...] = (
    BadSender(
        name="breaker stays open",
        sin="The breaker opens in an outage and never lets anybody ask again.",
        like="breaker latched open",
        kind="stuck",
        promises=("pace.outage",),
        parts={"open_store": LatchesOpen},
        blocks=(where("http-keys", "503", "503"), where("http-keys", "503", "503", "503")),
    ),
    BadSender(
        name="everybody probes",
        sin="When the pause is over the whole queue asks at once whether the provider is well.",
        like="half-open flood",
        kind="flooded",
        promises=("pace.outage", "gate.breaker"),
        options={"breaker_probes": 50},
        blocks=(where("http-keys", *["503"] * 40, shape=MANY),),
    ),
    BadSender(
        name="no breaker",
        sin="An outage is met with the full concurrency, again and again.",
        like="retry storm",
        kind="flooded",
        promises=("pace.outage", "gate.breaker"),
        options={"breaker_failures": 0},
        blocks=(where("http-keys", *["503"] * 40, shape=MANY),),
    ),
    BadSender(
        name="Retry-After for one mail only",
        sin="The provider wants nobody to come; only the mail that was told so waits.",
        like="Retry-After kept per mail and per worker",
        kind="pressed",
        promises=("pace.retry-after-seconds",),
        parts={"gatekeeper": Deaf},
        ground=ONE_BY_ONE,
        blocks=(where("http-keys", "429 with retry-after", shape="three recipients"),),
    ),
    BadSender(
        name="Retry-After for one worker only",
        sin="The provider wants nobody to come; only the worker that was told so waits.",
        like="Retry-After kept per worker",
        kind="pressed",
        promises=("pace.retry-after-seconds", "gate.retry-after"),
        parts={"gatekeeper": KeepsItToItself},
        ground=ONE_BY_ONE,
        blocks=(where("http-keys", "429 with retry-after", shape=MANY),),
    ),
    BadSender(
        name="a limit for each worker",
        sin="Two workers keep the limit of the account, each by itself: together they send twice as much.",
        like="bucket per process",
        kind="too fast",
        promises=("gate.rate",),
        parts={"open_store": EachItsOwnLimit},
        blocks=(where("http-limited", shape=MANY),),
    ),
    BadSender(
        name="ignores the limit",
        sin="The sender was told a limit, and sends as fast as it can.",
        like="limit left to the provider to enforce",
        kind="too fast",
        promises=("gate.rate",),
        options={"rate_per_s": None},
        blocks=(where("http-limited", shape="three recipients"),),
    ),
    BadSender(
        name="first come, first served",
        sin="A login code waits behind everything that was put in before it.",
        like="priority starvation",
        kind="late",
        promises=("gate.urgent",),
        parts={"open_store": FirstComeFirstServed},
        ground=Ground(
            says="the provider takes four seconds for each mail",
            around_transport=lambda inner: Dawdles(inner, 4.0),
        ),
        blocks=(where("http-keys", shape="twelve of bulk, then a code"),),
    ),
    BadSender(
        name="moves doubt",
        sin="A mail whose answer was lost is handed to the provider that stands in.",
        like="failover of a send with an unknown outcome",
        kind="duplicated",
        promises=("lost-answer.timeout", "lost-answer.fin"),
        parts={"open_store": MovesDoubt},
        options={"providers": WITH_A_BOLD_SPARE},
        blocks=(where("http-with-spare", "taken, closed"), where("http-with-spare", "taken, hangs")),
    ),
)
