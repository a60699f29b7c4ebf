"""What can become of a mail after the provider took it, which of it outweighs which, and what it does to the address.

`MEANING` is the whole truth. Where a mail stands follows from the set of what was told of it, not from the order in
which that came: the heaviest fact counts. So facts that are late, early, twice or at the same moment need no rule of
their own, and worse news is never erased by a better one that comes behind it.
Must not hold: the words of any provider (`reading`, `reports`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Kind(StrEnum):
    """One kind of fact about a mail that was taken."""

    QUEUED = "queued"  # the provider has it
    DEFERRED = "deferred"  # the recipient's server said "not now"; the provider goes on trying
    SOFT_BOUNCE = "soft_bounce"  # given up for now: mailbox full, server away, content or policy
    DELIVERED = "delivered"  # the recipient's server took it
    OPENED = "opened"
    CLICKED = "clicked"
    UNSUBSCRIBED = "unsubscribed"  # the recipient wants no more of the kind
    SUPPRESSED = "suppressed"  # the provider's own list: not even tried
    HARD_BOUNCE = "hard_bounce"  # the address does not exist
    COMPLAINT = "complaint"  # the recipient calls it spam


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What a fact does."""

    weight: int  # the heavier one says where the mail stands
    why: str  # it outweighs what is lighter
    suppresses: bool = False  # the address gets no more mail from us


MEANING: dict[Kind, Meaning] = {
    Kind.QUEUED: Meaning(weight=0, why="nothing has happened yet"),
    Kind.DEFERRED: Meaning(weight=1, why="one try failed; others follow"),
    Kind.SOFT_BOUNCE: Meaning(weight=2, why="an end, but a try of the provider may still get through"),
    Kind.DELIVERED: Meaning(weight=3, why="whoever has it has it, whatever was put off before"),
    Kind.OPENED: Meaning(weight=4, why="only what was delivered can be opened"),
    Kind.CLICKED: Meaning(weight=5, why="only what was opened has a link to follow"),
    Kind.UNSUBSCRIBED: Meaning(weight=6, why="what the recipient wants counts more than what he reads"),
    Kind.SUPPRESSED: Meaning(weight=7, why="nothing was tried, so nothing better can be true"),
    # A server may say yes and bounce afterwards; a "delivered" that comes behind the bounce is older news.
    Kind.HARD_BOUNCE: Meaning(
        weight=8, why="bad news that costs reputation if it is ignored", suppresses=True
    ),
    Kind.COMPLAINT: Meaning(weight=9, why="the recipient has the last word", suppresses=True),
}


def standing(kinds: Iterable[Kind]) -> Kind | None:
    """Where a mail stands of which these facts are known, in whatever order; None: nothing is known."""
    return max(kinds, key=lambda kind: MEANING[kind].weight, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """One fact as it was told: what, when, and every name by which the mail may be known."""

    kind: Kind
    at: datetime
    provider_id: str | None = None
    message_id: str | None = None
    key: str | None = None  # the idempotency key
    recipient: str | None = None
    detail: str | None = None  # what the recipient's server said, shortened

    @property
    def names_a_mail(self) -> bool:
        """Whether it says which mail it is about."""
        return bool(self.provider_id or self.message_id or self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Malformed:
    """It cannot be read; one sentence says why, without repeating it."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Irrelevant:
    """It can be read and is about nothing that concerns a mail."""

    reason: str


# Enhanced codes (RFC 3463) that say that the address itself is wrong: bad mailbox, bad system, moved, disabled, null MX.
_ADDRESS_IS_WRONG = frozenset({"1.1", "1.2", "1.3", "1.6", "1.10", "2.1"})


def bounce_by_reply(code: int | None, enhanced: str | None) -> Kind:
    """Hard only if the reply for good says that the address is wrong; everything else may be another story tomorrow.

    Whoever suppresses on a guess loses customers; a second bounce costs less.
    """
    class_, _, rest = (enhanced or "").partition(".")
    if (code is not None and code // 100 == 4) or class_ == "4":
        return Kind.SOFT_BOUNCE
    return Kind.HARD_BOUNCE if class_ == "5" and rest in _ADDRESS_IS_WRONG else Kind.SOFT_BOUNCE
