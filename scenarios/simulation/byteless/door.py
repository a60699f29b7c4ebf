"""The provider's side of a line: what `simulator.servers` does around the core, without servers.

A door opens attempts, asks the core stage by stage, carries its answers out on a line and reports what went out.
What HTTP and SMTP have in common is here. The servers themselves are the original: a test lays both side by side.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from scenarios.simulation.byteless.line import End, Line, Want
from scenarios.simulation.byteless.loop import refuse
from simulator.provider.answer import (
    Accepted,
    Answer,
    Dressed,
    Garble,
    Hang,
    HangUp,
    Hold,
    Refused,
    Reply,
    Reset,
    Slow,
    TellFirst,
    Truncate,
    Words,
)
from simulator.provider.dress import Dress
from simulator.provider.ledger import Attempt, AttemptState, Sent
from simulator.provider.provider import Provider

#: An instant for what is worded or read once for all worlds, and has no time in it.
NEVER = datetime(1970, 1, 1, tzinfo=UTC)

Waits = Generator[Any, Any, Any]
"""Yields what it waits for, see `line.Session`."""


class Premises(Protocol):
    """The provider's house."""

    provider: Provider

    @property
    def now(self) -> datetime:
        """What time it is."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """What is said where it does not go out in one piece: see `simulator.dialects.script`, with values for bytes."""

    pieces: tuple[Any, ...]
    pause_s: float = 0.0
    whole: bool = True


class Voice(Protocol):
    """How one wire says words on a line."""

    def speak(self, words: Words) -> Waits:
        """Say them whole; yields if that takes time."""
        ...

    def speak_in_part(self, words: Words | None) -> None:
        """Say the beginning of them; the line is closed right after."""
        ...

    def babble(self, code: int) -> Waits:
        """Say something that is no reply."""
        ...

    def script(self, dress: Dress, words: Words | None) -> Play:
        """Return how these words are said in this form."""
        ...


def wait_out(answer: Answer | None, attempt: Attempt) -> Waits:
    """Spend the waits at the beginning of an answer; return what is left to be said (None: go on as usual)."""
    while True:
        if isinstance(answer, Slow):
            yield None, answer.delay_s
        elif isinstance(answer, Hold):
            before, attempt.state = attempt.state, AttemptState.HELD
            yield Want.RELEASE
            attempt.state = before
        elif isinstance(answer, TellFirst):
            pass  # there is no webhook to be told
        else:
            return answer
        answer = answer.then


def deliver(answer: Answer | None, attempt: Attempt, voice: Voice, line: Line, *, half_closes: bool) -> Waits:
    """Do what the answer says; return how much of it really went out.

    `half_closes`: on this wire a sender that has said its last word may still listen.
    """
    rest = yield from wait_out(answer, attempt)

    def is_gone() -> bool:
        return line.over or line.reset or (line.closed and not half_closes)

    gone = is_gone()
    match rest:
        case None:
            return Sent.NOTHING
        case Accepted() | Refused() | Reply():
            if gone:
                return Sent.NOTHING
            yield from voice.speak(rest)
            return Sent.UNKNOWN if line.closed else Sent.COMPLETE
        case Garble(code=code):
            if gone:
                return Sent.NOTHING
            yield from voice.babble(code)
            return Sent.PARTIAL
        case Truncate(then=then):
            if gone:
                return Sent.NOTHING
            voice.speak_in_part(then)
            line.end(End.FIN)
            return Sent.PARTIAL
        case HangUp():
            line.end(End.FIN)
            return Sent.NOTHING
        case Reset():
            line.end(End.RST)
            return Sent.NOTHING
        case Hang(for_s=for_s):
            yield Want.END if for_s is None else (Want.END, for_s)
            if for_s is not None:
                line.end(End.FIN)
            return Sent.NOTHING
        case Dressed(dress=dress, then=then):
            script, said = voice.script(dress, then), Sent.NOTHING
            for number, piece in enumerate(script.pieces):
                if number and script.pause_s:
                    yield None, script.pause_s
                if is_gone():
                    return said
                line.say(piece)
                said = Sent.PARTIAL
            if not script.whole:
                line.end(End.FIN)
                return said
            return Sent.UNKNOWN if line.closed else Sent.COMPLETE
        case _:
            refuse(f"the provider answers {type(rest).__name__}, which the model level does not know")


def hangs(answer: Answer | None) -> bool:
    """Tell whether an answer ends in a hang."""
    then = getattr(answer, "then", None)
    return isinstance(answer, Hang) or (then is not None and hangs(then))
