"""Senders that forget what was said of a mail at enqueue: its place, its condition, its successor, its recipient, its end."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from reference_sender.life import Bar, Parcel
from reference_sender.outbox.store import Enqueued, Store, enqueue
from reference_sender.policy.caps import overdue
from scenarios.simulation.matrix import ASKED, LAST_MOMENT
from scenarios.simulation.shapes import EXPIRING
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


class SendsWhatIsOver(Store):
    """When a mail is over is written down and never looked at."""

    def claim(self, *, now: datetime, **more: Any) -> list[Parcel]:
        return [replace(parcel, expires_at=None) for parcel in super().claim(now=now, **more)]


class LooksAtTheTimeOnce(Store):
    """When a mail is over is looked at as it is taken in hand, and not again."""

    def claim(self, *, now: datetime, **more: Any) -> list[Parcel]:
        return [
            parcel if overdue(parcel, now) else replace(parcel, expires_at=None)
            for parcel in super().claim(now=now, **more)
        ]


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
    BadSender(
        name="sends what is over",
        sin="The end of a mail is written down and never looked at.",
        like="late code delivered after the outage",
        kind="overdue",
        promises=("gate.expired",),
        parts={"open_store": SendsWhatIsOver},
        blocks=(where(ASKED, "503", shape=EXPIRING.name),),
    ),
    BadSender(
        name="looks at the time once",
        sin="The end of a mail is looked at when it is taken in hand, and not again before its first byte.",
        like="expiry checked at dequeue only",
        kind="overdue",
        promises=("gate.expired-last-moment",),
        parts={"open_store": LooksAtTheTimeOnce},
        blocks=(where(*LAST_MOMENT, shape=EXPIRING.name),),
    ),
)
