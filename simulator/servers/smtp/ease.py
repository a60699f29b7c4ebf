"""Being at ease: when what a sender says is obeyed within the call that brings it, and when the dialogue goes on.

A session is *at ease* while nobody has anything to say over SMTP in its sender's account (`Account.is_silent`) and all
that comes is plain. The dialogue (`Dialogue.converse`) has not begun then, or is parked. It goes on where `quick` leaves
off as soon as anything else comes.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from simulator.dialects.smtp import lines
from simulator.driven import Waiter, parked
from simulator.provider.account import Account
from simulator.provider.ledger import Sent
from simulator.provider.magic import MagicState
from simulator.provider.provider import Detail
from simulator.provider.smtp import SmtpRules
from simulator.servers.smtp.dialogue import COMMAND_LIMIT_BYTES, greeting_of
from simulator.servers.smtp.envelope import Envelope, Incoming
from simulator.servers.smtp.inbox import Trouble
from simulator.servers.smtp.mail_data import MailData
from simulator.servers.smtp.syntax import LABEL_LIMIT_BYTES
from simulator.servers.smtp.transaction import OK, Transaction

if TYPE_CHECKING:
    from simulator.servers.smtp.server import SmtpServer

log = logging.getLogger(__name__)


class Ease(Transaction):
    """A session that is at ease, or not."""

    def __init__(self, server: SmtpServer, *, implicit_tls: bool = False) -> None:
        super().__init__(server, implicit_tls=implicit_tls)
        self._quick = server.provider.quick
        self._noticed = server.noticed
        self._tell_when_kept = server.tell_when_kept
        self._at_ease = False
        self._greeted = False
        self._waker: Waiter[None] | None = None
        """Sets the dialogue going where it is parked."""
        self._looked_at: SmtpRules | None = None
        self._is_easy = self._pipelines = self._sizes = False
        """What was found when these rules were looked at."""
        self._beginning = b""
        """Of a command of which no more has come yet."""
        self._since: float | None = None
        """Since when a line is waited for whose beginning is here."""
        self._magic: MagicState | None = None
        """The magic addresses that the recipients are none of."""
        # The mail that comes in.
        self._receives = False
        self._pieces: MailData | None = None
        """What of it has come, if it did not come in one piece."""
        self._head: Detail | None = None
        self._booked: str | None = None
        """The name of the acceptance of a mail that is not kept yet."""
        self._answer: str | None = None
        """What was said to the mail that is kept, until its attempt has ended."""
        # Where the dialogue goes on.
        self._handed: Incoming | None = None
        self._idles = False
        """A mail was taken, and the stage `idle` is still to be asked."""

    # --- the transport's side -----------------------------------------------------------------------

    def _begin_talking(self) -> None:
        account = None if self._implicit_tls else self._look()
        if account is None or not self._inbox.is_open():
            super()._begin_talking()
            return
        self._quick.connect(account, self._attempt)
        self._noticed()
        self._write(greeting_of(self.hostname, self._rules.banner))
        self._greeted = self._at_ease = True
        self._wait()

    def data_received(self, data: bytes) -> None:
        if self._encryption is not None:
            self._encryption.feed(data)
            return
        # As `_take_in_clear`, written out: this is called for every piece of every mail.
        if not self._at_ease or self._booked is not None:
            self._inbox.feed(data)
            return
        try:
            self._hear_at_ease(data)
        except Exception:
            self.break_down()

    def _take_in_clear(self, data: bytes) -> None:
        if not self._at_ease or self._booked is not None:
            self._inbox.feed(data)
            return
        try:
            self._hear_at_ease(data)
        except Exception:
            self.break_down()

    def _hear_at_ease(self, data: bytes) -> None:
        """Obey what has come, as far as it is plain; let the dialogue go on with the rest."""
        raise NotImplementedError

    def break_down(self) -> None:
        """A mistake of ours, just now. As in the dialogue."""
        log.exception("SMTP session with %s failed", self._peer)
        self._write(lines(421, "4.3.0", "internal error, closing the connection"))
        self._leave()

    def eof_received(self) -> bool:
        keeps = super().eof_received()
        if self._at_ease and self._booked is None:
            self._leave()
        return keeps

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        if self._at_ease and self._booked is None:
            self._leave()

    def dismiss(self) -> None:
        super().dismiss()
        if self._at_ease and self._receives:
            # Nobody would wait for the rest of it.
            self._leave()
        elif self._at_ease:
            self._hand_over(b"")

    def _give_up(self) -> None:
        super()._give_up()
        if self._at_ease:
            self._hand_over(b"")

    # --- to the dialogue and back -------------------------------------------------------------------

    def _hand_over(self, rest: bytes, *, whole: bool = False) -> None:
        """Let the dialogue go on: with this, and with the mail that comes in. `whole`: all of that is here."""
        self._at_ease = False
        if self._receives:
            pieces = self._pieces or MailData(self._size_limit())
            self._handed = Incoming(pieces, head=self._head, whole=whole)
            self._receives, self._pieces, self._head = False, None, None
        self._inbox.feed(self._beginning + rest)
        self._beginning = b""
        self._since, self._inbox.waiting_since = self._inbox.waiting_since, None
        if b"\n" in self._inbox.data:
            self._since = None
        self._wake()

    def _wake(self) -> None:
        if self.task is None:
            self.task = self._server.begin(self.converse())
        elif self._waker is not None and not self._waker.done():
            self._waker.set_result(None)

    def _leave(self) -> None:
        """The sender leaves."""
        self._at_ease, self._over = False, True
        if self.task is None:
            self._part()
        else:
            self._wake()

    def _part(self) -> None:
        self._at_ease, self._booked = False, None
        super()._part()

    async def _greet(self) -> None:
        if not self._greeted:
            await super()._greet()

    async def _pick_up(self) -> None:
        while self._booked is not None:
            await self._park()
        if self._answer is not None:
            if self._writable is not None:
                await self._writable
            self._idles = self._end_of_mail()
            self._over = not self._idles
            self._moved()
        mail, self._handed = self._handed, None
        if mail is not None and (mail.whole or await self._receive(mail)):
            await self._complete(mail)
        if self._idles and not self._over:
            self._idles = False
            await self._pass("idle", OK)

    def _end_of_mail(self) -> bool:
        """The answer to a mail is out, or there is none. False: nothing more can be said."""
        line, sent = self._line, Sent.NOTHING
        said, self._answer = self._answer, None
        if said is not None and not line.is_lost():
            sent = Sent.UNKNOWN if line.has_ended() else Sent.COMPLETE
        self._attempt = self._quick.end(self._attempt, sent, said, self._clock.now())
        self._envelope = Envelope()
        return said is not None and not line.is_gone()

    async def _next_line(self) -> bytes | Trouble | None:
        since, self._since = self._since, None
        if not self._may_rest():
            return await self._inbox.line(COMMAND_LIMIT_BYTES, since)
        # Whatever recipients there are by now may be magic.
        self._magic = None
        self._at_ease = True
        # It was full, and has been obeyed to the last octet.
        self._inbox.resume()
        self._wait()
        await self._park()
        return None

    async def _park(self) -> None:
        self._waker = parked()
        try:
            await self._waker
        finally:
            self._waker = None

    def _may_rest(self) -> bool:
        """Tell whether the dialogue can leave it to this one to listen."""
        return (
            self._look_at(self._rules) is not None
            and not self._inbox.data
            and self._inbox.is_open()
            and self._drag is None
            and not self._turned_away
            and self._envelope.incoming is None
            and not self._line.is_gone()
        )

    def _wait(self) -> None:
        self._inbox.waiting_since = self._monotonic()

    def _silent_account(self) -> Account | None:
        """Return the account of the attempt if nobody has anything to say in it, and replies go out as they are said.

        Its settings count as they were when the last command came (`_look`).
        """
        account = self._provider.accounts.get(self._attempt.account)
        if (
            account is None
            or not self._is_easy
            or account.setup.smtp is not self._looked_at
            or self._writable is not None
            or not account.is_silent("smtp")
            or not self._quick.is_open
        ):
            return None
        return account

    def _say_at_ease(self, reply: bytes) -> None:
        # Nobody has closed the line: whoever does so is not at ease, or has the transport tell of it.
        self._line.transport.write(reply)

    def _look(self) -> Account | None:
        """A command comes: look how SMTP is to be spoken now, then return the account as `_silent_account` does."""
        self._refresh()
        return self._look_at(self._rules)

    def _look_at(self, rules: SmtpRules) -> Account | None:
        self._looked_at = rules
        self._pipelines = rules.offers("PIPELINING")
        self._sizes = rules.offers("SIZE") and rules.offers("8BITMIME")
        self._is_easy = (
            self._tell_when_kept is not None
            and (self._secure or not rules.require_tls)
            and (bool(self.session.authenticated) or not rules.require_auth)
            and rules.max_messages is None
            and rules.ehlo
            and rules.max_local_part_bytes >= LABEL_LIMIT_BYTES
            and not self._is_plain
        )
        return self._silent_account()
