"""What happened in one scenario, as plain values: promises, acceptances, attempts, and what the sender says.

Built from the JSON of the simulator's control API and of the sender's status; nothing here asks anybody,
and nothing judges. A stored history can be judged again at any time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from scenarios.mail import bare
from simulator.provider.acceptance import Acceptance
from simulator.provider.batch import OF_ALL, UNTOLD
from simulator.provider.fate import Fate
from simulator.provider.obligations import Obligation, Reported

Answer = TypeVar("Answer")

#: In the words of the provider (`simulator.provider.dress`): all of it went out, in a form that no sender can read. A
#: yes that nobody can read has told nobody anything.
_UNREADABLE = re.compile(rf"odd body: (?!whole)|\bgzip \(|\bchunked \((?!trailer)|\b{UNTOLD}$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One attempt of the sender, as the provider saw it."""

    id: str
    opened_at: datetime
    closed_at: datetime | None = None
    dialect: str = ""
    """What was spoken; empty: whoever wrote this down did not say."""
    stage: str = "connect"
    recipients: tuple[str, ...] = ()
    message_id: str | None = None
    key: str | None = None
    accepted: tuple[str, ...] = ()
    answer: str = ""
    sent: str = "unknown"
    """How much of the answer went out: complete, partial, nothing, unknown."""
    rules: tuple[str, ...] = ()
    retry_after_s: float | None = None
    """How long the answer asked to wait, if it did and whoever wrote this down knows."""

    @property
    def code(self) -> int | None:
        """The code the sender was told, if it was told one in full."""
        if self.sent != "complete":
            return None
        found = re.match(r"(\d{3})\b", self.answer)
        return int(found[1]) if found is not None else None

    @property
    def told_yes(self) -> bool:
        """True if the sender was told in full that the mail is taken."""
        if self.sent != "complete" or _UNREADABLE.search(self.answer):
            return False
        return self.answer.startswith("accepted") or (self.code is not None and 200 <= self.code < 300)

    @property
    def is_of_all(self) -> bool:
        """True if the answer says the same of several mails at once: which of them is meant, nobody can tell."""
        return self.answer.endswith(OF_ALL)

    @property
    def in_doubt(self) -> bool:
        """True if the provider took something and the sender was not told so in full (RFC 1047)."""
        return bool(self.accepted) and not self.told_yes

    def concerns(self, recipient: str) -> bool:
        return any(each.lower() == recipient.lower() for each in self.recipients)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What the sender reports of one mail to one recipient."""

    key: str
    recipient: str
    state: Reported
    attempts: int | None = None
    provider_id: str | None = None
    reason: str | None = None
    """Why it is where it is, in words for a person; None: this sender has no place for that."""
    delivery: str | None = None
    """Where the mail stands, by what the provider told afterwards; None: nothing was told, or it is not said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Something the harness did or saw, for the timeline."""

    at: datetime
    actor: str
    """app, sender, provider or harness."""
    text: str
    recipient: str | None = None
    """None: it concerns every mail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Everything a judge may know of one scenario."""

    obligations: tuple[Obligation, ...] = ()
    acceptances: tuple[Acceptance, ...] = ()
    attempts: tuple[Try, ...] = ()
    said: tuple[Said, ...] = ()
    marks: tuple[Mark, ...] = ()
    knows_states: bool = False
    """True if the sender can be asked for its states: silence about a mail then means something."""
    crashes: int = 0
    """How often a process of the sender was killed: it may have heard an answer that it could not store any more."""
    moving: bool = False
    """True if things still moved when the calm ran out of time."""
    refused: tuple[str, ...] = ()
    """Recipients refused for good beside others, where no attempt's own answer says so (SMTP at RCPT)."""
    _derived: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What was asked of it before: a history never changes, and a judge asks the same things again and again."""

    def once(self, question: str, answer: Callable[[], Answer]) -> Answer:
        """Return the answer to a question; it is worked out when it is asked for the first time."""
        if question not in self._derived:
            self._derived[question] = answer()
        known: Answer = self._derived[question]
        return known

    def tries_for(self, recipient: str) -> list[Try]:
        """Return the attempts that named this recipient, oldest first."""
        return self.once(
            f"tries for {recipient}",
            lambda: sorted((each for each in self.attempts if each.concerns(recipient)), key=_opened),
        )

    def copies_for(self, recipient: str) -> list[Acceptance]:
        """Return the acceptances for this recipient, oldest first."""
        wanted = recipient.lower()
        return [each for each in self.acceptances if wanted in (r.lower() for r in each.recipients)]

    def state_of(self, recipient: str) -> Reported | None:
        """Return what the sender says of this recipient's mail; the least settled state of several."""
        states = [each.state for each in self.said if each.recipient.lower() == recipient.lower()]
        return max(states, key=_UNSETTLED.index) if states else None

    def timeline(self, recipients: Iterable[str]) -> list[Mark]:
        """Return what happened to the mails of these recipients, in order of time."""
        wanted = {recipient.lower() for recipient in recipients}
        marks = [each for each in self.marks if each.recipient is None or each.recipient.lower() in wanted]
        for each in self.attempts:
            if not wanted & {recipient.lower() for recipient in each.recipients}:
                continue
            name = ", ".join(filter(None, (each.key and f"key {each.key}", each.message_id)))
            marks.append(Mark(at=each.opened_at, actor="sender", text=f"attempt {each.id} begins"))
            if each.closed_at is not None:
                told = f"answer {each.answer!r}, {each.sent} sent, at stage {each.stage}"
                marks.append(
                    Mark(
                        at=each.closed_at,
                        actor="provider",
                        text=f"attempt {each.id} ends: {told}" + (f" ({name})" if name else ""),
                    )
                )
        for acceptance in self.acceptances:
            hit = [r for r in acceptance.recipients if r.lower() in wanted]
            if hit:
                marks.append(
                    Mark(
                        at=acceptance.accepted_at,
                        actor="ledger",
                        text=f"accepted {acceptance.id} for {', '.join(hit)} in attempt {acceptance.attempt}",
                    )
                )
        return sorted(marks, key=_at)


def _opened(each: Try) -> datetime:
    return each.opened_at


def _at(mark: Mark) -> datetime:
    return mark.at


#: From settled to unsettled: of two rows for one recipient the worse one is what a person must see.
_UNSETTLED = (
    Reported.ACCEPTED,
    Reported.CANCELLED,
    Reported.SUPPRESSED,
    Reported.EXPIRED,
    Reported.FAILED,
    Reported.DEAD,
    Reported.UNKNOWN,
    Reported.SENDING,
    Reported.PENDING,
)


def acceptance_from(facts: Mapping[str, Any], *, number: int) -> Acceptance:
    """Read one entry of the control API's `messages`."""
    return Acceptance(
        id=str(facts["id"]),
        number=number,
        account=str(facts.get("account", "default")),
        attempt=str(facts.get("attempt", "")),
        dialect=str(facts.get("dialect", "")),
        accepted_at=datetime.fromisoformat(facts["accepted_at"]),
        sender=str(facts.get("sender") or ""),
        recipients=tuple(facts.get("recipients") or ()),
        message_id=facts.get("message_id"),
        key=facts.get("key"),
        fingerprint="",
        subject=str(facts.get("subject") or ""),
        size_bytes=int(facts.get("size_bytes") or 0),
        sha256=str(facts.get("sha256") or ""),
        obligation=facts.get("obligation"),
        fate=Fate(facts.get("fate", "delivered")),
    )


def try_from(facts: Mapping[str, Any]) -> Try:
    """Read one entry of the control API's `attempts`."""
    closed_at = facts.get("closed_at")
    return Try(
        id=str(facts["id"]),
        opened_at=datetime.fromisoformat(facts["opened_at"]),
        closed_at=datetime.fromisoformat(closed_at) if closed_at else None,
        dialect=str(facts.get("dialect") or ""),
        stage=str(facts.get("stage", "connect")),
        recipients=tuple(facts.get("recipients") or ()),
        message_id=facts.get("message_id"),
        key=facts.get("key"),
        accepted=tuple(facts.get("accepted") or ()),
        answer=str(facts.get("answer") or ""),
        sent=str(facts.get("sent") or "unknown"),
        rules=tuple(facts.get("rules") or ()),
    )


def said_from(rows: Sequence[Mapping[str, Any]]) -> tuple[Said, ...]:
    """Read the `mails` of a sender's status. Raises `ValueError` with a sentence for what is no status.

    A recipient may come with a name, as it was handed over: `Ann <ann@example.com>` is ann@example.com.
    """
    said = []
    for row in rows:
        missing = [name for name in ("key", "recipient", "state") if not isinstance(row.get(name), str)]
        if missing:
            raise ValueError(f"a mail of the status has no text {missing[0]!r}: {dict(row)!r:.200}")
        try:
            state = Reported(row["state"])
        except ValueError as error:
            known = ", ".join(each.value for each in Reported)
            raise ValueError(f"state {row['state']!r} is not one of {known}") from error
        attempts = row.get("attempts")
        said.append(
            Said(
                key=row["key"],
                recipient=bare(row["recipient"].strip()),
                state=state,
                attempts=attempts if isinstance(attempts, int) else None,
                provider_id=row.get("provider_id"),
                delivery=row.get("delivery") if isinstance(row.get("delivery"), str) else None,
            )
        )
    return tuple(said)
