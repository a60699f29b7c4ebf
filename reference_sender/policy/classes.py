"""The kinds of mail, and what is done with each when things go well, when the queue is full, and in an outage.

One table, so that nobody has to decide in the middle of an incident. Every number is a default: who enqueues a mail
may give it another priority or another end.
Must not hold: clocks, queues.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType


class MailClass(StrEnum):
    """What kind of mail it is."""

    CODE = "code"  # a login code, a password reset: worth something for minutes
    ALARM = "alarm"  # tells somebody inside that something is wrong
    CONFIRMATION = "confirmation"  # of an order, a payment: must arrive, late if it must be
    NOTICE = "notice"  # something happened in an account
    NEWSLETTER = "newsletter"  # many of the same, and nobody waits for it


@dataclass(frozen=True, slots=True, kw_only=True)
class Manners:
    """What is done with a class of mail."""

    priority: int
    """Higher goes first."""
    expires_after_s: float | None
    """Seconds after which it is not worth sending any more. None: only the age cap ends it."""
    refused_from: float | None
    """From this share of the queue cap on, new mail of the class is refused. None: never."""
    late_after_s: float
    """Due and not taken for so many seconds, it is late: somebody should look. Before that it waits its turn."""
    in_outage: str
    """What becomes of it while the provider is away, for people."""


MANNERS: Mapping[MailClass, Manners] = MappingProxyType(
    {
        MailClass.CODE: Manners(
            priority=100,
            expires_after_s=600.0,
            refused_from=None,
            late_after_s=30.0,
            in_outage="waits for minutes, then expires; the screen says that it may be late and offers a new one",
        ),
        MailClass.ALARM: Manners(
            priority=50,
            expires_after_s=3_600.0,
            refused_from=1.0,
            late_after_s=60.0,
            in_outage="goes by another channel; what waits here expires within the hour",
        ),
        MailClass.CONFIRMATION: Manners(
            priority=0,
            expires_after_s=None,
            refused_from=1.0,
            late_after_s=300.0,
            in_outage="waits and is delivered late; the order page shows it meanwhile",
        ),
        MailClass.NOTICE: Manners(
            priority=-10,
            expires_after_s=86_400.0,
            refused_from=0.8,
            late_after_s=300.0,
            in_outage="waits for a day, then expires; several may become one",
        ),
        MailClass.NEWSLETTER: Manners(
            priority=-100,
            expires_after_s=None,
            refused_from=0.5,
            # It goes behind everything else, by the rates that there are, and after an outage last of all.
            late_after_s=3_600.0,
            in_outage="the campaign waits: it puts in no further mail while what it put in does not leave",
        ),
    }
)


class QueueFull(Exception):
    """The queue holds as much as it may; the text is one sentence that says what was refused and why."""


def ends_at(mail_class: MailClass, expires_at: datetime | None, from_: datetime) -> datetime | None:
    """When a mail stops being worth sending: as the caller said, else as its class has it, counted from its turn."""
    after_s = MANNERS[mail_class].expires_after_s
    if expires_at is not None or after_s is None:
        return expires_at
    return from_ + timedelta(seconds=after_s)


def late_after_s(mail_class: str) -> float:
    """Due and not taken for so many seconds, mail of this class is late. A class that is none is a confirmation."""
    known = mail_class if mail_class in MailClass.__members__.values() else MailClass.CONFIRMATION
    return MANNERS[MailClass(known)].late_after_s


def most_waiting(mail_class: MailClass, cap: int | None) -> int | None:
    """How many mails may wait for this one still to be let in. None: however many.

    `cap`: so many may wait in all. What is refused first stands in the table: the newsletter at half of it, then
    notices, then what is left; a code never.
    """
    share = MANNERS[mail_class].refused_from
    return None if cap is None or share is None else int(cap * share)


def check_room(mail_class: MailClass, waiting: int, cap: int | None) -> None:
    """Raise `QueueFull` if `waiting` mails are too many for one more of this class."""
    most = most_waiting(mail_class, cap)
    if most is not None and waiting >= most:
        raise QueueFull(
            f"{waiting} mails are waiting, and a {mail_class.value} is let in up to {most} "
            f"(the queue cap is {cap}); try again when the queue is shorter"
        )
