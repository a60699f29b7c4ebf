"""What can go wrong: one small value per fault, and the table of their names.

A fault only says which answer is given (and, for refused recipients, to whom). *When* it strikes, and
whether the mail is booked by then, is the stage of its rule: at SMTP `reply` and HTTP `reply`/`body` the
mail is already in the ledger. "Accept, then lose the answer" is therefore an ordinary fault at stage
`reply`; the table `SPELLINGS` gives it the name people look for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from simulator.provider.answer import (
    Answer,
    Garble,
    Hang,
    HangUp,
    Hold,
    RefusedRecipient,
    Reply,
    Reset,
    RetryAfter,
    Slow,
    Truncate,
)

SMTP_STAGES = (
    "connect",
    "ehlo",
    "starttls",
    "auth",
    "mail",
    "rcpt",
    "data",
    "body",
    "message",
    "reply",
    "rset",
    "quit",
    "idle",
)
HTTP_STAGES = ("connect", "request", "validate", "accept", "reply", "body")

#: Places at which the mail is booked already: what goes wrong here loses the answer, not the mail.
AFTER_BOOKING = frozenset({("smtp", "reply"), ("http", "reply"), ("http", "body")})
#: Stages at which nothing is known of the mail yet.
BEFORE_THE_MAIL = frozenset({"connect", "ehlo", "starttls", "auth", "idle"})

Stages = Mapping[str, tuple[str, ...]]
"""Wire -> the stages on it at which a fault can strike; a wire that is missing cannot have the fault."""


def _all_but(*left_out: str) -> Stages:
    return {
        "smtp": tuple(stage for stage in SMTP_STAGES if stage not in left_out),
        "http": tuple(stage for stage in HTTP_STAGES if stage not in left_out),
    }


_ALL = _all_but()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyWith:
    """Answer with this code. The sender sees a complete, well-formed refusal (or a lie, after booking)."""

    name: ClassVar[str] = "reply"
    stages: ClassVar[Stages] = _all_but("body", "idle")
    code: int
    enhanced: str | None = None
    text: str | None = None
    retry_after: RetryAfter | None = None
    body: str | None = None

    def answer(self) -> Answer:
        return Reply(
            code=self.code,
            enhanced=self.enhanced,
            text=self.text,
            retry_after=self.retry_after,
            body=self.body,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowDown:
    """Wait before answering, then go on as if nothing had been. The sender sees latency."""

    name: ClassVar[str] = "slow"
    stages: ClassVar[Stages] = _all_but("idle")
    delay_s: float

    def answer(self) -> Answer:
        return Slow(delay_s=self.delay_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class HangThere:
    """Never answer (or close silently after `delay_s`). The sender sees its own timeout."""

    name: ClassVar[str] = "hang"
    stages: ClassVar[Stages] = _ALL
    delay_s: float | None = None

    def answer(self) -> Answer:
        return Hang(for_s=self.delay_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class HangUpOnThem:
    """Close the connection without a word (FIN). The sender sees end of file."""

    name: ClassVar[str] = "hang_up"
    stages: ClassVar[Stages] = _ALL

    def answer(self) -> Answer:
        return HangUp()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetTheLine:
    """Break the connection (RST). The sender sees `connection reset by peer`."""

    name: ClassVar[str] = "reset"
    stages: ClassVar[Stages] = _ALL

    def answer(self) -> Answer:
        return Reset()


@dataclass(frozen=True, slots=True, kw_only=True)
class GarbleTheReply:
    """Answer with bytes that are no reply. HTTP: head with `code` (200), body that is no JSON."""

    name: ClassVar[str] = "garble"
    stages: ClassVar[Stages] = _all_but("idle")
    code: int = 200

    def answer(self) -> Answer:
        return Garble(code=self.code)


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateTheReply:
    """Begin the reply, then close the connection in the middle of it."""

    name: ClassVar[str] = "truncate"
    stages: ClassVar[Stages] = _all_but("idle")

    def answer(self) -> Answer:
        return Truncate()


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldTheAnswer:
    """Keep the answer back until `POST release`: the moment in which a harness kills the sender."""

    name: ClassVar[str] = "hold"
    stages: ClassVar[Stages] = _all_but("idle")

    def answer(self) -> Answer:
        return Hold()


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """Say yes and mean it for the ledger, but never deliver. The sender can see nothing of it."""

    name: ClassVar[str] = "accept_then_drop"
    stages: ClassVar[Stages] = {"smtp": ("message",), "http": ("accept",)}

    def answer(self) -> Answer | None:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class RefuseRecipients:
    """Refuse the recipients that the rule's `recipient` names, one by one; take the others."""

    name: ClassVar[str] = "refuse_recipients"
    stages: ClassVar[Stages] = {"smtp": ("rcpt",), "http": ("validate",)}
    code: int = 550
    enhanced: str | None = "5.1.1"
    text: str = "no such mailbox"

    def answer(self) -> Answer:
        return Reply(code=self.code, enhanced=self.enhanced, text=self.text)

    def refuse(self, recipient: str) -> RefusedRecipient:
        return RefusedRecipient(recipient=recipient, code=self.code, enhanced=self.enhanced, text=self.text)


Fault = (
    ReplyWith
    | SlowDown
    | HangThere
    | HangUpOnThem
    | ResetTheLine
    | GarbleTheReply
    | TruncateTheReply
    | HoldTheAnswer
    | Drop
    | RefuseRecipients
)

FAULTS: dict[str, type[Fault]] = {
    fault.name: fault
    for fault in (
        ReplyWith,
        SlowDown,
        HangThere,
        HangUpOnThem,
        ResetTheLine,
        GarbleTheReply,
        TruncateTheReply,
        HoldTheAnswer,
        Drop,
        RefuseRecipients,
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """A second name for a fault: the same fault at a fixed stage, with other defaults."""

    fault: str
    stage: str
    defaults: tuple[tuple[str, int], ...] = ()
    meaning: str


SPELLINGS: dict[str, Spelling] = {
    "accept_then_hang": Spelling(fault="hang", stage="reply", meaning="Take the mail, then never answer."),
    "accept_then_hang_up": Spelling(
        fault="hang_up", stage="reply", meaning="Take the mail, then close the line (FIN) unanswered."
    ),
    "accept_then_reset": Spelling(
        fault="reset", stage="reply", meaning="Take the mail, then break the line (RST) unanswered."
    ),
    "accept_then_reply": Spelling(
        fault="reply",
        stage="reply",
        # 554 and 500 are both "5xx"; 500 is a valid code on both wires.
        defaults=(("code", 500),),
        meaning="Take the mail, then say that it was not taken.",
    ),
    "accept_then_garble": Spelling(
        fault="garble", stage="reply", meaning="Take the mail, then answer with nonsense."
    ),
    "accept_then_truncate": Spelling(
        fault="truncate", stage="reply", meaning="Take the mail, then break off in the middle of the answer."
    ),
    "accept_then_hold": Spelling(
        fault="hold", stage="reply", meaning="Take the mail, then keep the answer until it is released."
    ),
}

#: The stage a rule gets when it names none, by wire and fault: where the mail is about to be booked, if it can be there.
_USUAL_STAGE = {"smtp": "message", "http": "accept"}
NATURAL_STAGE: dict[str, dict[str, str]] = {
    wire: {
        name: usual if usual in fault.stages[wire] else fault.stages[wire][0]
        for name, fault in FAULTS.items()
        if wire in fault.stages
    }
    for wire, usual in _USUAL_STAGE.items()
}
