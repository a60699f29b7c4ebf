"""The endpoints of what became of accepted mail: events, and the suppression list that they fill."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from starlette.responses import Response

from simulator import shapes
from simulator.provider.events import NO_MAIL, Event, event_as_json, facts_about
from simulator.provider.fate import Happening
from simulator.provider.provider import Account
from simulator.provider.search import page_of
from simulator.provider.suppression import Suppression
from simulator.servers.control import stream
from simulator.servers.control.context import Context
from simulator.servers.control.endpoint import Answer, Asked, Body, Endpoint, Missing, choice, text
from simulator.servers.control.messages import COUNT, TIMEOUT
from simulator.servers.control.paging import LIMIT, PAGING, following
from simulator.servers.control.problems import Refusal
from simulator.servers.control.said import Said

TYPES = tuple(happening.value for happening in Happening)
#: How far ahead an event may be pushed, in seconds: a year.
MAX_AFTER_S = 366 * 86_400.0

FILTERS = (
    choice("type", "A type of event.", *TYPES),
    text("to", "A recipient; case does not matter."),
    text("email_id", "The provider's id of a mail."),
    text("message_id", "A Message-ID, with or without its angle brackets."),
    text("key", "An idempotency key."),
)
#: As `shapes.Line` says it.
_LINE = re.compile(rf"[^\x00-\x1f\x7f]{{1,{shapes.MAX_LINE_CHARS}}}")


# --- events -----------------------------------------------------------------------------------------


async def list_events(context: Context, asked: Asked) -> Response:
    if "text/event-stream" in asked.request.headers.get("accept", ""):
        return stream.listen(context, asked.account.name, asked.request.headers.get("last-event-id"))
    found = _happened(context, asked)
    after, newest_first = asked.given["after"], asked.given["newest_first"]
    if newest_first:
        found.reverse()
    page = page_of(
        (
            (number, each)
            for number, each in found
            if after is None or (number < after if newest_first else number > after)
        ),
        asked.given["limit"],
    )
    return Said(shapes.Events(events=[*page.found], next=following(page.cursor)))


async def wait_for_events(context: Context, asked: Asked) -> Response:
    count, limit, account = asked.given["count"], asked.given["limit"], asked.account.name
    coming = asyncio.Event()

    def look() -> tuple[list[tuple[int, shapes.EventShown]], bool]:
        found = _happened(context, asked)
        coming.set()
        return found, len(found) >= count

    async def tick() -> None:
        """Events come by themselves, when their time has come; nobody else would say so here."""
        while True:
            await coming.wait()
            coming.clear()
            now = context.now()
            tenant = context.provider.account(account, now)
            next_at = tenant.aftermath.events.next_at()
            if next_at is not None:
                await context.alarms.sleep(account, (next_at - tenant.clock.now(now)).total_seconds())
                context.moves.moved()

    ticking = asyncio.ensure_future(tick())
    try:
        found, complete = await context.moves.until_for(asked.request, look, asked.given["timeout_s"])
    finally:
        ticking.cancel()
    page = page_of(found, limit)
    return Said(shapes.EventsFound(events=[*page.found], next=following(page.cursor), complete=complete))


async def push_event(context: Context, asked: Asked) -> Response:
    type_, after_s, id_, told_at, told = _read_push(asked.body)
    account = asked.account
    data = _about(asked.body, account, told)
    at = account.clock.now(context.now()) + timedelta(seconds=after_s)
    event, notes = account.aftermath.push(type_, data, at, id=id_, told_at=told_at)
    context.provider.remember(notes)
    context.couriers.refresh(account.name)
    context.moves.moved()
    await context.committer.commit()
    return Said(event_as_json(event))


def _happened(context: Context, asked: Asked) -> list[tuple[int, shapes.EventShown]]:
    """Return the events that are asked for and have happened by now, in order."""
    account = context.again(asked.account)
    events = account.aftermath.events
    events.advance(account.clock.now(context.now()))
    wanted = {each.name: asked.given[each.name] for each in FILTERS if asked.given[each.name] is not None}
    return [
        (number, shapes.EventShown(number=number, **event_as_json(event)))  # type: ignore[typeddict-item] # built in the pure part
        for number, event in events.since(0)
        if _meets(event, wanted)
    ]


def _meets(event: Event, wanted: Mapping[str, str]) -> bool:
    if not wanted:
        return True
    data = event.data()
    tests = {
        "type": lambda value: event.type == value,
        "to": lambda value: (event.recipient or "").lower() == value.lower(),
        "email_id": lambda value: event.email_id == value,
        "message_id": lambda value: str(data.get("message_id")).strip("<>") == value.strip("<>"),
        "key": lambda value: data.get("key") == value,
    }
    return all(tests[name](value) for name, value in wanted.items())


def _read_push(body: Any) -> tuple[str, float, str | None, datetime | None, dict[str, Any]]:
    if not isinstance(body, dict):
        raise Refusal(422, 'the body must be an object with a type, like {"type": "email.bounced"}')
    known = shapes.EventPushed.__annotations__
    for key in body:
        if key not in known:
            raise Refusal(422, f"there is no key {key!r}; known are {', '.join(known)}")
    type_ = body.get("type")
    if not (isinstance(type_, str) and type_ in TYPES):
        raise Refusal(422, f"type must be one of {', '.join(TYPES)}, not {type_!r}")
    after_s = body.get("after_s", 0.0)
    if isinstance(after_s, bool) or not (isinstance(after_s, (int, float)) and 0 <= after_s <= MAX_AFTER_S):
        raise Refusal(422, f"after_s must be a number from 0 to {MAX_AFTER_S:g}")
    for name in ("id", "recipient", "email_id"):
        if name in body and not (isinstance(body[name], str) and _LINE.fullmatch(body[name])):
            raise Refusal(
                422, f"{name} must be a text of 1 to {shapes.MAX_LINE_CHARS} characters on one line"
            )
    data = body.get("data", {})
    if not isinstance(data, dict):
        raise Refusal(422, "data must be an object: what the event says, in place of what it would say")
    return (
        type_,
        float(after_s),
        body.get("id"),
        _timestamp(body),
        data,
    )


def _timestamp(body: Mapping[str, Any]) -> datetime | None:
    if "timestamp" not in body:
        return None
    given = body["timestamp"]
    try:
        told_at = datetime.fromisoformat(given) if isinstance(given, str) else None
        if told_at is not None and told_at.tzinfo is not None:
            told_at.astimezone()  # A year 1 that is year 0 elsewhere is no instant for us.
            return told_at
    except (ValueError, OverflowError):
        pass
    raise Refusal(
        422, f'timestamp must be an instant with a time zone, like "2030-01-01T00:00:00Z", not {given!r}'
    )


def _about(body: Mapping[str, Any], account: Account, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of a pushed event: of the mail it names, of none the provider knows, and as it was given."""
    email_id, recipient = body.get("email_id"), body.get("recipient")
    acceptance = None if email_id is None else account.ledger.get(email_id)
    if acceptance is None:
        known = dict(NO_MAIL) | {"email_id": email_id, "recipient": recipient}
    else:
        known = facts_about(acceptance, recipient or acceptance.recipients[0])
    return known | dict(data)


# --- the suppression list ---------------------------------------------------------------------------


async def list_suppressions(context: Context, asked: Asked) -> Response:
    account = asked.account
    entries = account.aftermath.suppressions.at(account.clock.now(context.now()))
    return Said(shapes.Suppressions(suppressions=[_entry(each) for each in entries]))


async def suppress(context: Context, asked: Asked) -> Response:
    body = asked.body
    if not (isinstance(body, dict) and set(body) <= {"address", "reason"}):
        raise Refusal(422, 'the body must be {"address": "ada@example.com", "reason": "manual"}')
    address, reason = body.get("address"), body.get("reason", "manual")
    for name, value in (("address", address), ("reason", reason)):
        if not (isinstance(value, str) and _LINE.fullmatch(value)):
            raise Refusal(
                422, f"{name} must be a text of 1 to {shapes.MAX_LINE_CHARS} characters on one line"
            )
    account = asked.account
    entry = Suppression(address=str(address), reason=reason, since=account.clock.now(context.now()))
    context.provider.remember(account.aftermath.suppress(entry))
    await context.committer.commit()
    return Said(_entry(entry))


async def lift_suppression(context: Context, asked: Asked) -> Response:
    address, aftermath = asked.given["address"], asked.account.aftermath
    addresses = aftermath.suppressions.addresses() if address is None else [address]
    notes = [note for each in addresses for note in aftermath.lift(each)]
    context.provider.remember(notes)
    await context.committer.commit()
    return Said(shapes.Lifted(lifted=len(notes)))


def _entry(entry: Suppression) -> shapes.Suppression:
    return shapes.Suppression(address=entry.address, reason=entry.reason, since=entry.since.isoformat())


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/events",
        says="List what has happened to mail, in order.",
        does=list_events,
        gives=Answer(shape=shapes.Events, otherwise=stream.STREAM),
        parameters=(*FILTERS, *PAGING),
    ),
    Endpoint(
        method="POST",
        path="/events",
        says="Let an event happen by hand.",
        does=push_event,
        missing=Missing.MADE,
        takes=Body(shapes=(shapes.EventPushed,)),
        gives=Answer(shape=shapes.Event),
    ),
    Endpoint(
        method="GET",
        path="/events/wait",
        says="Wait until enough events match.",
        does=wait_for_events,
        missing=Missing.MADE,
        gives=Answer(shape=shapes.EventsFound),
        parameters=(*FILTERS, LIMIT, COUNT, TIMEOUT),
    ),
    Endpoint(
        method="GET",
        path="/suppressions",
        says="List the addresses that get no mail.",
        does=list_suppressions,
        gives=Answer(shape=shapes.Suppressions),
    ),
    Endpoint(
        method="POST",
        path="/suppressions",
        says="Put an address on the suppression list.",
        does=suppress,
        missing=Missing.MADE,
        takes=Body(shapes=(shapes.SuppressionGiven,)),
        gives=Answer(shape=shapes.Suppression),
    ),
    Endpoint(
        method="DELETE",
        path="/suppressions",
        says="Take an address off the suppression list, or all of them.",
        does=lift_suppression,
        gives=Answer(shape=shapes.Lifted),
        parameters=(text("address", "The address; case does not matter. Left out: all."),),
    ),
)
