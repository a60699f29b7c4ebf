"""What becomes of a claimed mail that its data say must not go: the table, and nothing else.

The store finds bars when a row is claimed (`life.Bar`); an attempt begins only without one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from reference_sender.life import Bar, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Barred:
    """The end of a mail that is barred, or how long it waits."""

    state: State
    reason: str
    again_after_s: float = 0.0
    """Pending: when to look again, in seconds."""


BARRED: Mapping[Bar, Barred] = MappingProxyType(
    {
        Bar.SUPPRESSED: Barred(state=State.SUPPRESSED, reason="the recipient must not be written to"),
        Bar.SUPERSEDED: Barred(state=State.EXPIRED, reason="superseded by a newer mail"),
        Bar.CANCELLED: Barred(state=State.EXPIRED, reason="its campaign was cancelled"),
        Bar.ORPHANED: Barred(
            state=State.EXPIRED, reason="the mail it depends on was not accepted, and will not be"
        ),
        Bar.OUT_OF_TURN: Barred(
            state=State.PENDING, reason="another mail of its ordering key is before it", again_after_s=5.0
        ),
        Bar.OVERSLEPT: Barred(state=State.EXPIRED, reason="what it waited for did not come in time"),
        Bar.PAUSED: Barred(state=State.PENDING, reason="its campaign is paused", again_after_s=60.0),
        Bar.SEALED: Barred(
            state=State.PENDING,
            reason="its words are sealed with a key that OUTBOX_BODY_KEYS does not name, or with another one of that name",
            again_after_s=60.0,
        ),
        Bar.WORDLESS: Barred(
            state=State.DEAD,
            reason="what it said is purged or erased, and somebody has put it back by hand; enqueue it anew under another key",
        ),
        Bar.UNFIT: Barred(
            state=State.DEAD,
            reason="its sender, recipient or idempotency_key has a line break or something else that no wire can carry; "
            "the row was edited by hand, or inserted unchecked",
        ),
        Bar.INCOMPLETE: Barred(
            state=State.DEAD, reason="an attachment that it names is not stored any more; enqueue it anew"
        ),
    }
)
# Where a command of SMTP or a header of HTTP would end, or an address its brackets.
_IN_NO_ADDRESS = re.compile(r"[\x00-\x20\x7f<>]")
_IN_NO_KEY = re.compile(r"[\x00-\x1f\x7f]")


def is_unfit(sender: str, recipient: str, key: str) -> bool:
    """Whether a mail cannot be sent over any wire; `enqueue` lets none in.

    Each attempt would break off before the provider is asked, and look like trouble of the channel.
    """
    return bool(_IN_NO_ADDRESS.search(sender) or _IN_NO_ADDRESS.search(recipient) or _IN_NO_KEY.search(key))


#: What becomes of a mail whose `depends_on` has come to this. What is not here waits, until its own time is over.
AFTER_DEPENDENCY: Mapping[State, Bar | None] = MappingProxyType(
    {
        State.ACCEPTED: None,  # it goes
        State.FAILED: Bar.ORPHANED,
        State.EXPIRED: Bar.ORPHANED,
        State.SUPPRESSED: Bar.ORPHANED,
        # pending, sending: it will be known soon. unknown: it may have been accepted. dead: a person may requeue it.
    }
)
