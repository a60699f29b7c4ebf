"""How `reference-sender webhooks` is put together: checked options in, doors and a processor out.

`wiring` does the same for the sender, `intake_options` checks what an operator gave. `IntakeParts` are the seams: each can be replaced by itself, which is how a test
makes an intake with exactly one sin. Must not hold: anything that happens after start-up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sqlalchemy import Engine

from reference_sender.clock import Clock, SystemClock
from reference_sender.intake_options import IntakeOptions
from reference_sender.log import Both, Log, quiet
from reference_sender.outbox.engine import open_engine
from reference_sender.outbox.sealed import seal_with
from reference_sender.outbox.store import Store
from reference_sender.policy.settings import InvalidSettings
from reference_sender.webhooks import Placing, Processor, place

if TYPE_CHECKING:
    from reference_sender.doors.http import Door
    from reference_sender.doors.lmtp import ReportDoor
    from reference_sender.doors.maildir import Maildir
    from reference_sender.intake_watch import IntakeWatch


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeParts:
    """What the intake is made of. Replace one to get an intake that differs in exactly that."""

    clock: Clock = field(default_factory=SystemClock)
    log: Log = quiet
    open_engine: Callable[[str], Engine] = open_engine
    open_store: Callable[[Engine], Store] = Store
    door: Callable[..., Door] | None = None
    place: Placing = place


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """The built intake."""

    store: Store
    processor: Processor
    options: IntakeOptions
    door: Door | None
    reports: ReportDoor | None
    maildir: Maildir | None
    watch: IntakeWatch | None = None

    async def run(self, stop: asyncio.Event, *, ready: Callable[[str], None] = lambda where: None) -> None:
        """Open the doors, process until `stop`, close. `ready` is called with what listens where.

        Raises `OSError` if nobody can listen there, `InvalidSettings` if nobody can ask for metrics there.
        """
        running: list[asyncio.Task[None]] = []
        try:
            if self.watch is not None:
                self.watch.start()
            where = []
            for door, place_ in ((self.door, self.options.listen), (self.reports, self.options.bounces)):
                if door is not None and place_ is not None:
                    host, port = await door.open(place_.host, place_.port)
                    where.append(f"{place_.kind} {host}:{port}")
            if self.maildir is not None and self.options.bounces is not None:
                running.append(asyncio.create_task(self.maildir.run(stop)))
                where.append(f"maildir {self.options.bounces.folder}")
            ready(", ".join(where))
            await self.processor.run(stop)
        finally:
            stop.set()
            for door in (self.door, self.reports):
                if door is not None:
                    await door.close()
            await asyncio.gather(*running, return_exceptions=True)
            if self.watch is not None:
                self.watch.close()
            self.store.engine.dispose()


def build_intake(options: IntakeOptions, parts: IntakeParts | None = None) -> Intake:
    """Put the intake together. Nothing is opened yet. Raises `InvalidSettings` for a folder that is no Maildir."""
    parts = parts or IntakeParts()
    engine = parts.open_engine(options.database_url)
    store = parts.open_store(engine if options.vault is None else seal_with(engine, options.vault))
    watch = _watch(options, parts)
    if watch is not None:
        parts = replace(parts, log=Both(parts.log, watch.metrics))
    processor = Processor(
        store=store,
        clock=parts.clock,
        poll_s=options.look_s,
        patience_s=options.patience_s,
        log=parts.log,
        place=parts.place,
        **({} if watch is None else {"beat": watch.beat}),
    )
    door = None if options.listen is None else _door(options, parts, store, processor)
    reports, maildir = _mail_doors(options, parts, store, processor)
    return Intake(
        store=store,
        processor=processor,
        options=options,
        door=door,
        reports=reports,
        maildir=maildir,
        watch=watch,
    )


# The imports below are late on purpose: who takes in webhooks loads no mail server, and the other way round.


def _watch(options: IntakeOptions, parts: IntakeParts) -> IntakeWatch | None:
    if options.metrics is None:
        return None
    from reference_sender.intake_watch import IntakeWatch

    return IntakeWatch(place=options.metrics, turn_s=options.look_s, clock=parts.clock, log=parts.log)


def _door(options: IntakeOptions, parts: IntakeParts, store: Store, processor: Processor) -> Door:
    from reference_sender.doors.http import Door, Rules

    return (parts.door or Door)(
        keeper=store,
        rules=Rules(
            scheme=options.scheme,
            keys=options.keys,
            tolerance_s=options.tolerance_s,
            most_bytes=options.most_bytes,
            path=options.path,
        ),
        clock=parts.clock,
        log=parts.log,
        told=processor.wake,
    )


def _mail_doors(
    options: IntakeOptions, parts: IntakeParts, store: Store, processor: Processor
) -> tuple[ReportDoor | None, Maildir | None]:
    if options.bounces is None:
        return None, None
    from reference_sender.doors.reports import Letterbox

    # Nobody is woken: a letterbox is emptied in a thread, and a report may wait for the next look.
    letterbox = Letterbox(keeper=store, clock=parts.clock, log=parts.log)
    if options.bounces.kind == "maildir":
        from reference_sender.doors.maildir import Maildir, NoMaildir

        try:
            return None, Maildir(
                options.bounces.folder, letterbox, clock=parts.clock, poll_s=options.look_s, log=parts.log
            )
        except NoMaildir as error:
            raise InvalidSettings(f"WEBHOOK_BOUNCES: {error}") from error
    from reference_sender.doors.lmtp import ReportDoor

    return ReportDoor(letterbox, protocol=options.bounces.kind), None
