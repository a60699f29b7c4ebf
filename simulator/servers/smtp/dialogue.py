"""The dialogue: commands in their order, each of them through its stage, and the attempts they belong to.

Each command asks `provider.step` first and hands whatever goes wrong to `Wire`. Nothing here knows a rule.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, ClassVar

from simulator.dialects.smtp import lines
from simulator.provider.answer import (
    Answer,
    CertificateFlaw,
    DragOn,
    Dressed,
    Garble,
    Hang,
    Reply,
    ShowCertificate,
    Unasked,
    WhenHeard,
    spoken,
)
from simulator.provider.ledger import Attempt, AttemptState, Sent
from simulator.provider.provider import Detail
from simulator.servers.smtp.connection import CLOSING, Connection, first_line
from simulator.servers.smtp.envelope import Envelope, Incoming
from simulator.servers.smtp.inbox import Trouble
from simulator.servers.smtp.offers import offered

if TYPE_CHECKING:
    from simulator.servers.smtp.server import SmtpServer

log = logging.getLogger(__name__)

#: Longest command line in octets, with CRLF. RFC 5321, section 4.5.3.1.4, asks for 512, and the extensions we
#: offer for 553 more on MAIL (RFC 1870, 6152, 6531, 4954) and 500 on RCPT (RFC 3461).
COMMAND_LIMIT_BYTES = 2_048
#: Commands that are only known where their keyword is offered.
_KEYWORD_OF = {"BDAT": "CHUNKING", "AUTH": "AUTH"}
#: What is taken without TLS where TLS is required (RFC 3207, section 4); HELO leads nowhere, but hurts nobody.
_WITHOUT_TLS = frozenset({"EHLO", "HELO", "NOOP", "STARTTLS", "QUIT", "RSET", "HELP"})
#: Commands of one sender that are obeyed before the others have their turn.
AT_ONCE = 64
#: Commands in a row that are none: somebody speaks another protocol.
PATIENCE = 20


class Outcome(Enum):
    """What became of a stage."""

    NORMAL = auto()
    """Nothing went wrong (any more): do it and say the usual words."""
    YES = auto()
    """A rule said yes in its own words: do it and say nothing."""
    NO = auto()
    """A rule said no, or the line is over: do nothing and say nothing."""
    NOISE = auto()
    """Something unintelligible was said: do nothing and say nothing."""


_SERVICE_READY = 220


class Dialogue(Connection):
    """Goes through stages and keeps the attempts of a connection; the commands are its heirs'."""

    _commands: ClassVar[dict[str, Callable[[Any, str], Awaitable[None]]]] = {}

    def __init__(self, server: SmtpServer, *, implicit_tls: bool = False) -> None:
        super().__init__(server, implicit_tls=implicit_tls)
        self._envelope = Envelope()
        self._turned_away = False
        self._bogus = 0
        self._credential: str | None = None
        self._flaw: CertificateFlaw | None = None
        """What a rule wants to be wrong with our certificate."""

    # --- stages -----------------------------------------------------------------------------------

    def _ask(self, stage: str, detail: Detail) -> Answer | None:
        """Ask the provider; an attempt that has ended keeps the stage it ended at."""
        attempt = self._attempt
        ended_at = attempt.stage if attempt.state is AttemptState.CLOSED else None
        answer = self._provider.step(attempt, stage, detail, self._clock.now())
        if ended_at is not None:
            attempt.stage = ended_at
        self._moved()
        return answer

    async def _pass(
        self,
        stage: str,
        usual: bytes,
        detail: Detail = Detail(),
        *,
        yes: int = 2,
        before_no: Callable[[], Awaitable[bool]] | None = None,
        hear: Callable[[int], Awaitable[bool]] | None = None,
    ) -> Outcome:
        """Go through a stage: ask what goes wrong, and let it happen.

        `yes` is the first digit of the code with which the command succeeds; `before_no` is done before a no is said
        (False: there is nobody to say it to any more); `hear` waits for so many octets more of what comes here.
        """
        self._stage_now, self._usual = stage, usual
        answer = self._ask(stage, detail)
        if answer is None:
            return Outcome.NORMAL
        attempt = self._attempt
        rest = await self._wire.wait_out(answer, attempt)
        if isinstance(rest, Unasked | DragOn | ShowCertificate):
            return await self._go_along(rest)
        if isinstance(rest, WhenHeard):
            attempt.answer = attempt.answer if attempt.state is AttemptState.CLOSED else spoken(rest)
            self._moved()
            if not await (hear or self._hear)(rest.size_bytes):
                # There was no occasion: the sender left, or kept silent for too long.
                return Outcome.NO if self._over else Outcome.NORMAL
            rest = rest.then
        if rest is None:
            return Outcome.NORMAL
        ended = attempt.state is AttemptState.CLOSED
        if not ended:
            attempt.answer = spoken(rest)
            self._moved()
        # In an odd form what would have been said is said, so it is done, too.
        is_yes = isinstance(rest, Dressed) or (isinstance(rest, Reply) and rest.code // 100 == yes)
        if (
            before_no is not None
            and isinstance(rest, Reply | Garble)
            and not is_yes
            and not await before_no()
        ):
            return Outcome.NO
        sent = await self._deliver(rest)
        if ended:
            # Its story is told; only the names of the rules that met it afterwards are new.
            self._provider.told(attempt, attempt.sent, self._clock.now())
        else:
            self._provider.told(attempt, sent, self._clock.now(), answer=self._said)
        self._moved()
        if self._over or not isinstance(rest, Reply | Garble | Dressed):
            return Outcome.NO
        if isinstance(rest, Garble):
            return Outcome.NOISE
        return Outcome.YES if is_yes else Outcome.NO

    async def _go_along(self, manner: Unasked | DragOn | ShowCertificate) -> Outcome:
        """Carry out what changes how it is gone on, not whether."""
        match manner:
            case Unasked(words=words):
                await self._deliver(words)
            case DragOn():
                self._drag = manner
            case ShowCertificate(flaw=flaw):
                self._flaw = flaw
        attempt = self._attempt
        # The rules that met it are news for the ledger; what was said to the mail is still to come.
        self._provider.told(attempt, attempt.sent, self._clock.now())
        self._moved()
        return Outcome.NO if self._over else Outcome.NORMAL

    async def _hear(self, size_bytes: int) -> bool:
        """Wait until the sender has said so much that nobody has read. False: it never does."""
        while len(self._inbox.data) < size_bytes:
            if not await self._inbox.more():
                return False
        return True

    async def _deliver(self, answer: Answer) -> Sent:
        """Let the wire do it, and see whether the dialogue goes on afterwards."""
        self._said, self._closing = None, False
        self._hangs = _hangs(answer)
        try:
            sent = await self._wire.deliver(answer, self._attempt, self, self._line)
        finally:
            hung, self._hangs = self._hangs, False
        if (
            hung
            or self._line.is_gone()
            or self._closing
            or (self._said is not None and self._said.startswith(str(CLOSING)))
        ):
            self._over = True
        return sent

    # --- attempts ---------------------------------------------------------------------------------

    def _begin(self) -> Attempt:
        """Return an attempt that no mail has gone into yet."""
        if self._attempt.state is AttemptState.CLOSED:
            self._attempt = self._provider.open(
                "smtp",
                self._peer,
                self._clock.now(),
                connection=self._attempt.connection,
                # Asked again: the account may have been made after this sender logged in.
                account=self._provider.account_of(self._credential),
            )
            self._refresh()
        return self._attempt

    def _end(self) -> None:
        """The transaction is over, however it ended."""
        self._envelope = Envelope()
        self._inbox.message_since = None
        self._provider.close(self._attempt, self._clock.now())
        self._moved()

    def _abandon(self, why: str) -> None:
        """The sender gave the transaction up, if there was one."""
        if self._envelope.sender is None or self._attempt.state is AttemptState.CLOSED:
            return
        attempt = self._attempt
        if attempt.sent is Sent.UNKNOWN:
            # What was about to be said (a hang that the stop of the server ended, say) is worth more than why not.
            answer = f"no answer: {why}" if attempt.answer == "normal" else None
            self._provider.told(attempt, Sent.NOTHING, self._clock.now(), answer=answer)
        self._end()

    async def _refuse(self, whole: bytes, *, ends: bool = False) -> None:
        """Say a refusal of our own, and remember it with the attempt."""
        await self._say(whole)
        attempt = self._attempt
        if attempt.state is not AttemptState.CLOSED:
            sent = Sent.NOTHING if self._line.is_gone() else Sent.COMPLETE
            self._provider.told(attempt, sent, self._clock.now(), answer=first_line(whole))
            if ends:
                self._end()
            self._moved()

    def _size_limit(self) -> int:
        account = self._provider.accounts.get(self._attempt.account)
        limit = account.setup.limits.max_size_bytes if account is not None else None
        ours = self._server.max_message_bytes
        return ours if limit is None else min(limit, ours)

    def _offered(self) -> frozenset[str]:
        """Return the keywords of EHLO that hold now."""
        can_start_tls = self._server.tls is not None and self._server.offers_starttls
        return offered(self._rules, can_start_tls=can_start_tls, is_secure=self._secure)

    # --- the dialogue -----------------------------------------------------------------------------

    async def converse(self) -> None:
        """Talk with the sender until one of both leaves; never raises."""
        try:
            await self._listen()
        except ConnectionError:
            pass  # The sender broke the line: nothing to be said, and nobody to say it to.
        except Exception:
            # A mistake of ours. The sender must not be left to guess for ever, and the others go on.
            log.exception("SMTP session with %s failed", self._peer)
            self._write(lines(421, "4.3.0", "internal error, closing the connection"))
        finally:
            self._abandon("the connection ended")
            self._provider.close(self._attempt, self._clock.now())
            self._provider.gone(self._attempt.connection)
            self._moved()
            self._line.hang_up()

    async def _start_tls(self) -> bool:
        """Go on under TLS, with all that was said before forgotten (RFC 3207, section 4.2). False: it failed."""
        assert self._server.tls is not None
        self._abandon("TLS began")
        self.session.host_name = None
        self.session.extended_smtp = self.session.authenticated = False
        self._credential = None
        if not await self._encrypt(self._server.tls.context(self._flaw)):
            self._over = True
        return not self._over

    async def _tls_comes_first(self) -> bool:
        return await self._pass("starttls", b"") is Outcome.NORMAL and await self._start_tls()

    async def _listen(self) -> None:
        if self._implicit_tls and not await self._tls_comes_first():
            return
        banner = self._rules.banner
        greeting = lines(_SERVICE_READY, None, f"{self.hostname} ESMTP ready" if banner is None else banner)
        match await self._pass("connect", greeting):
            case Outcome.NORMAL:
                await self._say(greeting)
            case Outcome.NO:
                # RFC 5321, section 3.1: a server that greeted with 554 waits for QUIT and says 503 to the rest.
                self._turned_away = True
            case Outcome.YES | Outcome.NOISE:
                pass
        while not self._over:
            for _ in range(AT_ONCE):
                if (taken := self._inbox.take_line(COMMAND_LIMIT_BYTES)) is None:
                    break
                obeyed = self._obey_at_once(taken)
                if obeyed is False:
                    await self._obey(taken)
                elif obeyed is not True:
                    await self._take_in(obeyed)
                if self._over:
                    return
            else:
                # Whoever pipelines thousands of commands is not served before everybody else.
                await asyncio.sleep(0)
                continue
            match await self._inbox.line(COMMAND_LIMIT_BYTES):
                case bytes(line):
                    obeyed = self._obey_at_once(line)
                    if obeyed is False:
                        await self._obey(line)
                    elif obeyed is not True:
                        await self._take_in(obeyed)
                case Trouble.TOO_LONG:
                    await self._say(lines(500, "5.5.2", "the command line is too long"))
                case Trouble.IDLE:
                    await self._say(
                        lines(CLOSING, "4.4.2", "too slow or idle for too long, closing the connection")
                    )
                    return
                case Trouble.DISMISSED:
                    await self._say(lines(CLOSING, "4.3.2", "shutting down, closing the connection"))
                    return
                case Trouble.GONE:
                    return

    def _obey_at_once(self, line: bytes) -> Incoming | bool:
        """Obey a command that needs no waiting (`quick`). False: nothing has happened, it is to be obeyed as any other."""
        return False

    async def _take_in(self, mail: Incoming) -> None:
        """Read a mail that begins to come in, and take it or not."""
        raise NotImplementedError

    async def _obey(self, line: bytes) -> None:
        if not line.endswith(b"\r\n"):
            # RFC 5321, section 2.3.8: only CRLF ends a line. Obeying the LF would hide a broken sender; waiting
            # for a CRLF that never comes would make it a riddle. So the line is refused, and said why.
            await self._say(lines(500, "5.5.2", "lines end with CRLF, this one ended with LF only"))
            return
        text = line[:-2]
        if b"\r" in text or b"\0" in text:
            # The same section for CR; NUL is no character of a command (RFC 5321, section 4.1.2).
            await self._say(lines(500, "5.5.2", "there is a CR or a NUL within the command line"))
            return
        self._refresh()
        if self._inbox.data and not self._may_pipeline(line):
            await self._say(
                lines(503, "5.5.0", "PIPELINING is not offered: wait for the reply to each command")
            )
            return
        verb, _, arg = text.decode("utf-8", "surrogateescape").partition(" ")
        # Only ASCII: upper() makes an I of a dotless one.
        verb = verb.upper() if verb.isascii() else ""
        command = self._commands.get(verb)
        if command is not None and not self._knows(verb):
            command = None
        # The chunk behind BDAT must be read before anything is said to it.
        if (trouble := self._at_the_door(verb)) is not None and (command is None or verb != "BDAT"):
            await self._say(trouble)
            return
        if command is not None:
            self._bogus = 0
            await command(self, arg.strip(" "))
            return
        self._bogus += 1
        if self._bogus > PATIENCE:
            await self._say(lines(CLOSING, "4.7.0", "too many unknown commands, closing the connection"))
            self._over = True
            return
        await self._say(lines(500, "5.5.1", "command not recognised"))

    def _at_the_door(self, verb: str) -> bytes | None:
        """Return the refusal of a command that comes before it may."""
        if self._turned_away and verb != "QUIT":
            return lines(503, "5.5.1", "no mail is taken here: QUIT")
        if not self._secure and self._rules.require_tls and verb not in _WITHOUT_TLS:
            return lines(530, "5.7.0", "say STARTTLS first")
        return None

    def _knows(self, verb: str) -> bool:
        """Tell whether a command of ours is one here, too."""
        keyword = _KEYWORD_OF.get(verb)
        return keyword is None or keyword in self._offered()

    def _may_pipeline(self, line: bytes) -> bool:
        """RFC 2920: a sender waits for replies unless PIPELINING is offered (the chunk of BDAT comes at once)."""
        if self.session.host_name is None or self._rules.offers("PIPELINING"):
            return True
        return line[:5].upper() == b"BDAT "

    async def _in_order(self, *, transaction: bool) -> bool:
        """Say 503 unless the sender introduced itself and a transaction is (not) going on, as wanted."""
        if self.session.host_name is None:
            await self._say(lines(503, "5.5.1", "say EHLO first"))
            return False
        if (self._envelope.sender is not None) is not transaction:
            missing = "say MAIL first" if transaction else "a mail transaction is going on"
            await self._say(lines(503, "5.5.1", missing))
            return False
        return True

    async def _bare(self, arg: str, command: str) -> bool:
        """Say 501 unless there is no argument."""
        if arg:
            await self._say(lines(501, "5.5.4", f"syntax: {command}"))
        return not arg


def _hangs(answer: Answer | None) -> bool:
    """Tell whether an answer ends in a hang that only the other side ends."""
    then = getattr(answer, "then", None)
    return isinstance(answer, Hang) or (then is not None and _hangs(then))
