"""The endpoints of the decision log: what struck whom, and the same as a plan that strikes it again."""

from __future__ import annotations

from starlette.responses import Response

from simulator import shapes
from simulator.config import recording_as_json
from simulator.provider.ledger import Decision
from simulator.servers.control.context import Context
from simulator.servers.control.endpoint import Answer, Asked, Endpoint
from simulator.servers.control.paging import LIMIT, MAX_PAGE, PAGING, following
from simulator.servers.control.said import Said

#: The log is read from its beginning, as it is replayed.
_AFTER = PAGING[0]


async def list_decisions(context: Context, asked: Asked) -> Response:
    page = await context.archive.decisions(
        asked.account.name, after=asked.given["after"], limit=asked.given["limit"]
    )
    return Said(shapes.Decisions(decisions=[shown(each) for each in page.found], next=following(page.cursor)))


async def show_replay(context: Context, asked: Asked) -> Response:
    found: list[Decision] = []
    after: int | None = None
    while True:
        page = await context.archive.decisions(asked.account.name, after=after, limit=MAX_PAGE)
        found += page.found
        after = page.cursor
        if after is None:
            # The seed names what is accepted: with it the ledger of the replay is the same, too.
            setup = context.again(asked.account).setup
            return Said(recording_as_json(setup, found, seed=context.provider.seed))


def shown(decision: Decision) -> shapes.Decision:
    """Return a decision as the control API shows it."""
    return shapes.Decision(
        number=decision.number,
        attempt=decision.attempt,
        stage=decision.stage,
        rules=list(decision.rules),
        answer=decision.answer,
        at=decision.at.isoformat(),
    )


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/decisions",
        says="List the decision log, oldest first.",
        does=list_decisions,
        gives=Answer(shape=shapes.Decisions),
        parameters=(_AFTER, LIMIT),
    ),
    Endpoint(
        method="GET",
        path="/replay",
        says="Give a plan that strikes again what struck in this account.",
        does=show_replay,
        gives=Answer(shape=shapes.Replay),
    ),
)
