"""The short way through the provider, for a mail to which nothing can happen.

Where no rule, limit, greylist, recording or magic address has anything to say and the key is new, the stages of a
request only note what is known and count the occasion. Here that is done in one go; what comes of it is what the long
way (`Steps`, `Submissions`) makes of it, to the byte. Whoever is not sure gets None, and goes the long way.
"""

from __future__ import annotations

from datetime import datetime

from simulator.provider.account import Account
from simulator.provider.answer import Accepted, spoken
from simulator.provider.directory import Directory
from simulator.provider.idempotency import Fresh
from simulator.provider.keyring import yes
from simulator.provider.ledger import Attempt, AttemptState, Sent
from simulator.provider.message import Submission, mail_to
from simulator.provider.plan import wire_of
from simulator.provider.submissions import STAGES_AFTER_BOOKING, Submissions, check

#: Where an HTTP request ends to which nothing happens.
_LAST_STAGE = STAGES_AFTER_BOOKING["http"][-1]


class Quick:
    """One provider's. `now` is the real time."""

    def __init__(self, directory: Directory, submissions: Submissions) -> None:
        self._directory = directory
        self._journal = directory.journal
        self._submissions = submissions
        self.is_open = True
        """Whether the short way may be taken at all; tests shut it, and see that it makes no difference."""

    def hand_in(
        self, account: Account, submission: Submission, peer: str, connection: str, now: datetime
    ) -> tuple[Attempt, Accepted] | None:
        """Take a mail that came in one HTTP request, whose sender has been let in: book it, and say yes.

        `connection`: its name; empty: it has none yet. None, and nothing has happened: go the long way.
        """
        if not self.is_open or not account.is_quiet(submission) or check(account, submission) is not None:
            return None
        now = account.clock.now(now)
        key = submission.key
        self._journal.opened += 1
        number = self._journal.opened
        id_ = f"att_{number}"
        if key is not None and account.setup.keys.honoured:
            found = account.keys.look_up(key, submission.fingerprint, id_, account.setup.keys, now)
            if not isinstance(found, Fresh) or account.keys.is_in_flight(key):
                self._journal.opened -= 1
                return None
        attempt = account.attempts[id_] = Attempt(
            id=id_,
            number=number,
            account=account.name,
            dialect=submission.dialect,
            connection=connection or f"c{number}",
            peer=peer,
            opened_at=now,
            stage=_LAST_STAGE,
            sender=submission.sender,
            recipients=submission.recipients,
            message_id=submission.message_id,
            key=key,
            headers=submission.headers,
        )
        account.occasions.another(mail_to(None, submission.recipients))
        self._directory.gate.enter(attempt)
        attempt.answer = _YES
        acceptance = self._submissions.book(account, attempt, submission, submission.recipients, (), now)
        return attempt, yes(acceptance)

    def note(
        self,
        account: Account,
        attempt: Attempt,
        stage: str,
        *,
        sender: str | None = None,
        recipient: str | None = None,
        recipients: tuple[str, ...] = (),
        message_id: str | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """Note what was learnt at a stage at which nobody has anything to say, and count the occasion."""
        attempt.stage = stage
        if sender is not None:
            attempt.sender = sender
        if recipient is not None and recipient not in attempt.recipients:
            attempt.recipients = (*attempt.recipients, recipient)
        if recipients:
            attempt.recipients = recipients
        if message_id is not None:
            attempt.message_id = message_id
        if headers:
            attempt.headers = headers
        if recipient is None and not attempt.recipients:
            account.occasions.of_stage(wire_of(attempt.dialect), stage)
        else:
            account.occasions.of_mail(attempt.id, recipient, attempt.recipients)

    def end(self, attempt: Attempt, sent: Sent, answer: str | None, now: datetime) -> None:
        """So much of the answer to what was handed in here has gone out; that was it."""
        attempt.sent = sent
        if answer is not None:
            attempt.answer = answer
        account = self._directory.account(attempt.account, now)
        attempt.state = AttemptState.CLOSED
        attempt.closed_at = account.clock.now(now)
        attempt.headers = ()
        self._directory.gate.gone(attempt.connection)
        self._journal.keep(attempt)
        account.let_go(attempt)


_YES = spoken(Accepted(id="", message_id=None, recipients=()))
