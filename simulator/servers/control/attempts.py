"""The endpoints of what was tried, accepted or not."""

from __future__ import annotations

from starlette.responses import Response

from simulator import shapes
from simulator.provider.ledger import Attempt, AttemptState
from simulator.provider.search import AttemptSearch
from simulator.servers.control.context import Context
from simulator.servers.control.endpoint import Answer, Asked, Endpoint, Missing, choice, text
from simulator.servers.control.messages import COUNT, TIMEOUT
from simulator.servers.control.paging import LIMIT, PAGING, following
from simulator.servers.control.said import Said

FILTERS = (
    text("stage", "The last stage reached."),
    choice("state", "Whether the attempt goes on.", *AttemptState),
    text("to", "A recipient; case does not matter."),
    text("key", "An idempotency key."),
    text("message_id", "A Message-ID, with or without its angle brackets."),
    text("rule", "The name of a rule that struck."),
    text("dialect", "The wire and its words: smtp, native, …"),
    text("answer", "What was said: 250, 503, hang, reset, …"),
    text("sent", "How much of the answer went out: complete, partial, nothing, unknown."),
)


async def list_attempts(context: Context, asked: Asked) -> Response:
    page = await context.archive.attempts(
        asked.account,
        _wanted(asked),
        after=asked.given["after"],
        limit=asked.given["limit"],
        newest_first=asked.given["newest_first"],
    )
    return Said(shapes.Attempts(attempts=[shown(each) for each in page.found], next=following(page.cursor)))


async def wait_for_attempts(context: Context, asked: Asked) -> Response:
    count, limit = asked.given["count"], asked.given["limit"]
    watch = await context.archive.watch_attempts(asked.account, _wanted(asked), max(count, limit + 1))

    def look() -> tuple[tuple[list[shapes.Attempt], int | None], bool]:
        found = watch()
        # As JSON at once: an attempt goes on changing while we write.
        page = [shown(each) for each in found[:limit]]
        return (page, found[limit - 1].number if len(found) > limit else None), len(found) >= count

    (page, cursor), complete = await context.moves.until_for(asked.request, look, asked.given["timeout_s"])
    return Said(shapes.AttemptsFound(attempts=page, next=following(cursor), complete=complete))


def _wanted(asked: Asked) -> AttemptSearch:
    return AttemptSearch(**{each.name: asked.given[each.name] for each in FILTERS})


def shown(attempt: Attempt) -> shapes.Attempt:
    """Return an attempt as the control API shows it."""
    return shapes.Attempt(
        id=attempt.id,
        account=attempt.account,
        dialect=attempt.dialect,
        connection=attempt.connection,
        peer=attempt.peer,
        opened_at=attempt.opened_at.isoformat(),
        stage=attempt.stage,
        state=attempt.state.value,
        sender=attempt.sender,
        recipients=list(attempt.recipients),
        message_id=attempt.message_id,
        key=attempt.key,
        accepted=list(attempt.accepted),
        answer=attempt.answer,
        sent=attempt.sent.value,
        rules=list(attempt.rules),
        advice=[
            shapes.Advice(
                wait_s=each.wait_s,
                at=each.at.isoformat(),
                by=each.by.value,
                recipient=each.recipient,
                limit=each.limit,
            )
            for each in attempt.advice
        ],
        closed_at=None if attempt.closed_at is None else attempt.closed_at.isoformat(),
    )


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/attempts",
        says="List attempts, oldest first.",
        does=list_attempts,
        gives=Answer(shape=shapes.Attempts),
        parameters=(*FILTERS, *PAGING),
    ),
    Endpoint(
        method="GET",
        path="/attempts/wait",
        says="Wait until enough attempts match.",
        does=wait_for_attempts,
        missing=Missing.MADE,
        gives=Answer(shape=shapes.AttemptsFound),
        parameters=(*FILTERS, COUNT, TIMEOUT, LIMIT),
    ),
)
