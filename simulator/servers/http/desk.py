"""What every request needs: attempts opened and closed, stages asked, answers said and told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from functools import partial

from simulator.clock import Clock
from simulator.dialects import native
from simulator.dialects.native.answers import Style
from simulator.dialects.native.ratelimit import rate_fields
from simulator.provider.answer import Answer, HangUp, InTurn, Reply, Words
from simulator.provider.ledger import Attempt, Sent
from simulator.provider.provider import DEFAULT_ACCOUNT, Detail, Provider, Verdict
from simulator.servers.http.line import HttpLine
from simulator.servers.http.voice import BodyVoice, HttpVoice
from simulator.servers.wire import Wire
from simulator.store import StoreError


class Desk:
    """Stands between requests and the provider. Decides nothing."""

    def __init__(
        self,
        provider: Provider,
        wire: Wire,
        commit: Callable[[], Awaitable[None]],
        moved: Callable[[], None],
        clock: Clock,
        *,
        hostname: str,
        trouble_with_ledger: Callable[[], str | None],
    ) -> None:
        self.provider = provider
        self.wire = wire
        self.moved = moved
        self.clock = clock
        self.now: Callable[[], datetime] = clock.now
        self.hostname = hostname
        self._commit = commit
        self._trouble_with_ledger = trouble_with_ledger

    # --- attempts -----------------------------------------------------------------------------------

    def open(self, line: HttpLine) -> Attempt:
        """Begin an attempt, unless one was opened at the door."""
        attempt, line.attempt = line.attempt, None
        if attempt is None:
            attempt = self.provider.open(
                native.DIALECT, line.peer, self.now(), connection=line.name, account=DEFAULT_ACCOUNT
            )
            line.name = attempt.connection
        return attempt

    def close(self, attempt: Attempt) -> None:
        """End an attempt."""
        self.provider.close(attempt, self.now())
        self.wire.turns.ended(attempt.account)
        self.moved()

    # --- stages -------------------------------------------------------------------------------------

    async def ask(self, attempt: Attempt, stage: str, detail: Detail) -> Answer | None:
        """Ask the rules of a stage, and spend what they make us wait. None: go on."""
        answer = self.provider.step(attempt, stage, detail, self.now())
        if answer is None:
            return None
        self.moved()
        answer = await self.wire.wait_out(answer, attempt)
        if isinstance(answer, InTurn):
            answer = await self.wire.wait_in_turn(answer, attempt, partial(self._claim, attempt, detail))
        return answer

    def _claim(self, attempt: Attempt, detail: Detail) -> Answer | None:
        return self.provider.claim(attempt, detail, self.now())

    # --- answers ------------------------------------------------------------------------------------

    def refusal(self) -> Reply | None:
        """Nothing is booked that could not be kept, so this no is true."""
        if self._trouble_with_ledger() is None:
            return None
        return Reply(code=503, text="the ledger cannot be written just now; try again later")

    async def keep(self, verdict: Verdict) -> Answer:
        """Make what was booked durable; return what may be said then."""
        # Booked, and nobody knows whether it is kept: neither yes nor no would be true, so nothing is said.
        return verdict.answer if await self.kept() else HangUp()

    async def kept(self) -> bool:
        """Make what was booked durable; tell whether it is."""
        try:
            await self._commit()
        except StoreError:
            return False
        return True

    async def say(
        self,
        answer: Answer,
        attempts: Sequence[Attempt],
        line: HttpLine,
        *,
        after_head: Words | None = None,
    ) -> None:
        """Say the answer of a request and record, for each of its attempts, how much of it went out.

        `after_head`: only the body is hit; the head of these words goes out whole before it.
        """
        self.moved()
        lead = attempts[0]
        style = self._style(lead, line)
        if after_head is None:
            voice = HttpVoice(line, self.clock, style)
            sent = await self.wire.deliver(answer, lead, voice, line)
        else:
            voice = headed = BodyVoice(line, self.clock, style, after_head)
            headed.say_head()
            sent = await self.wire.deliver(answer, lead, headed, line)
            sent = Sent.PARTIAL if sent is Sent.NOTHING else sent
        for index, attempt in enumerate(attempts):
            said = voice.said_of(index, len(attempts)) if after_head is None else None
            self.provider.told(attempt, sent, self.now(), answer=said)

    def _style(self, attempt: Attempt, line: HttpLine) -> Style:
        now = self.now()
        account = self.provider.account(attempt.account, now)
        setup = account.setup
        line.keep_alive_for(setup.api.keep_alive_s)
        fields: tuple[tuple[str, str], ...] = ()
        if account.limiter.limits:
            standings = self.provider.standings(attempt, now)
            fields = rate_fields(setup.api.rate_fields, standings, account.clock.now(now))
        return Style(replay_header=setup.keys.replay_header, headers=fields, batch=setup.batch)
