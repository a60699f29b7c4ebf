"""A mail transaction: MAIL, RCPT, then DATA or BDAT, and RSET that takes it back."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

from aiosmtpd.smtp import syntax

from simulator.dialects.smtp import lines, reply
from simulator.provider.answer import Reason, Refused
from simulator.provider.ledger import Sent
from simulator.provider.message import Submission, from_bytes, header, read_headers
from simulator.provider.provider import Detail
from simulator.servers.smtp.dialogue import Dialogue
from simulator.servers.smtp.envelope import Incoming
from simulator.servers.smtp.mail_data import Chunks, MailData, has_bare_line_ends, has_longer_line
from simulator.servers.smtp.offers import Parameters, mail_parameters, rcpt_parameters
from simulator.servers.smtp.stages import Outcome
from simulator.servers.smtp.syntax import (
    Objection,
    need_utf8,
    need_utf8_for_orcpt,
    read_parameters,
    read_path,
)
from simulator.store import StoreError

log = logging.getLogger(__name__)

#: Recipients of one transaction where the account has no limit: memory must stay bounded.
RECIPIENT_LIMIT = 10_000

OK = lines(250, "2.0.0", "OK")
SENDER_OK = lines(250, "2.1.0", "sender OK")
RECIPIENT_OK = lines(250, "2.1.5", "recipient OK")
GO_AHEAD = lines(354, None, "end data with <CR><LF>.<CR><LF>")
_NO_RECIPIENTS = lines(503, "5.5.1", "no valid recipients: say RCPT first")
_BDAT = re.compile(r"(?P<size>[0-9]{1,18})(?P<last> +LAST)?\Z", re.IGNORECASE)


class Transaction(Dialogue):
    """The commands of a transaction."""

    _mails = 0
    """How many transactions were begun on this connection."""

    @syntax("MAIL FROM:<address>", extended=" [SP <mail-parameters>]")
    async def smtp_MAIL(self, arg: str | None) -> None:
        if not await self._in_order(transaction=False):
            return
        # Whatever comes of it, the sender tried to hand over a mail: that is an attempt.
        self._begin()
        rules = self._rules
        if rules.require_auth and not self.session.authenticated:
            await self._refuse(lines(530, "5.7.0", "authentication required"), ends=True)
            return
        if rules.max_messages is not None and self._mails >= rules.max_messages:
            says = f"{rules.max_messages} mails are enough for one connection, closing it"
            await self._refuse(lines(421, "4.7.0", says), ends=True)
            self._over = True
            return
        parameters: dict[str, str] = {}
        try:
            sender, rest = read_path(arg or "", "FROM:", local_part_limit_bytes=rules.max_local_part_bytes)
            if rest:
                parameters = self._parameters(rest, mail_parameters)
            need_utf8(sender, "SMTPUTF8" in parameters)
        except Objection as objection:
            await self._refuse(objection.reply, ends=True)
            return
        outcome = await self._pass("mail", SENDER_OK, Detail(sender=sender))
        if outcome in (Outcome.NO, Outcome.NOISE):
            self._end()
            return
        if outcome is Outcome.NORMAL:
            if int(parameters.get("SIZE") or 0) > self._size_limit():
                # RFC 1870, section 6.1: said before the mail is sent.
                await self._refuse(self._too_large(), ends=True)
                return
            await self._say(SENDER_OK)
        self._mails += 1
        self._envelope.begin(sender, parameters)

    @syntax("RCPT TO:<address>", extended=" [SP <rcpt-parameters>]")
    async def smtp_RCPT(self, arg: str | None) -> None:
        if not await self._in_order(transaction=True):
            return
        envelope = self._envelope
        if envelope.incoming is not None:
            await self._say(lines(503, "5.5.1", "the mail has begun to come in: no more recipients"))
            return
        parameters: dict[str, str] = {}
        try:
            recipient, rest = read_path(
                arg or "", "TO:", local_part_limit_bytes=self._rules.max_local_part_bytes
            )
            if rest:
                parameters = self._parameters(rest, rcpt_parameters)
            need_utf8(recipient, envelope.utf8)
            need_utf8_for_orcpt(parameters.get("ORCPT", ""), envelope.utf8)
        except Objection as objection:
            await self._refuse(objection.reply)
            return
        outcome = await self._pass("rcpt", RECIPIENT_OK, Detail(recipient=recipient))
        if outcome in (Outcome.NO, Outcome.NOISE):
            return
        if outcome is Outcome.NORMAL:
            limit = self._recipient_limit()
            if len(envelope.recipients) >= limit and recipient not in envelope.recipients:
                # RFC 5321, section 4.5.3.1.10: the others are kept, this one may come again later.
                refused = Refused(
                    reason=Reason.TOO_MANY_RECIPIENTS, detail=f"{limit} recipients are allowed in one mail"
                )
                await self._refuse(reply(refused, self._clock.now()))
                return
            await self._say(RECIPIENT_OK)
        envelope.add(recipient, parameters)

    @syntax("DATA")
    async def smtp_DATA(self, arg: str) -> None:
        if not await self._bare(arg, "DATA") or not await self._in_order(transaction=True):
            return
        if self._envelope.incoming is not None:
            # RFC 3030, section 2: both in one transaction is an error.
            await self._say(lines(503, "5.5.1", "this mail comes in by BDAT: go on with it, or say RSET"))
            return
        recipients = tuple(self._envelope.recipients)
        if not recipients:
            await self._refuse_for_want_of_recipients()
            return
        outcome = await self._pass("data", GO_AHEAD, Detail(recipients=recipients), yes=3)
        if outcome in (Outcome.NO, Outcome.NOISE):
            return
        if outcome is Outcome.NORMAL:
            await self._say(GO_AHEAD)
        self._mail_begins()
        mail = Incoming(MailData(self._size_limit()))
        if await self._receive(mail):
            await self._complete(mail)

    @syntax("BDAT size [LAST]")
    async def smtp_BDAT(self, arg: str) -> None:
        found = _BDAT.match(arg)
        if found is None:
            # What follows is a chunk of unknown size, and must not be taken for commands.
            await self._say(lines(421, "4.5.4", "syntax: BDAT size [LAST]; closing the connection"))
            self._over = True
            return
        size, last = int(found["size"]), found["last"] is not None
        if (trouble := self._bdat_trouble()) is not None:
            # RFC 3030, section 2: the chunk is read and thrown away before the refusal is said.
            if not await self._swallow(size):
                return
            if trouble is _NO_RECIPIENTS:
                await self._refuse_for_want_of_recipients()
            else:
                await self._refuse(trouble)
            return
        mail = self._envelope.incoming
        chunk_ok = lines(250, "2.0.0", f"{size} octets taken")
        said = False
        if mail is None:
            mail = self._envelope.incoming = Incoming(Chunks(self._size_limit()))
            detail = Detail(recipients=tuple(self._envelope.recipients))
            outcome = await self._pass("data", chunk_ok, detail, before_no=lambda: self._swallow(size))
            if outcome in (Outcome.NO, Outcome.NOISE):
                mail.spoilt = True
                return
            said = outcome is Outcome.YES
            self._mail_begins()
        assert isinstance(mail.data, Chunks)
        mail.data.begin(size)
        if not await self._receive(mail):
            return
        if last:
            await self._complete(mail)
        elif mail.data.too_large:
            await self._refuse(self._too_large(), ends=True)
        elif not said and not mail.spoilt:
            await self._say(chunk_ok)

    async def _refuse_for_want_of_recipients(self) -> None:
        """RFC 5321, section 3.3: said also when all of them were refused.

        Then that is what became of the mail, and stays: who pipelines has said DATA before he could know.
        """
        if self._attempt.answer.startswith(("4", "5")):
            await self._say(_NO_RECIPIENTS)
        else:
            await self._refuse(_NO_RECIPIENTS)

    def _bdat_trouble(self) -> bytes | None:
        """Return the refusal of a chunk that has no place here."""
        if (trouble := self._at_the_door("BDAT")) is not None:
            return trouble
        if not self._knows("BDAT"):
            return lines(502, "5.5.1", "CHUNKING is not offered: say DATA")
        envelope = self._envelope
        if self.session.host_name is None or not self.session.extended_smtp:
            return lines(503, "5.5.1", "say EHLO first")
        if envelope.sender is None:
            return lines(503, "5.5.1", "say MAIL first")
        if not envelope.recipients:
            return _NO_RECIPIENTS
        if envelope.incoming is not None and envelope.incoming.spoilt:
            return lines(503, "5.5.1", "a chunk of this mail was refused: say RSET")
        return None

    @syntax("RSET")
    async def smtp_RSET(self, arg: str) -> None:
        if not await self._bare(arg, "RSET"):
            return
        outcome = await self._pass("rset", OK)
        if outcome in (Outcome.NORMAL, Outcome.YES):
            self._abandon("the sender took it back")
        if outcome is Outcome.NORMAL:
            await self._say(OK)

    # --- the mail ---------------------------------------------------------------------------------

    def _mail_begins(self) -> None:
        # What was said of single recipients is not the answer to this mail; that one is still to come.
        self._attempt.sent, self._attempt.answer = Sent.UNKNOWN, "normal"
        self._inbox.message_since = self._clock.monotonic()

    async def _receive(self, mail: Incoming) -> bool:
        """Read to the end of the mail or of its chunk. False: it never comes."""
        mail.whole = False
        while not mail.whole and not mail.data.feed(self._inbox.data):
            if mail.head is None and (block := mail.data.head()) is not None:
                # The first moment at which a rule of this stage can know the mail's headers.
                if not await self._pass_body(mail, headers_of(block)):
                    return False
                # More may have come in while that took its time: nothing would announce it again.
                continue
            if not await self._inbox.more():
                # An idle sender is told so by the main loop.
                self._over = not self._inbox.gave_up
                return False
        mail.whole = True
        return True

    async def _swallow(self, size_bytes: int) -> bool:
        """Read a chunk and forget it. False: it never comes."""
        self._inbox.message_since = self._clock.monotonic()
        while size_bytes > 0:
            piece = min(size_bytes, len(self._inbox.data))
            del self._inbox.data[:piece]
            size_bytes -= piece
            if size_bytes and not await self._inbox.more():
                self._over = not self._inbox.gave_up
                return False
        self._inbox.message_since = None
        return True

    async def _pass_body(self, mail: Incoming, head: Detail) -> bool:
        mail.head = head
        outcome = await self._pass("body", OK, head, hear=lambda size: self._hear_of(mail, size))
        mail.spoilt = outcome is Outcome.NOISE
        return outcome is not Outcome.NO

    async def _hear_of(self, mail: Incoming, size_bytes: int) -> bool:
        """Wait until so much of the mail is there, or its end (that of its chunk). False: it never comes."""
        while mail.data.size_bytes < size_bytes and not mail.whole:
            mail.whole = mail.data.feed(self._inbox.data)
            if mail.data.size_bytes < size_bytes and not mail.whole and not await self._inbox.more():
                self._over = not self._inbox.gave_up
                return False
        return True

    async def _complete(self, mail: Incoming) -> None:
        """The whole mail is there."""
        self._inbox.message_since = None
        raw = mail.data.raw()
        submission = None
        if raw is not None:
            submission = from_bytes(
                raw,
                dialect="smtp",
                sender=self._envelope.sender or "",
                recipients=self._envelope.recipients,
                dsn=self._envelope.wishes(),
            )
        if mail.head is None and not await self._pass_body(mail, _known(submission)):
            return
        if mail.spoilt:
            # The noise is all the answer this mail gets: a proper reply after it would belong to nothing.
            self._end()
        else:
            await self._take(submission, mail.head or Detail())
        if not self._over:
            await self._pass("idle", OK)

    async def _take(self, submission: Submission | None, head: Detail) -> None:
        """Decide, book, and only then answer. None: the mail is too large."""
        if submission is not None:
            head = _known(submission)
        if await self._pass("message", OK, head) is not Outcome.NORMAL:
            self._end()
            return
        if submission is None:
            await self._refuse(self._too_large(), ends=True)
            return
        if (wrong := self._malformed(submission.raw)) is not None:
            refused = Refused(reason=Reason.INVALID, detail=wrong)
            await self._refuse(reply(refused, self._clock.now()), ends=True)
            return
        if self._server.trouble_with_ledger() is not None:
            # Nothing is booked that could not be kept, so this no is true.
            await self._refuse(lines(451, "4.3.0", "the ledger cannot be written just now"), ends=True)
            return
        attempt = self._attempt
        verdict = self._provider.submit(attempt, submission, self._clock.now())
        self._stage_now, self._usual = attempt.stage, OK
        if verdict.accepted:
            # The attempt is kept with its acceptance: should we die now, both are known, and that nobody was told.
            self._provider.told(attempt, Sent.UNKNOWN, self._clock.now())
        if not verdict.accepted or await self._is_kept():
            sent = await self._deliver(verdict.answer)
        else:
            self._said, sent, self._over = None, Sent.NOTHING, True
        self._provider.told(attempt, sent, self._clock.now(), answer=self._said)
        self._end()

    def _malformed(self, raw: bytes) -> str | None:
        """Say what no mail may be; None: nothing. Raw 8-bit text, which real mail does have, is taken."""
        if has_bare_line_ends(raw):
            # RFC 5321, section 2.3.8: "MUST NOT". A CR or LF of its own means different lines to different
            # servers, and so a different end of the mail: the stuff smuggling is made of. Refusing is the strictest
            # reading that still takes real mail, as libraries write CRLF.
            return "CR and LF may only come together as CRLF"
        if b"\0" in raw:
            # RFC 5322, section 4: generated by nobody. Programs in C end their text there and lose the rest.
            return "there is a NUL in the message"
        limit = self._rules.max_line_bytes
        if limit is not None and has_longer_line(raw, limit):
            return f"a line of a message has at most {limit} octets here"
        return None

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

    def _parameters(self, rest: str, table: Callable[[frozenset[str]], Parameters]) -> dict[str, str]:
        parameters = read_parameters(rest, table(self._offered()))
        if parameters and not self.session.extended_smtp:
            raise Objection(555, "5.5.4", "parameters need EHLO")
        return parameters

    def _too_large(self) -> bytes:
        limit = self._size_limit()
        refused = Refused(reason=Reason.TOO_LARGE, detail=f"a message has at most {limit} bytes here")
        return reply(refused, self._clock.now())

    def _recipient_limit(self) -> int:
        account = self._provider.accounts.get(self._attempt.account)
        limit = account.setup.limits.max_recipients if account is not None else None
        return RECIPIENT_LIMIT if limit is None else min(limit, RECIPIENT_LIMIT)


def headers_of(block: bytes) -> Detail:
    """Say what a stage must know of a mail whose headers are here."""
    headers = read_headers(block)
    message_id = header(headers, "Message-ID")
    return Detail(headers=headers, message_id=message_id.strip() if message_id else None)


def _known(submission: Submission | None) -> Detail:
    if submission is None:
        return Detail()
    return Detail(headers=submission.headers, message_id=submission.message_id)
