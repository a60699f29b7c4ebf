"""The endpoint that makes an account, for whoever wants one before anything is set up or sent."""

from __future__ import annotations

from starlette.responses import Response

from simulator import shapes
from simulator.servers.control.context import Context
from simulator.servers.control.endpoint import Answer, Asked, Endpoint, Missing
from simulator.servers.control.said import Said


async def make_account(context: Context, asked: Asked) -> Response:
    # Whoever made it before has it still: to make it once more is no mistake.
    context.named(asked.account_name)
    await context.committer.commit()
    return Said(shapes.AccountMade(account=asked.account_name, made=asked.found is None))


ENDPOINTS = (
    Endpoint(
        method="PUT",
        path="/account",
        says="Make the account, if there is none of this name.",
        does=make_account,
        missing=Missing.IGNORED,
        gives=Answer(shape=shapes.AccountMade),
    ),
)
