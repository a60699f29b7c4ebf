"""What can go wrong on the way of an event to a webhook: each fault changes the notices of one event.

They answer nothing: the sender of the mail sees none of it, its receiver of webhooks does. Several rules may strike the
same event, each changes what the one before has left.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar, Protocol, runtime_checkable

from simulator.provider.answer import Answer
from simulator.provider.events import NO_MAIL, Event, event_name, events_of
from simulator.provider.fate import BounceKind, Happening
from simulator.provider.faults.stages import Stages
from simulator.provider.notices import Damage, Flaw, Forgery, Notice, Spoilt

AT_WEBHOOK: Stages = {"webhook": ("webhook",)}
#: How much later than the next event one that is out of order comes.
_BEHIND = timedelta(milliseconds=1)


@runtime_checkable
class WebhookFault(Protocol):
    """A fault of stage `webhook`."""

    def change(self, notices: Sequence[Notice], dice: random.Random) -> list[Notice]:
        """Return what becomes of the notices of an event; the first one is the event's own."""
        ...


def _later(notice: Notice, seconds: float) -> Notice:
    return dataclasses.replace(notice, due_at=notice.due_at + timedelta(seconds=seconds))


@dataclass(frozen=True, slots=True, kw_only=True)
class TellTwice:
    """Tell the event again with the same id, `delay_s` later, `copies` times in all."""

    name: ClassVar[str] = "webhook_duplicate"
    stages: ClassVar[Stages] = AT_WEBHOOK
    copies: int = 2
    delay_s: float = 0.0

    def answer(self) -> Answer | None:
        return None

    def change(self, notices: Sequence[Notice], dice: random.Random) -> list[Notice]:
        again = [_later(notices[0], self.delay_s * number) for number in range(1, self.copies)]
        return [*notices, *again]


@dataclass(frozen=True, slots=True, kw_only=True)
class TellTwiceUnderAnotherId:
    """Tell the event again under a new id, as a provider does that has lost count."""

    name: ClassVar[str] = "webhook_duplicate_new_id"
    stages: ClassVar[Stages] = AT_WEBHOOK
    copies: int = 2
    delay_s: float = 0.0

    def answer(self) -> Answer | None:
        return None

    def change(self, notices: Sequence[Notice], dice: random.Random) -> list[Notice]:
        first = notices[0]
        again = [
            _later(
                _telling(
                    first, dataclasses.replace(first.event, id=event_name(first.event.id, "again", number))
                ),
                self.delay_s * number,
            )
            for number in range(1, self.copies)
        ]
        return [*notices, *again]


@dataclass(frozen=True, slots=True, kw_only=True)
class TellLate:
    """Tell the event `delay_s` after it happened."""

    name: ClassVar[str] = "webhook_late"
    stages: ClassVar[Stages] = AT_WEBHOOK
    delay_s: float

    def answer(self) -> Answer | None:
        return None

    def change(self, notices: Sequence[Notice], dice: random.Random) -> list[Notice]:
        return [_later(notice, self.delay_s) for notice in notices]


@dataclass(frozen=True, slots=True, kw_only=True)
class TellOutOfOrder:
    """Tell the event after the next one of the same mail; if there is none, `delay_s` later."""

    name: ClassVar[str] = "webhook_reorder"
    stages: ClassVar[Stages] = AT_WEBHOOK
    delay_s: float = 30.0

    def answer(self) -> Answer | None:
        return None

    def change(self, notices: Sequence[Notice], dice: random.Random) -> list[Notice]:
        following = _following(notices[0].event)
        if following is None:
            return [_later(notice, self.delay_s) for notice in notices]
        behind = following + _BEHIND
        return [dataclasses.replace(notice, due_at=max(notice.due_at, behind)) for notice in notices]


def _following(event: Event) -> datetime | None:
    """Return when the next event of the same mail and recipient happens."""
    if event.mail is None:
        return None
    told = [each for each in events_of(event.mail) if each.position == event.position]
    later = [each.at for each in told if each.order > event.order]
    return min(later, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseIt:
    """Never tell the event; whoever asks for events sees it."""

    name: ClassVar[str] = "webhook_lose"
    stages: ClassVar[Stages] = AT_WEBHOOK

    def answer(self) -> Answer | None:
        return None

    def change(self, notices: Sequence[Notice], dice: random.Random) -> list[Notice]:
        return [dataclasses.replace(notice, lost=True) for notice in notices]


@dataclass(frozen=True, slots=True, kw_only=True)
class SignBadly:
    """Let the signature of the first `tries` attempts be wrong; a receiver that takes one of them does not look."""

    name: ClassVar[str] = "webhook_bad_signature"
    stages: ClassVar[Stages] = AT_WEBHOOK
    forgery: Forgery = Forgery.WRONG_SECRET
    tries: int = 1

    def answer(self) -> Answer | None:
        return None

    def change(self, notices: Sequence[Notice], dice: random.Random) -> list[Notice]:
        return [_flawed(n, Flaw(what=Spoilt.SIGNATURE, how=self.forgery, tries=self.tries)) for n in notices]


@dataclass(frozen=True, slots=True, kw_only=True)
class SignLongAgo:
    """Let the first `tries` attempts carry a timestamp `age_s` old, signed well: what a replayed request looks like."""

    name: ClassVar[str] = "webhook_stale"
    stages: ClassVar[Stages] = AT_WEBHOOK
    age_s: float = 3600.0
    tries: int = 1

    def answer(self) -> Answer | None:
        return None

    def change(self, notices: Sequence[Notice], dice: random.Random) -> list[Notice]:
        return [_flawed(n, Flaw(what=Spoilt.TIMESTAMP, age_s=self.age_s, tries=self.tries)) for n in notices]


@dataclass(frozen=True, slots=True, kw_only=True)
class TellNonsenseToo:
    """Tell something malformed beside the event: in its batch, or in a request of its own. It is not told again."""

    name: ClassVar[str] = "webhook_malformed"
    stages: ClassVar[Stages] = AT_WEBHOOK
    damage: Damage | None = None
    """None: one of them, by the seed."""

    def answer(self) -> Answer | None:
        return None

    def change(self, notices: Sequence[Notice], dice: random.Random) -> list[Notice]:
        damage = dice.choice(list(Damage)) if self.damage is None else self.damage
        first = notices[0]
        event = dataclasses.replace(first.event, id=event_name(first.event.id, "malformed"))
        spoilt = _flawed(_telling(first, event), Flaw(what=Spoilt.BODY, how=damage, tries=1), once=True)
        return [*notices, spoilt]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContradictIt:
    """Tell another event of the same mail at the same instant, one that cannot be true as well."""

    name: ClassVar[str] = "webhook_conflict"
    stages: ClassVar[Stages] = AT_WEBHOOK
    says: Happening | None = None
    """None: a bounce; of a bounce, that it was delivered."""

    def answer(self) -> Answer | None:
        return None

    def change(self, notices: Sequence[Notice], dice: random.Random) -> list[Notice]:
        first = notices[0]
        says = self.says
        if says is None:
            bounced = first.event.type == Happening.BOUNCED
            says = Happening.DELIVERED if bounced else Happening.BOUNCED
        data = first.event.data() | {"bounce": None, "category": None, "reply": None, "reason": None}
        if says is Happening.BOUNCED:
            data |= {
                "bounce": BounceKind.HARD.value,
                "category": "invalid_recipient",
                "reply": {"code": 550, "enhanced": "5.1.1", "text": "no such user here"},
            }
        event = dataclasses.replace(
            first.event,
            id=event_name(first.event.id, "conflict"),
            type=says.value,
            given=data,
        )
        return [*notices, _telling(first, event)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TellOfAnUnknownMail:
    """Tell the same of a mail that nobody has sent, too."""

    name: ClassVar[str] = "webhook_unknown"
    stages: ClassVar[Stages] = AT_WEBHOOK

    def answer(self) -> Answer | None:
        return None

    def change(self, notices: Sequence[Notice], dice: random.Random) -> list[Notice]:
        first = notices[0]
        name = f"{dice.getrandbits(40):010x}"
        data = dict(NO_MAIL) | {
            "email_id": f"msg_{name}{name}",
            "message_id": f"<{name}@unknown.example>",
            "recipient": f"{name}@unknown.example",
        }
        kept = ("from", "subject", "accepted_at", "reply", "bounce", "category", "reason", "url")
        told = first.event.data()
        event = dataclasses.replace(
            first.event,
            id=event_name(first.event.id, "unknown"),
            given=data | {key: told.get(key) for key in kept},
        )
        return [*notices, _telling(first, event)]


def _flawed(notice: Notice, flaw: Flaw, *, once: bool = False) -> Notice:
    return dataclasses.replace(notice, flaws=(*notice.flaws, flaw), once=notice.once or once)


def _telling(notice: Notice, event: Event) -> Notice:
    return dataclasses.replace(notice, event=event, flaws=())
