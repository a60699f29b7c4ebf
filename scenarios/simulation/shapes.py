"""Shapes of a world: how many mails of what kind, and how many workers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from scenarios.simulation.senders import Owed
from scenarios.simulation.storms import FATES


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Who sends what: the size of a world."""

    name: str
    owed: tuple[Owed, ...]
    workers: int = 1
    moves: tuple[tuple[float, str], ...] | None = None
    """What a person does to the campaign whose members these are, and after how many seconds: `pause`, `resume`, `cancel`.

    None: it is no campaign."""
    expanders: int = 1
    """Who writes the rows of a campaign; two do so at once."""


def _owed(number: int, recipients: int = 1) -> Owed:
    names = ("ada", "bob", "eve")[:recipients] if recipients > 1 else (f"user{number}",)
    return Owed(ref=f"order-{number}", recipients=tuple(f"{name}.{number}@example.com" for name in names))


SHAPES: dict[str, Shape] = {
    shape.name: shape
    for shape in (
        Shape(name="one mail", owed=(_owed(1),)),
        Shape(name="two mails, two workers", owed=(_owed(1), _owed(2)), workers=2),
        Shape(name="three recipients", owed=(_owed(1, 3),)),
        Shape(name="eight mails, two workers", owed=tuple(_owed(n) for n in range(1, 9)), workers=2),
        Shape(
            name="twelve of bulk, then a code",
            owed=(
                *(replace(_owed(n), priority=-10) for n in range(1, 13)),
                replace(_owed(13), priority=100, within_s=10.0),
            ),
        ),
    )
}

#: What is told of each becomes something else: see `storms.FATES`.
FATED = Shape(
    name="four mails of every fate",
    owed=tuple(
        Owed(ref=f"order-{number}", recipients=(f"{who}.{number}@example.com",))
        for number, who in enumerate(FATES, 1)
    ),
)

#: The smallest of that: taken, delivered, and complained about.
COMPLAINT = replace(FATED, name="one mail, complained of", owed=FATED.owed[-1:])

_CODE, _ORDER = (("slot", "login-7"),), (("ordering_key", "user-7"),)
#: It is over before whoever was refused comes back, and before who died has a successor.
EXPIRING = Shape(name="one that expires", owed=(replace(_owed(1), expires_s=1.0),))
#: Where mails know of each other, or are not always worth sending. Played with a provider that can be asked: elsewhere a parked one stops the others.
KNOWING: dict[str, Shape] = {
    shape.name: shape
    for shape in (
        Shape(name="in order", owed=tuple(replace(_owed(n), manner=_ORDER) for n in (1, 2)), workers=2),
        Shape(
            name="one depends on the other",
            owed=(_owed(1), replace(_owed(2), manner=(("depends_on", "order-1"),))),
            workers=2,
        ),
        Shape(name="a newer code", owed=tuple(replace(_owed(n), manner=_CODE) for n in (1, 2))),
        Shape(name="one is suppressed", owed=(replace(_owed(1), suppressed=True), _owed(2))),
        EXPIRING,
    )
}

#: The name of the campaign, how many members make a page, and how long it is from one's turn to the next one's, in seconds. Two pages are
#: written at once and the third one a minute later, so that there is something to pause.
CAMPAIGN, PAGE_ROWS, GAP_S = "spring", 2, 30.0
_MEMBERS = tuple(
    Owed(
        ref=f"campaign-{CAMPAIGN}-user-{number}",
        recipients=(f"member{number}@example.com",),
        # On the list before the campaign begins.
        suppressed=number == 2,
    )
    for number in range(1, 6)
)
#: A campaign, in every way in which a person may interfere.
CAMPAIGNS: dict[str, Shape] = {
    shape.name: shape
    for shape in (
        Shape(name="a campaign", owed=_MEMBERS, moves=()),
        Shape(name="a campaign, two at once", owed=_MEMBERS, moves=(), expanders=2),
        Shape(name="a campaign, paused", owed=_MEMBERS, moves=((45.0, "pause"), (110.0, "resume"))),
        Shape(name="a campaign, cancelled", owed=_MEMBERS, moves=((45.0, "cancel"),)),
    )
}

EVERY_SHAPE: dict[str, Shape] = (
    SHAPES | KNOWING | CAMPAIGNS | {each.name: each for each in (COMPLAINT, FATED)}
)
