"""The short way of a plain session (`ease`): commands and mails that are obeyed at once, without a coroutine.

What comes of them is what the long way (`Hello`, `Transaction`) makes of them, to the byte. Whatever is not plain, or out
of place, goes that way, and nothing of it has happened before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from typing import Any

from simulator.dialects.smtp import lines, queued
from simulator.provider.account import Account
from simulator.provider.ledger import AttemptState
from simulator.provider.message import from_bytes
from simulator.servers.smtp.dialogue import AT_ONCE, COMMAND_LIMIT_BYTES
from simulator.servers.smtp.ease import Ease
from simulator.servers.smtp.mail_data import MailData, plain_mail
from simulator.servers.smtp.offers import ehlo_reply, helo_reply
from simulator.servers.smtp.syntax import LABEL_LIMIT_BYTES
from simulator.servers.smtp.transaction import (
    GO_AHEAD,
    OK,
    RECIPIENT_LIMIT,
    RECIPIENT_OK,
    SENDER_OK,
    headers_of,
)
from simulator.store import StoreError

_ATOM = rb"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL = rb"[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?"
_HOST = rb"%b(?:\.%b)*" % (_LABEL, _LABEL)
_MAILBOX = rb"%b(?:\.%b)*@%b" % (_ATOM, _ATOM, _HOST)
#: What is obeyed here, if mailbox and host are not long: a part of what `syntax` takes.
_PLAIN = re.compile(
    rb"(?:MAIL FROM:<(?P<mail>%b)>(?: SIZE=(?P<size>[0-9]{1,15}))?(?P<body> BODY=(?:7BIT|8BITMIME))?"
    rb"|RCPT TO:<(?P<rcpt>%b)>|(?P<data>DATA)|(?:(?P<ehlo>EHLO)|HELO) (?P<hello>%b|\[[0-9.]+\])"
    rb"|(?P<rset>RSET)|(?P<noop>NOOP)|(?P<quit>QUIT))\r\n" % (_MAILBOX, _MAILBOX, _HOST),
    re.IGNORECASE,
)
BYE = lines(221, "2.0.0", "bye")


class QuickSession(Ease):
    """The commands of a plain session."""

    # --- commands -----------------------------------------------------------------------------------

    def _hear_at_ease(self, data: bytes) -> None:
        """Obey what has come, as far as it is plain; the dialogue goes on with the rest."""
        account = self._silent_account()
        if account is None and not self._receives and b"\n" in data:
            account = self._look()
        if account is None:
            self._hand_over(data)
            return
        if self._receives:
            self._hear_mail(account, data)
            return
        if self._beginning:
            data, self._beginning = self._beginning + data, b""
        at, size = 0, len(data)
        for _ in range(AT_ONCE):
            found = _PLAIN.match(data, at)
            if found is None:
                if b"\n" not in data[at:] and size - at < COMMAND_LIMIT_BYTES:
                    self._beginning = data[at:]
                    if at:
                        self._wait()
                    return
                break
            end = found.end()
            if end < size and not self._pipelines:
                break
            if not _OBEY[found.lastgroup](self, account, found):
                break
            at = end
            self._bogus = 0
            if self._over:
                return
            if at == size:
                self._wait()
                return
            account = self._silent_account()
            if account is None:
                break
            if self._receives:
                self._hear_mail(account, data[at:])
                return
        self._hand_over(data[at:])

    def _obey_hello(self, account: Account, found: re.Match[bytes]) -> bool:
        host = found["hello"]
        if len(host) > LABEL_LIMIT_BYTES or not self._is_between_mails(account):
            return False
        extended = found["ehlo"] is not None
        self._quick.pass_by(account, self._attempt, "ehlo")
        self._noticed()
        self.session.host_name, self.session.extended_smtp = host.decode(), extended
        self._say_at_ease(self._ehlo(account) if extended else helo_reply(self.hostname))
        return True

    def _ehlo(self, account: Account) -> bytes:
        known, asked = self._server.hello, (self._secure, self._room(account))
        if known is None or known[0] is not self._rules or known[1] != asked:
            whole = ehlo_reply(self.hostname, self._rules, self._offered(), self._size_limit())
            known = self._server.hello = (self._rules, asked, whole)
        return known[2]

    def _room(self, account: Account) -> int:
        """As `_size_limit`."""
        limit, ours = account.setup.limits.max_size_bytes, self._server.max_message_bytes
        return ours if limit is None or limit > ours else limit

    def _obey_mail(self, account: Account, found: re.Match[bytes]) -> bool:
        sender, attempt = found["mail"], self._attempt
        if (
            self.session.host_name is None
            or self._envelope.sender is not None
            or len(sender) > LABEL_LIMIT_BYTES
            or not self._quick.lets_strangers_in
        ):
            return False
        if found.end() - found.end("mail") > len(b">\r\n") and not self._takes_parameters(account, found):
            return False
        if attempt.state is AttemptState.CLOSED:
            owner, attempt = self._quick.open(attempt, self._credential, self._clock.now())
            self._attempt = attempt
            if owner is not account:
                return False  # Its credential belongs to another account by now.
        elif attempt.recipients or not self._is_under_way(account):
            return False
        mailbox = sender.decode()
        self._quick.mail(account, attempt, mailbox)
        self._noticed()
        self._say_at_ease(SENDER_OK)
        self._mails += 1
        self._envelope.sender = mailbox
        return True

    def _takes_parameters(self, account: Account, found: re.Match[bytes]) -> bool:
        size = found["size"]
        return (
            self._sizes and self.session.extended_smtp and (size is None or int(size) <= self._room(account))
        )

    def _obey_rcpt(self, account: Account, found: re.Match[bytes]) -> bool:
        address, recipients = found["rcpt"], self._envelope.recipients
        limit = account.setup.limits.max_recipients
        if (
            self._envelope.sender is None
            or not self._is_under_way(account)
            or len(address) > LABEL_LIMIT_BYTES
            or len(recipients) >= RECIPIENT_LIMIT
            or (limit is not None and len(recipients) >= limit)
            or (recipients and account.magic is not self._magic)
        ):
            return False
        recipient = address.decode()
        if account.magic.concerns(recipient, ()):
            return False
        self._magic = account.magic
        self._quick.rcpt(account, self._attempt, recipient)
        self._noticed()
        self._say_at_ease(RECIPIENT_OK)
        if recipient not in recipients:
            recipients.append(recipient)
        return True

    def _obey_data(self, account: Account, found: re.Match[bytes]) -> bool:
        recipients = self._envelope.recipients
        if not recipients or account.magic is not self._magic or not self._is_under_way(account):
            return False
        self._quick.data(account, self._attempt, tuple(recipients))
        self._noticed()
        self._say_at_ease(GO_AHEAD)
        self._inbox.message_since = self._monotonic()
        self._receives = True
        return True

    def _is_under_way(self, account: Account) -> bool:
        attempt = self._attempt
        return attempt.state is AttemptState.OPEN and attempt.id in account.attempts

    def _is_between_mails(self, account: Account) -> bool:
        """Tell whether nothing is known of a mail, and this is the account of the attempt."""
        attempt = self._attempt
        if self._envelope.sender is not None:
            return False
        return attempt.state is AttemptState.CLOSED or (
            not attempt.recipients and self._is_under_way(account)
        )

    def _obey_rset(self, account: Account, found: re.Match[bytes]) -> bool:
        return self._obey_plainly(account, "rset", OK)

    def _obey_noop(self, account: Account, found: re.Match[bytes]) -> bool:
        self._say_at_ease(OK)
        return True

    def _obey_quit(self, account: Account, found: re.Match[bytes]) -> bool:
        if not self._obey_plainly(account, "quit", BYE):
            return False
        self._leave()
        return True

    def _obey_plainly(self, account: Account, stage: str, usual: bytes) -> bool:
        if not self._is_between_mails(account):
            return False
        self._quick.pass_by(account, self._attempt, stage)
        self._noticed()
        self._say_at_ease(usual)
        return True

    # --- the mail -----------------------------------------------------------------------------------

    def _hear_mail(self, account: Account, data: bytes) -> None:
        """Take in what has come of a mail, and the mail when all of it is here."""
        pieces = self._pieces
        if pieces is None:
            raw = plain_mail(data)
            if raw is not None and len(raw) <= self._room(account) and self._rules.max_line_bytes is None:
                self._take_at_ease(account, raw, data)
                return
            pieces = self._pieces = MailData(self._size_limit())
        rest = bytearray(data)
        if pieces.feed(rest):
            raw = pieces.raw()
            self._inbox.data += rest
            if raw is None or self._malformed(raw) is not None:
                self._hand_over(b"", whole=True)
            else:
                self._take_at_ease(account, raw, b"")
            return
        if pieces.too_large:
            self._hand_over(b"")
            return
        if self._head is None and (block := pieces.head()) is not None:
            self._head = detail = headers_of(block)
            self._quick.body(self._attempt, detail.message_id, detail.headers)
            self._noticed()
        self._wait()

    def _take_at_ease(self, account: Account, raw: bytes, data: bytes) -> None:
        """Book a mail that is sound; its answer follows when it is kept. `data`: what has come, if it came in one piece."""
        attempt, envelope = self._attempt, self._envelope
        acceptance = None
        if (
            account.magic is self._magic
            and self._is_under_way(account)
            and self._server.trouble_with_ledger() is None
        ):
            submission = from_bytes(
                raw,
                dialect="smtp",
                sender=envelope.sender or "",
                recipients=envelope.recipients,
                dsn=envelope.wishes(),
            )
            acceptance = self._quick.take(account, attempt, submission, self._clock.now())
        if acceptance is None:
            if self._pieces is None:
                self._pieces = MailData(self._size_limit())
                self._pieces.feed(bytearray(data))
            self._hand_over(b"", whole=True)
            return
        self._receives, self._pieces, self._head = False, None, None
        self._inbox.message_since = self._inbox.waiting_since = None
        self._booked = acceptance.id
        assert self._tell_when_kept is not None
        self._tell_when_kept(_Booked(self))

    def kept(self, trouble: StoreError | None) -> None:
        """The mail is kept: say so. Or it is not, and neither yes nor no would be true: say nothing."""
        if self._booked is None:
            return  # The connection was ended meanwhile.
        id_, self._booked = self._booked, None
        if trouble is None and not self._line.is_gone():
            self._answer, whole = queued(id_)
            self._line.transport.write(whole)
            if self._writable is not None:
                # The sender does not read: whether it ever will, the dialogue waits for.
                self._hand_over(b"")
                return
        if not self._end_of_mail():
            self._moved()
            self._leave()
            return
        account = self._silent_account()
        if account is not None:
            self._quick.pass_by(account, self._attempt, "idle")
        else:
            self._idles = True
        self._moved()
        if account is None or not self._at_ease or not self._inbox.is_open():
            self._hand_over(b"")
        elif self._inbox.data:
            self._hear_at_ease(self._inbox.take_all())
        else:
            self._wait()


class _Booked:
    """A mail that waits for its acceptance to be kept."""

    __slots__ = ("_session",)

    def __init__(self, session: QuickSession) -> None:
        self._session = session

    def done(self) -> bool:
        return False

    def set_result(self, trouble: StoreError | None, /) -> None:
        try:
            self._session.kept(trouble)
        except Exception:  # Others wait for the same write: they must hear of it.
            self._session.break_down()

    def __await__(self) -> Generator[Any, None, StoreError | None]:
        raise AssertionError("nobody waits for it: it is told")


_OBEY: dict[str | None, Callable[[QuickSession, Account, re.Match[bytes]], bool]] = {
    "mail": QuickSession._obey_mail,
    "size": QuickSession._obey_mail,
    "body": QuickSession._obey_mail,
    "rcpt": QuickSession._obey_rcpt,
    "data": QuickSession._obey_data,
    "hello": QuickSession._obey_hello,
    "rset": QuickSession._obey_rset,
    "noop": QuickSession._obey_noop,
    "quit": QuickSession._obey_quit,
}
