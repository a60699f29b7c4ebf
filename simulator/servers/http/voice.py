"""How HTTP says words: whole answers, the beginnings of some, and what is none."""

from __future__ import annotations

from simulator.clock import Clock
from simulator.dialects import http
from simulator.dialects.dress import dressed
from simulator.dialects.http import HttpWords
from simulator.dialects.native import answers
from simulator.dialects.native.answers import USUAL, Style
from simulator.dialects.native.odd import odd
from simulator.dialects.native.results import odd_list, told_of, worded
from simulator.dialects.script import Script
from simulator.provider.answer import Accepted, Refused, Reply, Results, Words
from simulator.provider.batch import OF_ALL, UNTOLD
from simulator.provider.dress import Dress, Listed, Odd
from simulator.servers.http.line import HttpLine


class HttpVoice:
    """Says words as the answer of one request, or of a connection that nobody has let in (`line.cycle` is None)."""

    def __init__(self, line: HttpLine, clock: Clock, style: Style = USUAL) -> None:
        self._line = line
        self._clock = clock
        self._style = style
        self.said: str | None = None
        """The status that went out."""
        self._words: Words | None = None
        self._dress: Dress | None = None

    async def speak(self, words: Words) -> None:
        """Say the whole answer."""
        self._words = words
        await self.say(self._out(words))

    def said_of(self, index: int, of: int) -> str | None:
        """Return what was said of one of the mails of the request: its own result where the answer has one."""
        words, dress = self._words, self._dress
        if self.said is None or isinstance(dress, Odd):
            return self.said
        if not isinstance(words, Results):
            is_meant = of == 1 or (isinstance(words, Refused) and words.index == index)
            return self.said if is_meant else f"{self.said}, {OF_ALL}"
        listing = dress.listing if isinstance(dress, Listed) else None
        told = told_of(words, index, self._clock.now(), self._style, listing)
        if told is None:
            return f"{self.said}, {UNTOLD}"
        return told if dress is None else f"{told}, {dress}"

    async def speak_in_part(self, words: Words | None) -> None:
        """Say the head, which promises a whole body, and half of that."""
        out = self._out(words)
        body = b"" if self._line.is_head_request else http.part_of(out.body)
        self._write(out, self._head(out) + body)
        self._line.begun()

    async def babble(self, code: int) -> None:
        """Say a well-formed head around a broken body."""
        await self.say(answers.garbled(code))

    def script(self, dress: Dress, words: Words | None) -> Script:
        """Return how these words are said in this form."""
        self._words, self._dress = words, dress
        out = self._out(words)
        if isinstance(dress, Odd):
            out = odd(out, dress)
        elif isinstance(dress, Listed) and isinstance(words, Results):
            out = odd_list(out, dress.listing)
        # The form belongs to it: a yes that nobody could read was no yes.
        self.said = str(dress) if isinstance(dress, Odd) else f"{out.status}, {dress}"
        self._line.begun()
        closes = self._line.closes()
        if self._line.is_head_request:
            # RFC 9110, section 9.3.2: there is no body that could be odd.
            return Script(pieces=(http.whole(out, self._line.fields, closes=closes, bodiless=True),))
        return dressed(dress, out, self._line.fields, closes=closes, say=self._unasked)

    def played(self) -> None:
        """The whole script is out."""
        self._line.answered()

    def _unasked(self, code: int) -> HttpWords:
        return self._out(Reply(code=code))

    def _out(self, words: Words | None) -> HttpWords:
        return worded(words or _usual(), self._clock.now(), self._style)

    async def say(self, out: HttpWords) -> None:
        """Say an answer that no words stand behind."""
        bodiless = self._line.is_head_request
        self._write(out, http.whole(out, self._line.fields, closes=self._line.closes(), bodiless=bodiless))
        self._line.answered()
        await self._line.drained()

    def _head(self, out: HttpWords) -> bytes:
        return http.head(
            out.status, out.headers, (*self._line.fields, *http.sized(out)), closes=self._line.closes()
        )

    def _write(self, out: HttpWords, data: bytes) -> None:
        self.said = str(out.status)
        self._line.transport.write(data)


class BodyVoice(HttpVoice):
    """Goes on after the head of `words` has been said (`Verdict.after_head`)."""

    def __init__(self, line: HttpLine, clock: Clock, style: Style, words: Words) -> None:
        super().__init__(line, clock, style)
        self._whole = self._out(words)

    def say_head(self) -> None:
        self._line.transport.write(self._head(self._whole))
        self._line.begun()

    async def speak(self, words: Words) -> None:
        await self._rest(self._whole.body)

    async def speak_in_part(self, words: Words | None) -> None:
        self._line.transport.write(http.part_of(self._whole.body))

    async def babble(self, code: int) -> None:
        # As long as the head has promised: the body is what is broken here, not the framing.
        size, junk = len(self._whole.body), answers.garbled(code).body
        await self._rest((junk * (size // len(junk) + 1))[:size])

    async def _rest(self, body: bytes) -> None:
        self._line.transport.write(body)
        self._line.answered()
        await self._line.drained()


def _usual() -> Words:
    """What an answer would have looked like, where none was found yet."""
    return Accepted(id="msg_00000000000000000000", message_id=None, recipients=())
