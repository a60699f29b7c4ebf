"""What happens, as it happens: server-sent events (WHATWG HTML, section 9.2), and which record becomes which event."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from starlette.responses import Response, StreamingResponse

from simulator.provider.events import event_as_json
from simulator.provider.ledger import Booked, Decided, Tried, Wiped
from simulator.provider.obligations import Obligation
from simulator.provider.provider import Provider, Record
from simulator.servers.control import attempts, decisions, messages
from simulator.servers.control.context import Context
from simulator.servers.control.endpoint import Answer, Asked, Endpoint, Missing, text
from simulator.servers.control.problems import Refusal
from simulator.servers.control.said import encode
from simulator.servers.feed import Begun, Feed, FeedError, Happening, Missed, Silence, Told

#: How long a line may be silent before something is said on it: proxies cut what they take for dead.
HEARTBEAT_S = 15.0
#: How long a browser waits before it comes back, in milliseconds.
RETRY_MS = 1_000

#: The events there are, and what their data is.
EVENTS: dict[str, str] = {
    "ready": "You are listening: whatever happens from here on is told.",
    "attempt": "An attempt as it stands, like an entry of `GET attempts`; the same id may come again.",
    "acceptance": "A mail was accepted, like an entry of `GET messages`.",
    "event": "Something became of a mail, like an entry of `GET events`.",
    "decision": "A rule struck: number, attempt, stage, rules, answer, at.",
    "obligations": "Something was promised: the verdict may have changed.",
    "held": "How many answers wait for `POST release`.",
    "plan": "The plan was changed.",
    "clock": "The account's clock was moved.",
    "reset": "Everything of the account was forgotten.",
    "missed": "What lay between is forgotten: look at everything anew.",
}


def publish(feed: Feed, provider: Provider, records: Sequence[Record]) -> None:
    """Tell the listeners what has been kept. Promises are told once a batch: there may be thousands."""
    if feed.is_deserted:
        return
    promised: set[str] = set()
    for record in records:
        match record:
            case Tried(attempt=attempt):
                if feed.is_heard(attempt.account):
                    feed.publish(attempt.account, "attempt", encode(attempts.shown(attempt)))
            case Booked(acceptance=acceptance):
                account = provider.accounts.get(acceptance.account)
                if account is not None and feed.is_heard(acceptance.account):
                    copies = account.ledger.copies(acceptance.sha256)
                    feed.publish(acceptance.account, "acceptance", encode(messages.shown(acceptance, copies)))
            case Decided(decision=decision):
                if feed.is_heard(decision.account):
                    feed.publish(decision.account, "decision", encode(decisions.shown(decision)))
            case Obligation(account=name):
                promised.add(name)
            case Wiped(account=name):
                feed.publish(name, "reset", b"{}")
            case _:
                pass  # Told by whoever changed it, or of no interest while it happens.
    for name in promised:
        feed.publish(name, "obligations", b"{}")


async def tell_events(context: Context, account: str) -> None:
    """Tell the listeners of an account what becomes of mail, when it does: by the account's clock, or by a reset."""
    now = context.now()
    tenant = context.provider.account(account, now)
    told = tenant.aftermath.events.advance(tenant.clock.now(now))  # What happened before is known.
    while True:
        now = context.now()
        current = context.provider.account(account, now)
        if current is not tenant:
            tenant, told = current, 0  # A reset: nothing has happened yet.
        events = current.aftermath.events
        newest = events.advance(current.clock.now(now))
        for number, event in events.since(told):
            shown = {"number": number, **event_as_json(event)}
            context.feed.publish(account, "event", encode(shown))
        told = newest
        next_at = events.next_at()
        due_s = None if next_at is None else (next_at - current.clock.now(now)).total_seconds()
        await _until_something(context, account, due_s)


async def _until_something(context: Context, account: str, due_s: float | None) -> None:
    waiting = {asyncio.ensure_future(context.moves.next())}
    if due_s is not None:
        waiting.add(asyncio.ensure_future(context.alarms.sleep(account, due_s)))
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def stream(context: Context, asked: Asked) -> Response:
    return listen(
        context, asked.account.name, asked.request.headers.get("last-event-id") or asked.given["after"]
    )


def listen(context: Context, account: str, after: str | None) -> Response:
    """Return the answer that tells what happens in an account. Raises `Refusal`."""
    try:
        reading = context.feed.read(account, after=after, patience_s=HEARTBEAT_S)
    except FeedError as problem:
        raise Refusal(503, str(problem)) from problem
    # Nothing on the way may keep events back until there are enough of them.
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(_written(reading), media_type="text/event-stream", headers=headers)


async def _written(reading: AsyncGenerator[Told]) -> AsyncGenerator[bytes]:
    async with aclosing(reading):
        yield b"retry: %d\n\n" % RETRY_MS
        async for each in reading:
            match each:
                case Happening(id=id_, name=name, data=data):
                    # JSON has no line breaks of its own, so one `data` line is the whole of it.
                    yield b"id: %s\nevent: %s\ndata: %s\n\n" % (id_.encode(), name.encode(), data)
                case Begun(id=id_):
                    yield b"id: %s\nevent: ready\ndata: {}\n\n" % id_.encode()
                case Missed(id=id_):
                    yield b"id: %s\nevent: missed\ndata: {}\n\n" % id_.encode()
                case Silence():
                    yield b": still here\n\n"


STREAM = Answer(media_type="text/event-stream", says="Server-sent events; they end when you leave.")

ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/stream",
        says="Tell what happens, as it happens.",
        does=stream,
        missing=Missing.MADE,
        gives=STREAM,
        parameters=(text("after", "Go on after this event id, like the header Last-Event-ID."),),
    ),
)
