"""A sender at the model level: the reference sender, or one that differs from it in parts that ask for no bytes and no SQL.

Worker, reconciler, policy, life, message and wiring are the sender's own; the outbox is a shelf and the transports
are those of this room.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from reference_sender import wiring
from reference_sender.outbox.store import Store, enqueue
from reference_sender.policy.evidence import Wire
from scenarios.history import Said
from scenarios.simulation.byteless.outbox import Outbox, Shelf, Transaction, put
from scenarios.simulation.byteless.transports import HttpLookup, HttpTransport, SmtpTransport
from scenarios.simulation.byteless.world import Clock, World
from scenarios.simulation.loop import OWNER
from scenarios.simulation.playing import may_be_classed
from scenarios.simulation.profiles import GATE, TIMES, Profile
from scenarios.simulation.senders import Owed, PointedTransport, ReferenceSender, WorldSender, with_points
from simulator.provider.obligations import Reported


class OnlyOnTheWire(Exception):
    """This sender cannot be played at the model level. The message is one sentence that says why."""


@dataclass(slots=True, kw_only=True)
class Sender:
    """A sender of a world of this level."""

    profile: Profile
    parts: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    is_classed: bool = True
    """Whether all that it leaves behind goes through its outbox and its lines, see `playing.may_be_classed`."""
    _store: type[Outbox] = Outbox
    _built: dict[int, wiring.Options] = field(default_factory=dict)
    _told: tuple[Any, tuple[Said, ...]] = (None, ())

    def enqueue(self, world: World, owed: Owed) -> None:
        """The business transaction of one mail; called in the application's process."""
        with Transaction(world.shelf) as transaction:
            transaction.business += [(owed.ref, recipient) for recipient in owed.recipients]
            more = {"priority": owed.priority} if owed.priority else {}
            put(transaction, owed.mail, key=owed.ref, now=world.clock.now(), **more)

    async def work(self, world: World) -> None:
        """A worker's life; called in the worker's process."""
        stop = asyncio.Event()
        world.loop.add_signal_handler(signal.SIGTERM, stop.set)
        await wiring.build(self._options(world.seed), self._parts(world)).run(stop)

    def said(self, shelf: Shelf) -> tuple[Said, ...]:
        """What the outbox says of its mails just now: every committed row."""
        if self._told[0] is not shelf.emails:
            said = tuple(
                Said(
                    key=row["dedupe_key"],
                    recipient=row["recipient"],
                    state=Reported(row["state"]),
                    attempts=row["attempts"],
                    provider_id=row["provider_id"],
                    reason=row["last_error"] or "",
                )
                for row in shelf.emails.values()
            )
            self._told = shelf.emails, said
        return self._told[1]

    def _options(self, seed: int) -> wiring.Options:
        if seed not in self._built:
            self._built[seed] = wiring.options_from(
                {
                    "transport": self.profile.wire,
                    "database_url": "sqlite:///shelf.db",
                    "provider_url": "http://provider",
                    "smtp_host": "provider",
                    "smtp_port": 25,
                    "smtp_tls": "off",
                    "seed": seed,
                    **TIMES,
                    **GATE,
                    **self.profile.sender,
                    **self.options,
                }
            )
        return self._built[seed]

    def _parts(self, world: World) -> wiring.Parts:
        parts = self.parts
        around = parts.get("around_transport")
        store = self._store

        def transport(options: wiring.Options) -> Any:
            over = HttpTransport if options.transport is Wire.HTTP else SmtpTransport
            return over(world, options.settings)

        def lookup(options: wiring.Options) -> HttpLookup | None:
            return HttpLookup(world, options.settings) if options.lookup else None

        def around_transport(transport: Any) -> Any:
            return PointedTransport(transport if around is None else around(transport))

        return wiring.Parts(
            **{
                **parts,
                "clock": Clock(world.loop, getattr(OWNER.get(), "skew_s", 0.0)),
                "open_engine": lambda _url: world.shelf,
                "open_store": lambda shelf: with_points(store(shelf)),
                "transport": transport,
                "lookup": lookup,
                "around_transport": around_transport,
            }
        )


def of(sender: WorldSender) -> Sender:
    """Return the same sender at this level. Raises `OnlyOnTheWire`."""
    if type(sender) is not ReferenceSender:
        raise OnlyOnTheWire(
            f"a {type(sender).__name__} brings its own program; only the reference sender and its variants in parts "
            "can be played without bytes"
        )
    if sender.enqueue_with is not enqueue:
        raise OnlyOnTheWire("this sender enqueues in its own way, which is SQL")
    parts = dict(sender.parts)
    if parts.keys() & {"transport", "lookup"}:
        raise OnlyOnTheWire("this sender speaks or asks in its own way, which is bytes")
    return Sender(
        profile=sender.profile,
        parts=parts,
        options=sender.options,
        is_classed=may_be_classed(sender),
        _store=_on_a_shelf(parts.pop("open_store", Store)),
    )


def _on_a_shelf(store: Callable[..., Store]) -> type[Outbox]:
    """Put a store that differs from the sender's own in a method on a shelf: the method is the same."""
    if store is Store:
        return Outbox
    if not isinstance(store, type):
        raise OnlyOnTheWire("this sender's store is no class, so nobody can tell what is different in it")
    return type(store.__name__, (store, Outbox), {})
