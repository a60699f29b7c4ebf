"""A world: a provider, an application and senders on one loop, one network and one disk. Read this first.

    with World(seed=7, setup=plan) as world:
        world.start_provider()
        world.enqueue(...)            # the application's business transaction
        world.start_sender("worker 1", crash=CrashPoint("commit", "unreported", 2))
        world.run(until=lambda: ...)

Everything inside is the real thing: the simulator with uvicorn and aiosmtpd, the sender with aiohttp, aiosmtplib
and SQLAlchemy on SQLite. Nothing here judges.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
import warnings
from collections.abc import Callable, Coroutine, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from types import TracebackType
from typing import Any, Self

from aiohttp import connector
from starlette import routing

from scenarios.simulation.disks import LedgerDisk, owned_databases
from scenarios.simulation.guards import guarded, watchdog
from scenarios.simulation.loop import EPOCH_S, NotInTheWorld, VirtualLoop
from scenarios.simulation.network import Network
from scenarios.simulation.processes import CrashPoint, Killed, Process, Watcher
from simulator.provider.ledger import Attempt
from simulator.provider.provider import DEFAULT_ACCOUNT, Account, Setup
from simulator.provider.webhooks import Reach
from simulator.servers.options import Address, Options
from simulator.servers.service import Service

PROVIDER_HOST = "10.0.0.1"
HTTP_PORT = 8025
SMTP_PORT = 1025
BEGIN = datetime.fromtimestamp(EPOCH_S, UTC)


class WorldClock:
    """The clock of one process: virtual, and wrong by `skew_s` if it is so."""

    def __init__(self, loop: VirtualLoop, skew_s: float = 0.0) -> None:
        self._loop = loop
        self._begin = BEGIN + timedelta(seconds=skew_s)

    def now(self) -> datetime:
        return self._begin + timedelta(seconds=self._loop.time())

    def monotonic(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def alarm(self, seconds: float, call: Callable[[], object]) -> asyncio.TimerHandle:
        return self._loop.call_later(seconds, call)


class _KeptService(Service):
    """A simulator whose ledger in memory outlives its process, as a file would."""

    def __init__(self, options: Options, clock: WorldClock, ledger: LedgerDisk) -> None:
        super().__init__(options, clock)
        self._ledger = ledger

    def _open_ledger(self) -> LedgerDisk:
        return self._ledger


class World:
    """One world. Use it as a context manager: leaving it disposes of everything in it."""

    def __init__(self, *, seed: int = 0, setup: Setup = Setup()) -> None:
        self.seed = seed
        self.setup = setup
        self.loop = VirtualLoop()
        self.network = Network(self.loop)
        self.network.names["provider"] = PROVIDER_HOST
        self.clock = WorldClock(self.loop)
        self.processes: list[Process] = []
        self.deaths: list[tuple[float, str, str]] = []
        self.ledger = LedgerDisk()
        self.service: Service | None = None
        self.services: list[Service] = []
        """Every incarnation of the provider, the dead ones too: what they said they have said."""
        self.last_words: dict[Service, tuple[Attempt, ...]] = {}
        """What a provider that was killed had in memory about its attempts at that moment."""
        self._runs: dict[Process, Service] = {}
        self.complaints: list[str] = []
        """What nobody caught while the world went on: a mistake of a program in it, or of ours."""
        self.watcher: Watcher | None = None
        """Who is told what becomes durable; set it before anything runs."""
        self._over = False
        self._stack = contextlib.ExitStack()
        self.loop.set_exception_handler(self._complain)

    def __enter__(self) -> Self:
        asyncio.set_event_loop(self.loop)
        self._stack.enter_context(owned_databases())
        self._stack.enter_context(guarded(self.seed))
        self._stack.enter_context(_compiled_routes())
        self._stack.enter_context(_woken_in_order())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        # Sessions of the dead complain that nobody closed them: that is what a kill is.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            for process in self.processes:
                process.kill("the end of the world")
            self._stack.close()
            asyncio.set_event_loop(None)
            self.loop.dispose()
            self.service = None
            self.services.clear()
            self.last_words.clear()
            self._runs.clear()

    def _complain(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not self._over and not isinstance(error, Killed):
            self.loop.outside += 1
            self.complaints.append(f"{context.get('message')}: {error!r}")

    # --- processes ----------------------------------------------------------------------------------

    def process(self, name: str, *, crash: CrashPoint | None = None, skew_s: float = 0.0) -> Process:
        """Make a process; nothing runs in it yet."""
        process = Process(
            self.loop,
            name,
            crash=crash,
            skew_s=skew_s,
            on_death=self._died,
        )
        process.watcher = self.ledger.watcher = self.watcher
        self.processes.append(process)
        return process

    def _died(self, process: Process, cause: str) -> None:
        self.deaths.append((self.loop.time(), process.name, cause))
        if process in self._runs and not self._over:
            service = self._runs[process]
            self.last_words[service] = tuple(copy.copy(each) for each in self._remembered(service))
        if self.watcher is not None and not self._over:
            self.watcher.died(process, cause)

    def attempts_of(self, service: Service) -> Iterable[Attempt]:
        """Return the attempts an incarnation of the provider knows of, or knew of when it was killed."""
        known = self.last_words.get(service)
        return self._remembered(service) if known is None else known

    def _remembered(self, service: Service) -> Iterable[Attempt]:
        provider = getattr(service, "provider", None)
        # Looking must not make the account: its plan would count from now.
        account: Account | None = None if provider is None else provider.accounts.get(DEFAULT_ACCOUNT)
        return () if account is None else account.attempts.values()

    async def start_provider(
        self, *, crash: CrashPoint | None = None, watch: Callable[[Process], None] = lambda process: None
    ) -> Process:
        """Start the simulator; return when it listens. `watch` is given its process before it does anything."""
        process = self.process("provider", crash=crash)
        watch(process)
        options = Options(
            http=Address(host=PROVIDER_HOST, port=HTTP_PORT),
            smtp=Address(host=PROVIDER_HOST, port=SMTP_PORT),
            seed=self.seed,
            setup=self.setup,
            admin_token="world",
            webhook_hosts=Reach.PRIVATE,
        )
        service = self._runs[process] = _KeptService(options, self.clock, self.ledger)
        await asyncio.wait({process.spawn(service.start), process.died}, return_when=asyncio.FIRST_COMPLETED)
        self.service = service
        self.services.append(service)
        return process

    def run(self, story: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Run a story to its end, outside of any process.

        Raises `NotInTheWorld` with the first thing that a process did and that there is not in the world.
        """
        try:
            with watchdog(self.loop):
                done = self.loop.run_until_complete(story())
        except Exception as error:
            if self.loop.refused:
                raise NotInTheWorld(self.loop.refused[0]) from error
            raise
        if self.loop.refused:
            raise NotInTheWorld(self.loop.refused[0])
        return done

    async def until(self, true: Callable[[], bool], *, within_s: float, step_s: float = 1.0) -> bool:
        """Let time pass until something is true; False if it is not within so many virtual seconds."""
        deadline = self.loop.time() + within_s
        while not true():
            if self.loop.time() >= deadline:
                return False
            await asyncio.sleep(step_s)
        return True


_compile_path = lru_cache(maxsize=None)(routing.compile_path)


@contextlib.contextmanager
def _compiled_routes() -> Iterator[None]:
    """While this lasts, Starlette compiles the same paths once for all worlds, not again at each start."""
    before = routing.compile_path
    routing.compile_path = _compile_path
    try:
        yield
    finally:
        routing.compile_path = before


class _InOrder(dict[Any, None]):
    """As much of a set as aiohttp needs, in the order in which things were put in."""

    def add(self, one: object) -> None:
        self[one] = None

    def remove(self, one: object) -> None:
        del self[one]

    def discard(self, one: object) -> None:
        self.pop(one, None)


@contextlib.contextmanager
def _woken_in_order() -> Iterator[None]:
    """While this lasts, requests that wait for the same look-up of a name go on in the order in which they came.

    aiohttp keeps them in a set, whose order is that of addresses in memory: another one in each run.
    """
    vars(connector)["set"] = _InOrder
    try:
        yield
    finally:
        vars(connector).pop("set", None)


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Nobody reads the logs of ten thousand worlds, nor what the dead say of sessions they did not close."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            yield
    finally:
        logging.disable(before)
