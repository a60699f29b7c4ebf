"""The short way of a plain transaction: commands that are answered on the spot, without a coroutine for each.

Taken while nobody has anything to say over SMTP in the sender's account (`Account.is_silent`). What it does is what
the long way (`Transaction`) does, to the byte; whatever is not plain, or out of place, goes that way.
"""

from __future__ import annotations

import re
from functools import lru_cache

from simulator.provider.account import Account
from simulator.provider.answer import Accepted
from simulator.provider.ledger import AttemptState, Sent
from simulator.provider.message import from_bytes
from simulator.servers.smtp.connection import first_line
from simulator.servers.smtp.envelope import Incoming
from simulator.servers.smtp.mail_data import MailData
from simulator.servers.smtp.syntax import Objection, need_utf8, read_path
from simulator.servers.smtp.transaction import GO_AHEAD, OK, RECIPIENT_OK, SENDER_OK, Transaction

_COMMAND = re.compile(rb"(?:MAIL (?P<mail>FROM:)|RCPT (?P<rcpt>TO:)|(?P<data>DATA\r\n))", re.IGNORECASE)


@lru_cache(maxsize=1024)
def plain_path(line: bytes, keyword: str, limit_bytes: int) -> str | None:
    """Return the mailbox of a MAIL or RCPT line that has no parameters and no mistakes; None: look closer."""
    if not line.isascii() or not line.endswith(b"\r\n") or b"\r" in line[:-2] or b"\0" in line:
        return None
    try:
        mailbox, rest = read_path(line[5:-2].decode().strip(" "), keyword, local_part_limit_bytes=limit_bytes)
        need_utf8(mailbox, False)
    except Objection:
        return None
    return None if rest.strip(" ") or not mailbox else mailbox


class QuickTransaction(Transaction):
    """The commands of a transaction, where they are plain."""

    def _obey_at_once(self, line: bytes) -> Incoming | bool:
        """Obey a command. True: it is obeyed; a mail: it begins to come in; False: nothing has happened, look closer."""
        found = _COMMAND.match(line)
        if found is None or not self._provider.quick.is_open or self._turned_away:
            return False
        self._refresh()
        account = self._silent_account()
        rules = self._rules
        if (
            account is None
            or self.session.host_name is None
            or (self._inbox.data and not rules.offers("PIPELINING"))
            or (rules.require_tls and not self._secure)
        ):
            return False
        match found.lastgroup:
            case "mail":
                return self._mail_at_once(line)
            case "rcpt":
                return self._rcpt_at_once(account, line)
            case _:
                return self._data_at_once(account)

    def _silent_account(self) -> Account | None:
        """Return the account of the attempt if nobody has anything to say in it, and replies go out as they are said."""
        account = self._provider.accounts.get(self._attempt.account)
        if account is None or self._drag is not None or self._writable is not None:
            return None
        return account if account.is_silent("smtp") else None

    def _mail_at_once(self, line: bytes) -> bool:
        rules = self._rules
        sender = plain_path(line, "FROM:", rules.max_local_part_bytes)
        if (
            sender is None
            or self._envelope.sender is not None
            or rules.require_auth
            or rules.max_messages is not None
            or self._provider.turned_away(None) is not None
        ):
            return False
        attempt = self._begin()
        account = self._silent_account()
        if account is None or attempt.id not in account.attempts:
            return False
        self._provider.quick.note(account, attempt, "mail", sender=sender)
        self._answer_at_once("mail", SENDER_OK)
        self._mails += 1
        self._envelope.begin(sender, {})
        return True

    def _rcpt_at_once(self, account: Account, line: bytes) -> bool:
        recipient = plain_path(line, "TO:", self._rules.max_local_part_bytes)
        envelope, attempt = self._envelope, self._attempt
        if (
            recipient is None
            or envelope.sender is None
            or envelope.incoming is not None
            or not self._is_under_way(account)
            or len(envelope.recipients) >= self._recipient_limit()
            or account.magic.concerns(recipient, ())
        ):
            return False
        self._provider.quick.note(account, attempt, "rcpt", recipient=recipient)
        self._answer_at_once("rcpt", RECIPIENT_OK)
        envelope.add(recipient, {})
        return True

    def _data_at_once(self, account: Account) -> Incoming | bool:
        envelope = self._envelope
        if (
            envelope.sender is None
            or envelope.incoming is not None
            or not envelope.recipients
            or not self._is_under_way(account)
        ):
            return False
        self._provider.quick.note(account, self._attempt, "data", recipients=tuple(envelope.recipients))
        self._answer_at_once("data", GO_AHEAD)
        self._mail_begins()
        return Incoming(MailData(self._size_limit()))

    def _is_under_way(self, account: Account) -> bool:
        attempt = self._attempt
        return attempt.state is AttemptState.OPEN and attempt.id in account.attempts

    def _answer_at_once(self, stage: str, usual: bytes) -> None:
        self._stage_now, self._usual, self._bogus = stage, usual, 0
        self._moved()
        self._write(self._worded(usual))

    async def _take_in(self, mail: Incoming) -> None:
        if not await self._receive(mail):
            return
        if not self._is_plain_mail(mail):
            await self._complete(mail)
            return
        raw = mail.data.raw()
        assert raw is not None
        self._inbox.message_since = None
        envelope, attempt, quick = self._envelope, self._attempt, self._provider.quick
        submission = from_bytes(
            raw,
            dialect="smtp",
            sender=envelope.sender or "",
            recipients=envelope.recipients,
            dsn=envelope.wishes(),
        )
        account = self._provider.accounts[attempt.account]
        id_, headers = submission.message_id, submission.headers
        quick.note(account, attempt, "body", message_id=id_, headers=headers)
        quick.note(account, attempt, "message", message_id=id_, headers=headers)
        verdict = self._provider.submit(attempt, submission, self._clock.now())
        self._stage_now, self._usual = attempt.stage, OK
        sent, self._said, self._closing = Sent.NOTHING, None, False
        if not await self._is_kept():
            self._over = True
        elif not isinstance(verdict.answer, Accepted) or self._writable is not None or self._drag is not None:
            sent = await self._deliver(verdict.answer)
        elif self._line.is_gone():
            self._over = True
        else:
            whole = self._put(verdict.answer)
            self._said = first_line(whole)
            self._write(whole)
            if self._line.is_gone():
                self._over = True
            if not self._line.is_lost():
                sent = Sent.UNKNOWN if self._line.has_ended() else Sent.COMPLETE
        self._provider.told(attempt, sent, self._clock.now(), answer=self._said)
        self._end()
        if not self._over:
            await self._pass("idle", OK)

    def _is_plain_mail(self, mail: Incoming) -> bool:
        """Tell whether a mail that is here can be taken at once; what is not is looked at closer."""
        if mail.spoilt or mail.head is not None or not self._provider.quick.is_open:
            return False
        account = self._silent_account()
        if account is None or not self._is_under_way(account):
            return False
        recipients = self._attempt.recipients
        if account.magic.concerns(None, recipients) or self._server.trouble_with_ledger() is not None:
            return False
        raw = mail.data.raw()
        return raw is not None and self._malformed(raw) is None
