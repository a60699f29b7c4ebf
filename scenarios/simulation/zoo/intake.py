"""Intakes with one sin each: what goes wrong where a sender hears what became of its mails, and the hunt for it.

They are caught in storms (`scenarios.simulation.storms`), not in cells: a storm, or a storm and a crash of the intake.
On everything that is played the intake without sin is played as well, and must be clean.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from aiohttp import web
from sqlalchemy import Connection, delete, select, update

from reference_sender.doors import Keeper
from reference_sender.doors.http import Door
from reference_sender.events.kinds import Happened, Kind, Malformed
from reference_sender.events.reading import items_of, read
from reference_sender.life import Docket, State
from reference_sender.outbox.schema import delivery_fact, webhook_event
from reference_sender.outbox.store import Store
from reference_sender.policy.hearing import Fact, Fate, Settled, Told
from reference_sender.webhooks import place
from scenarios.checks import Finding
from scenarios.simulation.cell import Cell
from scenarios.simulation.intake import Heard, ListeningSender, play, sweep
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.senders import Disk
from scenarios.simulation.shapes import FATED

#: A sin that takes more storms than this to be seen is not seen.
MOST = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class BadIntake:
    """The reference sender with one sin in its intake."""

    name: str
    sin: str
    """One sentence: what it does."""
    kind: str
    """The kind of finding it must be caught by."""
    storms: tuple[str, ...]
    """Where it shows, by name."""
    profile: str = "http-hearing"
    dies: tuple[str, ...] = ()
    """Kinds of crash points at which the intake is killed meanwhile."""
    promises: tuple[str, ...] = ()
    """Promises of the certification that mean the same."""
    parts: Mapping[str, Any] = field(default_factory=dict)
    """Parts of `reference_sender.intake.IntakeParts` that are replaced."""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunt:
    """How it went."""

    caught: Heard | None
    seen: tuple[str, ...]
    innocent: tuple[tuple[str, Finding], ...]
    """What the intake without sin was accused of in the same storms: must be empty."""


def hunt(bad: BadIntake, folder: Path) -> Hunt:
    """Play the storms of a bad intake until it is seen as what it is, or until there are none left."""
    seen: dict[str, None] = {}
    played = 0
    innocent: list[tuple[str, Finding]] = []
    bad_disk, good_disk = (_disk(folder / which) for which in ("bad", "good"))
    profile = BY_ID[bad.profile]
    sinner = ListeningSender(
        disk=bad_disk, profile=profile, intake_parts=bad.parts, intake_options=bad.options
    )
    saint = ListeningSender(disk=good_disk, profile=profile)
    for name in bad.storms:
        cell = Cell(profile=profile.id, script=(name,), shape=FATED.name, victim="intake")
        for each in sweep(cell, sinner, bad_disk, bad.dies):
            played += 1
            seen.update(dict.fromkeys(finding.kind for finding in each.findings))
            if any(finding.kind == bad.kind for finding in each.findings):
                good = play(each.cell, saint, good_disk)
                innocent += [(name, finding) for finding in good.findings]
                return Hunt(caught=each, seen=tuple(seen), innocent=tuple(innocent))
            if played >= MOST:
                break
    return Hunt(caught=None, seen=tuple(seen), innocent=tuple(innocent))


def _disk(folder: Path) -> Disk:
    folder.mkdir(parents=True, exist_ok=True)
    return Disk(folder)


# --- at the door ------------------------------------------------------------------------------------


class SaysYesFirst(Door):
    """The answer is quick, and what was told is kept when there is time."""

    async def take(self, request: web.Request) -> web.Response:
        # Several requests may be under way: the one that keeps things is the one of the first moment.
        keeper: Keeper = self.__dict__.setdefault("_real_keeper", self._keeper)
        kept: list[tuple[Sequence[tuple[str, bytes]], str, datetime]] = []

        class Later:
            def receive(self, items: Sequence[tuple[str, bytes]], *, source: str, now: datetime) -> int:
                kept.append((items, source, now))
                return 1

        self._keeper = Later()
        try:
            answer = await super().take(request)
        finally:
            self._keeper = keeper
        await answer.prepare(request)
        await answer.write_eof()
        for items, source, now in kept:
            keeper.receive(items, source=source, now=now)
            self._told()
        return answer


class WritesItAgain(Door):
    """The signature is compared with what the parsed body looks like when it is written again."""

    async def take(self, request: web.Request) -> web.Response:
        body = await request.read()
        try:
            request._read_bytes = json.dumps(json.loads(body)).encode()
        except ValueError:
            request._read_bytes = body
        return await super().take(request)


class BelievesAnybody(Door):
    """Nobody looks at the signature."""

    async def take(self, request: web.Request) -> web.Response:
        body = await request.read()
        items = [(each.event_id, each.raw) for each in items_of(body)]
        self._keeper.receive(items, source="webhook", now=self._clock.now())
        self._told()
        return web.Response(status=204)


class WantsAllOrNothing(Door):
    """An item that cannot be read spoils the batch."""

    async def take(self, request: web.Request) -> web.Response:
        body = await request.read()
        if any(isinstance(read(each.raw), Malformed) for each in items_of(body)):
            return web.Response(status=400, text="an item is malformed\n")
        return await super().take(request)


class KnowsOrRefuses(Door):
    """An event of a mail that is not in the outbox is a mistake of the provider: 404."""

    async def take(self, request: web.Request) -> web.Response:
        happened = read(await request.read())
        if isinstance(happened, Happened) and isinstance(self._keeper, Store):
            known = self._keeper.about(
                provider_id=happened.provider_id, message_id=happened.message_id, key=happened.key
            )
            if not known:
                return web.Response(status=404, text="no such mail\n")
        return await super().take(request)


# --- behind it --------------------------------------------------------------------------------------


class CountsEveryRequest(Store):
    """Each event that has not been seen under its id is a new fact."""

    @staticmethod
    def _note(connection: Connection, email_id: int, fact: Fact, now: datetime) -> None:
        facts = delivery_fact.c
        at = fact.happened_at
        while connection.execute(
            select(facts.id).where(
                facts.email_id == email_id, facts.kind == fact.kind, facts.happened_at == at
            )
        ).first():
            at += timedelta(microseconds=1)
        Store._note(connection, email_id, replace(fact, happened_at=at), now)


class TheLastOneCounts(Store):
    """A mail has one status, and whatever comes last is it."""

    @staticmethod
    def _note(connection: Connection, email_id: int, fact: Fact, now: datetime) -> None:
        connection.execute(delete(delivery_fact).where(delivery_fact.c.email_id == email_id))
        Store._note(connection, email_id, fact, now)


class DoneBeforeItIsDone(Store):
    """The event is marked as applied first, and applied in a transaction of its own."""

    def conclude(self, told: Told, settled: Settled, *, now: datetime) -> bool:
        if settled.fate is not Fate.APPLIED:
            return super().conclude(told, settled, now=now)
        with self._write() as connection:
            self._end(connection, told, settled, now)
        event = webhook_event.c
        with self._write() as connection:
            connection.execute(
                update(webhook_event).where(event.id == told.id).values(looks=told.looks, next_look_at=None)
            )
        return super().conclude(told, settled, now=now)


class KnowsOneName(Store):
    """Looks for the provider's id alone, which is stored with its answer."""

    def about(self, *, provider_id: str | None, message_id: str | None, key: str | None) -> list[Docket]:
        return super().about(provider_id=provider_id, message_id=None, key=None)


def _placing(change: Any) -> dict[str, Any]:
    """Parts of an intake that places events as it should, and then changes its mind."""

    def placing(told: Told, happened: Any, mails: Sequence[Docket], **more: Any) -> Settled:
        settled: Settled = change(happened, mails, place(told, happened, mails, **more))
        return settled

    return {"place": placing}


def _drop_unknown(happened: Any, mails: Sequence[Docket], settled: Settled) -> Settled:
    if isinstance(happened, Happened) and not mails:
        return Settled(fate=Fate.IGNORED, reason="no such mail")
    return settled


def _drop_early(happened: Any, mails: Sequence[Docket], settled: Settled) -> Settled:
    if any(mail.state is State.SENDING for mail in mails):
        return Settled(fate=Fate.IGNORED, reason="not sent yet")
    return settled


def _suppress_any_bounce(happened: Any, mails: Sequence[Docket], settled: Settled) -> Settled:
    if isinstance(happened, Happened) and happened.kind is Kind.SOFT_BOUNCE and happened.recipient:
        return replace(settled, suppress=(happened.recipient, "bounce"))
    return settled


def _suppress_nobody(happened: Any, mails: Sequence[Docket], settled: Settled) -> Settled:
    return replace(settled, suppress=None)


def _settle_nothing(happened: Any, mails: Sequence[Docket], settled: Settled) -> Settled:
    return replace(settled, move=None)


INTAKES: tuple[BadIntake, ...] = (
    BadIntake(
        name="yes before it is kept",
        sin="The 2xx goes out before the event is durable.",
        kind="event lost",
        promises=("webhooks.kept",),
        storms=("nothing wrong",),
        dies=("commit",),
        parts={"door": SaysYesFirst},
    ),
    BadIntake(
        name="signature over written again",
        sin="The body is parsed, written again, and the signature compared with that.",
        kind="refused",
        storms=("nothing wrong",),
        parts={"door": WritesItAgain},
    ),
    BadIntake(
        name="believes anybody",
        sin="The signature is not looked at.",
        kind="believed",
        promises=("webhooks.genuine",),
        storms=("another secret", "not signed"),
        parts={"door": BelievesAnybody},
    ),
    BadIntake(
        name="has no clock",
        sin="The timestamp is signed, so it must be right, however old it is.",
        kind="believed",
        promises=("webhooks.genuine",),
        storms=("replayed an hour later",),
        options={"webhook_tolerance_s": 1e9},
    ),
    BadIntake(
        name="all or nothing",
        sin="One item that cannot be read refuses the whole batch.",
        kind="refused",
        promises=("webhooks.neighbours",),
        storms=("nonsense in the batch",),
        parts={"door": WantsAllOrNothing},
    ),
    BadIntake(
        name="refuses what it does not know",
        sin="An event of a mail that is not in the outbox is answered with 404.",
        kind="refused",
        promises=("webhooks.unknown-mail",),
        storms=("of mails that nobody sent",),
        parts={"door": KnowsOrRefuses},
    ),
    BadIntake(
        name="counts ids",
        sin="The same fact under another event id is counted again.",
        kind="counted twice",
        storms=("twice under another id",),
        parts={"open_store": CountsEveryRequest},
    ),
    BadIntake(
        name="the last one counts",
        sin="A late `delivered` overwrites the bounce.",
        kind="news erased",
        promises=("webhooks.worse-news",),
        storms=("contradicted",),
        parts={"open_store": TheLastOneCounts},
    ),
    BadIntake(
        name="done before it is done",
        sin="The event is marked as applied in one transaction and applied in the next.",
        kind="event lost",
        promises=("webhooks.kept", "exhaustive.webhooks"),
        storms=("nothing wrong",),
        dies=("commit",),
        parts={"open_store": DoneBeforeItIsDone},
    ),
    BadIntake(
        name="drops what it does not know",
        sin="It knows mails by the provider's id alone, and an event that comes before that is stored is dropped.",
        kind="event lost",
        promises=("webhooks.early",),
        storms=("before the answer",),
        parts={"open_store": KnowsOneName, **_placing(_drop_unknown)},
    ),
    BadIntake(
        name="drops what comes early",
        sin="An event of a mail that is still being sent is ignored.",
        kind="event lost",
        promises=("webhooks.early",),
        storms=("before the answer",),
        parts=_placing(_drop_early),
    ),
    BadIntake(
        name="suppresses any bounce",
        sin="A full mailbox puts the address onto the list for ever.",
        kind="suppressed for nothing",
        storms=("nothing wrong",),
        parts=_placing(_suppress_any_bounce),
    ),
    BadIntake(
        name="suppresses nobody",
        sin="Hard bounces and complaints are written down, and the address gets mail as before.",
        kind="not suppressed",
        storms=("nothing wrong",),
        parts=_placing(_suppress_nobody),
    ),
    BadIntake(
        name="an event settles nothing",
        sin="A mail in doubt stays in doubt, whatever the provider tells of it.",
        kind="told in vain",
        promises=("webhooks.settles-doubt", "exhaustive.webhooks-in-doubt"),
        storms=("the answer is lost and the event is not",),
        profile="smtp-hearing",
        parts=_placing(_settle_nothing),
    ),
)
