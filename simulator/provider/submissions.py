"""A mail is here and nothing went wrong before: its key is looked up, it is checked, booked, and the answer is worded."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from simulator.provider import keyring
from simulator.provider.acceptance import Acceptance, message_name
from simulator.provider.account import Account
from simulator.provider.advising import Advising
from simulator.provider.aftermaths import Aftermaths
from simulator.provider.answer import (
    Answer,
    InTurn,
    Reason,
    Refused,
    RefusedRecipient,
    Words,
    spoken,
    with_words,
)
from simulator.provider.detail import NOTHING_NEW
from simulator.provider.directory import Directory
from simulator.provider.fate import Destiny, Fate
from simulator.provider.foretold import Foretold
from simulator.provider.holding import Holding
from simulator.provider.ledger import Attempt, Booked
from simulator.provider.message import Submission, digest
from simulator.provider.plan import wire_of
from simulator.provider.striking import Striking

#: The stages after booking: what goes wrong with the answer to a mail that is taken.
STAGES_AFTER_BOOKING: dict[str, tuple[str, ...]] = {"smtp": ("reply",), "http": ("reply", "body")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is true of a submission and what is said about it."""

    accepted: tuple[str, ...]
    """Recipients the provider took responsibility for just now."""
    answer: Answer
    words: Words
    """What would be said if nothing went wrong."""
    after_head: bool = False
    """HTTP `body` stage: the head of `words` goes out whole, the answer's manner hits the body."""
    acceptance: Acceptance | None = None


class Submissions:
    """One provider's. `now` is the account's time, but for `submit` and `hand_in`."""

    def __init__(
        self,
        *,
        seed: int,
        directory: Directory,
        striking: Striking,
        holding: Holding,
        advising: Advising,
        foretold: Foretold,
        aftermaths: Aftermaths,
    ) -> None:
        self._seed = seed
        self._directory = directory
        self._journal = directory.journal
        self._striking = striking
        self._holding = holding
        self._advising = advising
        self._foretold = foretold
        self._aftermaths = aftermaths
        self.batch_keys: dict[str, str] = {}
        """By the attempt that stands for a batch: the idempotency key of all of it."""

    def submit(self, attempt: Attempt, submission: Submission, now: datetime) -> Verdict:
        """Take a mail or not, and ask the rules of the stages after booking. `now` is the real time."""
        account, now = self.hand_in(attempt, submission, now)
        words, acceptance = self.take(account, attempt, submission, now)
        if acceptance is None and not words.replayed:
            attempt.answer = spoken(words)
            self._advising.says(attempt, words)
            return Verdict(accepted=(), answer=words, words=words)
        return self._say_yes(account, attempt, words, acceptance, now)

    def hand_in(self, attempt: Attempt, submission: Submission, now: datetime) -> tuple[Account, datetime]:
        """Note what is known of the mail; return its account, and the time it is there."""
        account = self._directory.account(attempt.account, now)
        account.attempts.setdefault(attempt.id, attempt)
        attempt.recipients = submission.recipients or attempt.recipients
        attempt.message_id = submission.message_id
        attempt.key = submission.key or self.batch_keys.get(attempt.batch or "")
        attempt.headers = submission.headers
        return account, account.clock.now(now)

    def take(
        self,
        account: Account,
        attempt: Attempt,
        submission: Submission,
        now: datetime,
        *,
        owed: bool = False,
    ) -> tuple[Words, Acceptance | None]:
        """Look up the key, check, book; return what is to be said, and the acceptance if there is one just now.

        `owed`: whatever the limits say; what is too much has to be waited for afterwards.
        """
        words, acceptance = self._look_and_book(account, attempt, submission, now, owed=owed)
        if isinstance(words, Refused) and not words.replayed:
            self._journal.refused(attempt, words)
        return words, acceptance

    def against(
        self, account: Account, attempt: Attempt, submission: Submission, now: datetime
    ) -> Refused | None:
        """Say what speaks against a mail, and book and count nothing."""
        refused_for = self._check(account, attempt, submission)
        if refused_for is not None:
            return refused_for
        if not _sorted_out(attempt, submission)[0]:
            return _nobody(attempt.refused)
        return self._holding.at_booking(account, attempt, submission, now, look=True)

    # --- is it taken? -------------------------------------------------------------------------------

    def _look_and_book(
        self, account: Account, attempt: Attempt, submission: Submission, now: datetime, *, owed: bool
    ) -> tuple[Words, Acceptance | None]:
        # Keys are looked up before any other check: a replay must not meet a limit or a new rule of ours.
        met = keyring.ask(account, attempt, submission.key, submission.fingerprint, now)
        if met is not None:
            # Who had to wait for a request in front has waited already.
            return met.then if isinstance(met, InTurn) else met, None
        refused_for = self._check(account, attempt, submission)
        if owed:
            self._directory.gate.owe(account, attempt, submission, now)
        elif refused_for is None:
            refused_for = self._holding.at_booking(account, attempt, submission, now)
        if refused_for is not None:
            return refused_for, None
        taken, refused = _sorted_out(attempt, submission)
        if not taken:
            nobody = _nobody(refused)
            keyring.failed(account, attempt, submission.key, submission.fingerprint, nobody, now)
            return nobody, None
        acceptance = self.book(account, attempt, submission, taken, refused, now)
        return keyring.yes(acceptance), acceptance

    def _check(self, account: Account, attempt: Attempt, submission: Submission) -> Refused | None:
        return check(account, submission, has_key=(attempt.batch or "") in self.batch_keys)

    # --- it is --------------------------------------------------------------------------------------

    def book(
        self,
        account: Account,
        attempt: Attempt,
        submission: Submission,
        taken: tuple[str, ...],
        refused: tuple[RefusedRecipient, ...],
        now: datetime,
        *,
        final: bool = False,
    ) -> Acceptance:
        """Enter a mail into the ledger, for those it is taken for. `now` is the account's time.

        `final`: nobody changes the attempt, which the account has, any more; it is written as it stands.
        """
        account.booked += 1
        destinies: tuple[tuple[str, Destiny], ...] = ()
        if account.aftermath.suppressions or not self._foretold.says_nothing():
            destinies = account.aftermath.destinies(
                taken, self._foretold.destinies(attempt.id), now, at_once=self._foretold.is_early(attempt.id)
            )
        acceptance = Acceptance(
            id=message_name(self._seed, account.name, account.booked),
            number=account.booked,
            account=account.name,
            attempt=attempt.id,
            dialect=attempt.dialect,
            accepted_at=now,
            sender=submission.sender,
            recipients=taken,
            refused=refused,
            message_id=submission.message_id,
            key=attempt.key,
            fingerprint=submission.fingerprint,
            subject=submission.subject,
            size_bytes=len(submission.raw),
            sha256=submission.sha256 or digest(submission.raw),
            obligation=submission.obligation,
            fate=Fate.DROPPED if attempt.drop else _common_fate(destinies, taken),
            destinies=() if attempt.drop else destinies,
            headers=submission.headers,
            form=submission.form,
            dsn=submission.dsn,
            batch=attempt.batch,
        )
        account.ledger.book(acceptance)
        if submission.key is not None:
            # Whether keys are honoured is asked when they are looked up; what happened is remembered anyway.
            account.keys.finish(submission.key)
        attempt.accepted = taken
        # The attempt goes first: whoever finds the acceptance after a crash finds its attempt too.
        if final:
            self._journal.keep_this(attempt)
        else:
            self._journal.keep(attempt)
        self._journal.write(Booked(acceptance=acceptance, raw=submission.raw))
        self._aftermaths.begin(account, acceptance)
        return acceptance

    def _say_yes(
        self,
        account: Account,
        attempt: Attempt,
        words: Words,
        acceptance: Acceptance | None,
        now: datetime,
    ) -> Verdict:
        """Say yes, unless a rule of the stages after booking has its way with the answer."""
        accepted = () if acceptance is None else attempt.accepted
        answer: Answer = words
        after_head = False
        for stage in STAGES_AFTER_BOOKING[wire_of(attempt.dialect)]:
            occasion = self._striking.occasion(account, attempt, stage, NOTHING_NEW)
            strike = self._striking.strike(attempt, stage, NOTHING_NEW, occasion, now)
            attempt.stage = stage
            if strike is not None and strike.answer is not None:
                answer, after_head = with_words(strike.answer, words), stage == "body"
                if acceptance is not None:
                    keyring.lied(account, attempt, acceptance.key, acceptance.fingerprint, answer, now)
                break
        attempt.answer = spoken(answer)
        self._advising.says(attempt, answer)
        return Verdict(
            accepted=accepted,
            answer=self._foretold.after_their_events((attempt.id,), answer),
            words=words,
            after_head=after_head,
            acceptance=acceptance,
        )


def check(account: Account, submission: Submission, *, has_key: bool = False) -> Refused | None:
    """Say what is against a mail whoever sent whatever before. `has_key`: its request has one for all of its mails."""
    limits = account.setup.limits
    if (
        wire_of(submission.dialect) == "http"
        and account.setup.keys.required
        and submission.key is None
        and not has_key
    ):
        return Refused(reason=Reason.KEY_REQUIRED, detail="an idempotency key is required")
    if limits.max_size_bytes is not None and len(submission.raw) > limits.max_size_bytes:
        return Refused(
            reason=Reason.TOO_LARGE,
            detail=f"the message has {len(submission.raw)} bytes, {limits.max_size_bytes} are allowed",
        )
    if limits.max_recipients is not None and len(submission.recipients) > limits.max_recipients:
        return Refused(
            reason=Reason.TOO_MANY_RECIPIENTS,
            detail=f"{len(submission.recipients)} recipients, {limits.max_recipients} are allowed",
        )
    if not submission.recipients:
        return Refused(reason=Reason.NO_RECIPIENTS, detail="there is no recipient")
    return None


def _nobody(refused: tuple[RefusedRecipient, ...]) -> Refused:
    return Refused(reason=Reason.NO_RECIPIENTS, detail="no recipient was accepted", refused=refused)


def _common_fate(destinies: tuple[tuple[str, Destiny], ...], taken: tuple[str, ...]) -> Fate:
    """Return the fate that all recipients share; where they differ, the usual one stands for the mail."""
    if not destinies:
        return Fate.DELIVERED
    fates = {destiny.fate for _, destiny in destinies}
    return fates.pop() if len(fates) == 1 and len(destinies) == len(taken) else Fate.DELIVERED


def _sorted_out(
    attempt: Attempt, submission: Submission
) -> tuple[tuple[str, ...], tuple[RefusedRecipient, ...]]:
    """Return whom a mail is taken for, and whom not."""
    if wire_of(attempt.dialect) == "http":
        out = {each.recipient for each in attempt.refused}
        return tuple(each for each in submission.recipients if each not in out), attempt.refused
    # The dialogue has sorted them out already; one refused first may have been taken later.
    taken = submission.recipients
    return taken, tuple(each for each in attempt.refused if each.recipient not in taken)
