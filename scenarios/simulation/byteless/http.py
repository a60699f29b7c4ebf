"""The HTTP side of the provider: what `simulator.servers.http` does with a request, without a request on a wire.

Answers are the very status, headers and body of `simulator.dialects.native`: whoever reads them must read all of them.
"""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from typing import Any

from reference_sender.transports.http import limits_in
from scenarios.simulation.byteless.door import NEVER, Play, Premises, Waits, deliver, wait_out
from scenarios.simulation.byteless.line import End, Line, Want, Word
from simulator.dialects.http import HttpWords, part_of, whole
from simulator.dialects.native import DIALECT
from simulator.dialects.native.answers import Style, answer, garbled
from simulator.dialects.native.keys import read_key
from simulator.dialects.native.lookup import as_json, found
from simulator.dialects.native.odd import odd
from simulator.dialects.native.ratelimit import rate_fields
from simulator.dialects.native.request import read
from simulator.provider.answer import Accepted, Answer, KeepExpecting, Refused, Words, spoken, with_words
from simulator.provider.dress import Chunked, Chunks, Doubled, Dress, Dripped, Flaw, Gzipped, Odd
from simulator.provider.ledger import Attempt, Sent
from simulator.provider.lookup import Query
from simulator.provider.message import Submission
from simulator.provider.provider import DEFAULT_ACCOUNT, Detail

HOST = "mail.simulator.test"


@dataclass(frozen=True, slots=True)
class Post:
    """A mail is handed in."""

    key: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Get:
    """A mail is asked for."""

    parameter: str
    value: str


@dataclass(frozen=True, slots=True)
class Head:
    """The head of an answer; `size` octets of body follow, each piece on its own."""

    status: int
    retry_after: str | None
    size: int
    body: Any = b""
    """What of it came in one piece with the head; of a look-up, what it found."""
    closes: bool = False
    flaw: str = ""
    """What the sender's library calls the trouble with the body."""
    is_followed: bool = False
    """Behind it comes something that nobody asked for."""
    limits: tuple[tuple[str, str], ...] = ()
    """The fields that tell how the limits stand."""


#: A part of an answer that comes before its end.
BIT = b""
#: What goes out in one piece at most, in bytes.
PIECE_BYTES = 64 * 1024
#: Header lines that every answer has: only their length counts here.
_FIELDS = (b"date: Thu, 01 Jan 2026 00:00:00 GMT",)
#: What aiohttp makes of a body that it cannot unpack, or that does not go on.
_FLAWS: dict[Flaw | Chunks, str] = {
    Flaw.CHECKSUM: "truncated",
    Flaw.JUNK: "truncated",
    Flaw.BOMB: "truncated",
    Chunks.UNFINISHED: "truncated",
    Chunks.BAD_SIZE: "garbled",
}


class HttpVoice:
    """Says words as the answer of one request, all in one piece."""

    closes = False

    def __init__(self, premises: Premises, line: Line, attempt: Attempt, headed: Words | None = None) -> None:
        """`headed`: the head of these words has been said already, and only the body is still to come."""
        self._at = premises
        self._line = line
        self._fields = _rate_fields(premises, attempt)
        self.said: str | None = None
        self._headed: HttpWords | None = None
        if headed is not None:
            self._headed = self._worded(headed)
            self._say(self._headed, b"")

    def speak(self, words: Words) -> Waits:
        yield from ()
        if self._headed is not None:
            self._line.say(self._headed.body)
        else:
            out = self._worded(words)
            self._say(out, out.body)

    def speak_in_part(self, words: Words | None) -> None:
        if self._headed is not None:
            self._line.say(part_of(self._headed.body))
        else:
            out = self._worded(words or _USUAL)
            self._say(out, part_of(out.body))

    def babble(self, code: int) -> Waits:
        yield from ()
        junk = garbled(code)
        if self._headed is not None:
            size = len(self._headed.body)
            self._line.say((junk.body * (size // len(junk.body) + 1))[:size])
        else:
            self._say(junk, junk.body)

    def script(self, dress: Dress, words: Words | None) -> Play:
        out = self._worded(words or _USUAL)
        if isinstance(dress, Odd):
            out = odd(out, dress)
        self.said = str(dress) if isinstance(dress, Odd) else f"{out.status}, {dress}"
        match dress:
            case Gzipped(flaw=Flaw.CUT):
                # As much of it as can be unpacked: the length of the body says nothing of the rest.
                packed = part_of(gzip.compress(out.body, mtime=0))
                unpacked = zlib.decompressobj(wbits=31).decompress(packed)
                return Play(pieces=(self._answer(out, unpacked),))
            case Gzipped(flaw=flaw):
                return Play(pieces=(self._answer(out, out.body, flaw=_FLAWS.get(flaw, "")),))
            case Chunked(chunks=chunks):
                flaw_of = _FLAWS.get(chunks, "")
                return Play(pieces=(self._answer(out, out.body, flaw=flaw_of),), whole=not flaw_of)
            case Dripped(pause_s=pause_s, size_bytes=size_bytes):
                drops = ceil(len(whole(out, _FIELDS, closes=self.closes)) / size_bytes)
                pieces = (*[BIT] * (drops - 1), self._answer(out, out.body))
                return Play(pieces=pieces, pause_s=pause_s)
            case Doubled():
                return Play(pieces=(replace(self._answer(out, out.body), is_followed=True),))
            case _:
                bits = [BIT] * (len(whole(out, _FIELDS)) // PIECE_BYTES)
                return Play(pieces=(*bits, self._answer(out, out.body)))

    def _worded(self, words: Words) -> HttpWords:
        if self._fields:
            return answer(words, self._at.now, Style(headers=self._fields))
        return (
            _in_words(words) if getattr(words, "retry_after", None) is None else answer(words, self._at.now)
        )

    def _say(self, out: HttpWords, body: bytes) -> None:
        self.said = str(out.status)
        self._line.say(self._answer(out, body, size=len(out.body)))

    def _answer(self, out: HttpWords, body: bytes, *, size: int | None = None, flaw: str = "") -> Head:
        return Head(
            status=out.status,
            retry_after=dict(out.headers).get("Retry-After"),
            size=len(body) if size is None else size,
            body=body,
            closes=self.closes,
            flaw=flaw,
            # They are written in small letters on the wire, too.
            limits=limits_in((name.lower(), value) for name, value in out.headers),
        )


class DoorVoice(HttpVoice):
    """Answers before a request was looked at; the line ends after that."""

    closes = True


class HttpDoor:
    """One connection with a sender."""

    def __init__(self, premises: Premises, line: Line) -> None:
        self._at = premises
        self._line = line
        self._name = ""
        plan = premises.provider.accounts[DEFAULT_ACCOUNT].plan
        self._is_guarded = plan.stands_at("http", "connect")

    def serve(self) -> Waits:
        """Answer one request after the other until one of both leaves."""
        request = yield Want.WORD
        waiting: Attempt | None = None
        if self._is_guarded and request is not Word.GONE:
            waiting = self._open()
            if not (yield from self._receive(waiting)):
                self._at.provider.close(waiting, self._at.now)
                return
        while request is not Word.GONE and not self._line.over:
            if isinstance(request, Get):
                yield from self._look_up(request)
            else:
                attempt, waiting = waiting or self._open(), None
                yield from self._hand_in(attempt, request)
            request = yield Want.WORD
        if waiting is not None:
            self._at.provider.told(waiting, Sent.NOTHING, self._at.now)
            self._at.provider.close(waiting, self._at.now)

    def _open(self) -> Attempt:
        attempt = self._at.provider.open(DIALECT, "", self._at.now, connection=self._name)
        self._name = attempt.connection
        return attempt

    def _receive(self, attempt: Attempt) -> Waits:
        """Ask the rules of stage `connect`; tell whether the sender may come in."""
        provider = self._at.provider
        rest = yield from wait_out(provider.step(attempt, "connect", Detail(), self._at.now), attempt)
        # While the door is shut nobody reads, so a FIN behind the request goes unseen: it is let in all the same.
        if rest is None and not self._line.reset:
            return True
        voice, sent = DoorVoice(self._at, self._line, attempt), Sent.NOTHING
        if rest is not None:
            attempt.answer = spoken(rest)
            sent = yield from deliver(rest, attempt, voice, self._line, half_closes=False)
        provider.told(attempt, sent, self._at.now, answer=voice.said)
        self._line.end(End.FIN)
        return False

    def _hand_in(self, attempt: Attempt, request: Post) -> Waits:
        provider = self._at.provider
        if provider.accounts[attempt.account].plan.stands_at("http", "upload"):
            answer = provider.step(attempt, "upload", Detail(key=request.key), self._at.now)
            answer = yield from wait_out(answer, attempt)
            if answer is not None and not isinstance(answer, KeepExpecting):
                yield from self._say(attempt, answer, None)
                return
            if self._line.closed:
                provider.told(attempt, Sent.NOTHING, self._at.now, answer="sender left")
                provider.close(attempt, self._at.now)
                return
        mail, detail = _read(request.body, request.key)
        words = yield from self._trouble(attempt, mail, detail)
        after_head: Words | None = None
        if words is None:
            assert isinstance(mail, Submission)
            verdict = provider.submit(attempt, mail, self._at.now)
            words = verdict.answer
            if not isinstance(verdict.words, Refused):
                provider.told(attempt, Sent.UNKNOWN, self._at.now)
                after_head = verdict.words if verdict.after_head else None
        yield from self._say(attempt, words, after_head)

    def _say(self, attempt: Attempt, words: Answer, after_head: Words | None) -> Waits:
        provider, line = self._at.provider, self._line
        voice = HttpVoice(self._at, line, attempt, after_head)
        sent = yield from deliver(words, attempt, voice, line, half_closes=False)
        said = voice.said
        if after_head is not None:
            said, sent = None, Sent.PARTIAL if sent is Sent.NOTHING else sent
        provider.told(attempt, sent, self._at.now, answer=said)
        provider.close(attempt, self._at.now)

    def _trouble(self, attempt: Attempt, mail: Submission | Refused, detail: Detail) -> Waits:
        """Walk the stages before booking; return what goes wrong, None if the mail can be booked."""
        for stage in ("request", "validate", "accept"):
            found: Answer | None = self._at.provider.step(attempt, stage, detail, self._at.now)
            if found is not None:
                found = yield from wait_out(found, attempt)
            if found is not None:
                return found
            if stage == "validate" and isinstance(mail, Refused):
                return mail
        return None

    def _look_up(self, request: Get) -> Waits:
        provider, now = self._at.provider, self._at.now
        by_key = request.parameter == "idempotency_key"
        query = Query(key=request.value) if by_key else Query(message_id=request.value)
        asking = provider.open_look_up(DEFAULT_ACCOUNT, "", self._name, query, now)
        self._name = asking.connection
        struck, view = provider.ask_look_up(asking, now)
        rest = yield from wait_out(struck, asking)
        shown = provider.look_up(query, DEFAULT_ACCOUNT, self._at.now, view=view)
        if struck is None:
            self._line.say(Head(200, None, 0, body=[as_json(each) for each in shown]))
            return
        words = found(query, shown)
        voice = HttpVoice(self._at, self._line, asking)
        answer = words if rest is None else with_words(rest, words)
        yield from deliver(answer, asking, voice, self._line, half_closes=False)


def _rate_fields(premises: Premises, attempt: Attempt) -> tuple[tuple[str, str], ...]:
    """Return the fields that tell how the limits stand for whoever makes this attempt; none without limits."""
    account = premises.provider.accounts[attempt.account]
    if not account.limiter.limits:
        return ()
    standings = premises.provider.standings(attempt, premises.now)
    return rate_fields(account.setup.api.rate_fields, standings, account.clock.now(premises.now))


_USUAL = Accepted(id="msg_00000000000000000000", message_id=None, recipients=())


@lru_cache(maxsize=1024)
def _in_words(words: Words) -> HttpWords:
    # Without a Retry-After there is no time in an answer.
    return answer(words, NEVER)


@lru_cache(maxsize=256)
def _read(body: bytes, key: str) -> tuple[Submission | Refused, Detail]:
    """Read a request once for all worlds."""
    read_as = read_key(key)
    if isinstance(read_as, Refused):
        return read_as, Detail()
    mail = read(body, key=read_as, now=NEVER, host=HOST)
    if isinstance(mail, Refused):
        return mail, Detail(key=read_as)
    return mail, Detail(
        sender=mail.sender,
        recipients=mail.recipients,
        key=mail.key,
        message_id=mail.message_id,
        headers=mail.headers,
        fingerprint=mail.fingerprint,
    )
