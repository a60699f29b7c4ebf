"""The short way through the provider, for a mail to which nothing can happen.

Where no rule, limit, greylist, recording or magic address has anything to say and the key is new, the stages of an
attempt only note what is known and count the occasion. Here that is all that is done; what comes of it is what the long
way (`Steps`, `Submissions`) makes of it, to the byte. Whoever is not sure gets None, and goes the long way.

An attempt that is booked here is not changed any more: it is written as it stands, and `end` puts a copy that has ended
in its place.
"""

from __future__ import annotations

from datetime import datetime

from simulator.provider.acceptance import Acceptance
from simulator.provider.account import DEFAULT_ACCOUNT, Account
from simulator.provider.advising import Advising
from simulator.provider.answer import Accepted, spoken
from simulator.provider.directory import Directory
from simulator.provider.foretold import Foretold
from simulator.provider.idempotency import Fresh
from simulator.provider.keyring import yes
from simulator.provider.ledger import Attempt, AttemptState, Sent
from simulator.provider.message import Submission, mail_to
from simulator.provider.submissions import STAGES_AFTER_BOOKING, Submissions, check

#: Where an attempt ends to which nothing happens.
_LAST_OF_HTTP, _LAST_OF_SMTP = STAGES_AFTER_BOOKING["http"][-1], STAGES_AFTER_BOOKING["smtp"][-1]
_YES = spoken(Accepted(id="", message_id=None, recipients=()))


class Quick:
    """One provider's. `now` is the real time."""

    def __init__(
        self, directory: Directory, submissions: Submissions, advising: Advising, foretold: Foretold
    ) -> None:
        self._directory = directory
        self._journal = directory.journal
        self._submissions = submissions
        self._advising = advising
        self._foretold = foretold
        self.is_open = True
        """Whether the short way may be taken at all; tests shut it, and see that it makes no difference."""
        self.lets_strangers_in = directory.turned_away(None) is None
        """Whether mail is taken from somebody without a credential."""

    # --- HTTP: all at once --------------------------------------------------------------------------

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
        number = self._journal.opened + 1
        id_ = f"att_{number}"
        if key is not None and account.setup.keys.honoured:
            found = account.keys.look_up(key, submission.fingerprint, id_, account.setup.keys, now)
            if not isinstance(found, Fresh) or account.keys.is_in_flight(key):
                return None
        self._journal.opened = number
        attempt = account.attempts[id_] = Attempt(
            id=id_,
            number=number,
            account=account.name,
            dialect=submission.dialect,
            connection=connection or f"c{number}",
            peer=peer,
            opened_at=now,
            stage=_LAST_OF_HTTP,
            sender=submission.sender,
            recipients=submission.recipients,
            message_id=submission.message_id,
            key=key,
            headers=submission.headers,
            answer=_YES,
        )
        account.occasions.another(mail_to(None, submission.recipients))
        self._directory.gate.enter(attempt)
        return attempt, yes(self._book(account, attempt, submission, now))

    # --- SMTP: stage by stage -----------------------------------------------------------------------

    def connect(self, account: Account, attempt: Attempt) -> None:
        """A sender has connected: it counts among those who are here."""
        account.occasions.of_stage("smtp", "connect")
        self._directory.gate.enter(attempt)

    def pass_by(self, account: Account, attempt: Attempt, stage: str) -> None:
        """Pass a stage at which nothing is known of a mail; an attempt that has ended keeps that at which it ended."""
        if attempt.state is not AttemptState.CLOSED:
            attempt.stage = stage
        account.occasions.of_stage("smtp", stage)

    def open(self, before: Attempt, credential: str | None, now: datetime) -> tuple[Account, Attempt]:
        """Begin another attempt on a connection. The account may have been made after its sender logged in."""
        name = DEFAULT_ACCOUNT if credential is None else self._directory.account_of(credential)
        account = self._directory.account(name, now)
        number = self._journal.opened = self._journal.opened + 1
        attempt = Attempt(
            id=f"att_{number}",
            number=number,
            account=name,
            dialect="smtp",
            connection=before.connection,
            peer=before.peer,
            opened_at=account.clock.now(now),
        )
        account.attempts[attempt.id] = attempt
        return account, attempt

    def mail(self, account: Account, attempt: Attempt, sender: str) -> None:
        """A mail begins."""
        attempt.stage, attempt.sender = "mail", sender
        account.occasions.of_stage("smtp", "mail")

    def rcpt(self, account: Account, attempt: Attempt, recipient: str) -> None:
        """It goes to this one, too."""
        attempt.stage = "rcpt"
        if recipient not in attempt.recipients:
            attempt.recipients = (*attempt.recipients, recipient)
        account.occasions.of_mail(attempt.id, recipient, attempt.recipients)

    def data(self, account: Account, attempt: Attempt, recipients: tuple[str, ...]) -> None:
        """It begins to come in, for these; what was said of single ones is not the answer to it."""
        attempt.stage, attempt.recipients = "data", recipients
        account.occasions.of_mail(attempt.id, None, recipients)
        attempt.sent, attempt.answer = Sent.UNKNOWN, "normal"

    def body(self, attempt: Attempt, message_id: str | None, headers: tuple[tuple[str, str], ...]) -> None:
        """Its headers are here. Nothing is counted: `data` has done it for the whole mail."""
        attempt.stage = "body"
        attempt.message_id = message_id if message_id is not None else attempt.message_id
        attempt.headers = headers or attempt.headers

    def take(
        self, account: Account, attempt: Attempt, submission: Submission, now: datetime
    ) -> Acceptance | None:
        """The mail is here: book it. None, and nothing has happened: go the long way."""
        if (
            check(account, submission) is not None
            or attempt.refused
            or attempt.drop
            or self._foretold.knows(attempt.id)
        ):
            return None
        attempt.stage = _LAST_OF_SMTP
        attempt.recipients = submission.recipients
        attempt.message_id = submission.message_id
        attempt.headers = submission.headers
        attempt.answer = _YES
        return self._book(account, attempt, submission, account.clock.now(now))

    # --- both ---------------------------------------------------------------------------------------

    def _book(self, account: Account, attempt: Attempt, submission: Submission, now: datetime) -> Acceptance:
        return self._submissions.book(
            account, attempt, submission, submission.recipients, (), now, final=True
        )

    def end(self, attempt: Attempt, sent: Sent, answer: str | None, now: datetime) -> Attempt:
        """So much of the answer to what was booked here has gone out; that was it. Returns the attempt as it ended."""
        account = self._directory.account(attempt.account, now)
        ended = attempt.as_it_stands()
        ended.sent = sent
        if answer is not None:
            ended.answer = answer
        ended.state = AttemptState.CLOSED
        ended.closed_at = account.clock.now(now)
        ended.headers = ()
        self._advising.says_nothing(attempt.id)
        if ended.dialect == "smtp":
            account.occasions.ended(attempt.id)
        else:
            # A kept connection on which nothing is asked is no load; over SMTP it is.
            self._directory.gate.gone(attempt.connection)
        if attempt.id in account.attempts:  # It is not if a reset has come between.
            account.attempts[attempt.id] = ended
            self._journal.keep_this(ended)
        account.let_go(ended)
        return ended
