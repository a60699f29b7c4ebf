"""Where promises meet databases and protocols: options in, a built sender out.

The only place that knows both sides. `Parts` are the seams: each can be replaced by itself, which is how a test makes a
sender with exactly one sin.
Must not hold: anything that happens after start-up.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from sqlalchemy import Engine

from reference_sender.clock import Clock, SystemClock, random_source
from reference_sender.company import Company
from reference_sender.gatekeeper import Gatekeeper
from reference_sender.life import Parcel
from reference_sender.log import Both, Log, quiet
from reference_sender.message import idempotency_key_for
from reference_sender.options import Options, options_from, options_from_environment
from reference_sender.outbox.engine import open_engine
from reference_sender.outbox.sealed import seal_with
from reference_sender.outbox.store import Store
from reference_sender.policy.backoff import backoff_s
from reference_sender.policy.classify import classify
from reference_sender.policy.decision import Backoff
from reference_sender.policy.evidence import Evidence, Outcome
from reference_sender.policy.routes import Mine
from reference_sender.policy.settings import InvalidSettings
from reference_sender.reconciler import Reconciler
from reference_sender.wires import ClosableLookup, ClosableTransport, lookup_of, transport_of
from reference_sender.worker import Transport, Worker, frozen_key

if TYPE_CHECKING:
    from reference_sender.alarms import Alarms
    from reference_sender.tracing import Traces
    from reference_sender.watch import Watch

# Options too: whoever builds a sender needs both.
__all__ = ["Options", "Parts", "Sender", "build", "options_from", "options_from_environment"]


def _as_it_is(transport: Transport) -> Transport:
    return transport


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the sender is made of. Replace one to get a sender that differs in exactly that."""

    clock: Clock = field(default_factory=SystemClock)
    log: Log = quiet
    open_engine: Callable[[str], Engine] = open_engine
    open_store: Callable[[Engine], Store] = Store
    transport: Callable[[Options], ClosableTransport] | None = (
        None  # instead of the one that the options name
    )
    lookup: Callable[[Options], ClosableLookup | None] | None = None
    around_transport: Callable[[Transport], Transport] = _as_it_is
    classify: Callable[[Evidence], Outcome] = classify
    backoff: Backoff = backoff_s
    key_of: Callable[[Parcel], str] = frozen_key
    key_for: Callable[[str, str], str] = idempotency_key_for  # used by enqueue
    gatekeeper: type[Gatekeeper] = Gatekeeper
    worker: type[Worker] = Worker
    reconciler: type[Reconciler] = Reconciler


class Companion(Protocol):
    """Something that goes along while the sender works."""

    def start(self) -> None: ...

    def close(self) -> None:
        """End it; may take a moment."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """The built sender."""

    store: Store
    workers: tuple[Worker, ...]
    """One for each provider, and so are the reconcilers."""
    reconcilers: tuple[Reconciler, ...]
    rng: random.Random
    providers: tuple[str, ...]
    """What they are called, in their order."""
    closers: tuple[Callable[[], Awaitable[None]], ...]
    companions: tuple[Companion, ...] = ()

    @property
    def worker(self) -> Worker:
        """The worker of the first provider."""
        return self.workers[0]

    @property
    def reconciler(self) -> Reconciler:
        """The reconciler of the first provider."""
        return self.reconcilers[0]

    def wake(self) -> None:
        """Let every worker look for mail now."""
        for worker in self.workers:
            worker.wake()

    async def run(self, stop: asyncio.Event, *, ready: Callable[[], None] = lambda: None) -> None:
        """Work and reconcile until `stop`, then drain and close."""
        started: list[Companion] = []
        beside: list[asyncio.Task[None]] = []
        try:
            for companion in self.companions:
                companion.start()
                started.append(companion)
            beside = [asyncio.create_task(each.run(stop)) for each in self.reconcilers]
            if len(self.workers) == 1:
                await self.worker.run(stop, ready=ready)
            else:
                await _side_by_side(self.workers, stop, ready)
        finally:
            stop.set()
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            for companion in reversed(started):
                await asyncio.to_thread(companion.close)
            await self.close()

    async def close(self) -> None:
        """Close connections to the provider and to the database."""
        for close in self.closers:
            await close()
        self.store.engine.dispose()


async def _side_by_side(workers: Sequence[Worker], stop: asyncio.Event, ready: Callable[[], None]) -> None:
    """Run all of them until `stop`. If one dies of an error, the others end as if stopped, and the error is raised."""
    waiting = len(workers)

    def one_is_ready() -> None:
        nonlocal waiting
        waiting -= 1
        if not waiting:
            ready()

    tasks = [asyncio.create_task(each.run(stop, ready=one_is_ready)) for each in workers]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        stop.set()
    await asyncio.gather(*tasks)


def build(options: Options, parts: Parts | None = None) -> Sender:
    """Put the sender together. Nothing is connected and nothing is started yet."""
    parts = parts or Parts()
    rng = random_source(options.seed)
    engine = parts.open_engine(options.database_url)
    store = parts.open_store(engine if options.vault is None else seal_with(engine, options.vault))
    watch = _watch(options, parts, store)
    traces = _traces(options, parts)
    alarms = _alarms(options, parts)
    also = (None if watch is None else watch.metrics, traces, alarms)
    heard_by: list[Log] = [parts.log, *(each for each in also if each is not None)]
    log = Both(*heard_by) if len(heard_by) > 1 else parts.log
    clock, kept = _time(options, parts, store, log)
    workers, reconcilers, closers = [], [], []
    company = Company(clock)  # all are lost together
    for one in (options, *options.others):
        transport = (parts.transport or transport_of)(one)
        lookup = (parts.lookup or lookup_of)(one)
        keeper = parts.gatekeeper(store=store, rules=one.gate, pace=one.pace, clock=clock, log=log)
        workers.append(
            parts.worker(
                store=store,
                transport=parts.around_transport(transport),
                settings=one.settings,
                clock=clock,
                rng=rng,
                classify=parts.classify,
                backoff=parts.backoff,
                key_of=parts.key_of,
                log=log,
                keeper=keeper,
                company=company,
                **kept,
                **_beat(watch, "worker", one, one.settings.poll_s),
            )
        )
        reconcilers.append(
            parts.reconciler(
                store=store,
                settings=one.settings,
                clock=clock,
                lookup=lookup,
                log=log,
                mine=Mine(provider=one.gate.provider, providers=one.gate.providers),
                **kept,
                **_beat(watch, "reconciler", one, one.settings.reconcile_s),
            )
        )
        closers += [transport.close, *([lookup.close] if lookup else [])]
    if watch is not None:
        watch.go_by(clock)
        watch.in_flight = lambda: sum(worker.in_flight for worker in workers)
        watch.concurrency = sum(one.settings.concurrency for one in (options, *options.others))
    sender = Sender(
        store=store,
        workers=tuple(workers),
        reconcilers=tuple(reconcilers),
        rng=rng,
        providers=options.gate.providers,
        closers=tuple(closers),
        companions=(),
    )
    companions = (
        watch,
        alarms,
        _from_broker(options, sender, log),
        _from_database(options, sender, log),
        traces,
    )
    return replace(sender, companions=tuple(each for each in companions if each is not None))


# The imports below are late on purpose: nobody loads what his options do not name.


def _traces(options: Options, parts: Parts) -> Traces | None:
    if options.traces == "none":
        return None
    from reference_sender.tracing import Traces, exporting

    return Traces(exporting(options.traces), now=parts.clock.now)


def _beat(watch: Watch | None, loop: str, one: Options, turn_s: float) -> dict[str, Any]:
    """The pulse of a loop, where somebody watches it."""
    return {} if watch is None else {"beat": watch.beat_of(f"{loop} of {one.gate.provider}", turn_s)}


def _watch(options: Options, parts: Parts, store: Store) -> Watch | None:
    if options.metrics is None:
        return None
    from reference_sender.watch import Watch

    return Watch(
        place=options.metrics,
        store=store,
        providers=[one.gate.provider for one in (options, *options.others)],
        patience_s=options.health_s,
        clock=parts.clock,
        log=parts.log,
    )


def _alarms(options: Options, parts: Parts) -> Alarms | None:
    if options.alarm_url is None and options.alarm_smtp is None:
        return None
    from reference_sender.alarms import Alarms, to_smtp, to_webhook

    sinks = []
    if options.alarm_url is not None:
        sinks.append(to_webhook(options.alarm_url))
    if options.alarm_smtp is not None:
        assert options.alarm_from is not None, "options_from has checked this"
        sinks.append(
            to_smtp(
                options.alarm_smtp, sender=options.alarm_from, recipients=options.alarm_to, clock=parts.clock
            )
        )
    return Alarms(sinks, every_s=options.alarm_every_s, clock=parts.clock, log=parts.log)


class _Waking:
    """Passes wake-ups on to the workers, in their loop."""

    def __init__(self, listener: Callable[[Callable[[], None]], Companion], sender: Sender) -> None:
        self._sender = sender
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listener = listener(self._wake)

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener.start()

    def _wake(self) -> None:
        assert self._loop is not None, "it listens only after its start"
        # The loop may have ended while the thread that calls was not told yet.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._sender.wake)

    def close(self) -> None:
        self._listener.close()


def _from_broker(options: Options, sender: Sender, log: Log) -> _Waking | None:
    url = options.wake_from
    if url is None:
        return None
    try:
        from reference_sender.wakeups import Listener

        return _Waking(lambda wake: Listener(url, wake, log=log), sender)
    except ImportError as error:
        raise InvalidSettings(_missing("OUTBOX_WAKE_FROM", error, "rabbitmq")) from error


def _from_database(options: Options, sender: Sender, log: Log) -> _Waking | None:
    if not options.database_url.startswith("postgres"):
        return None
    from reference_sender.outbox.listening import Listener

    return _Waking(lambda wake: Listener(sender.store.engine, wake, log=log), sender)


def _time(options: Options, parts: Parts, store: Store, log: Log) -> tuple[Clock, dict[str, Any]]:
    """The clock that everybody goes by, and what keeps it right."""
    if options.database_url.startswith("sqlite"):
        # Whoever opens the file is on the same machine.
        return parts.clock, {}
    from reference_sender.timekeeping import SharedClock

    clock = SharedClock(parts.clock, store.time, log=log)
    return clock, {"keep_time": clock.check}


def _missing(envvar: str, error: ImportError, extra: str) -> str:
    return f"{envvar} is set and {error.name} is not installed; install mailproof[{extra}]"
