"""The stages of a dialogue, each gone through with what goes wrong there, and the attempts they belong to.

Each stage asks `provider.step` first and hands whatever goes wrong to `Wire`. Nothing here knows a rule or a command.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import TYPE_CHECKING

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
from simulator.servers.smtp.envelope import Envelope
from simulator.servers.smtp.offers import offered

if TYPE_CHECKING:
    from simulator.servers.smtp.server import SmtpServer


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


class Stages(Connection):
    """Goes through stages and keeps the attempts of a connection; the commands are its heirs'."""

    def __init__(self, server: SmtpServer, *, implicit_tls: bool = False) -> None:
        super().__init__(server, implicit_tls=implicit_tls)
        self._envelope = Envelope()
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


def _hangs(answer: Answer | None) -> bool:
    """Tell whether an answer ends in a hang that only the other side ends."""
    then = getattr(answer, "then", None)
    return isinstance(answer, Hang) or (then is not None and _hangs(then))
