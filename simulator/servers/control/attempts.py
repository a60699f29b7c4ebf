"""The endpoints of what was tried, accepted or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from starlette.responses import Response

from simulator import shapes
from simulator.provider.ledger import Attempt, AttemptState
from simulator.provider.provider import Account
from simulator.servers.control.context import Context
from simulator.servers.control.endpoint import Answer, Asked, Endpoint, choice, text
from simulator.servers.control.messages import COUNT, TIMEOUT
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

_MEETS: Mapping[str, Callable[[Attempt, str], bool]] = {
    "stage": lambda each, value: each.stage == value,
    "state": lambda each, value: each.state.value == value,
    "to": lambda each, value: value.lower() in (r.lower() for r in each.recipients),
    "key": lambda each, value: each.key == value,
    "message_id": lambda each, value: (each.message_id or "").strip("<>") == value.strip("<>"),
    "rule": lambda each, value: value in each.rules,
    "dialect": lambda each, value: each.dialect == value,
    "answer": lambda each, value: each.answer == value,
    "sent": lambda each, value: each.sent.value == value,
}


async def list_attempts(context: Context, asked: Asked) -> Response:
    return Said(shapes.Attempts(attempts=[shown(each) for each in _select(asked.account, asked)]))


async def wait_for_attempts(context: Context, asked: Asked) -> Response:
    count = asked.given["count"]

    def look() -> tuple[list[shapes.Attempt], bool]:
        # As JSON at once: an attempt goes on changing while we write.
        found = [shown(each) for each in _select(context.again(asked.account), asked)]
        return found, len(found) >= count

    found, complete = await context.moves.until_for(asked.request, look, asked.given["timeout_s"])
    return Said(shapes.AttemptsFound(attempts=found, complete=complete))


def _select(account: Account, asked: Asked) -> list[Attempt]:
    """Return the attempts that meet all the filters, oldest first."""
    wanted = [
        (_MEETS[each.name], asked.given[each.name]) for each in FILTERS if asked.given[each.name] is not None
    ]
    return [each for each in account.attempts.values() if all(meets(each, value) for meets, value in wanted)]


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
        closed_at=None if attempt.closed_at is None else attempt.closed_at.isoformat(),
    )


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/attempts",
        says="List attempts, oldest first.",
        does=list_attempts,
        gives=Answer(shape=shapes.Attempts),
        parameters=FILTERS,
    ),
    Endpoint(
        method="GET",
        path="/attempts/wait",
        says="Wait until enough attempts match.",
        does=wait_for_attempts,
        gives=Answer(shape=shapes.AttemptsFound),
        parameters=(*FILTERS, COUNT, TIMEOUT),
    ),
)
