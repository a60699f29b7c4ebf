"""How a sender lives in a world: its database, its application, its workers, and what it says of its mails.

The reference sender runs unmodified; what is shared between worlds is only what a fresh process would work out
again each time (compiled SQL, rendered mails), never anything a run could change.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import signal
import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import Connection, Engine

from reference_sender import wiring
from reference_sender.campaigns import Runner
from reference_sender.life import Parcel
from reference_sender.message import Mail
from reference_sender.outbox.engine import open_engine
from reference_sender.outbox.schema import metadata
from reference_sender.outbox.store import Store, enqueue
from reference_sender.policy.evidence import Evidence
from reference_sender.worker import Transport
from scenarios.history import Said
from scenarios.simulation.disks import commits
from scenarios.simulation.kept import Contents, Drawer, drawer_of
from scenarios.simulation.loop import OWNER
from scenarios.simulation.processes import point
from scenarios.simulation.profiles import GATE, TIMES, Profile
from scenarios.simulation.world import HTTP_PORT, SMTP_PORT, World, WorldClock
from simulator.provider.obligations import Reported


@dataclass(frozen=True, slots=True, kw_only=True)
class Owed:
    """A mail the application promises."""

    ref: str
    recipients: tuple[str, ...]
    priority: int = 0
    within_s: float | None = None
    """Somebody waits for it: so long after the first attempt at any mail it must be taken, if all is well."""
    manner: tuple[tuple[str, str], ...] = ()
    """What an enqueue says of it besides: `ordering_key`, `depends_on`, `slot`."""
    expires_s: float | None = None
    """So long after its enqueue it is not worth sending any more; None: it always is."""
    suppressed: bool = False
    """Its recipients are put onto the suppression list after the enqueue."""

    @property
    def mail(self) -> Mail:
        return Mail(
            sender="Shop <shop@example.org>",
            recipients=self.recipients,
            subject=f"Your order {self.ref}",
            text="Thank you!\n.\nA line that begins with a dot stands above.\n",
            headers={"X-Obligation": self.ref},
        )


#: The application's own table: an order is there if and only if the business transaction is committed.
_BUSINESS = "CREATE TABLE IF NOT EXISTS business (ref TEXT, recipient TEXT)"


def promise(connection: Connection, owed: Owed) -> None:
    """What the business transaction is about: after its commit these mails are owed."""
    connection.exec_driver_sql(
        "INSERT INTO business VALUES (?, ?)", [(owed.ref, recipient) for recipient in owed.recipients]
    )


class WorldSender(Protocol):
    """What the matrix asks of a sender."""

    def prepare(self) -> None:
        """Make an empty outbox, outside of any world."""
        ...

    def enqueue(self, world: World, owed: Owed) -> None:
        """The business transaction of one mail; called in the application's process."""
        ...

    async def work(self, world: World) -> None:
        """A worker's life; called in the worker's process, ends only by being killed."""
        ...

    def said(self) -> tuple[Said, ...]:
        """What the outbox says of its mails just now: every committed row."""
        ...

    def promised(self) -> tuple[tuple[str, str], ...]:
        """What the business has committed to, as (ref, recipient), whatever the outbox made of it."""
        ...


def quick_disk() -> str | None:
    """Return a folder in memory where there is one: cells commit thousands of times, and no power is cut here."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class Disk:
    """One SQLite file that is put back to a snapshot for each world."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "outbox.db"
        self._snapshots: dict[object, bytes] = {}
        self._contents: dict[object, Contents] = {}
        self._drawer: Drawer | None = None
        self._looking: sqlite3.Connection | None = None
        self._seen: dict[str, list[tuple[Any, ...]]] = {}
        self._seen_at: int | None = None

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}"

    def keep_connections(self) -> None:
        """Lend to each process a connection that an earlier one has left. For programs as `kept` says."""
        self._drawer = drawer_of(self.path)

    def wipe(self) -> None:
        """Begin with no file at all."""
        self._close()
        for old in self.path.parent.glob(self.path.name + "*"):
            old.unlink()

    def keep(self, name: object) -> None:
        """Remember the file as it is now."""
        self.look_away()
        connection = sqlite3.connect(self.path)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        if self._drawer is not None and (contents := Contents.of(connection)) is not None:
            self._contents[name] = contents
        connection.close()
        self._snapshots[name] = self.path.read_bytes()

    def has(self, name: object) -> bool:
        return name in self._snapshots

    def put_back(self, name: object) -> None:
        """Make the file what it was."""
        self.look_away()
        if (contents := self._contents.get(name)) is not None and contents.put_into(self._look()):
            return
        self.wipe()
        self.path.write_bytes(self._snapshots[name])

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Read what is committed. The same list as before if no process has committed anything since."""
        if self._seen_at != (now := commits()):
            self._seen, self._seen_at = {}, now
        if query not in self._seen:
            self._seen[query] = self._look().execute(query).fetchall()
        return self._seen[query]

    def _look(self) -> sqlite3.Connection:
        if self._drawer is not None:
            return self._drawer.look()
        if self._looking is None:
            self._looking = sqlite3.connect(self.path, isolation_level=None)
        return self._looking

    def look_away(self) -> None:
        """Forget what was seen. Where no connections are kept the file may be deleted now."""
        if self._drawer is None:
            self._close()
        self._seen, self._seen_at = {}, None

    def _close(self) -> None:
        """Close what is open: the file may be another one now."""
        if self._looking is not None:
            self._looking.close()
            self._looking = None
        drawer_of(self.path).clear()


#: What the worker and the reconciler ask of the outbox.
_ASKED = (
    "claim",
    "mark",
    "renew",
    "settle",
    "settle_all",
    "hear",
    "has_doubts",
    "park_lost",
    "doubtful",
    "late_acceptance",
    "resolve",
)


def with_points(store: Store) -> Store:
    """Put a crash point before and after each thing that is asked of the outbox."""
    for name in _ASKED:
        setattr(store, name, pointed(name, getattr(store, name)))
    return store


def pointed(name: str, ask: Callable[..., Any]) -> Callable[..., Any]:
    """Put a crash point before and after a call."""
    before, after = f"before {name}", f"after {name}"

    def asked(*arguments: Any, **more: Any) -> Any:
        point(before)
        answer = ask(*arguments, **more)
        point(after)
        return answer

    return asked


class PointedTransport:
    """Any transport, with a crash point before and after an attempt and its point of no return."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def send(
        self, parcel: Parcel, *, key: str, point_of_no_return: Callable[[], Awaitable[bool]]
    ) -> Evidence:
        async def asked() -> bool:
            point("before the point of no return")
            goes_on = await point_of_no_return()
            point("after the point of no return")
            return goes_on

        point("before send")
        evidence = await self._inner.send(parcel, key=key, point_of_no_return=asked)
        point("after send")
        return evidence


def _warm_up(engine: Engine) -> None:
    engine.connect().close()
    engine.dispose()


@dataclass(slots=True, kw_only=True)
class ReferenceSender:
    """The reference sender, or one that differs from it in one part."""

    disk: Disk
    profile: Profile
    parts: Mapping[str, Any] = field(default_factory=dict)
    """Parts of `reference_sender.wiring.Parts` to replace: how a known-bad sender is made."""
    options: Mapping[str, Any] = field(default_factory=dict)
    enqueue_with: Callable[..., Any] = enqueue
    runner: type[Runner] = Runner
    """Who writes the rows of a campaign."""
    _template: Engine | None = None
    _options: dict[object, wiring.Options] = field(default_factory=dict)
    _told: tuple[list[tuple[Any, ...]], tuple[Said, ...]] = ([], ())

    def prepare(self) -> None:
        self.disk.keep_connections()
        engine = open_engine(self.disk.url)
        metadata.create_all(engine)
        with engine.begin() as connection:
            connection.exec_driver_sql(_BUSINESS)
        engine.dispose()

    def enqueue(self, world: World, owed: Owed) -> None:
        engine = self._engine()
        with engine.begin() as connection:
            promise(connection, owed)
            more: dict[str, Any] = {"priority": owed.priority} if owed.priority else {}
            more |= dict(owed.manner)
            now = world.clock.now()
            if owed.expires_s is not None:
                more["expires_at"] = now + timedelta(seconds=owed.expires_s)
            self.enqueue_with(connection, owed.mail, key=owed.ref, now=now, **more)
        if owed.suppressed:
            for recipient in owed.recipients:
                Store(engine).suppress(recipient, reason="hard_bounce", source="world", now=world.clock.now())
        engine.dispose()

    async def work(self, world: World) -> None:
        open_store = self.parts.get("open_store", Store)
        around = self.parts.get("around_transport", lambda transport: transport)
        parts = wiring.Parts(
            clock=WorldClock(world.loop, getattr(OWNER.get(), "skew_s", 0.0)),
            **{
                **self.parts,
                "open_engine": lambda _url: self._engine(),
                "open_store": lambda engine: with_points(open_store(engine)),
                "around_transport": lambda transport: PointedTransport(around(transport)),
            },
        )
        stop = asyncio.Event()
        world.loop.add_signal_handler(signal.SIGTERM, stop.set)
        await wiring.build(self._options_with(world.seed), parts).run(stop)

    def open_store(self) -> Store:
        """Open the outbox in the process that calls."""
        opened: Store = self.parts.get("open_store", Store)(self._engine())
        return opened

    def said(self) -> tuple[Said, ...]:
        rows = self.disk.rows(
            "SELECT dedupe_key, recipient, state, attempts, provider_id, last_error"
            " FROM outgoing_email ORDER BY id"
        )
        if rows is not self._told[0]:
            said = tuple(
                Said(
                    key=key,
                    recipient=recipient,
                    state=Reported(state),
                    attempts=attempts,
                    provider_id=provider_id,
                    reason=reason or "",
                )
                for key, recipient, state, attempts, provider_id, reason in rows
            )
            self._told = rows, said
        return self._told[1]

    def promised(self) -> tuple[tuple[str, str], ...]:
        rows = self.disk.rows("SELECT ref, recipient FROM business ORDER BY rowid")
        return tuple((ref, recipient) for ref, recipient in rows)

    def _options_with(self, seed: int) -> wiring.Options:
        values = {
            "transport": self.profile.wire,
            "database_url": self.disk.url,
            "provider_url": f"http://provider:{HTTP_PORT}",
            "provider_api_key": "world",
            "smtp_host": "provider",
            "smtp_port": SMTP_PORT,
            "smtp_tls": "off",
            "seed": seed,
            **TIMES,
            **GATE,
            **self.profile.sender,
            **self.options,
        }
        # Checked options are values, so one reading of the same ones serves all worlds.
        known = repr(values)
        if known not in self._options:
            self._options[known] = wiring.options_from(values)
        return self._options[known]

    def _engine(self) -> Engine:
        """Return an engine of this process: connections of its own, compiled statements shared by all worlds."""
        if self._template is None:
            self._template = open_engine(self.disk.url)
            # In nobody's context: what a first connection asks would be crash points of the first world only.
            contextvars.Context().run(_warm_up, self._template)
        template = self._template
        engine = Engine(template.pool.recreate(), template.dialect, template.url)
        engine._compiled_cache = template._compiled_cache
        engine.__dict__["dispatch"] = template.dispatch
        engine._has_events = template._has_events
        return engine
