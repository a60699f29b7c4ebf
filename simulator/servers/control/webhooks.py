"""The endpoints of webhooks: where the account's events are told, and what came of telling them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from starlette.responses import Response

from simulator import shapes
from simulator.config import PlanError
from simulator.config.place import Place
from simulator.config.webhooks import read_webhooks, webhooks_as_json
from simulator.provider.deliveries import Delivery, State, Try
from simulator.provider.provider import Account
from simulator.provider.search import page_of
from simulator.provider.webhooks import TargetError, check_target
from simulator.servers.control.context import Context
from simulator.servers.control.endpoint import (
    Answer,
    Asked,
    Body,
    Endpoint,
    Missing,
    Parameter,
    choice,
    text,
    whole,
)
from simulator.servers.control.messages import COUNT, TIMEOUT
from simulator.servers.control.paging import LIMIT, PAGING, following
from simulator.servers.control.problems import Refusal
from simulator.servers.control.said import Said

#: The ways out there are; each has a list of its own.
CHANNEL = Parameter(
    name="channel",
    says="Which way out: webhook, or returns (mail that comes back).",
    read=choice("channel", "", "webhook", "returns").read,
    schema={"type": "string", "enum": ["webhook", "returns"], "default": "webhook"},
    default="webhook",
)
FILTERS = (
    CHANNEL,
    choice("state", "How far the delivery is.", *(state.value for state in State)),
    whole("tries", "At least so many attempts are over.", default=0),
    text("event", "The id of an event that it tells."),
    text("type", "A type of event."),
    text("to", "A recipient; case does not matter."),
    text("rule", "The name of a rule that struck."),
)


async def show_webhook(context: Context, asked: Asked) -> Response:
    return _in_force(context, asked.account)


async def set_webhook(context: Context, asked: Asked) -> Response:
    try:
        rules = read_webhooks(asked.body, Place("PUT webhook"))
        if rules.url is None:
            raise Refusal(422, 'PUT webhook: the key "url" is missing: where shall events be told?')
        check_target(rules.url, context.webhooks.reach)
    except (PlanError, TargetError) as problem:
        raise Refusal(422, str(problem)) from problem
    context.webhooks.set(asked.account, rules)
    context.couriers.refresh(asked.account.name)
    courier = context.couriers.of(asked.account.name, context.webhooks.name)
    if courier is not None:
        courier.enable()
    await context.committer.commit()
    return _in_force(context, asked.account)


async def forget_webhook(context: Context, asked: Asked) -> Response:
    context.webhooks.set(asked.account, None)
    context.couriers.refresh(asked.account.name)
    await context.committer.commit()
    return _in_force(context, asked.account)


def _in_force(context: Context, account: Account) -> Response:
    courier = context.couriers.of(account.name, context.webhooks.name)
    standing = None if courier is None else courier.standing
    return Said(
        shapes.Webhook(
            **webhooks_as_json(context.webhooks.rules(account)),  # type: ignore[typeddict-item] # from the same table
            disabled_at=_instant(None if standing is None else standing.disabled_at),
            disabled_because=None if standing is None else standing.why,
            failing_since=_instant(None if standing is None else standing.failing_since),
        )
    )


def _instant(at: Any) -> str | None:
    return None if at is None else str(at.isoformat())


# --- deliveries -------------------------------------------------------------------------------------


async def list_deliveries(context: Context, asked: Asked) -> Response:
    found = list(_found(context, asked))
    after, newest_first = asked.given["after"], asked.given["newest_first"]
    if newest_first:
        found.reverse()
    page = page_of(
        (
            (number, _shown(each, asked.given[CHANNEL.name]))
            for number, each in found
            if after is None or (number < after if newest_first else number > after)
        ),
        asked.given["limit"],
    )
    return Said(shapes.Deliveries(deliveries=[*page.found], next=following(page.cursor)))


async def wait_for_deliveries(context: Context, asked: Asked) -> Response:
    count, limit = asked.given["count"], asked.given["limit"]

    def look() -> tuple[list[tuple[int, shapes.Delivery]], bool]:
        # As JSON at once: a delivery goes on changing while we write.
        found = [(number, _shown(each, asked.given[CHANNEL.name])) for number, each in _found(context, asked)]
        return found, len(found) >= count

    found, complete = await context.moves.until_for(asked.request, look, asked.given["timeout_s"])
    page = page_of(found, limit)
    return Said(
        shapes.DeliveriesFound(deliveries=[*page.found], next=following(page.cursor), complete=complete)
    )


def _found(context: Context, asked: Asked) -> Iterator[tuple[int, Delivery]]:
    """Yield the deliveries that are asked for, with numbers to go on after, oldest first."""
    courier = context.couriers.of(asked.account.name, asked.given[CHANNEL.name])
    if courier is None:
        return
    given = asked.given
    for number, each in courier.deliveries.numbered():
        events = [notice.event for notice in each.notices]
        if (
            (given["state"] is None or each.state == given["state"])
            and len(each.tries) >= given["tries"]
            and (given["event"] is None or any(event.id == given["event"] for event in events))
            and (given["type"] is None or any(event.type == given["type"] for event in events))
            and (
                given["to"] is None
                or any((event.recipient or "").lower() == given["to"].lower() for event in events)
            )
            and (given["rule"] is None or any(given["rule"] in notice.rules for notice in each.notices))
        ):
            yield number, each


def _shown(each: Delivery, channel: str) -> shapes.Delivery:
    return shapes.Delivery(
        id=each.key,
        channel=channel,
        webhook_id=each.webhook_id,
        state=each.state.value,
        why=each.why,
        due_at=each.due_at.isoformat(),
        events=[
            shapes.EventTold(
                id=notice.event.id,
                type=notice.event.type,
                source=notice.source,
                recipient=notice.event.recipient,
                email_id=notice.event.email_id,
            )
            for notice in each.notices
        ],
        rules=list(dict.fromkeys(rule for notice in each.notices for rule in notice.rules)),
        tries=[_try(tried) for tried in each.tries],
    )


def _try(tried: Try) -> shapes.Try:
    return shapes.Try(
        at=tried.at.isoformat(),
        took_s=tried.took_s,
        status=tried.status,
        error=tried.error,
        answer=tried.answer,
        flaws=list(tried.flaws),
    )


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/webhook",
        says="Show where the account's events are told.",
        does=show_webhook,
        gives=Answer(shape=shapes.Webhook),
    ),
    Endpoint(
        method="PUT",
        path="/webhook",
        says="Set where the account's events are told.",
        does=set_webhook,
        missing=Missing.MADE,
        takes=Body(shapes=(shapes.WebhookGiven,)),
        gives=Answer(shape=shapes.Webhook),
    ),
    Endpoint(
        method="DELETE",
        path="/webhook",
        says="Let the plan say again where the account's events are told.",
        does=forget_webhook,
        gives=Answer(shape=shapes.Webhook),
    ),
    Endpoint(
        method="GET",
        path="/deliveries",
        says="List what was told, and what came of it.",
        does=list_deliveries,
        gives=Answer(shape=shapes.Deliveries),
        parameters=(*FILTERS, *PAGING),
    ),
    Endpoint(
        method="GET",
        path="/deliveries/wait",
        says="Wait until enough deliveries match.",
        does=wait_for_deliveries,
        missing=Missing.MADE,
        gives=Answer(shape=shapes.DeliveriesFound),
        parameters=(*FILTERS, LIMIT, COUNT, TIMEOUT),
    ),
)
