"""Everything on one event loop: ledger, provider, SMTP, HTTP and control API; up together, down together.

Who may listen where, and in which order things begin and end, is decided here and nowhere else. As a process it lives
in `serve`; tests `start` and `stop` a `Service` themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from simulator import __version__, logs
from simulator.clock import Clock
from simulator.metrics import Metrics, Readings
from simulator.provider.ledger import AttemptState, Booked, Decided, Tried
from simulator.provider.provider import DEFAULT_ACCOUNT, Provider, Record
from simulator.provider.tenancy import Unknown
from simulator.servers import plans, ready_file
from simulator.servers.alarms import Alarms
from simulator.servers.archive import Archive
from simulator.servers.control import PREFIX, ControlApi, Moves, is_loopback, stream
from simulator.servers.control.app import ELSEWHERE
from simulator.servers.control.context import Context
from simulator.servers.feed import Feed
from simulator.servers.http import HttpServer, NativeApi
from simulator.servers.options import Address, Options, ServeError
from simulator.servers.outgoing import Outgoing, OutgoingError, check_targets
from simulator.servers.pages import LazyPages
from simulator.servers.recall import recall_keys
from simulator.servers.smtp import SmtpServer
from simulator.servers.tls import Tls, TlsError
from simulator.servers.usual_webhook import UsualWebhook
from simulator.servers.wire import Holds, Wire
from simulator.store import Durability, Store, StoreError
from simulator.store.committer import Committer
from simulator.store.opening import open_store
from simulator.store.sqlite import SqliteStore

#: How long a stop waits for requests that are being answered, in seconds. Held ones never end by themselves.
GRACE_S = 1.0
HOSTNAME = "mail.simulator.test"


class Service:
    """One running simulator. `start` raises `ServeError` and leaves nothing behind; `stop` may be called twice."""

    def __init__(self, options: Options, clock: Clock) -> None:
        self.options = options
        self.clock = clock
        self.ready: dict[str, Any] = {}
        """What the ready file says, once `start` has returned."""
        self._is_serving = False
        self.recalled_plans: list[str] = []
        """Accounts whose plan was set before the start, over the control API."""
        self.used_up: dict[str, int] = {}
        """Accounts with rules that had struck as often or as long as they were to before the start: how many those are."""
        self._stack = contextlib.AsyncExitStack()

    async def start(self) -> None:
        """Open the ledger, listen everywhere, then say so."""
        self._check()
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        facts, path = self._facts(), self.options.ready_file
        if path is not None:
            try:
                ready_file.write(path, facts)
            except ServeError:
                await self.stop()
                raise
            self._stack.callback(ready_file.remove, path, facts)
        self.ready = facts

    async def stop(self) -> None:
        """Stop listening, end what is going on within a bounded time, close the ledger."""
        await self._stack.aclose()

    def _check(self) -> None:
        token = self.options.admin_token
        if token is not None and not (token and token.isascii() and token.isprintable() and " " not in token):
            raise ServeError("the admin token must consist of printable ASCII characters without spaces")
        if token is None and not is_loopback(self.options.http.host):
            raise ServeError(
                f"--http {self.options.http} can be reached from other machines, which could then command the"
                " simulator; give --admin-token, or listen on 127.0.0.1"
            )
        options = self.options
        try:
            self.usual_webhook = UsualWebhook(options.webhook_url, options.webhook_secret, options.seed)
            setups = (options.setup, *(tenant.setup for _, tenant in options.tenancy.tenants))
            check_targets(self.usual_webhook.rules, setups, options.webhook_hosts)
        except OutgoingError as problem:
            raise ServeError(str(problem)) from problem

    async def _start(self) -> None:
        options, now = self.options, self.clock.now()
        self.store = self._open_ledger()
        self.provider = Provider(
            seed=options.seed, setup=options.setup, tenancy=options.tenancy, past=self.store, now=now
        )
        try:
            self._restore(list(self.store.load()), now)
        except StoreError as problem:
            raise ServeError(str(problem)) from problem
        if self.store.durability is not Durability.NOTHING:
            self.usual_webhook.take_up(self.provider)
        self.feed = Feed(life=f"{int(now.timestamp() * 1000):x}")
        self.committer = Committer(self._records, self.store, self._kept)
        self._stack.push_async_callback(self.committer.close)
        self._stack.callback(self.provider.settle)
        self.moves, self.holds = Moves(), Holds(self._held)
        self.alarms = Alarms(self.clock)
        self.archive = Archive(self.provider, self.store, self.committer)
        self.outgoing = Outgoing(
            self.provider,
            self.committer,
            self.clock,
            self.alarms,
            self.moves.moved,
            self.archive.raw,
            usual=self.usual_webhook.rules,
            reach=options.webhook_hosts,
        )
        self._stack.push_async_callback(self.outgoing.close)
        self.outgoing.open()
        wire = Wire(self.alarms, self.holds, self._moved, tell=self.outgoing.tell)
        native = NativeApi(
            self.provider,
            wire,
            self.committer.commit,
            self._moved,
            self.clock,
            hostname=HOSTNAME,
            trouble_with_ledger=lambda: self.committer.trouble,
            tell_when_kept=self.committer.tell,
        )
        self.metrics = Metrics(self._readings())
        context = Context(
            provider=self.provider,
            holds=self.holds,
            archive=self.archive,
            committer=self.committer,
            moves=self.moves,
            clock=self.clock,
            alarms=self.alarms,
            feed=self.feed,
            metrics=self.metrics,
            couriers=self.outgoing.couriers,
            webhooks=self.outgoing.webhooks,
            returns=self.outgoing.returns,
            is_serving=lambda: self._is_serving,
            was_reset=lambda: self.usual_webhook.stay(self.provider),
        )
        self.feed.companion = functools.partial(stream.tell_events, context)
        self.control = ControlApi(
            context,
            pages=LazyPages(context, self._where).routes,
            token=options.admin_token,
            bound_host=options.http.host,
        )
        self._http = HttpServer(
            _by_path(self.control.app, native.app), native, self.clock, quick=native.quick
        )
        # Senders only: whoever controls the simulator comes where it listens for that.
        self._https = HttpServer(native.app, native, self.clock)
        self.tls = self._open_tls()
        self._smtp = SmtpServer(
            self.provider,
            wire,
            self.committer.commit,
            self._moved,
            self.clock,
            hostname=HOSTNAME,
            trouble_with_ledger=lambda: self.committer.trouble,
            tell_when_kept=self.committer.tell,
            noticed=self.moves.moved,
            tls=self.tls,
            offers_starttls=options.tls.starttls,
        )
        self.http_port = await self._listen(self._http.start, options.http, "--http")
        self._stack.push_async_callback(_end, self._http)
        self.https_port: int | None = None
        if options.https is not None:
            assert self.tls is not None
            start_https = functools.partial(self._https.start, tls=self.tls)
            self.https_port = await self._listen(start_https, options.https, "--https")
            self._stack.push_async_callback(_end, self._https)
        self._stack.push_async_callback(_end, self._smtp)
        self.smtp_port = await self._listen(self._smtp.start, options.smtp, "--smtp")
        self.smtps_port: int | None = None
        if options.smtps is not None:
            start_tls = functools.partial(self._smtp.start, implicit_tls=True)
            self.smtps_port = await self._listen(start_tls, options.smtps, "--smtps")
        self._recalling = asyncio.create_task(
            recall_keys(self.provider, self.store, lambda: not self._is_serving)
        )
        self._stack.push_async_callback(asyncio.wait, {self._recalling})
        self._stack.callback(self._end_of_waiting)
        if self.store.durability is not Durability.NOTHING:
            # Before anybody is told a secret, or where to send: what was decided at the start is kept.
            await self._keep()
        self.outgoing.begin()
        self._is_serving = True

    async def _keep(self) -> None:
        try:
            await self.committer.commit()
        except StoreError as problem:
            raise ServeError(str(problem)) from problem

    def _where(self) -> dict[str, str]:
        """Where senders are to send, for people."""
        return {"http": f"{self.ready['http']}/v1/emails", "smtp": str(self.ready["smtp"])}

    def _end_of_waiting(self) -> None:
        self._is_serving = False
        self.moves.end()
        self.feed.end()

    def _readings(self) -> Readings:
        """What the metrics look up when somebody asks."""
        return {
            "simulator_refusals_total": lambda: self.provider.refusals,
            "simulator_connections": lambda: {
                ("http",): self._http.connections + self._https.connections,
                ("smtp",): self._smtp.connections,
            },
            "simulator_connections_total": lambda: {
                ("http",): self._http.connections_ever + self._https.connections_ever,
                ("smtp",): self._smtp.connections_ever,
            },
            "simulator_deliveries_total": lambda: self.outgoing.couriers.counts,
            "simulator_delivery_attempts_total": lambda: {
                (channel,): count for channel, count in self.outgoing.couriers.attempts.items()
            },
            "simulator_deliveries_waiting": lambda: {
                (channel,): count for channel, count in self.outgoing.couriers.waiting().items()
            },
            "simulator_held_answers": lambda: {(): self.holds.all_held},
            "simulator_accounts": lambda: {(): len(self.provider.accounts)},
            "simulator_ledger_mails": lambda: {
                (): sum(account.booked for account in self.provider.accounts.values())
            },
            "simulator_ledger_waiting_records": lambda: {(): self.committer.waiting},
            "simulator_ledger_failing": lambda: {(): 0 if self.committer.trouble is None else 1},
            "simulator_stream_readers": lambda: {(): self.feed.readers},
        }

    def _restore(self, records: Sequence[Record], now: datetime) -> None:
        """Take up where a former process ended: what is not history first, for the history is read by its plans."""
        history = [each for each in records if isinstance(each, Booked | Tried | Decided)]
        self.provider.restore(
            [each for each in records if not isinstance(each, Booked | Tried | Decided)], now
        )
        self.recalled_plans = plans.recall(self.provider, self.options.setup, self.options.tenancy, now)
        self.provider.restore(history, now)
        self.provider.take_up(now)
        self.used_up = plans.used_up(self.provider, now)

    def _moved(self) -> None:
        """An attempt changed: whoever waits may look again, and what it left behind gets written soon."""
        self.moves.moved()
        self.committer.soon()
        self.outgoing.couriers.stir()

    def _records(self) -> list[Record]:
        """What is to be kept now, and with it who has to tell of it, if that is somebody new."""
        self.outgoing.couriers.mind()
        return self.provider.records()

    def _kept(self, records: Sequence[Record]) -> None:
        """These have become durable: whoever listens may know."""
        self.metrics.observe(records)
        if logs.log.isEnabledFor(logging.INFO):
            self._log(records)
        stream.publish(self.feed, self.provider, records)

    def _log(self, records: Sequence[Record]) -> None:
        for record in records:
            if isinstance(record, Tried) and record.attempt.state is AttemptState.CLOSED:
                logs.ended(record.attempt, hides_account=self.is_hidden(record.attempt.account))

    def is_hidden(self, account: str) -> bool:
        """Tell whether an account may be called by a credential that a sender brought along."""
        tenancy = self.options.tenancy
        known = {DEFAULT_ACCOUNT, *(name for name, _ in tenancy.tenants)}
        return tenancy.unknown is Unknown.NEW and account not in known

    def _held(self, account: str) -> None:
        self.feed.publish(account, "held", b'{"held":%d}' % self.holds.held(account))

    def _open_ledger(self) -> Store:
        options = self.options
        try:
            store = open_store(
                options.ledger,
                now=self.clock.now,
                durability=options.durability,
                retention=options.retention,
            )
        except StoreError as problem:
            raise ServeError(str(problem)) from problem
        self._stack.callback(self._close_ledger, store)
        return store

    def _close_ledger(self, store: Store) -> None:
        store.close()
        if isinstance(store, SqliteStore) and store.is_new and not self.ready:
            # The start failed: a ledger that nobody was promised is not left lying about.
            store.path.unlink(missing_ok=True)

    def _open_tls(self) -> Tls | None:
        options = self.options
        if options.smtps is None and options.https is None and not options.tls.starttls:
            return None
        hosts = {each.host for each in (options.smtp, options.smtps, options.https) if each is not None} - {
            "0.0.0.0",
            "::",
        }
        try:
            return Tls(options.tls, names=(HOSTNAME, *sorted(hosts)), now=self.clock.now())
        except TlsError as problem:
            raise ServeError(str(problem)) from problem

    async def _listen(
        self, start: Callable[[str, int], Awaitable[int]], address: Address, option: str
    ) -> int:
        try:
            return await start(address.host, address.port)
        except OSError as problem:
            # asyncio words its own sentence around the system's; the system's is the one that says it.
            why = os.strerror(problem.errno) if problem.errno and problem.errno > 0 else str(problem)
            raise ServeError(
                f"{option} {address} cannot be listened on: {why.lower()}; name a free address (port 0: any)"
            ) from problem

    def _facts(self) -> dict[str, Any]:
        http = Address(host=self.options.http.host, port=self.http_port)
        return {
            "http": f"http://{http}",
            "https": (
                f"https://{Address(host=self.options.https.host, port=self.https_port)}"
                if self.options.https is not None and self.https_port is not None
                else None
            ),
            "smtp": str(Address(host=self.options.smtp.host, port=self.smtp_port)),
            "smtps": (
                str(Address(host=self.options.smtps.host, port=self.smtps_port))
                if self.options.smtps is not None and self.smtps_port is not None
                else None
            ),
            "ca": str(self.tls.ca_file.resolve()) if self.tls is not None and self.tls.ca_file else None,
            "control": f"http://{http}{PREFIX}",
            "pid": os.getpid(),
            "version": __version__,
        }


async def _end(server: HttpServer | SmtpServer) -> None:
    # A connection accepted in this very turn of the loop is only made in the next one; if the listener is closed
    # in between, asyncio trips over its own assertion and leaves the sender on an open line with nobody behind.
    await asyncio.sleep(0)
    await server.stop(GRACE_S)


def _by_path(control: ASGIApp, native: ASGIApp) -> ASGIApp:
    async def front(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        app = control if path.startswith("/_simulator/") or path == "/" or path in ELSEWHERE else native
        await app(scope, receive, send)

    return front
