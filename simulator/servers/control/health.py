"""Is it well, and starting anew: the endpoints of the provider as a whole."""

from __future__ import annotations

from starlette.responses import Response

from simulator import __version__, shapes
from simulator.servers.control.context import Context
from simulator.servers.control.endpoint import Answer, Asked, Endpoint, Missing
from simulator.servers.control.said import Said


async def show_health(context: Context, asked: Asked) -> Response:
    trouble = context.committer.trouble
    health = shapes.Health(
        status="ok" if trouble is None else "failing",
        version=__version__,
        seed=context.provider.seed,
        accounts=sorted(context.provider.accounts),
        trouble=trouble,
    )
    return Said(health)


async def reset(context: Context, asked: Asked) -> Response:
    context.provider.reset(asked.account.name, context.now())
    context.was_reset()
    context.couriers.refresh(asked.account.name)
    await context.committer.commit()
    context.moves.moved()
    return Said(shapes.WasReset(reset=asked.account.name))


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/health",
        says="Say whether all is well.",
        does=show_health,
        missing=Missing.IGNORED,
        gives=Answer(shape=shapes.Health),
    ),
    Endpoint(
        method="POST",
        path="/reset",
        says="Forget everything of the account.",
        does=reset,
        missing=Missing.MADE,
        gives=Answer(shape=shapes.WasReset),
    ),
)
