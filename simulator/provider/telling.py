"""How an event is told to the webhook: the rules of stage `webhook` are asked, and make of it what goes wrong."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence

from simulator.provider.deliveries import keyed
from simulator.provider.events import Event
from simulator.provider.faults import WebhookFault
from simulator.provider.message import Moment
from simulator.provider.notices import Notice, notice_of
from simulator.provider.plan_state import PlanState
from simulator.provider.strike import Hit

Headers = Callable[[], tuple[tuple[str, str], ...]]


def tell(event: Event, hits: Sequence[Hit], seed: int) -> list[Notice]:
    """Return the notices of an event that was hit like this; the rules that struck stand in each."""
    notices = [notice_of(event)]
    for hit in hits:
        assert isinstance(hit.fault, WebhookFault), "rules of stage webhook have faults of stage webhook"
        dice = random.Random(f"{seed}/{event.id}/{hit.rule}")
        notices = hit.fault.change(notices, dice)
    names = tuple(hit.rule for hit in hits)
    return [dataclasses.replace(notice, rules=names) for notice in keyed(notices)]


def moment_of(event: Event, plan: PlanState, headers: Headers = lambda: ()) -> Moment:
    """Return what the rules of a plan are matched against.

    `headers` gives those of the event's mail; it is asked only if a rule wants to know.
    """
    moment = _moment_of(event)
    return dataclasses.replace(moment, headers=headers()) if plan.asks_for_headers_of_events else moment


def _moment_of(event: Event) -> Moment:
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
