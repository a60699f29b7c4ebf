"""The SMTP side of the provider: the dialogue of `simulator.servers.smtp`, command by command, without lines of text.

Replies are the very bytes of `simulator.dialects.smtp`, one value each: whoever reads them must read all of them.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache

from scenarios.simulation.byteless.door import NEVER, Play, Premises, Waits, deliver, hangs, wait_out
from scenarios.simulation.byteless.line import End, Line, Want, Word
from simulator.dialects.script import in_pieces
from simulator.dialects.smtp import GARBLED, cut, lines, part_of, reply
from simulator.provider.answer import (
    Answer,
    DragOn,
    Dressed,
    Garble,
    Reason,
    Refused,
    Reply,
    Unasked,
    WhenHeard,
    Words,
    spoken,
)
from simulator.provider.dress import Doubled, Dress, Dripped
from simulator.provider.ledger import AttemptState, Sent
from simulator.provider.message import Submission, from_bytes
from simulator.provider.provider import Detail
from simulator.provider.smtp import SmtpRules
from simulator.servers.smtp.mail_data import has_bare_line_ends
from simulator.servers.smtp.offers import ehlo_reply, offered

HOSTNAME = "provider"
#: So long the provider waits for the next mail before it closes the line, in seconds: as `SmtpRules.idle_timeout_s` is shipped.
IDLE_S = 300.0


class Verb(Enum):
    """What a sender can say."""

    EHLO = auto()
    HELO = auto()
    MAIL = auto()
    RCPT = auto()
    DATA = auto()
    BODY = auto()
    """The mail, and its last line is still to come."""
    DOT = auto()
    QUIT = auto()


@dataclass(frozen=True, slots=True)
class Command:
    """One thing that a sender says."""

    verb: Verb
    argument: str = ""
    raw: bytes = b""
    """The mail, at BODY."""


class Outcome(Enum):
    """What became of a stage; see the same name in `simulator.servers.smtp.dialogue`."""

    NORMAL = auto()
    YES = auto()
    NO = auto()
    NOISE = auto()


_ENHANCED = re.compile(rb"(?m)^(\d{3}[ -])[245]\.\d{1,3}\.\d{1,3} ")
_CLOSING = 421
#: Stages at which a reply of the plan's usual words has no enhanced code (RFC 2034, section 4).
_BARE = frozenset({"connect", "ehlo"})
_GREETING = lines(220, None, f"{HOSTNAME} ESMTP ready")
_SENDER_OK = lines(250, "2.1.0", "sender OK")
_RECIPIENT_OK = lines(250, "2.1.5", "recipient OK")
_GO_ON = lines(354, None, "end data with <CR><LF>.<CR><LF>")
_OK = lines(250, "2.0.0", "OK")
_BYE = lines(221, "2.0.0", "bye")
_IDLE = lines(_CLOSING, "4.4.2", "too slow or idle for too long, closing the connection")
_NO_MAIL = lines(503, "5.5.1", "no mail is taken here: QUIT")
_TO_NOBODY = lines(503, "5.5.1", "no valid recipients: say RCPT first")
_NOTHING_NEW = Detail()


class SmtpDoor:
    """One connection with a sender, and the voice it speaks with."""

    def __init__(self, premises: Premises, line: Line) -> None:
        self._at = premises
        self._line = line
        self._attempt = premises.provider.open("smtp", "", premises.now)
        self._sender: str | None = None
        self._recipients: list[str] = []
        self._over = False
        self._stage = "connect"
        self._usual = b""
        self._said: str | None = None
        self._closing = False
        self._drag: DragOn | None = None
        self._ahead: deque[Command] = deque()
        """What has been said and not been listened to yet: a rule waits until there is enough of it."""

    # --- the voice ----------------------------------------------------------------------------------

    def speak(self, words: Words) -> Waits:
        whole = self._put(words)
        self._said = _first_line(whole)
        yield from self._utter(whole)

    def _put(self, words: Words) -> bytes:
        return _in_words(words, self._stage in _BARE) if _is_timeless(words) else reply(words, self._at.now)

    def speak_in_part(self, words: Words | None) -> None:
        self._line.say(part_of(self._usual if words is None else reply(words, self._at.now)))

    def babble(self, code: int) -> Waits:
        yield from self._utter(GARBLED)

    def script(self, dress: Dress, words: Words | None) -> Play:
        whole = self._usual if words is None else self._put(words)
        self._said = _first_line(whole)
        match dress:
            case Dripped(pause_s=pause_s, size_bytes=size_bytes):
                drops = in_pieces(whole, size_bytes, pause_s)
                return Play(pieces=drops.pieces, pause_s=pause_s)
            case Doubled(code=code, enhanced=enhanced, text=text):
                again = whole if code is None else self._put(Reply(code=code, enhanced=enhanced, text=text))
                self._closing = code == _CLOSING
                return Play(pieces=(whole + again,))
            case _:
                raise AssertionError(f"{dress} is a form of HTTP")

    def _utter(self, data: bytes) -> Waits:
        drag = self._drag
        if drag is None:
            self._line.say(data)
            return
        for piece in cut(data, drag.each):
            yield None, drag.delay_s
            self._line.say(piece)

    # --- stages -------------------------------------------------------------------------------------

    def _ask(self, stage: str, detail: Detail, usual: bytes) -> Answer | None:
        self._stage, self._usual = stage, usual
        attempt = self._attempt
        ended_at = attempt.stage if attempt.state is AttemptState.CLOSED else None
        answer = self._at.provider.step(attempt, stage, detail, self._at.now)
        if ended_at is not None:
            attempt.stage = ended_at
        return answer

    def _go_through(self, answer: Answer | None, *, already: int = 0) -> Waits:
        """Let happen what the core says of a stage; return its outcome. `already`: octets that are here by now."""
        attempt, provider = self._attempt, self._at.provider
        rest = yield from wait_out(answer, attempt)
        if isinstance(rest, Unasked | DragOn):
            if isinstance(rest, DragOn):
                self._drag = rest
            else:
                yield from self._deliver(rest.words)
            provider.told(attempt, attempt.sent, self._at.now)
            return Outcome.NO if self._over else Outcome.NORMAL
        if isinstance(rest, WhenHeard):
            attempt.answer = attempt.answer if attempt.state is AttemptState.CLOSED else spoken(rest)
            if not (yield from self._hear(rest.size_bytes - already)):
                return Outcome.NO if self._over else Outcome.NORMAL
            rest = rest.then
        if rest is None:
            return Outcome.NORMAL
        ended = attempt.state is AttemptState.CLOSED
        if not ended:
            attempt.answer = spoken(rest)
        sent = yield from self._deliver(rest)
        if ended:
            provider.told(attempt, attempt.sent, self._at.now)
        else:
            provider.told(attempt, sent, self._at.now, answer=self._said)
        if self._over or not isinstance(rest, Reply | Garble | Dressed):
            return Outcome.NO
        if isinstance(rest, Garble):
            return Outcome.NOISE
        yes = 3 if self._stage == "data" else 2
        return Outcome.YES if isinstance(rest, Dressed) or rest.code // 100 == yes else Outcome.NO

    def _next(self) -> Waits:
        """Return the next command, or `Word.GONE`; between two mails, after a time, `Word.NOTHING`."""
        if self._ahead:
            return self._ahead.popleft()
        if self._attempt.state is AttemptState.CLOSED:
            return (yield Want.WORD, IDLE_S)
        return (yield Want.WORD)

    def _hear(self, octets: int) -> Waits:
        """Wait until the sender has said so much that nobody has listened to; tell whether it does."""
        octets -= sum(map(_octets, self._ahead))
        while octets > 0:
            command = yield Want.WORD
            if command is Word.GONE:
                return False
            self._ahead.append(command)
            if command.verb is Verb.DOT:
                return True
            octets -= _octets(command)
        return True

    def _deliver(self, answer: Answer) -> Waits:
        self._said, self._closing = None, False
        sent = yield from deliver(answer, self._attempt, self, self._line, half_closes=True)
        closing = self._closing or (self._said is not None and self._said.startswith("421"))
        if closing or hangs(answer) or self._line.over or self._line.reset:
            self._over = True
        return sent

    # --- the dialogue -------------------------------------------------------------------------------

    def serve(self) -> Waits:
        """Talk with the sender until one of both leaves."""
        yield from self._listen()
        self._abandon()
        self._at.provider.close(self._attempt, self._at.now)
        self._at.provider.gone(self._attempt.connection)
        self._line.end(End.FIN)

    def _listen(self) -> Waits:
        outcome = Outcome.NORMAL
        if (answer := self._ask("connect", _NOTHING_NEW, _GREETING)) is not None:
            outcome = yield from self._go_through(answer)
        if outcome is Outcome.NORMAL:
            yield from self._utter(_GREETING)
        turned_away = outcome is Outcome.NO
        while not self._over:
            command = yield from self._next()
            if command is Word.GONE:
                return
            if command is Word.NOTHING:
                yield from self._utter(_IDLE)
                return
            if turned_away and command.verb is not Verb.QUIT:
                yield from self._utter(_NO_MAIL)
                continue
            match command.verb:
                case Verb.EHLO | Verb.HELO:
                    yield from self._hello(command.verb is Verb.EHLO)
                case Verb.MAIL:
                    yield from self._mail(command.argument)
                case Verb.RCPT:
                    yield from self._rcpt(command.argument)
                case Verb.DATA:
                    yield from self._data()
                case Verb.QUIT:
                    answer = self._ask("quit", _NOTHING_NEW, _BYE)
                    if answer is None or (yield from self._go_through(answer)) is Outcome.NORMAL:
                        yield from self._utter(_BYE)
                    return
                case _:
                    raise AssertionError(f"{command.verb} comes out of turn")

    def _hello(self, extended: bool) -> Waits:
        usual = self._offers() if extended else lines(250, None, HOSTNAME)
        outcome = Outcome.NORMAL
        command = Detail(command="EHLO" if extended else "HELO")
        if (answer := self._ask("ehlo", command, usual)) is not None:
            outcome = yield from self._go_through(answer)
        if outcome in (Outcome.NORMAL, Outcome.YES):
            self._abandon()
        if outcome is Outcome.NORMAL:
            yield from self._utter(usual)

    def _offers(self) -> bytes:
        setup = self._at.provider.accounts[self._attempt.account].setup
        return _hello(setup.smtp, setup.limits.max_size_bytes or 0)

    def _mail(self, sender: str) -> Waits:
        if self._attempt.state is AttemptState.CLOSED:
            self._attempt = self._at.provider.open(
                "smtp", "", self._at.now, connection=self._attempt.connection
            )
        outcome = Outcome.NORMAL
        if (answer := self._ask("mail", Detail(sender=sender), _SENDER_OK)) is not None:
            outcome = yield from self._go_through(answer)
        if outcome in (Outcome.NO, Outcome.NOISE):
            self._end()
            return
        if outcome is Outcome.NORMAL:
            yield from self._utter(_SENDER_OK)
        self._sender = sender

    def _rcpt(self, recipient: str) -> Waits:
        outcome = Outcome.NORMAL
        if (answer := self._ask("rcpt", Detail(recipient=recipient), _RECIPIENT_OK)) is not None:
            outcome = yield from self._go_through(answer)
        if outcome in (Outcome.NO, Outcome.NOISE):
            return
        if outcome is Outcome.NORMAL:
            yield from self._utter(_RECIPIENT_OK)
        if recipient not in self._recipients:
            self._recipients.append(recipient)

    def _data(self) -> Waits:
        if not self._recipients:
            yield from self._refuse(_TO_NOBODY)
            return
        outcome = Outcome.NORMAL
        detail = Detail(recipients=tuple(self._recipients))
        if (answer := self._ask("data", detail, _GO_ON)) is not None:
            outcome = yield from self._go_through(answer)
        if outcome in (Outcome.NO, Outcome.NOISE):
            return
        if outcome is Outcome.NORMAL:
            yield from self._utter(_GO_ON)
        self._attempt.sent, self._attempt.answer = Sent.UNKNOWN, "normal"
        body = yield from self._next()
        if body is Word.GONE:
            self._over = True
            return
        yield from self._read_mail(body.raw)

    def _read_mail(self, raw: bytes) -> Waits:
        submission, known, is_sound = _read(raw, self._sender or "", tuple(self._recipients))
        outcome = Outcome.NORMAL
        if (answer := self._ask("body", known, _OK)) is not None:
            outcome = yield from self._go_through(answer, already=len(raw))
            if outcome is Outcome.NO:
                return
        dot = yield from self._next()
        if dot is Word.GONE:
            self._over = True
            return
        if outcome is Outcome.NOISE:
            self._end()
        else:
            yield from self._take(submission, known, is_sound)
        if not self._over and (answer := self._ask("idle", _NOTHING_NEW, _OK)) is not None:
            yield from self._go_through(answer)

    def _take(self, submission: Submission, known: Detail, is_sound: bool) -> Waits:
        if (answer := self._ask("message", known, _OK)) is not None:
            outcome = yield from self._go_through(answer)
            if outcome is not Outcome.NORMAL:
                self._end()
                return
        if not is_sound:
            bare = Refused(reason=Reason.INVALID, detail="CR and LF may only come together as CRLF")
            yield from self._refuse(reply(bare, self._at.now))
            self._end()
            return
        attempt = self._attempt
        verdict = self._at.provider.submit(attempt, submission, self._at.now)
        self._stage, self._usual = attempt.stage, _OK
        sent = yield from self._deliver(verdict.answer)
        self._at.provider.told(attempt, sent, self._at.now, answer=self._said)
        self._end()

    # --- attempts -----------------------------------------------------------------------------------

    def _refuse(self, whole: bytes) -> Waits:
        yield from self._utter(whole)
        if self._attempt.state is not AttemptState.CLOSED:
            sent = Sent.NOTHING if self._line.over or self._line.reset else Sent.COMPLETE
            self._at.provider.told(self._attempt, sent, self._at.now, answer=_first_line(whole))

    def _end(self) -> None:
        self._sender, self._recipients = None, []
        self._at.provider.close(self._attempt, self._at.now)

    def _abandon(self) -> None:
        attempt = self._attempt
        if self._sender is None or attempt.state is AttemptState.CLOSED:
            return
        if attempt.sent is Sent.UNKNOWN:
            answer = "no answer: the connection ended" if attempt.answer == "normal" else None
            self._at.provider.told(attempt, Sent.NOTHING, self._at.now, answer=answer)
        self._end()


@lru_cache(maxsize=64)
def _hello(rules: SmtpRules, size_bytes: int) -> bytes:
    offers = offered(rules, can_start_tls=False, is_secure=False)
    return ehlo_reply(HOSTNAME, rules, offers, size_bytes)


def _octets(command: Command) -> int:
    """Return about how long a command is on the wire; of a mail, exactly."""
    return len(command.raw) or 6 + len(command.argument)


def _is_timeless(words: Words) -> bool:
    return getattr(words, "retry_after", None) is None


@lru_cache(maxsize=1024)
def _in_words(words: Words, bare: bool) -> bytes:
    whole = reply(words, NEVER)
    # A rule that says them has the last word.
    if bare and not (isinstance(words, Reply) and (words.text is not None or words.enhanced is not None)):
        return _ENHANCED.sub(rb"\1", whole)
    return whole


def _first_line(whole: bytes) -> str:
    return whole.partition(b"\r\n")[0].decode("utf-8", "replace")


@lru_cache(maxsize=256)
def _read(raw: bytes, sender: str, recipients: tuple[str, ...]) -> tuple[Submission, Detail, bool]:
    """Read a mail once for all worlds: the submission, what is known of it, and whether its lines end as they must."""
    submission = from_bytes(raw, dialect="smtp", sender=sender, recipients=recipients)
    known = Detail(headers=submission.headers, message_id=submission.message_id)
    return submission, known, not has_bare_line_ends(raw)
