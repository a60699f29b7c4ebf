"""What was promised against what was accepted: the judgement over one account.

An obligation is a committed intention to send one mail to one recipient. The judge reads the ledger only;
what the sender says of itself (`state`) can explain an absence, never an extra copy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from simulator.provider.acceptance import Acceptance
from simulator.provider.fate import Fate


class Reported(StrEnum):
    """What the sender says became of a mail; the states of an outbox."""

    PENDING = "pending"
    SENDING = "sending"
    ACCEPTED = "accepted"
    UNKNOWN = "unknown"
    FAILED = "failed"
    EXPIRED = "expired"
    SUPPRESSED = "suppressed"
    CANCELLED = "cancelled"
    DEAD = "dead"


#: Honest endings without an acceptance.
ENDED_UNSENT = frozenset({Reported.FAILED, Reported.EXPIRED, Reported.SUPPRESSED, Reported.CANCELLED})
#: Waiting for a person, and saying so.
PARKED = frozenset({Reported.UNKNOWN, Reported.DEAD})


@dataclass(frozen=True, slots=True, kw_only=True)
class Obligation:
    """One promised mail to one recipient."""

    account: str
    ref: str
    recipient: str
    copies: int = 1
    """How many acceptances are right (two equal events to one person: 2)."""
    sha256: str | None = None
    """Hex SHA-256 of the promised bytes, if whoever promised knows them."""
    state: Reported | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One entry of a judgement: an obligation (or a mail nobody promised) and the acceptances behind it."""

    ref: str | None
    recipient: str
    expected: int
    acceptances: tuple[Acceptance, ...] = ()
    state: Reported | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "ref": self.ref,
            "recipient": self.recipient,
            "expected": self.expected,
            "copies": len(self.acceptances),
            "state": self.state.value if self.state is not None else None,
            "ids": [each.id for each in self.acceptances],
            "message_ids": [each.message_id for each in self.acceptances],
            "keys": [each.key for each in self.acceptances],
            "attempts": [each.attempt for each in self.acceptances],
            "accepted_at": [each.accepted_at.isoformat() for each in self.acceptances],
            "subject": next((each.subject for each in self.acceptances), None),
        }


@dataclass(slots=True, kw_only=True)
class Judgement:
    """Obligations against ledger."""

    obligations: int = 0
    accepted_once: int = 0
    duplicated: list[Finding] = field(default_factory=list)
    lost: list[Finding] = field(default_factory=list)
    phantom: list[Finding] = field(default_factory=list)
    misdirected: list[Finding] = field(default_factory=list)
    misreported: list[Finding] = field(default_factory=list)
    parked: list[Finding] = field(default_factory=list)
    open: list[Finding] = field(default_factory=list)
    unsent: list[Finding] = field(default_factory=list)
    """Ended without an acceptance, and rightly reported so (refused, expired, suppressed, cancelled)."""
    dropped: list[Finding] = field(default_factory=list)
    """Accepted, but the provider never delivers: no fault of the sender, and nobody else will say it."""
    gone: int = 0
    """So many mails that were accepted are not kept any more. Of a promise without enough copies nobody can tell then
    whether it was kept, and of no mail whether it had another copy."""
    forgotten: list[Finding] = field(default_factory=list)
    """They would be lost, or rightly called unsent, if no mails were gone."""

    @property
    def valid(self) -> bool | None:
        """False: something is wrong. None: it cannot be said (yet). True: every promise was kept."""
        if self.duplicated or self.lost or self.phantom or self.misdirected or self.misreported:
            return False
        if self.open or not self.obligations or self.gone:
            return None
        return True

    def as_json(self) -> dict[str, Any]:
        lists = (
            "duplicated",
            "lost",
            "phantom",
            "misdirected",
            "misreported",
            "parked",
            "open",
            "unsent",
            "dropped",
            "forgotten",
        )
        return {
            "valid": self.valid,
            "obligations": self.obligations,
            "accepted_once": self.accepted_once,
            "gone": self.gone,
        } | {name: [finding.as_json() for finding in getattr(self, name)] for name in lists}


def judge(
    obligations: Sequence[Obligation],
    acceptances: Iterable[Acceptance],
    *,
    final: bool = False,
    booked: int | None = None,
) -> Judgement:
    """Compare promises with the ledger.

    `final` says that the calm is over: what is still open then is lost. Without any obligation only copies
    of the same Message-ID to the same recipient can be told, and the result is otherwise undecided.
    `booked`: so many mails were accepted at least; who keeps fewer of them cannot call the others lost.
    """
    judgement = Judgement(obligations=len(obligations))
    by_recipient: dict[str, list[Acceptance]] = defaultdict(list)
    kept = 0
    for acceptance in acceptances:
        kept += booked is not None and acceptance.number <= booked
        for recipient in acceptance.recipients:
            by_recipient[recipient.lower()].append(acceptance)
    judgement.gone = 0 if booked is None else booked - kept
    promised: dict[str, list[Obligation]] = defaultdict(list)
    for obligation in obligations:
        promised[obligation.recipient.lower()].append(obligation)
    refs = {obligation.ref for obligation in obligations}

    if not obligations:
        _judge_unpromised(by_recipient, judgement)
        return judgement

    for recipient, owed in promised.items():
        _judge_recipient(recipient, owed, by_recipient.pop(recipient, []), refs, judgement, final=final)
    for recipient, arrived in by_recipient.items():
        for acceptance in arrived:
            strayed = acceptance.obligation in refs
            (judgement.misdirected if strayed else judgement.phantom).append(
                Finding(
                    ref=acceptance.obligation,
                    recipient=recipient,
                    expected=0,
                    acceptances=(acceptance,),
                )
            )
    return judgement


def _judge_recipient(
    recipient: str,
    owed: list[Obligation],
    arrived: list[Acceptance],
    refs: set[str],
    judgement: Judgement,
    *,
    final: bool,
) -> None:
    shares: dict[str, list[Acceptance]] = {obligation.ref: [] for obligation in owed}
    unmarked = []
    for acceptance in arrived:
        if acceptance.obligation in shares:
            shares[acceptance.obligation].append(acceptance)
        elif acceptance.obligation in refs:
            judgement.misdirected.append(
                Finding(ref=acceptance.obligation, recipient=recipient, expected=0, acceptances=(acceptance,))
            )
        else:
            unmarked.append(acceptance)
    # Mails that do not say which promise they keep fill up what is still owed; the rest is too much.
    for acceptance in unmarked:
        needy = next((each for each in owed if len(shares[each.ref]) < each.copies), owed[-1])
        shares[needy.ref].append(acceptance)
    for obligation in owed:
        _judge_obligation(obligation, tuple(shares[obligation.ref]), judgement, final=final)


def _judge_obligation(
    obligation: Obligation, copies: tuple[Acceptance, ...], judgement: Judgement, *, final: bool
) -> None:
    finding = Finding(
        ref=obligation.ref,
        recipient=obligation.recipient,
        expected=obligation.copies,
        acceptances=copies,
        state=obligation.state,
    )
    if any(each.destiny_of(obligation.recipient).fate is Fate.DROPPED for each in copies):
        judgement.dropped.append(finding)
    if obligation.sha256 is not None and any(each.sha256 != obligation.sha256 for each in copies):
        judgement.misdirected.append(finding)
    if copies and obligation.state in ENDED_UNSENT:
        judgement.misreported.append(finding)
    if len(copies) > obligation.copies:
        judgement.duplicated.append(finding)
    elif len(copies) == obligation.copies:
        judgement.accepted_once += 1
    elif obligation.state in PARKED:
        judgement.parked.append(finding)
    elif obligation.state in ENDED_UNSENT:
        (judgement.forgotten if judgement.gone else judgement.unsent).append(finding)
    elif final or obligation.state is Reported.ACCEPTED:
        # The sender calls it sent and the ledger does not know it: no waiting can mend that.
        (judgement.forgotten if judgement.gone else judgement.lost).append(finding)
    else:
        judgement.open.append(finding)


def _judge_unpromised(by_recipient: dict[str, list[Acceptance]], judgement: Judgement) -> None:
    for recipient, arrived in by_recipient.items():
        copies: dict[str, list[Acceptance]] = defaultdict(list)
        for acceptance in arrived:
            if acceptance.message_id is not None:
                copies[acceptance.message_id].append(acceptance)
        for same in copies.values():
            if len(same) > 1:
                judgement.duplicated.append(
                    Finding(ref=None, recipient=recipient, expected=1, acceptances=tuple(same))
                )
            if any(each.destiny_of(recipient).fate is Fate.DROPPED for each in same):
                judgement.dropped.append(
                    Finding(ref=None, recipient=recipient, expected=1, acceptances=tuple(same))
                )
