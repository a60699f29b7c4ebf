"""What a sender has heard: what the provider told of its mails, what it answered, what it made of it – and what is wrong.

Pure: values in, findings out. The provider's side is the deliveries of its webhook, the sender's side what stands in its
own tables. Nothing here knows how either of them works.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scenarios.checks import Finding
from scenarios.history import History
from simulator.provider.notices import Spoilt
from simulator.provider.obligations import Reported

#: Every kind of finding about what was told, and what it says.
KINDS: dict[str, str] = {
    "believed": "a request that nobody could believe was answered with a 2xx",
    "refused": "a genuine request was answered with a 4xx: the provider gives the endpoint up in the end",
    "event lost": "answered with a 2xx, and nothing is known of it",
    "counted twice": "more facts of a kind than were told",
    "news erased": "worse news was overwritten by better news that came behind it",
    "suppressed for nothing": "nobody told of a hard bounce or a complaint, and the address gets no more mail",
    "not suppressed": "told of a hard bounce or a complaint, and the address still gets mail",
    "told in vain": "the mail is still in doubt although an event proves that it was taken",
}

#: What an event is called → what it is. A bounce is hard or soft by its data.
_KIND_OF = {
    "email.accepted": "queued",
    "email.deferred": "deferred",
    "email.delivered": "delivered",
    "email.suppressed": "suppressed",
    "email.complained": "complaint",
    "email.opened": "opened",
    "email.clicked": "clicked",
    "email.unsubscribed": "unsubscribed",
}
#: What nothing that comes behind it makes undone.
WORST = frozenset({"hard_bounce", "complaint"})
#: What is wrong with a request that nobody may believe.
UNBELIEVABLE = frozenset({"bad_signature", "stale"})


def kind_of(type_: str, data: Mapping[str, Any]) -> str | None:
    """What an event is about, in the words of the judge; None: nothing that he knows."""
    if type_ == "email.bounced":
        return "hard_bounce" if data.get("bounce") == "hard" else "soft_bounce"
    return _KIND_OF.get(type_)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request of the provider, and what it was answered."""

    flaws: frozenset[str]
    status: int | None

    @property
    def acknowledged(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """One event that was told, in however many requests."""

    event_id: str
    kind: str | None
    at: datetime
    recipient: str | None
    readable: bool
    """False: the event itself was spoilt, and nobody can know what it says."""
    requests: tuple[Request, ...]

    @property
    def acknowledged(self) -> bool:
        """Whether the sender said yes to it in a request that it could believe."""
        return any(each.acknowledged and not each.flaws & UNBELIEVABLE for each in self.requests)

    @property
    def told(self) -> bool:
        """Whether the sender may know it: killed before it said yes, it may have kept it all the same."""
        return self.readable and any(not each.flaws & UNBELIEVABLE for each in self.requests)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mind:
    """What the sender knows in the end."""

    states: Mapping[str, Reported]
    """By recipient."""
    facts: Mapping[str, Sequence[tuple[str, datetime]]]
    """By recipient: kinds and instants, as they are stored."""
    standing: Mapping[str, str | None]
    """By recipient: where the sender says that the mail stands."""
    suppressed: frozenset[str]


def judge(told: Sequence[Telling], mind: Mind) -> list[Finding]:
    """Everything that is wrong."""
    return [*answers(told), *_facts(told, mind), *_addresses(told, mind)]


def answers(told: Sequence[Telling]) -> Iterator[Finding]:
    """What is wrong with what was said to requests."""
    for each in told:
        for request in each.requests:
            unbelievable = request.flaws & UNBELIEVABLE
            if unbelievable and request.acknowledged:
                what = ", ".join(sorted(unbelievable))
                yield _finding("believed", each, f"answered with {request.status} although it was: {what}")
            refused = request.status is not None and 400 <= request.status < 500
            if refused and not unbelievable and each.readable:
                yield _finding("refused", each, f"genuine, and answered with {request.status}")


def _facts(told: Sequence[Telling], mind: Mind) -> Iterator[Finding]:
    ours = {recipient.lower(): recipient for recipient in mind.states}
    for each in told:
        recipient = ours.get((each.recipient or "").lower())
        if recipient is None or each.kind is None or not (each.readable and each.acknowledged):
            continue
        if (each.kind, each.at) not in mind.facts.get(recipient, ()):
            yield _finding("event lost", each, f"acknowledged, and nothing is known of it: {each.kind}")
        if mind.states[recipient] in (Reported.UNKNOWN, Reported.PENDING):
            sentence = f"the mail is {mind.states[recipient].value}, and an event proves that it was taken"
            yield _finding("told in vain", each, sentence)
    for recipient in mind.states:
        about = [each for each in told if each.told and (each.recipient or "").lower() == recipient.lower()]
        most = Counter(kind for kind, _ in {(each.kind, each.at) for each in about})
        for kind, number in Counter(kind for kind, _ in mind.facts.get(recipient, ())).items():
            if number > most[kind]:
                yield Finding(
                    kind="counted twice",
                    recipient=recipient,
                    sentence=f"{number} facts of the kind {kind}, and {most[kind]} were told",
                )
        worst = {each.kind for each in about if each.kind in WORST and each.acknowledged}
        if worst and mind.standing.get(recipient) not in WORST:
            yield Finding(
                kind="news erased",
                recipient=recipient,
                sentence=f"told {', '.join(sorted(filter(None, worst)))}, and it stands at {mind.standing.get(recipient)}",
            )


def _addresses(told: Sequence[Telling], mind: Mind) -> Iterator[Finding]:
    listed = {address.lower() for address in mind.suppressed}
    bad = [each for each in told if each.kind in WORST and each.told and each.recipient]
    may = {each.recipient.lower() for each in bad if each.recipient}
    should = {each.recipient.lower(): each for each in bad if each.recipient and each.acknowledged}
    for address in sorted(listed - may):
        sentence = "on the list, and no hard bounce or complaint was told"
        yield Finding(kind="suppressed for nothing", recipient=address, sentence=sentence)
    for address in sorted(set(should) - listed):
        yield _finding(
            "not suppressed", should[address], "a hard bounce or complaint was told and acknowledged"
        )


def _finding(kind: str, told: Telling, sentence: str) -> Finding:
    return Finding(kind=kind, recipient=told.recipient or "", sentence=f"{told.event_id}: {sentence}")


def stands(history: History, recipient: str, wanted: str, *, kind: str = "event lost") -> list[Finding]:
    """The sender says that the mail stands somewhere else than the events tell."""
    said = {each.delivery for each in history.said if each.recipient.lower() == recipient.lower()}
    if said == {wanted}:
        return []
    words = ", ".join(sorted(str(each) for each in said)) or "nothing"
    return [Finding(kind=kind, recipient=recipient, sentence=f"told {wanted}, and it says: {words}")]


def tellings_from(deliveries: Sequence[Mapping[str, Any]]) -> list[Telling]:
    """Read the control API's `deliveries`. What an event is about is not in there."""
    told = []
    for each in deliveries:
        requests = tuple(Request(flaws=frozenset(t["flaws"]), status=t["status"]) for t in each["tries"])
        alone = len(each["events"]) == 1
        for event in each["events"]:
            told.append(
                Telling(
                    event_id=event["id"],
                    kind=None,
                    at=datetime.fromisoformat(each["due_at"]),
                    recipient=event["recipient"],
                    readable=not (alone and any(Spoilt.BODY in request.flaws for request in requests)),
                    requests=requests,
                )
            )
    return told
