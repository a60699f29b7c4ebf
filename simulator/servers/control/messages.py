"""The endpoints of what was really accepted."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.responses import Response

from simulator import shapes
from simulator.provider.acceptance import Acceptance
from simulator.provider.fate import Fate
from simulator.provider.message import Dsn
from simulator.provider.provider import Account
from simulator.provider.search import Search
from simulator.servers.control.context import Context
from simulator.servers.control.endpoint import (
    Answer,
    Asked,
    Endpoint,
    Missing,
    choice,
    field_of_mail,
    instant,
    seconds,
    text,
    whole,
)
from simulator.servers.control.paging import LIMIT, PAGING, following
from simulator.servers.control.problems import Refusal
from simulator.servers.control.said import Said

MAX_WAIT_S = 300.0
DEFAULT_WAIT_S = 10.0

COUNT = whole("count", "How many to wait for.", default=1)
TIMEOUT = seconds("timeout_s", "How long to wait, in seconds.", default=DEFAULT_WAIT_S, most=MAX_WAIT_S)

FILTERS = (
    text("to", "A recipient, whole."),
    text("sender", "The envelope sender, whole; empty: the null sender."),
    text("subject", "A part of the subject."),
    field_of_mail("header", "A header field and, after a colon, a part of its value: `X-Order: 17`."),
    text("key", "An idempotency key."),
    text("message_id", "A Message-ID, with or without its angle brackets."),
    instant("since", "Accepted at this instant or later."),
    instant("until", "Accepted before this instant."),
    choice("fate", "What becomes of it.", *Fate),
    text("q", "A part of subject, addresses, Message-ID or key."),
)


async def list_messages(context: Context, asked: Asked) -> Response:
    page = await context.archive.messages(
        asked.account.name,
        _wanted(asked),
        after=asked.given["after"],
        limit=asked.given["limit"],
        newest_first=asked.given["newest_first"],
    )
    found = await all_shown(context, asked.account, page.found)
    return Said(shapes.Messages(messages=found, next=following(page.cursor)))


async def wait_for_messages(context: Context, asked: Asked) -> Response:
    count, limit = asked.given["count"], asked.given["limit"]
    watch = await context.archive.watch_messages(asked.account, _wanted(asked), max(count, limit + 1))

    def look() -> tuple[list[Acceptance], bool]:
        found = watch()
        return found, len(found) >= count

    found, complete = await context.moves.until_for(asked.request, look, asked.given["timeout_s"])
    return Said(
        shapes.MessagesFound(
            messages=await all_shown(context, asked.account, found[:limit]),
            next=following(found[limit - 1].number if len(found) > limit else None),
            complete=complete,
        )
    )


async def show_message(context: Context, asked: Asked) -> Response:
    (found,) = await all_shown(context, asked.account, [_acceptance(asked)])
    return Said(found)


async def raw_of(context: Context, asked: Asked) -> bytes:
    """Return the bytes of the mail that is asked for. Raises `Refusal`."""
    acceptance = _acceptance(asked)
    raw = await context.archive.raw(acceptance)
    if raw is None:
        raise Refusal(404, f"the bytes of {acceptance.id} are not kept any more")
    return raw


async def show_raw(context: Context, asked: Asked) -> Response:
    raw = await raw_of(context, asked)
    # What senders send must not run as a page of ours.
    headers = {"x-content-type-options": "nosniff", "content-disposition": "attachment"}
    return Response(raw, media_type="message/rfc822", headers=headers)


def _acceptance(asked: Asked) -> Acceptance:
    id_ = asked.path("id")
    acceptance = asked.account.ledger.get(id_)
    if acceptance is None:
        raise Refusal(404, f"account {asked.account.name!r} has no message {id_!r}")
    return acceptance


def _wanted(asked: Asked) -> Search:
    return Search(**{each.name: asked.given[each.name] for each in FILTERS})


async def all_shown(context: Context, account: Account, found: Sequence[Acceptance]) -> list[shapes.Message]:
    """Return acceptances as the control API shows them."""
    copies = await context.archive.copies(account.name, found) if found else {}
    return [shown(each, copies[each.sha256]) for each in found]


def shown(each: Acceptance, copies: int) -> shapes.Message:
    """Return an acceptance as the control API shows it. `copies`: how many there are of its body."""
    return shapes.Message(
        id=each.id,
        account=each.account,
        dialect=each.dialect,
        accepted_at=each.accepted_at.isoformat(),
        sender=each.sender,
        recipients=list(each.recipients),
        message_id=each.message_id,
        key=each.key,
        subject=each.subject,
        size_bytes=each.size_bytes,
        sha256=each.sha256,
        obligation=each.obligation,
        fate=each.fate.value,
        fates={recipient: each.destiny_of(recipient).fate.value for recipient in each.recipients},
        dsn=_dsn(each.dsn),
        copies_of_body=copies,
        attempt=each.attempt,
    )


def _dsn(dsn: Dsn | None) -> shapes.Dsn | None:
    if dsn is None:
        return None
    return shapes.Dsn(
        ret=dsn.ret,
        envid=dsn.envid,
        recipients=[
            shapes.DsnRecipient(recipient=each.recipient, notify=list(each.notify), orcpt=each.orcpt)
            for each in dsn.recipients
        ],
    )


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/messages",
        says="List acceptances, oldest first.",
        does=list_messages,
        gives=Answer(shape=shapes.Messages),
        parameters=(*FILTERS, *PAGING),
    ),
    Endpoint(
        method="GET",
        path="/messages/wait",
        says="Wait until enough acceptances match.",
        does=wait_for_messages,
        missing=Missing.MADE,
        gives=Answer(shape=shapes.MessagesFound),
        parameters=(*FILTERS, COUNT, TIMEOUT, LIMIT),
    ),
    Endpoint(
        method="GET",
        path="/messages/{id}",
        says="Show one acceptance.",
        does=show_message,
        gives=Answer(shape=shapes.Message),
    ),
    Endpoint(
        method="GET",
        path="/messages/{id}/raw",
        says="Give the bytes of a mail.",
        does=show_raw,
        gives=Answer(media_type="message/rfc822", says="The bytes, as they were taken."),
    ),
)
