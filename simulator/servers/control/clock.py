"""The endpoints of the account's clock: what time it is for the provider, and moving it ahead."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from starlette.responses import Response

from simulator import shapes
from simulator.provider.clock import AccountClock, ClockError
from simulator.provider.provider import Account
from simulator.servers.control.context import Context
from simulator.servers.control.endpoint import Answer, Asked, Body, Endpoint, Missing
from simulator.servers.control.problems import Refusal
from simulator.servers.control.said import Said


async def show_clock(context: Context, asked: Asked) -> Response:
    return _shown(context, asked.account)


async def move_clock(context: Context, asked: Asked) -> Response:
    now = context.now()
    seconds, to = _read(asked.body)
    # Whether it can be moved like this is tried before there is an account.
    trial = AccountClock() if asked.found is None else replace(asked.found.clock)
    try:
        if to is None:
            trial.advance(seconds, now)
        else:
            trial.set(to, now)
    except ClockError as problem:
        raise Refusal(422, str(problem)) from problem
    account = asked.account
    before = account.clock.ahead
    if to is None:
        context.provider.advance(account.name, seconds, now)
    else:
        context.provider.set_clock(account.name, to, now)
    context.alarms.moved(account.name, (account.clock.ahead - before).total_seconds())
    context.couriers.refresh(account.name)
    # What a look-up hid or a deadline kept away may be there by now.
    context.moves.moved()
    context.feed.publish(account.name, "clock", b"{}")
    await context.committer.commit()
    return _shown(context, account)


def _shown(context: Context, account: Account) -> Response:
    return Said(
        shapes.Clock(
            account=account.name,
            now=account.clock.now(context.now()).isoformat(),
            ahead_s=account.clock.ahead.total_seconds(),
        )
    )


def _read(data: Any) -> tuple[float, datetime | None]:
    """Return by how much or to which instant the clock is to be moved."""
    match data:
        case {"advance_s": bool()}:
            pass
        case {"advance_s": int() | float() as seconds, **rest} if not rest:
            try:
                return float(seconds), None
            except OverflowError:
                pass  # Hundreds of digits: as unfit as a text.
        case {"now": str() as text, **rest} if not rest:
            try:
                to = datetime.fromisoformat(text)
            except ValueError:
                pass
            else:
                if to.tzinfo is None:
                    raise Refusal(422, f'now is {text!r} without a time zone; add one, like "{text}Z"')
                return 0.0, to
    raise Refusal(
        422, 'the body must be {"advance_s": 3600} or {"now": "2030-01-01T00:00:00Z"}, with one of the two'
    )


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/clock",
        says="Say what time it is for the account.",
        does=show_clock,
        gives=Answer(shape=shapes.Clock),
    ),
    Endpoint(
        method="PUT",
        path="/clock",
        says="Move the account's clock ahead.",
        does=move_clock,
        missing=Missing.MADE,
        takes=Body(shapes=(shapes.ClockAdvance, shapes.ClockSet)),
        gives=Answer(shape=shapes.Clock),
    ),
)
