"""The stages before booking: what a server learnt there is noted, rules, door, limits and keys are asked in turn."""

from __future__ import annotations

from datetime import datetime

from simulator.provider import keyring
from simulator.provider.account import DEFAULT_ACCOUNT
from simulator.provider.advising import Advising
from simulator.provider.answer import Answer, Refused, goes_on, with_words
from simulator.provider.detail import Detail
from simulator.provider.directory import Directory
from simulator.provider.foretold import Foretold
from simulator.provider.holding import Holding
from simulator.provider.ledger import Attempt, AttemptState
from simulator.provider.plan import wire_of
from simulator.provider.striking import Striking

#: Stages with neither keys nor connections to count: where no rule and no limit stands, nothing can happen.
_SHORT = frozenset({"mail", "rcpt", "data", "body", "message", "idle", "rset", "quit", "validate"})


class Steps:
    """One provider's. `short` False: every stage goes the long way; tests show that it makes no difference."""

    def __init__(
        self,
        directory: Directory,
        striking: Striking,
        holding: Holding,
        advising: Advising,
        foretold: Foretold,
    ) -> None:
        self._directory = directory
        self._striking = striking
        self._holding = holding
        self._advising = advising
        self._foretold = foretold
        self.short = True

    def step(self, attempt: Attempt, stage: str, detail: Detail, now: datetime) -> Answer | None:
        """Say what goes wrong at this stage. None: nothing, go on as the protocol wants. `now` is the real time."""
        if (
            self.short
            and stage in _SHORT
            and detail.credential is None
            and (account := self._directory.by_name.get(attempt.account)) is not None
            and account.is_quiet_at(wire_of(attempt.dialect), stage)
            and not account.magic.concerns(detail.recipient, detail.recipients or attempt.recipients)
            and self._at_the_door(attempt, stage, detail) is None
        ):
            # Nobody has anything to say here: it is noted and counted, as below, and that is all.
            self._learn(attempt, stage, detail, now)
            self._striking.occasion(account, attempt, stage, detail)
            self._advising.says_nothing(attempt.id)
            return None
        answer = self._decide(attempt, stage, detail, now)
        self._advising.says(attempt, answer, detail.recipient)
        return answer

    def _decide(self, attempt: Attempt, stage: str, detail: Detail, real: datetime) -> Answer | None:
        self._learn(attempt, stage, detail, real)
        account = self._directory.by_name[attempt.account]
        now = account.clock.now(real)
        occasion = self._striking.occasion(account, attempt, stage, detail)
        strike = self._striking.strike(attempt, stage, detail, occasion, now)
        answer = None
        if strike is not None:
            attempt.drop = attempt.drop or strike.drop
            if strike.refused:
                attempt.refused = (*attempt.refused, *strike.refused)
            self._foretold.hear(attempt.id, strike)
            answer = strike.answer
        if answer is None or goes_on(answer):
            refused = self._at_the_door(attempt, stage, detail)
            if refused is None:
                refused = self._holding.at_stage(attempt, stage, detail, occasion, now)
            if refused is not None:
                self._directory.journal.refused(attempt, refused)
                return refused if answer is None else with_words(answer, refused)
        if stage != "accept":
            return answer
        # A mail that is only delayed here is in flight all the while: a second request with its key meets 409.
        if answer is None or goes_on(answer):
            met = keyring.claim(account, attempt, detail.key, detail.fingerprint, now)
            if isinstance(met, Refused):
                self._directory.journal.refused(attempt, met)
            if met is not None:
                return met if answer is None else with_words(answer, met)
        else:
            keyring.failed(account, attempt, detail.key, detail.fingerprint, answer, now)
        return answer

    def _at_the_door(self, attempt: Attempt, stage: str, detail: Detail) -> Refused | None:
        match wire_of(attempt.dialect), stage:
            case ("smtp", "auth") | ("http", "request"):
                return self._directory.turned_away(detail.credential, detail.secret)
            case ("smtp", "mail") if attempt.account == DEFAULT_ACCOUNT:
                return self._directory.turned_away(None)
            case _:
                return None

    # --- what is known of the attempt by now --------------------------------------------------------

    def _learn(self, attempt: Attempt, stage: str, detail: Detail, real: datetime) -> None:
        attempt.stage = stage
        if attempt.state is not AttemptState.CLOSED:
            # One that was open over a reset and goes on belongs to the new time; one that had ended does not.
            self._directory.account(attempt.account, real).attempts.setdefault(attempt.id, attempt)
        if (
            detail.credential is not None
            and attempt.state is not AttemptState.CLOSED
            and self._directory.turned_away(detail.credential, detail.secret) is None
        ):
            self._move(attempt, self._directory.account_of(detail.credential), real)
        if detail.sender is not None:
            attempt.sender = detail.sender
        if detail.recipient is not None and detail.recipient not in attempt.recipients:
            attempt.recipients = (*attempt.recipients, detail.recipient)
        if detail.recipients:
            attempt.recipients = detail.recipients
        attempt.key = detail.key if detail.key is not None else attempt.key
        attempt.message_id = detail.message_id if detail.message_id is not None else attempt.message_id
        attempt.headers = detail.headers or attempt.headers

    def _move(self, attempt: Attempt, name: str, real: datetime) -> None:
        if name == attempt.account:
            return
        before, after = self._directory.by_name[attempt.account], self._directory.account(name, real)
        del before.attempts[attempt.id]
        attempt.account = name
        attempt.opened_at += after.clock.ahead - before.clock.ahead
        after.attempts[attempt.id] = attempt
