"""Senders that forget what was said of a mail at enqueue: its place, its condition, its successor, its recipient."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from reference_sender.life import Bar, Parcel
from reference_sender.outbox.store import Enqueued, Store, enqueue
from scenarios.simulation.matrix import ASKED
from scenarios.simulation.zoo.keeper import BadSender, where


class _LooksAway(Store):
    """Takes no notice of one thing that speaks against sending a mail."""

    from_what: Bar

    def claim(self, *, now: datetime, **more: Any) -> list[Parcel]:
        return [
            replace(parcel, bar=None) if parcel.bar is self.from_what else parcel
            for parcel in super().claim(now=now, **more)
        ]


class SendsOldCodes(_LooksAway):
    """A newer mail of the same slot is nobody's business at the time of sending."""

    from_what = Bar.SUPERSEDED


class AsksOnceAtEnqueue(_LooksAway):
    """The suppression list is looked at when the mail is enqueued, and never again."""

    from_what = Bar.SUPPRESSED


def in_any_order(connection: Any, mail: Any, *, ordering_key: str = "", **more: Any) -> Enqueued:
    """The order of enqueues is taken to be the order of sending."""
    return enqueue(connection, mail, **more)


def whenever_it_is_due(connection: Any, mail: Any, *, depends_on: str = "", **more: Any) -> Enqueued:
    """The one that must go first was enqueued first, so it will go first."""
    return enqueue(connection, mail, **more)


SENDERS: tuple[BadSender, ...] = (
    BadSender(
        name="order by enqueue",
        sin="Mails go in the order of the queue, and one that is tried again is overtaken by those behind it.",
        like="ordering broken by a retry",
        kind="out of order",
        enqueue_with=in_any_order,
        blocks=(where(ASKED, "500", shape="in order"),),
    ),
    BadSender(
        name="welcome before verification",
        sin="What must go first was enqueued first, and nothing else sees to it.",
        like="dependency between mails left to the queue",
        kind="too soon",
        enqueue_with=whenever_it_is_due,
        blocks=(where(ASKED, "500", shape="one depends on the other"),),
    ),
    BadSender(
        name="sends old codes",
        sin="A login code is sent although a newer one is in the queue behind it.",
        like="superseded code sent anyway",
        kind="superseded and sent",
        parts={"open_store": SendsOldCodes},
        blocks=(where(ASKED, shape="a newer code"),),
    ),
    BadSender(
        name="suppression at enqueue only",
        sin="The suppression list is looked at when a mail is enqueued, and never again.",
        like="suppression checked once",
        kind="suppressed and sent",
        parts={"open_store": AsksOnceAtEnqueue},
        blocks=(where(ASKED, shape="one is suppressed"),),
    ),
)
