"""A mail transaction: MAIL, RCPT, DATA, and RSET that takes it back."""

from __future__ import annotations

import logging

from aiosmtpd.smtp import syntax

from simulator.dialects.smtp import lines, reply
from simulator.provider.answer import Reason, Refused
from simulator.provider.ledger import Sent
from simulator.provider.message import Submission, from_bytes, header, read_headers
from simulator.provider.provider import Detail
from simulator.servers.smtp.dialogue import Dialogue, Outcome
from simulator.servers.smtp.mail_data import MailData, has_bare_line_ends
from simulator.servers.smtp.syntax import (
    MAIL_PARAMETERS,
    RCPT_PARAMETERS,
    Objection,
    need_utf8,
    read_parameters,
    read_path,
)
from simulator.store import StoreError

log = logging.getLogger(__name__)


class Transaction(Dialogue):
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


def _headers(block: bytes) -> Detail:
    headers = read_headers(block)
    message_id = header(headers, "Message-ID")
    return Detail(headers=headers, message_id=message_id.strip() if message_id else None)


def _known(submission: Submission | None) -> Detail:
    if submission is None:
        return Detail()
    return Detail(headers=submission.headers, message_id=submission.message_id)
