"""Several mails in one request: each is an attempt of its own, the key and the answer are of all of them.

`now` is the real time here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from simulator.provider import keyring
from simulator.provider.advising import Advising
from simulator.provider.answer import (
    Accepted,
    Answer,
    InTurn,
    Refused,
    Reply,
    Results,
    Words,
    spoken,
    with_words,
)
from simulator.provider.detail import Detail
from simulator.provider.directory import Directory
from simulator.provider.foretold import Foretold
from simulator.provider.ledger import Attempt
from simulator.provider.message import Submission
from simulator.provider.striking import Striking
from simulator.provider.submissions import STAGES_AFTER_BOOKING, Submissions, Verdict


class Batches:
    """One provider's."""

    def __init__(
        self,
        directory: Directory,
        submissions: Submissions,
        striking: Striking,
        advising: Advising,
        foretold: Foretold,
    ) -> None:
        self._directory = directory
        self._submissions = submissions
        self._striking = striking
        self._advising = advising
        self._foretold = foretold

    def open_items(self, lead: Attempt, count: int, another: Callable[[], Attempt]) -> list[Attempt]:
        """A request brought so many mails: its own attempt is the first one's, `another` opens the others'."""
        attempts = [lead, *(another() for _ in range(count - 1))]
        for item, attempt in enumerate(attempts):
            attempt.batch, attempt.item, attempt.key = lead.id, item, lead.key
        return attempts

    def begin(self, lead: Attempt, key: str | None, fingerprint: str, now: datetime) -> Words | InTurn | None:
        """Look up the key of a whole batch. None: go on, the key (if there is one) is this batch's now."""
        account = self._directory.account(lead.account, now)
        if key is None:
            return None
        self._submissions.batch_keys[lead.id] = key
        met = keyring.ask(account, lead, key, fingerprint, account.clock.now(now))
        if met is None:
            keyring.begin(account, lead, key, fingerprint)
        return met

    def would_take(self, attempt: Attempt, submission: Submission, now: datetime) -> Refused | None:
        """Say what speaks against a mail, and book nothing: where one that is refused refuses all."""
        account, now = self._submissions.hand_in(attempt, submission, now)
        refused_for = self._submissions.against(account, attempt, submission, now)
        if refused_for is not None:
            # Told of the whole request, which the first attempt stands for.
            self._advising.instead(attempt.id, attempt.batch or attempt.id)
        return refused_for

    def take(
        self, attempt: Attempt, submission: Submission, now: datetime, *, owed: bool = False
    ) -> Accepted | Refused | Reply:
        """Take one mail of a batch, or not; the answer is said of the whole batch later.

        `owed`: all were looked at before, and what exceeds a limit together has to be waited for afterwards.
        """
        account, now = self._submissions.hand_in(attempt, submission, now)
        words, _ = self._submissions.take(account, attempt, submission, now, owed=owed)
        attempt.answer = spoken(words)
        self._advising.forget(attempt.id)
        # A batch is never kept under the key of one of its mails.
        assert not isinstance(words, Results)
        return words

    def answer(self, attempts: Sequence[Attempt], words: Words, fingerprint: str, now: datetime) -> Verdict:
        """Every mail of a batch has been taken or not: say so, unless a rule of the stages after booking strikes."""
        lead = attempts[0]
        account = self._directory.account(lead.account, now)
        now = account.clock.now(now)
        key = self._submissions.batch_keys.get(lead.id)
        if key is not None and not words.replayed and account.setup.keys.honoured:
            if isinstance(words, Results):
                keyring.remember(account, lead, key, fingerprint, words, now)
            else:
                keyring.failed(account, lead, key, fingerprint, words, now)
        if isinstance(words, Results):
            return self._say_of_all(attempts, words, fingerprint, now)
        for attempt in attempts:
            attempt.answer = spoken(words)
        if isinstance(words, Refused) and not words.replayed:
            self._directory.journal.refused(lead, words)
        self._advising.says(lead, words)
        return Verdict(accepted=(), answer=words, words=words)

    def _say_of_all(
        self, attempts: Sequence[Attempt], words: Results, fingerprint: str, now: datetime
    ) -> Verdict:
        lead, key = attempts[0], self._submissions.batch_keys.get(attempts[0].id)
        account = self._directory.by_name[lead.account]
        accepted = tuple(recipient for attempt in attempts for recipient in attempt.accepted)
        everything = Detail(
            recipients=tuple(recipient for attempt in attempts for recipient in attempt.recipients)
        )
        for attempt in attempts:
            # Results have no headers: of what a rule said of one mail about coming back, nobody hears.
            self._advising.forget(attempt.id)
        answer: Answer = words
        after_head = False
        for stage in STAGES_AFTER_BOOKING["http"]:
            occasion = self._striking.occasion(account, lead, stage, everything)
            strike = self._striking.strike(lead, stage, everything, occasion, now)
            for attempt in attempts:
                attempt.stage = stage
                if strike is not None and attempt is not lead:
                    attempt.rules = (*attempt.rules, *strike.rules)
            if strike is not None and strike.answer is not None:
                answer, after_head = with_words(strike.answer, words), stage == "body"
                if key is not None and accepted:
                    keyring.lied(account, lead, key, fingerprint, answer, now)
                self._advising.says(lead, answer)
                for attempt in attempts:
                    attempt.answer = spoken(answer)
                break
        taken = (attempt.id for attempt in attempts if attempt.accepted)
        return Verdict(
            accepted=accepted,
            answer=self._foretold.after_their_events(taken, answer),
            words=words,
            after_head=after_head,
        )
