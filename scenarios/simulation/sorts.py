"""Sorts of mails that a schedule makes: plain ones, and those of which the application says more at the enqueue.

A step names the sort; what it means is said here, and what must hold then in `scenarios.simulation.promised`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from scenarios.checks import Policy
from scenarios.simulation.profiles import Profile
from scenarios.simulation.senders import Owed

#: How long a mail of the sort "expires" is worth sending where a step does not say, in seconds.
EXPIRES_S = 12.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sort:
    """What the application says of a mail of this sort."""

    says: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `Owed`."""
    follows: bool = False
    """It depends on the mail that was promised before it, if there is one."""
    expires: bool = False
    waits: bool = False
    """It waits for others: played where the provider can be asked, elsewhere a parked mail stops them for ever."""
    is_heard: bool = True
    """Played also where somebody hears what becomes of the mails, and keeps the suppression list by that."""


PLAIN = ""
SORTS: Mapping[str, Sort] = {
    PLAIN: Sort(),
    "urgent": Sort(says={"priority": 100}),
    "bulk": Sort(says={"priority": -100}),
    "in order": Sort(says={"manner": (("ordering_key", "user-7"),)}, waits=True),
    "depends": Sort(follows=True, waits=True),
    "a code": Sort(says={"manner": (("slot", "login-7"),)}),
    "expires": Sort(expires=True),
    "suppressed": Sort(says={"suppressed": True}, is_heard=False),
}
#: To draw from: mostly plain, else one of the others.
WEIGHTED: tuple[str, ...] = (PLAIN,) * len(SORTS) + tuple(SORTS)
#: Two that are about each other.
PAIRS: tuple[tuple[str, str], ...] = (
    ("in order", "in order"),
    (PLAIN, "depends"),
    ("a code", "a code"),
    ("bulk", "urgent"),
)
#: What a transaction that is never committed may say: that there is a newer code.
UNDONE: tuple[str, ...] = (PLAIN, PLAIN, "a code")


def fits(name: str, profile: Profile) -> bool:
    """Tell whether mails of this sort are played in a profile."""
    sort = SORTS[name]
    can_be_asked = profile.policy is Policy.EXACTLY_ONCE
    return (can_be_asked or not sort.waits) and (sort.is_heard or not profile.hears)


def made(plain: Owed, name: str, seconds: float, before: Sequence[Owed]) -> Owed:
    """Return a mail as the sort `name`; `before`: those that are promised already, the newest last."""
    sort = SORTS[name]
    mail = replace(plain, **sort.says)
    if sort.follows and before:
        mail = replace(mail, manner=(("depends_on", before[-1].ref),))
    if sort.expires:
        mail = replace(mail, expires_s=seconds or EXPIRES_S)
    return mail
