"""What becomes of accepted mail behind the provider's door: fates, and the timeline that each of them is.

A fate is decided when the mail is booked, per recipient; everything later follows from it. A timeline is pure:
the same destiny and the same dice give the same steps. Events are made of steps by `simulator.provider.events`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum


class Fate(StrEnum):
    """What becomes of one mail to one recipient. These are the names that plans and magic addresses use."""

    DELIVERED = "delivered"
    DEFERRED = "deferred"
    """Put off at first, delivered in the end."""
    SOFT_BOUNCE = "soft_bounce"
    """Put off until the provider gives up: the address is good, it was no good time."""
    HARD_BOUNCE = "hard_bounce"
    COMPLAINT = "complaint"
    """Delivered, and then reported as spam by whoever got it."""
    SUPPRESSED = "suppressed"
    """Not even tried: the address is on the provider's suppression list."""
    OPENED = "opened"
    CLICKED = "clicked"
    UNSUBSCRIBED = "unsubscribed"
    DROPPED = "dropped"
    """Accepted, and never heard of again: no delivery and no event."""


class Happening(StrEnum):
    """What can happen to a mail, in the order in which it usually does; each is a type of event."""

    ACCEPTED = "email.accepted"
    DEFERRED = "email.deferred"
    DELIVERED = "email.delivered"
    BOUNCED = "email.bounced"
    SUPPRESSED = "email.suppressed"
    COMPLAINED = "email.complained"
    OPENED = "email.opened"
    CLICKED = "email.clicked"
    UNSUBSCRIBED = "email.unsubscribed"


class BounceKind(StrEnum):
    """Whether a later mail to this address has a chance."""

    HARD = "hard"
    SOFT = "soft"


#: Fates after which the provider takes no more mail to the address, and what its list calls the reason.
SUPPRESSES: dict[Fate, str] = {Fate.HARD_BOUNCE: "hard_bounce", Fate.COMPLAINT: "complaint"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MtaReply:
    """What the recipient's mail server said to the provider (RFC 5321, RFC 3463)."""

    code: int
    enhanced: str
    text: str

    def __str__(self) -> str:
        return f"{self.code} {self.enhanced} {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Destiny:
    """A fate with its particulars, as a rule or a magic address gave them. None: what is usual for the fate."""

    fate: Fate
    after_s: float | None = None
    """When the fate is fulfilled, in seconds after the acceptance; what comes before it moves along."""
    code: int | None = None
    enhanced: str | None = None
    text: str | None = None
    category: str | None = None
    """Class of a bounce or a deferral; see `CATEGORIES`."""
    suppresses: bool = True
    """False: the address stays off the suppression list whatever happens (magic addresses)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a timeline."""

    happening: Happening
    after_s: float
    """Seconds since the acceptance."""
    reply: MtaReply | None = None
    bounce: BounceKind | None = None
    category: str | None = None
    reason: str | None = None
    """Why mail was suppressed."""
    suppressing: str | None = None
    """Not None: from now on the address is on the suppression list, for this reason."""


# --- what replies mean --------------------------------------------------------------------------------

#: Why mail does not get through, with the enhanced codes (RFC 3463, RFC 5248 registry) that say so. The longest
#: match counts; the first digit is left out, as it only tells for how long.
CATEGORIES: dict[str, tuple[str, ...]] = {
    "invalid_recipient": ("1.1", "1.2", "1.3", "1.6", "1.10"),
    "inactive_mailbox": ("2.1",),
    "mailbox_full": ("2.2",),
    "too_large": ("2.3", "3.4"),
    "unreachable": ("4",),
    "expired": ("4.7",),
    "content": ("6",),
    "policy": ("7",),
    "suppressed": (),
    "other": (),
}

_CATEGORY_OF = {prefix: category for category, prefixes in CATEGORIES.items() for prefix in prefixes}


def category_of(enhanced: str) -> str:
    """Return the class of an enhanced code, for example `mailbox_full` for `4.2.2`."""
    _, _, rest = enhanced.partition(".")
    return _CATEGORY_OF.get(rest) or _CATEGORY_OF.get(rest.partition(".")[0], "other")


# --- timelines ----------------------------------------------------------------------------------------

_ACCEPTED_BY_MX = MtaReply(code=250, enhanced="2.0.0", text="OK")
_NOT_NOW = MtaReply(code=451, enhanced="4.7.1", text="try again later")
#: What is said where the destiny gives no words of its own, by what happens.
_USUAL: dict[Fate, MtaReply] = {
    Fate.DEFERRED: _NOT_NOW,
    Fate.SOFT_BOUNCE: MtaReply(code=452, enhanced="4.2.2", text="mailbox full"),
    Fate.HARD_BOUNCE: MtaReply(code=550, enhanced="5.1.1", text="no such user here"),
}

#: Each fate as (what happens, seconds after the acceptance). The last one fulfils the fate.
SCRIPTS: dict[Fate, tuple[tuple[Happening, float], ...]] = {
    Fate.DELIVERED: ((Happening.DELIVERED, 1.0),),
    Fate.DEFERRED: (
        (Happening.DEFERRED, 1.0),
        (Happening.DEFERRED, 60.0),
        (Happening.DELIVERED, 300.0),
    ),
    Fate.SOFT_BOUNCE: (
        (Happening.DEFERRED, 1.0),
        (Happening.DEFERRED, 300.0),
        (Happening.BOUNCED, 900.0),
    ),
    Fate.HARD_BOUNCE: ((Happening.BOUNCED, 2.0),),
    Fate.COMPLAINT: ((Happening.DELIVERED, 1.0), (Happening.COMPLAINED, 3600.0)),
    Fate.SUPPRESSED: ((Happening.SUPPRESSED, 0.1),),
    Fate.OPENED: ((Happening.DELIVERED, 1.0), (Happening.OPENED, 60.0)),
    Fate.CLICKED: ((Happening.DELIVERED, 1.0), (Happening.OPENED, 60.0), (Happening.CLICKED, 90.0)),
    Fate.UNSUBSCRIBED: (
        (Happening.DELIVERED, 1.0),
        (Happening.OPENED, 60.0),
        (Happening.UNSUBSCRIBED, 120.0),
    ),
    Fate.DROPPED: (),
}

#: Usual delays are stretched by a factor between these, so that no two mails keep the same time.
_STRETCH = (0.8, 1.2)


def timeline(destiny: Destiny, rng: random.Random) -> tuple[Step, ...]:
    """Return what happens to one mail to one recipient, in order. `rng`: dice of that mail and recipient alone.

    A given `after_s` is exact; it moves what comes before in proportion. Times are whole milliseconds.
    """
    script = SCRIPTS[destiny.fate]
    if destiny.after_s is None:
        factor = rng.uniform(*_STRETCH)
    else:
        factor = destiny.after_s / script[-1][1] if script else 0.0
    steps = [Step(happening=Happening.ACCEPTED, after_s=0.0)]
    for happening, after_s in script:
        at = round(after_s * factor, 3)
        steps.append(_step(destiny, happening, at, fulfils=happening is script[-1][0]))
    return tuple(steps)


def _step(destiny: Destiny, happening: Happening, after_s: float, *, fulfils: bool) -> Step:
    reply = _reply(destiny, happening)
    category: str | None = None
    if happening in (Happening.DEFERRED, Happening.BOUNCED):
        assert reply is not None
        category = destiny.category or category_of(reply.enhanced)
    elif happening is Happening.SUPPRESSED:
        category = "suppressed"
    return Step(
        happening=happening,
        after_s=after_s,
        reply=reply,
        bounce=_bounce(destiny.fate) if happening is Happening.BOUNCED else None,
        category=category,
        reason=destiny.text if happening is Happening.SUPPRESSED else None,
        suppressing=SUPPRESSES.get(destiny.fate) if fulfils and destiny.suppresses else None,
    )


def _bounce(fate: Fate) -> BounceKind:
    return BounceKind.HARD if fate is Fate.HARD_BOUNCE else BounceKind.SOFT


def _reply(destiny: Destiny, happening: Happening) -> MtaReply | None:
    match happening:
        case Happening.DELIVERED:
            return _ACCEPTED_BY_MX
        case Happening.DEFERRED | Happening.BOUNCED:
            usual = _USUAL[destiny.fate]
            code = usual.code if destiny.code is None else destiny.code
            return MtaReply(
                code=code,
                # An enhanced code must be of the class of the code (RFC 2034); without one, "other" of that class.
                enhanced=destiny.enhanced
                or (usual.enhanced if destiny.code is None else f"{code // 100}.0.0"),
                text=usual.text if destiny.text is None else destiny.text,
            )
        case _:
            return None


def suppressed(reason: str) -> Destiny:
    """Return the destiny of mail to an address that is on the suppression list for `reason`."""
    return Destiny(fate=Fate.SUPPRESSED, text=reason)
