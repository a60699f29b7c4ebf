"""The dialogue: commands in their order, from the greeting to the end. Their stages are in `stages`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from simulator.dialects.smtp import lines
from simulator.servers.smtp.connection import CLOSING
from simulator.servers.smtp.inbox import Trouble
from simulator.servers.smtp.stages import Outcome, Stages

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

_SERVICE_READY = 220


@lru_cache(maxsize=256)
def greeting_of(hostname: str, banner: str | None) -> bytes:
    """Return what is said first."""
    return lines(_SERVICE_READY, None, f"{hostname} ESMTP ready" if banner is None else banner)


def _is_sound(line: bytes) -> bool:
    """Tell whether a line ends as it must, and nothing in it looks like an end."""
    return line.endswith(b"\r\n") and b"\r" not in line[:-2] and b"\0" not in line


class Dialogue(Stages):
    """Obeys one command after the other; the commands are its heirs'."""

    _commands: ClassVar[dict[str, Callable[[Any, str], Awaitable[None]]]] = {}

    def __init__(self, server: SmtpServer, *, implicit_tls: bool = False) -> None:
        super().__init__(server, implicit_tls=implicit_tls)
        self.has_parted = False
        """The dialogue is over."""
        self._turned_away = False
        self._bogus = 0

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
            self._part()

    def _part(self) -> None:
        """The dialogue is over, however it ended."""
        self.has_parted = True
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

    async def _greet(self) -> None:
        greeting = greeting_of(self.hostname, self._rules.banner)
        match await self._pass("connect", greeting):
            case Outcome.NORMAL:
                await self._say(greeting)
            case Outcome.NO:
                # RFC 5321, section 3.1: a server that greeted with 554 waits for QUIT and says 503 to the rest.
                self._turned_away = True
            case Outcome.YES | Outcome.NOISE:
                pass

    async def _listen(self) -> None:
        if self._implicit_tls and not await self._tls_comes_first():
            return
        await self._greet()
        while not self._over:
            await self._pick_up()
            for _ in range(AT_ONCE):
                if self._over:
                    return
                if (taken := self._inbox.take_line(COMMAND_LIMIT_BYTES)) is None:
                    break
                await self._obey(taken)
            else:
                # Whoever pipelines thousands of commands is not served before everybody else.
                await asyncio.sleep(0)
                continue
            match await self._next_line():
                case None:
                    pass
                case bytes(line):
                    await self._obey(line)
                case Trouble.TOO_LONG if self._inbox.began_with.upper() == b"BDAT":
                    await self._obey(self._inbox.began_with)
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

    async def _pick_up(self) -> None:
        """Go on where somebody else (`quick`) has left off."""

    async def _next_line(self) -> bytes | Trouble | None:
        """Wait for the next line. None: somebody else (`quick`) has listened meanwhile; look again."""
        return await self._inbox.line(COMMAND_LIMIT_BYTES)

    async def _obey(self, line: bytes) -> None:
        if line[:4].upper() == b"BDAT" and not _is_sound(line):
            # What follows is a chunk, and must not be taken for commands.
            await self._say(lines(CLOSING, "4.5.4", "a broken BDAT line; closing the connection"))
            self._over = True
            return
        if not line.endswith(b"\r\n"):
            # RFC 5321, section 2.3.8: only CRLF ends a line. Obeying the LF would hide a broken sender; waiting
            # for a CRLF that never comes would make it a riddle. So the line is refused, and said why.
            await self._say(lines(500, "5.5.2", "lines end with CRLF, this one ended with LF only"))
            return
        text = line[:-2]
        if not _is_sound(line):
            # The same section for CR; NUL is no character of a command (RFC 5321, section 4.1.2).
            await self._say(lines(500, "5.5.2", "there is a CR or a NUL within the command line"))
            return
        self._refresh()
        if self._inbox.data and not self._may_pipeline(line):
            await self._say(
                lines(503, "5.5.0", "PIPELINING is not offered: wait for the reply to each command")
            )
            return
        # RFC 5321, section 4.1.1: white space before the end of a command is to be tolerated.
        verb, _, arg = text.decode("utf-8", "surrogateescape").rstrip(" \t").partition(" ")
        # Only ASCII: upper() makes an I of a dotless one.
        verb = verb.upper() if verb.isascii() else ""
        command = self._commands.get(verb)
        # The chunk behind BDAT must be read before anything is said to it, also where CHUNKING is hidden: a sender that
        # does not mind would else have its octets obeyed as commands.
        if command is not None and verb != "BDAT" and not self._knows(verb):
            command = None
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
