"""Who must not be written to, and what that covers.

Must not hold: the table, who puts people onto it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from reference_sender.message import Mailbox
from reference_sender.policy.classes import MailClass


class Kind(StrEnum):
    """How much a suppression covers."""

    ALL = "all"  # the address bounces, or its owner complained
    NEWSLETTER = "newsletter"  # its owner wants no campaigns; orders and codes go on


class Reason(StrEnum):
    """Why somebody is on the list."""

    HARD_BOUNCE = "hard_bounce"
    COMPLAINT = "complaint"
    UNSUBSCRIBE = "unsubscribe"
    MANUAL = "manual"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppression:
    """One entry of the list."""

    address: str  # as `canonical` has it
    kind: Kind
    reason: str
    source: str  # who says so: an event's id, a person
    since: datetime
    until: datetime | None = None  # None: for ever

    def covers(self, mail_class: MailClass, now: datetime) -> bool:
        """Whether a mail of this class must not go to the address now."""
        lasts = self.until is None or self.until > now
        return lasts and (self.kind is Kind.ALL or mail_class is MailClass.NEWSLETTER)


def canonical(address: str) -> str:
    """The address as the list has it. Raises `InvalidMail` for what is none.

    Capital letters before the @ may mean somebody else (RFC 5321 section 2.4), but no mailbox of today does so, and
    writing to somebody who complained is worse than sparing his neighbour.
    """
    return Mailbox.parse(address, "address").address.lower()
