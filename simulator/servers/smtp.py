"""The SMTP server: the dialogue of RFC 5321 with a provider that may go wrong at every stage of it.

Each command asks `provider.step` first and hands whatever goes wrong to `Wire`. Here lives the order of
commands; their syntax is `smtp_syntax`, what comes in waits in `inbox`, words come from
`simulator.dialects.smtp`, decisions from `simulator.provider`. Nothing in this file knows a rule.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import re
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import ClassVar, cast

from aiosmtpd.smtp import SMTP, Envelope, Session, syntax

from simulator.clock import Clock
from simulator.dialects.smtp import GARBLED, lines, part_of, reply
from simulator.provider.answer import Answer, Garble, Hang, Reason, Refused, Reply, Words, spoken
from simulator.provider.ledger import Attempt, AttemptState, Sent
from simulator.provider.message import (
    Submission,
    from_bytes,
    header,
    read_headers,
)
from simulator.provider.provider import Detail, Provider
from simulator.servers.inbox import Inbox, MailData, Trouble, has_bare_line_ends
from simulator.servers.smtp_syntax import (
    MAIL_PARAMETERS,
    RCPT_PARAMETERS,
    Objection,
    need_utf8,
    read_parameters,
    read_path,
)
from simulator.servers.wire import Line, Wire
from simulator.store import StoreError

Commit = Callable[[], Awaitable[None]]
"""Returns when everything the provider decided so far is durable."""

log = logging.getLogger(__name__)

#: Longest command line in octets, with CRLF. RFC 5321, section 4.5.3.1.4, asks for 512, and the extensions we
#: offer for 553 more on MAIL (RFC 1870, 6152, 6531, 4954) and 500 on RCPT (RFC 3461).
COMMAND_LIMIT_BYTES = 2_048
#: Longest line of an AUTH exchange (RFC 4954, section 4).
AUTH_LIMIT_BYTES = 12_288
#: Recipients of one transaction where the account has no limit: memory must stay bounded.
RECIPIENT_LIMIT = 10_000
#: Commands in a row that are none: somebody speaks another protocol.
PATIENCE = 20


# --- the dialogue -----------------------------------------------------------------------------------


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


#: First digit of the code with which a command succeeds.
_YES = {"data": 3}
_BARE_ENHANCED = re.compile(rb"(?m)^(\d{3}[ -])[245]\.\d{1,3}\.\d{1,3} ")
_SERVICE_READY = 220
_CLOSING = 421


class SmtpSession(SMTP):
    """One connection with a sender.

    What is kept of aiosmtpd: a method per command with its syntax for HELP, session and envelope. Its plumbing
    is replaced, because it gives up on a sender that half-closes, reads mail data line by line, and ends the
    task that waits for a held answer; so its `__init__` (0.3 ms of introspection a connection) is not called.
    """

    _commands: ClassVar[dict[str, Callable[[SmtpSession, str], Awaitable[None]]]] = {}

    session: Session
    envelope: Envelope

    def __init__(self, server: SmtpServer) -> None:
        self.hostname = server.hostname
        self._server = server
        self._provider = server.provider
        self._wire = server.wire
        self._moved = server.moved
        self._clock = server.clock
        self._loop = asyncio.get_running_loop()
        self.session = Session(self._loop)
        self.envelope = Envelope()
        self.task: asyncio.Task[None] | None = None
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self._writable: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._over = False
        self._turned_away = False
        self._hangs = False
        self._bogus = 0
        self._credential: str | None = None
        # What the voice needs to know: the words that would be said now, where, and what was said last.
        self._usual = b""
        self._stage_now = "connect"
        self._said: str | None = None

    # --- the transport's side ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        # uvloop's transports are no subclasses of asyncio's, they only have the same methods.
        stream = cast(asyncio.Transport, transport)
        self._inbox = Inbox(stream, self._clock)
        self._line = Line(stream, turn_deaf=self._inbox.turn_deaf)
        self._peer = _peer(transport)
        self._attempt = self._provider.open("smtp", self._peer, self._clock.now())
        if self._server.idle_timeout_s is not None:
            self._timer = self._loop.call_later(self._server.idle_timeout_s, self._look_for_idleness)
        self.task = self._loop.create_task(self._run())
        self._server.joined(self)

    def data_received(self, data: bytes) -> None:
        self._inbox.feed(data)

    def eof_received(self) -> bool:
        """Keep the connection: a sender that half-closes after its last command may wait for the replies."""
        self._inbox.ended()
        self._line.ended()
        return True

    def connection_lost(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._line.lost()
        self._inbox.lost()
        self.resume_writing()
        if not self.closed.done():
            self.closed.set_result(None)
        self._server.left(self)

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    # --- the server's side ------------------------------------------------------------------------

    def dismiss(self) -> None:
        """The server stops: finish what is going on, obey no further command."""
        self._inbox.dismiss()

    def is_stuck(self) -> bool:
        """Tell whether only somebody else could end what is going on here (a hang, a held answer)."""
        return self._hangs or self._attempt.state is AttemptState.HELD

    def drop(self) -> None:
        """Close for good; what was written still goes out if the other side takes it at once."""
        transport = self._line.transport
        if transport.get_write_buffer_size():
            transport.abort()
        else:
            transport.close()

    def _look_for_idleness(self) -> None:
        # One timer for the whole life of a connection; a new one per command would cost more than the command.
        timeout_s = self._server.idle_timeout_s
        assert timeout_s is not None
        since = self._inbox.waiting_since
        waited_s = 0.0 if since is None else self._clock.monotonic() - since
        if waited_s >= timeout_s:
            self._inbox.give_up()
        else:
            self._timer = self._loop.call_later(timeout_s - waited_s, self._look_for_idleness)

    # --- the voice --------------------------------------------------------------------------------

    async def speak(self, words: Words) -> None:
        """Say them whole, and wait while the sender does not take them."""
        whole = reply(words, self._clock.now())
        if self._stage_now in ("connect", "ehlo") and isinstance(words, Reply) and words.enhanced is None:
            # RFC 2034, section 4: no enhanced codes in the greeting and in the reply to EHLO or HELO.
            whole = whole if words.text is not None else _BARE_ENHANCED.sub(rb"\1", whole)
        self._said = _first_line(whole)
        self._write(whole)
        if self._writable is not None:
            await self._writable

    async def speak_in_part(self, words: Words | None) -> None:
        """Say the beginning of these words, or of those that would be said now."""
        whole = self._usual if words is None else reply(words, self._clock.now())
        self._write(part_of(whole))

    async def babble(self, code: int) -> None:
        """Say a line that is no reply; a code has no place in it."""
        self._write(GARBLED)

    def _write(self, data: bytes) -> None:
        if not self._line.is_gone():
            self._line.transport.write(data)

    async def _say(self, data: bytes) -> None:
        self._write(data)
        if self._writable is not None:
            await self._writable

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

    async def _pass(self, stage: str, usual: bytes, detail: Detail = Detail()) -> Outcome:
        """Go through a stage: ask what goes wrong, and let it happen."""
        self._stage_now, self._usual = stage, usual
        answer = self._ask(stage, detail)
        if answer is None:
            return Outcome.NORMAL
        attempt = self._attempt
        rest = await self._wire.wait_out(answer, attempt)
        if rest is None:
            return Outcome.NORMAL
        ended = attempt.state is AttemptState.CLOSED
        if not ended:
            attempt.answer = spoken(rest)
            self._moved()
        sent = await self._deliver(rest)
        if ended:
            # Its story is told; only the names of the rules that met it afterwards are new.
            self._provider.told(attempt, attempt.sent, self._clock.now())
        else:
            self._provider.told(attempt, sent, self._clock.now(), answer=self._said)
        self._moved()
        if self._over or not isinstance(rest, Reply | Garble):
            return Outcome.NO
        if isinstance(rest, Garble):
            return Outcome.NOISE
        return Outcome.YES if rest.code // 100 == _YES.get(stage, 2) else Outcome.NO

    async def _deliver(self, answer: Answer) -> Sent:
        """Let the wire do it, and see whether the dialogue goes on afterwards."""
        self._said = None
        self._hangs = _hangs(answer)
        try:
            sent = await self._wire.deliver(answer, self._attempt, self, self._line)
        finally:
            hung, self._hangs = self._hangs, False
        if hung or self._line.is_gone():
            self._over = True
        elif self._said is not None and self._said.startswith(str(_CLOSING)):
            # RFC 5321, section 4.2.3: 421 means "closing transmission channel", at any stage.
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
            self._moved()
        return self._attempt

    def _end(self) -> None:
        """The transaction is over, however it ended."""
        self.envelope = Envelope()
        self._provider.close(self._attempt, self._clock.now())
        self._moved()

    def _abandon(self, why: str) -> None:
        """The sender gave the transaction up, if there was one."""
        if self.envelope.mail_from is None or self._attempt.state is AttemptState.CLOSED:
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
            self._provider.told(attempt, sent, self._clock.now(), answer=_first_line(whole))
            if ends:
                self._end()
            self._moved()

    def _size_limit(self) -> int:
        account = self._provider.accounts.get(self._attempt.account)
        limit = account.setup.limits.max_size_bytes if account is not None else None
        ours = self._server.max_message_bytes
        return ours if limit is None else min(limit, ours)

    def _recipient_limit(self) -> int:
        account = self._provider.accounts.get(self._attempt.account)
        limit = account.setup.limits.max_recipients if account is not None else None
        return RECIPIENT_LIMIT if limit is None else min(limit, RECIPIENT_LIMIT)

    # --- the dialogue -----------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            await self._converse()
        except ConnectionError:
            pass  # The sender broke the line: nothing to be said, and nobody to say it to.
        except Exception:
            # A mistake of ours. The sender must not be left to guess for ever, and the others go on.
            log.exception("SMTP session with %s failed", self._peer)
            self._write(lines(421, "4.3.0", "internal error, closing the connection"))
        finally:
            self._abandon("the connection ended")
            self._provider.close(self._attempt, self._clock.now())
            self._moved()
            self._line.hang_up()

    async def _converse(self) -> None:
        greeting = lines(_SERVICE_READY, None, f"{self.hostname} ESMTP ready")
        match await self._pass("connect", greeting):
            case Outcome.NORMAL:
                await self._say(greeting)
            case Outcome.NO:
                # RFC 5321, section 3.1: a server that greeted with 554 waits for QUIT and says 503 to the rest.
                self._turned_away = True
            case Outcome.YES | Outcome.NOISE:
                pass
        while not self._over:
            match await self._inbox.line(COMMAND_LIMIT_BYTES):
                case bytes(line):
                    await self._obey(line)
                case Trouble.TOO_LONG:
                    await self._say(lines(500, "5.5.2", "the command line is too long"))
                case Trouble.IDLE:
                    await self._say(lines(_CLOSING, "4.4.2", "idle for too long, closing the connection"))
                    return
                case Trouble.DISMISSED:
                    await self._say(lines(_CLOSING, "4.3.2", "shutting down, closing the connection"))
                    return
                case Trouble.GONE:
                    return

    async def _obey(self, line: bytes) -> None:
        if not line.endswith(b"\r\n"):
            # RFC 5321, section 2.3.8: only CRLF ends a line. Obeying the LF would hide a broken sender; waiting
            # for a CRLF that never comes would make it a riddle. So the line is refused, and said why.
            await self._say(lines(500, "5.5.2", "lines end with CRLF, this one ended with LF only"))
            return
        verb, _, arg = line[:-2].decode("utf-8", "surrogateescape").partition(" ")
        # Only ASCII: upper() makes an I of a dotless one.
        verb = verb.upper() if verb.isascii() else ""
        if self._turned_away and verb != "QUIT":
            await self._say(lines(503, "5.5.1", "no mail is taken here: QUIT"))
            return
        command = self._commands.get(verb)
        if command is not None:
            self._bogus = 0
            await command(self, arg.strip(" "))
            return
        self._bogus += 1
        if self._bogus > PATIENCE:
            await self._say(lines(_CLOSING, "4.7.0", "too many unknown commands, closing the connection"))
            self._over = True
            return
        await self._say(lines(500, "5.5.1", "command not recognised"))

    async def _in_order(self, *, transaction: bool) -> bool:
        """Say 503 unless the sender introduced itself and a transaction is (not) going on, as wanted."""
        if self.session.host_name is None:
            await self._say(lines(503, "5.5.1", "say EHLO first"))
            return False
        if (self.envelope.mail_from is not None) is not transaction:
            missing = "say MAIL first" if transaction else "a mail transaction is going on"
            await self._say(lines(503, "5.5.1", missing))
            return False
        return True

    async def _bare(self, arg: str, command: str) -> bool:
        """Say 501 unless there is no argument."""
        if arg:
            await self._say(lines(501, "5.5.4", f"syntax: {command}"))
        return not arg

    # --- commands ---------------------------------------------------------------------------------

    async def _hello(self, name: str, command: str, usual: bytes) -> None:
        if not name or len(name.split()) != 1 or not name.isprintable():
            await self._say(lines(501, None, f"syntax: {command} host"))
            return
        outcome = await self._pass("ehlo", usual)
        if outcome in (Outcome.NORMAL, Outcome.YES):
            # RFC 5321, section 4.1.4: a second EHLO in a session does what RSET does.
            self._abandon(f"the sender said {command} again")
            self.session.host_name = name
            self.session.extended_smtp = command == "EHLO"
        if outcome is Outcome.NORMAL:
            await self._say(usual)

    @syntax("HELO hostname")
    async def smtp_HELO(self, hostname: str) -> None:
        await self._hello(hostname, "HELO", lines(250, None, self.hostname))

    @syntax("EHLO hostname")
    async def smtp_EHLO(self, hostname: str) -> None:
        offers = (
            self.hostname,
            f"SIZE {self._size_limit()}",
            "PIPELINING",
            "8BITMIME",
            "SMTPUTF8",
            "ENHANCEDSTATUSCODES",
            "AUTH PLAIN LOGIN",
            "HELP",
        )
        await self._hello(hostname, "EHLO", lines(250, None, "\n".join(offers)))

    @syntax("STARTTLS")
    async def smtp_STARTTLS(self, arg: str) -> None:
        if not await self._bare(arg, "STARTTLS"):
            return
        # Not offered, so it is a command we do not have (RFC 5321, section 4.2.4); 454 would promise it for later.
        usual = lines(502, "5.5.1", "STARTTLS is not offered here")
        if await self._pass("starttls", usual) is Outcome.NORMAL:
            await self._say(usual)

    @syntax("AUTH mechanism [initial-response]")
    async def smtp_AUTH(self, arg: str) -> None:
        if not await self._in_order(transaction=False):
            return
        if not self.session.extended_smtp:
            await self._say(lines(503, "5.5.1", "say EHLO first"))
            return
        if self.session.authenticated:
            await self._say(lines(503, "5.5.1", "already authenticated"))
            return
        try:
            user = await self._credentials(arg)
        except Objection as objection:
            await self._say(objection.reply)
            return
        if user is None:
            return
        self._begin()
        usual = lines(235, "2.7.0", "authentication succeeded")
        outcome = await self._pass("auth", usual, Detail(credential=user))
        if outcome in (Outcome.NORMAL, Outcome.YES):
            self.session.authenticated = True
            self._credential = user
        if outcome is Outcome.NORMAL:
            await self._say(usual)

    async def _credentials(self, arg: str) -> str | None:
        """Do the exchange of PLAIN (RFC 4616) or LOGIN; return the user. None: the sender is gone."""
        mechanism, _, initial = arg.partition(" ")
        match mechanism.upper():
            case "":
                raise Objection(501, "5.5.4", "syntax: AUTH mechanism [initial-response]")
            case "PLAIN":
                response = _unbase64(initial) if initial else await self._challenge(b"")
                if response is None:
                    return None
                parts = response.split(b"\0")
                if len(parts) != 3:
                    raise Objection(501, "5.5.2", "syntax: authorization NUL user NUL password, in base64")
                user: bytes | None = parts[1]
            case "LOGIN":
                user = _unbase64(initial) if initial else await self._challenge(b"Username:")
                if user is None or await self._challenge(b"Password:") is None:
                    return None
            case _:
                raise Objection(504, "5.5.4", "mechanism not known here: PLAIN or LOGIN")
        if not user:
            raise Objection(535, "5.7.8", "there is no user name")
        return user.decode("utf-8", "replace")

    async def _challenge(self, text: bytes) -> bytes | None:
        """Say 334 and return the response. None: the sender is gone."""
        await self._say(b"334 " + base64.b64encode(text) + b"\r\n")
        match await self._inbox.line(AUTH_LIMIT_BYTES):
            case bytes(line):
                response = line.rstrip(b"\r\n").decode("ascii", "replace")
                if response == "*":
                    raise Objection(501, "5.7.0", "authentication given up")
                return _unbase64(response)
            case Trouble.TOO_LONG:
                raise Objection(500, "5.5.6", "the response is too long")
            case Trouble.GONE | Trouble.IDLE | Trouble.DISMISSED:
                # The main loop finds the same and says what is to be said.
                return None

    @syntax("MAIL FROM:<address>", extended=" [SP <mail-parameters>]")
    async def smtp_MAIL(self, arg: str | None) -> None:
        if not await self._in_order(transaction=False):
            return
        # Whatever comes of it, the sender tried to hand over a mail: that is an attempt.
        self._begin()
        try:
            sender, rest = read_path(arg or "", "FROM:")
            parameters = read_parameters(rest, MAIL_PARAMETERS)
            if parameters and not self.session.extended_smtp:
                raise Objection(555, "5.5.4", "parameters need EHLO")
            need_utf8(sender, "SMTPUTF8" in parameters)
        except Objection as objection:
            await self._refuse(objection.reply, ends=True)
            return
        usual = lines(250, "2.1.0", "sender OK")
        outcome = await self._pass("mail", usual, Detail(sender=sender))
        if outcome in (Outcome.NO, Outcome.NOISE):
            self._end()
            return
        if outcome is Outcome.NORMAL:
            if int(parameters.get("SIZE") or 0) > self._size_limit():
                # RFC 1870, section 6.1: said before the mail is sent.
                await self._refuse(self._too_large(), ends=True)
                return
            await self._say(usual)
        self.envelope.mail_from = sender
        self.envelope.smtp_utf8 = "SMTPUTF8" in parameters

    @syntax("RCPT TO:<address>", extended=" [SP <rcpt-parameters>]")
    async def smtp_RCPT(self, arg: str | None) -> None:
        if not await self._in_order(transaction=True):
            return
        try:
            recipient, rest = read_path(arg or "", "TO:")
            parameters = read_parameters(rest, RCPT_PARAMETERS)
            if parameters and not self.session.extended_smtp:
                raise Objection(555, "5.5.4", "parameters need EHLO")
            need_utf8(recipient, self.envelope.smtp_utf8)
        except Objection as objection:
            await self._refuse(objection.reply)
            return
        usual = lines(250, "2.1.5", "recipient OK")
        outcome = await self._pass("rcpt", usual, Detail(recipient=recipient))
        if outcome in (Outcome.NO, Outcome.NOISE):
            return
        recipients = self.envelope.rcpt_tos
        # One mail to the same mailbox twice is one mail to it: both are told yes, one is booked.
        known = recipient in recipients
        if outcome is Outcome.NORMAL:
            limit = self._recipient_limit()
            if not known and len(recipients) >= limit:
                # RFC 5321, section 4.5.3.1.10: the others are kept, this one may come again later.
                refused = Refused(
                    reason=Reason.TOO_MANY_RECIPIENTS, detail=f"{limit} recipients are allowed in one mail"
                )
                await self._refuse(reply(refused, self._clock.now()))
                return
            await self._say(usual)
        if not known:
            recipients.append(recipient)

    @syntax("DATA")
    async def smtp_DATA(self, arg: str) -> None:
        if not await self._bare(arg, "DATA") or not await self._in_order(transaction=True):
            return
        recipients = tuple(self.envelope.rcpt_tos)
        if not recipients:
            # RFC 5321, section 3.3: said also when all of them were refused.
            await self._refuse(lines(503, "5.5.1", "no valid recipients: say RCPT first"))
            return
        usual = lines(354, None, "end data with <CR><LF>.<CR><LF>")
        outcome = await self._pass("data", usual, Detail(recipients=recipients))
        if outcome in (Outcome.NO, Outcome.NOISE):
            return
        if outcome is Outcome.NORMAL:
            await self._say(usual)
        # What was said of single recipients is not the answer to this mail; that one is still to come.
        self._attempt.sent, self._attempt.answer = Sent.UNKNOWN, "normal"
        await self._read_mail()

    async def _read_mail(self) -> None:
        data = MailData(self._size_limit())
        usual = lines(250, "2.0.0", "OK")
        head: Detail | None = None
        noise = False
        while not data.feed(self._inbox.data):
            if head is None and (block := data.head()) is not None:
                # The first moment at which a rule of this stage can know the mail's headers.
                head = _headers(block)
                outcome = await self._pass("body", usual, head)
                noise = outcome is Outcome.NOISE
                if outcome is Outcome.NO:
                    return
                # More may have come in while that took its time: nothing would announce it again.
                continue
            if not await self._inbox.more():
                # An idle sender is told so by the main loop.
                self._over = not self._inbox.gave_up
                return
        raw = data.raw()
        submission = None
        if raw is not None:
            submission = from_bytes(
                raw,
                dialect="smtp",
                sender=self.envelope.mail_from or "",
                recipients=self.envelope.rcpt_tos,
            )
        if head is None:
            head = _known(submission)
            outcome = await self._pass("body", usual, head)
            noise = outcome is Outcome.NOISE
            if outcome is Outcome.NO:
                return
        if noise:
            # The noise is all the answer this mail gets: a proper reply after it would belong to nothing.
            self._end()
        else:
            await self._take(submission, head, usual)
        if not self._over:
            await self._pass("idle", usual)

    async def _take(self, submission: Submission | None, head: Detail, usual: bytes) -> None:
        """The final dot is there: decide, book, and only then answer. None: the mail is too large."""
        if submission is not None:
            head = _known(submission)
        if await self._pass("message", usual, head) is not Outcome.NORMAL:
            self._end()
            return
        if submission is None:
            await self._refuse(self._too_large(), ends=True)
            return
        if has_bare_line_ends(submission.raw):
            # RFC 5321, section 2.3.8: "MUST NOT". A CR or LF of its own means different lines to different
            # servers, and so a different end of the mail: the stuff smuggling is made of. Refusing is the strictest
            # reading that still takes real mail, as libraries write CRLF; lines over 998 octets and raw 8-bit
            # text, which real mail does have, are taken.
            bare = Refused(reason=Reason.INVALID, detail="CR and LF may only come together as CRLF")
            await self._refuse(reply(bare, self._clock.now()), ends=True)
            return
        if self._server.trouble_with_ledger() is not None:
            # Nothing is booked that could not be kept, so this no is true.
            await self._refuse(lines(451, "4.3.0", "the ledger cannot be written just now"), ends=True)
            return
        attempt = self._attempt
        verdict = self._provider.submit(attempt, submission, self._clock.now())
        self._stage_now, self._usual = attempt.stage, usual
        if not verdict.accepted or await self._is_kept():
            sent = await self._deliver(verdict.answer)
        else:
            self._said, sent, self._over = None, Sent.NOTHING, True
        self._provider.told(attempt, sent, self._clock.now(), answer=self._said)
        self._end()

    async def _is_kept(self) -> bool:
        """Make durable what was decided: only then may it be told, or not told because of a fault."""
        try:
            await self._server.commit()
        except StoreError:
            # Nobody knows whether it is kept, so neither yes nor no would be true: the sender gets no answer.
            # Whoever commits has said it already, once for all who wait.
            return False
        except Exception:
            log.exception("an acceptance could not be kept, the connection with %s is closed", self._peer)
            return False
        return True

    def _too_large(self) -> bytes:
        limit = self._size_limit()
        refused = Refused(reason=Reason.TOO_LARGE, detail=f"a message has at most {limit} bytes here")
        return reply(refused, self._clock.now())

    @syntax("RSET")
    async def smtp_RSET(self, arg: str) -> None:
        if not await self._bare(arg, "RSET"):
            return
        usual = lines(250, "2.0.0", "OK")
        outcome = await self._pass("rset", usual)
        if outcome in (Outcome.NORMAL, Outcome.YES):
            self._abandon("the sender took it back")
        if outcome is Outcome.NORMAL:
            await self._say(usual)

    @syntax("QUIT")
    async def smtp_QUIT(self, arg: str) -> None:
        if not await self._bare(arg, "QUIT"):
            return
        usual = lines(221, "2.0.0", "bye")
        if await self._pass("quit", usual) is Outcome.NORMAL:
            await self._say(usual)
        # Whatever was said: the sender leaves.
        self._over = True

    @syntax("NOOP [ignored]")
    async def smtp_NOOP(self, arg: str) -> None:
        await self._say(lines(250, "2.0.0", "OK"))

    @syntax("VRFY <address>")
    async def smtp_VRFY(self, arg: str) -> None:
        if arg:
            await self._say(
                lines(252, "2.5.2", "cannot verify the user, but will take mail and try to deliver it")
            )
        else:
            await self._say(lines(501, "5.5.4", "syntax: VRFY address"))

    async def smtp_EXPN(self, arg: str) -> None:
        await self._say(lines(502, "5.5.1", "EXPN is not implemented"))

    @syntax("HELP [command]")
    async def smtp_HELP(self, arg: str) -> None:
        command = self._commands.get(arg.upper())
        help_text = getattr(command, "__smtp_syntax__", None)
        if help_text is not None:
            await self._say(lines(214, "2.0.0", f"syntax: {help_text}"))
        else:
            known = " ".join(name for name in sorted(self._commands) if name not in ("EXPN", "STARTTLS"))
            await self._say(lines(214, "2.0.0", f"commands: {known}"))


SmtpSession._commands = {
    name.removeprefix("smtp_"): getattr(SmtpSession, name)
    for name in dir(SmtpSession)
    if name.startswith("smtp_")
}


def _hangs(answer: Answer | None) -> bool:
    """Tell whether an answer ends in a hang that only the other side ends."""
    then = getattr(answer, "then", None)
    return isinstance(answer, Hang) or (then is not None and _hangs(then))


def _first_line(whole: bytes) -> str:
    return whole.partition(b"\r\n")[0].decode("utf-8", "replace")


def _headers(block: bytes) -> Detail:
    headers = read_headers(block)
    message_id = header(headers, "Message-ID")
    return Detail(headers=headers, message_id=message_id.strip() if message_id else None)


def _known(submission: Submission | None) -> Detail:
    if submission is None:
        return Detail()
    return Detail(headers=submission.headers, message_id=submission.message_id)


def _unbase64(text: str) -> bytes:
    """Decode a response; `=` is an empty one (RFC 4954, section 4)."""
    if text == "=":
        return b""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Objection(501, "5.5.2", "the response is not base64") from None


def _peer(transport: asyncio.BaseTransport) -> str:
    name = transport.get_extra_info("peername")
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else str(name or "")


# --- the server -------------------------------------------------------------------------------------


class SmtpServer:
    """Listens, and keeps count of who is connected."""

    def __init__(
        self,
        provider: Provider,
        wire: Wire,
        commit: Commit,
        moved: Callable[[], None],
        clock: Clock,
        *,
        hostname: str,
        max_message_bytes: int = 64 * 1024 * 1024,
        idle_timeout_s: float | None = 300.0,
        trouble_with_ledger: Callable[[], str | None] = lambda: None,
    ) -> None:
        """Build a server that does not listen yet.

        `commit` must have returned before an acceptance is answered; `moved` is called when an attempt changed.
        `max_message_bytes` holds where the account's own limit is larger or missing. `idle_timeout_s` is how long
        a sender may keep us waiting (RFC 5321, section 4.5.3.2.7, wants five minutes); None: for ever.
        While `trouble_with_ledger` says something, mail is put off with 451.
        """
        self.provider = provider
        self.wire = wire
        self.commit = commit
        self.moved = moved
        self.clock = clock
        self.hostname = hostname
        self.max_message_bytes = max_message_bytes
        self.idle_timeout_s = idle_timeout_s
        self.trouble_with_ledger = trouble_with_ledger
        self.connections_ever = 0
        self._sessions: set[SmtpSession] = set()
        self._listener: asyncio.Server | None = None

    @property
    def connections(self) -> int:
        """How many connections are open now."""
        return len(self._sessions)

    async def start(self, host: str, port: int) -> int:
        """Listen; return the port (0 asks for any free one). Raises `OSError` if it cannot be had."""
        self._listener = await asyncio.get_running_loop().create_server(
            lambda: SmtpSession(self), host, port, backlog=1024
        )
        return int(self._listener.sockets[0].getsockname()[1])

    async def stop(self, grace_s: float) -> None:
        """Take no more connections, let what is going on end within `grace_s` seconds, then close all.

        What hangs or is held is not waited for.
        """
        if self._listener is not None:
            self._listener.close()
        for session in self._sessions:
            session.dismiss()
        busy = {
            s.task for s in self._sessions if s.task is not None and not s.task.done() and not s.is_stuck()
        }
        if busy:
            await asyncio.wait(busy, timeout=grace_s)
        # A connection that was accepted just before may still come in, so look again.
        while self._sessions:
            sessions = list(self._sessions)
            tasks = [session.task for session in sessions if session.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for session in sessions:
                session.drop()
            await asyncio.gather(*(session.closed for session in sessions))
        if self._listener is not None:
            await self._listener.wait_closed()
            self._listener = None

    def joined(self, session: SmtpSession) -> None:
        """A sender connected."""
        self.connections_ever += 1
        self._sessions.add(session)

    def left(self, session: SmtpSession) -> None:
        """A connection is over."""
        self._sessions.discard(session)
