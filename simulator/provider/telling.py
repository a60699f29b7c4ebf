"""How an event is told to the webhook: the rules of stage `webhook` are asked, and make of it what goes wrong."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from datetime import datetime

from simulator.provider.deliveries import keyed
from simulator.provider.events import Event
from simulator.provider.faults import WebhookFault
from simulator.provider.message import Moment
from simulator.provider.notices import Notice, notice_of
from simulator.provider.plan import PlanState

Headers = Callable[[], tuple[tuple[str, str], ...]]


def tell(event: Event, plan: PlanState, now: datetime, headers: Headers = lambda: ()) -> list[Notice]:
    """Return the notices of an event; the rules that struck stand in each. `now` is the account's time.

    `headers` gives those of the event's mail; it is asked only if a rule wants to know.
    """
    moment = moment_of(event)
    if plan.asks_for_headers_of_events:
        moment = dataclasses.replace(moment, headers=headers())
    rules = plan.strike_event(moment, now)
    notices = [notice_of(event)]
    for rule in rules:
        assert isinstance(rule.fault, WebhookFault), "rules of stage webhook have faults of stage webhook"
        dice = random.Random(f"{plan.plan.seed}/{event.id}/{rule.name}")
        notices = rule.fault.change(notices, dice)
    names = tuple(rule.name for rule in rules)
    return [dataclasses.replace(notice, rules=names) for notice in keyed(notices)]


def moment_of(event: Event) -> Moment:
    """Return what rules are matched against. Of a pushed event that is what it says."""
    recipients = () if event.recipient is None else (event.recipient,)
    if event.mail is None:
        data = event.data()
        known = {name: value if isinstance(value := data.get(name), str) else None for name in _SAID}
        return Moment(
            stage="webhook",
            dialect="webhook",
            account=event.account,
            attempt=event.id,
            sender=known["from"],
            recipient=event.recipient,
            recipients=recipients,
            key=known["key"],
            message_id=known["message_id"],
            event=event.type,
        )
    return Moment(
        stage="webhook",
        dialect="webhook",
        account=event.account,
        attempt=event.id,
        sender=event.mail.sender,
        recipient=event.recipient,
        recipients=recipients,
        key=event.mail.key,
        message_id=event.mail.message_id,
        event=event.type,
    )


_SAID = ("from", "key", "message_id")
