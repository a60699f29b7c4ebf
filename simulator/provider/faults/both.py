"""The faults that both wires have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from simulator.provider.answer import (
    Answer,
    Dressed,
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
from simulator.provider.dress import Doubled, Dripped
from simulator.provider.faults.stages import Stages, all_but


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyWith:
    """Answer with this code. The sender sees a complete, well-formed refusal (or a lie, after booking)."""

    name: ClassVar[str] = "reply"
    stages: ClassVar[Stages] = all_but("body", "idle")
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
    stages: ClassVar[Stages] = all_but("idle")
    delay_s: float

    def answer(self) -> Answer:
        return Slow(delay_s=self.delay_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class HangThere:
    """Never answer (or close silently after `delay_s`). The sender sees its own timeout."""

    name: ClassVar[str] = "hang"
    stages: ClassVar[Stages] = all_but()
    delay_s: float | None = None

    def answer(self) -> Answer:
        return Hang(for_s=self.delay_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class HangUpOnThem:
    """Close the connection without a word (FIN). The sender sees end of file."""

    name: ClassVar[str] = "hang_up"
    stages: ClassVar[Stages] = all_but()

    def answer(self) -> Answer:
        return HangUp()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetTheLine:
    """Break the connection (RST). The sender sees `connection reset by peer`."""

    name: ClassVar[str] = "reset"
    stages: ClassVar[Stages] = all_but()

    def answer(self) -> Answer:
        return Reset()


@dataclass(frozen=True, slots=True, kw_only=True)
class GarbleTheReply:
    """Answer with bytes that are no reply. HTTP: head with `code` (200), body that is no JSON."""

    name: ClassVar[str] = "garble"
    stages: ClassVar[Stages] = all_but("idle")
    code: int = 200

    def answer(self) -> Answer:
        return Garble(code=self.code)


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateTheReply:
    """Begin the reply, then close the connection in the middle of it."""

    name: ClassVar[str] = "truncate"
    stages: ClassVar[Stages] = all_but("idle")

    def answer(self) -> Answer:
        return Truncate()


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldTheAnswer:
    """Keep the answer back until `POST release`: the moment in which a harness kills the sender."""

    name: ClassVar[str] = "hold"
    stages: ClassVar[Stages] = all_but("idle")

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


#: Where an answer with words is due that something true stands behind.
_WITH_TRUE_WORDS: Stages = {
    "smtp": ("reply", "connect", "ehlo", "auth", "mail", "rcpt", "data", "rset", "quit"),
    "http": ("reply", "lookup"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DripTheAnswer:
    """Send the answer in pieces of `size_bytes`, one every `delay_s`: no read times out, and it takes for ever.

    Over SMTP each piece is a TCP segment of its own.
    """

    name: ClassVar[str] = "drip"
    stages: ClassVar[Stages] = _WITH_TRUE_WORDS
    delay_s: float = 0.05
    size_bytes: int = 1

    def answer(self) -> Answer:
        return Dressed(dress=Dripped(pause_s=self.delay_s, size_bytes=self.size_bytes))


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTwice:
    """Send a second answer that nobody asked for: on a kept connection the next request would get it.

    Without a code it is the first one again (SMTP), or 500 (HTTP). 421 over SMTP ends the connection.
    """

    name: ClassVar[str] = "two_answers"
    stages: ClassVar[Stages] = _WITH_TRUE_WORDS
    code: int | None = None
    enhanced: str | None = None
    text: str | None = None

    def answer(self) -> Answer:
        return Dressed(dress=Doubled(code=self.code, enhanced=self.enhanced, text=self.text))
