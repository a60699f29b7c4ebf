"""Events: what an account is told of its mail after the acceptance, derived from the ledger and never stored.

The fate of each recipient is a timeline (`simulator.provider.fate`); its steps become events with an id, an instant and
one JSON shape. Ids and times follow from the acceptance alone, so that a restart tells the same story again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import heapq
import json
import random
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from simulator.provider.acceptance import Acceptance, weight_of
from simulator.provider.fate import Happening, MtaReply, Step, timeline

#: So many events of an account are kept for whoever asks; older ones are gone.
KEPT = 10_000
#: So many acceptances may wait until somebody wants to know what became of them; of older ones nobody is told. It is
#: more than the window of a ledger, so that a restart loses none of those.
WAITING = 6_000
#: And acceptances for so many recipients.
WAITING_RECIPIENTS = 100_000
#: So many events may lie ahead; of mails beyond that only the beginning is told.
AHEAD = 100_000

#: Where events that were pushed by hand are remembered, see `simulator.provider.notes`, and how many of them.
TOPIC = "event"
PUSHED_KEPT = 10_000
#: Among events of one instant those that were pushed come last.
_PUSHED = 2**62

#: What the link of `email.clicked` is called: bodies are not searched for real ones.
CLICKED_URL = "https://example.org/clicked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to a mail, or that somebody pushed by hand."""

    id: str
    type: str
    account: str
    at: datetime
    order: tuple[int, ...]
    """Decides between events of one instant; no two events of an account share instant and order."""
    mail: Acceptance | None = None
    position: int = 0
    """Which of the mail's recipients it is about."""
    step: Step | None = None
    given: Mapping[str, Any] | None = None
    """What somebody wants to be told in place of what follows from mail and step."""
    told_at: datetime | None = None
    """The instant that is told; None: the one at which it happens."""

    @property
    def recipient(self) -> str | None:
        if self.given is not None:
            named = self.given.get("recipient")
            return named if isinstance(named, str) else None
        return None if self.mail is None else self.mail.recipients[self.position]

    @property
    def email_id(self) -> str | None:
        if self.given is not None:
            named = self.given.get("email_id")
            return named if isinstance(named, str) else None
        return None if self.mail is None else self.mail.id

    def data(self) -> dict[str, Any]:
        """Return what a webhook carries under `data`; plain JSON."""
        if self.given is not None:
            return dict(self.given)
        assert self.mail is not None
        assert self.step is not None
        return _data(self.mail, self.mail.recipients[self.position], self.step)


def event_as_json(event: Event) -> dict[str, Any]:
    """Return the one shape of events: in webhooks, in the control API, in the stream."""
    return {
        "id": event.id,
        "type": event.type,
        "timestamp": instant(event.told_at or event.at),
        "account": event.account,
        "data": event.data(),
    }


def instant(at: datetime) -> str:
    """Write an instant as RFC 3339 in UTC with milliseconds."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def steps_of(acceptance: Acceptance, position: int) -> tuple[Step, ...]:
    """Return the timeline of one recipient of a mail, by its position: the same each time it is asked for."""
    # The id follows from seed, account and number: dice of their own for each mail and recipient.
    rng = random.Random(f"{acceptance.id}/{position}")
    return timeline(acceptance.destiny_of(acceptance.recipients[position]), rng)


def events_of(acceptance: Acceptance) -> Iterator[Event]:
    """Yield all that will ever happen to a mail, recipient by recipient."""
    # Events outlive the window of the ledger; headers are most of a mail's facts and are looked up if a rule asks.
    acceptance = dataclasses.replace(acceptance, headers=())
    for position in range(len(acceptance.recipients)):
        for number, step in enumerate(steps_of(acceptance, position)):
            yield Event(
                id=event_name(acceptance.id, position, number),
                type=step.happening.value,
                account=acceptance.account,
                at=acceptance.accepted_at + timedelta(seconds=step.after_s),
                order=(acceptance.number, position, number),
                mail=acceptance,
                position=position,
                step=step,
            )


def event_name(*parts: object) -> str:
    """Return the id of an event: the same for the same parts. No dots, as Standard Webhooks asks."""
    return "evt_" + hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()[:20]


def facts_about(acceptance: Acceptance, recipient: str) -> dict[str, Any]:
    """Return the keys of `data` that tell whose mail it is; the others are None."""
    return _data(acceptance, recipient, Step(happening=Happening.ACCEPTED, after_s=0.0))


#: `data` of an event that is about no mail the provider knows.
NO_MAIL: Mapping[str, Any] = dict.fromkeys(
    (
        "email_id",
        "message_id",
        "key",
        "from",
        "recipient",
        "subject",
        "obligation",
        "accepted_at",
        "reply",
        "bounce",
        "category",
        "reason",
        "url",
    )
)


def pushed(
    *,
    account: str,
    number: int,
    type: str,
    data: Mapping[str, Any],
    at: datetime,
    id: str | None = None,
    told_at: datetime | None = None,
) -> Event:
    """Return an event that somebody pushes by hand; `number` tells it from others of its instant."""
    return Event(
        id=id if id is not None else event_name(account, "pushed", number),
        type=type,
        account=account,
        at=at,
        order=(_PUSHED, number),
        given=data,
        told_at=told_at,
    )


def pushed_as_facts(event: Event) -> str:
    """Write a pushed event down."""
    return json.dumps(
        {
            "number": event.order[1],
            "type": event.type,
            "data": event.data(),
            "at": event.at.isoformat(),
            "told_at": None if event.told_at is None else event.told_at.isoformat(),
        }
    )


def pushed_from(account: str, id: str, facts: str) -> Event:
    """Read an event that `pushed_as_facts` wrote."""
    read = json.loads(facts)
    told_at = read["told_at"]
    return pushed(
        account=account,
        number=read["number"],
        type=read["type"],
        data=read["data"],
        at=datetime.fromisoformat(read["at"]),
        id=id,
        told_at=None if told_at is None else datetime.fromisoformat(told_at),
    )


def _data(acceptance: Acceptance, recipient: str, step: Step) -> dict[str, Any]:
    return {
        "email_id": acceptance.id,
        "message_id": acceptance.message_id,
        "key": acceptance.key,
        "from": acceptance.sender,
        "recipient": recipient,
        "subject": acceptance.subject,
        "obligation": acceptance.obligation,
        "accepted_at": instant(acceptance.accepted_at),
        "reply": None if step.reply is None else _reply(step.reply),
        "bounce": None if step.bounce is None else step.bounce.value,
        "category": step.category,
        "reason": step.reason,
        "url": CLICKED_URL if step.happening is Happening.CLICKED else None,
    }


def _reply(reply: MtaReply) -> dict[str, Any]:
    return {"code": reply.code, "enhanced": reply.enhanced, "text": reply.text}


@dataclass(slots=True)
class EventLog:
    """The events of one account: what has happened, in order, and what will.

    Nothing is worked out before somebody asks: taking a mail in costs the sender nothing.
    """

    kept: int = KEPT
    pushed: int = 0
    """How many events were ever pushed by hand: names the next one."""
    first: int = 1
    """Number of the oldest event that is kept; numbers count all that ever happened, in order."""
    happened: list[Event] = field(default_factory=list)
    _fresh: deque[Acceptance] = field(default_factory=deque)
    _fresh_recipients: int = 0
    _coming: list[tuple[datetime, tuple[int, ...], Event]] = field(default_factory=list)

    def book(self, acceptance: Acceptance) -> None:
        """A mail was accepted: what becomes of it will happen."""
        # Its header fields are no part of any event, and may be many.
        self._fresh.append(
            dataclasses.replace(acceptance, headers=()) if weight_of(acceptance) else acceptance
        )
        self._fresh_recipients += len(acceptance.recipients)
        while len(self._fresh) > WAITING or (
            self._fresh_recipients > WAITING_RECIPIENTS and len(self._fresh) > 1
        ):
            self._take_fresh()

    def _take_fresh(self) -> Acceptance:
        oldest = self._fresh.popleft()
        self._fresh_recipients -= len(oldest.recipients)
        return oldest

    def push(self, event: Event) -> None:
        """Let an event happen at its instant, whatever the ledger says."""
        heapq.heappush(self._coming, (event.at, event.order, event))

    def advance(self, now: datetime) -> int:
        """Let happen what is due at `now`; return the number of the last event that has happened."""
        while self._fresh:
            for event in events_of(self._take_fresh()):
                if event.at <= now or len(self._coming) < AHEAD:
                    self.push(event)
        while self._coming and self._coming[0][0] <= now:
            self.happened.append(heapq.heappop(self._coming)[2])
        if len(self.happened) > 2 * self.kept:
            gone = len(self.happened) - self.kept
            del self.happened[:gone]
            self.first += gone
        return self.first + len(self.happened) - 1

    def since(self, number: int) -> Iterator[tuple[int, Event]]:
        """Yield what has happened after the event of this number, with numbers; what is not kept is left out."""
        start = max(number + 1, self.first)
        for position in range(start - self.first, len(self.happened)):
            yield self.first + position, self.happened[position]

    def next_at(self) -> datetime | None:
        """Return when the next event happens, as far as `advance` has looked; None: none is on its way."""
        return self._coming[0][0] if self._coming else None

    def awaited(self) -> set[str]:
        """Return the acceptances that `advance` has still to look at."""
        return {each.id for each in self._fresh}

    def is_fresh(self) -> bool:
        """Tell whether there are acceptances that `advance` has not looked at."""
        return bool(self._fresh)
