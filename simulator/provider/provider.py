"""The provider: three questions, one core for every wire. Read this first.

A server asks `open` when a sender comes, `step` at each stage (does anything go wrong here?), and `submit`
when the mail is there (what is accepted, what is said?); afterwards it says by `told` and `close` what really
went out. What is true (`Verdict.accepted`, the ledger) and what we say (`Verdict.answer`) are two fields.

    attempt = provider.open("smtp", peer, now)
    answer = provider.step(attempt, "rcpt", Detail(recipient="a@example.org"), now)   # None: go on
    verdict = provider.submit(attempt, submission, now)
    ... make provider.records() durable, then say verdict.answer ...
    provider.told(attempt, Sent.COMPLETE, now)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from simulator.provider import keyring
from simulator.provider.acceptance import Acceptance
from simulator.provider.account import DEFAULT_ACCOUNT, Account, Setup
from simulator.provider.advising import Advising
from simulator.provider.aftermaths import Aftermaths
from simulator.provider.answer import Accepted, Answer, InTurn, Refused, Reply, Words
from simulator.provider.asking import Asking
from simulator.provider.batches import Batches
from simulator.provider.detail import Detail
from simulator.provider.directory import Directory
from simulator.provider.events import Event
from simulator.provider.foretold import Foretold
from simulator.provider.holding import Holding
from simulator.provider.journal import Record
from simulator.provider.ledger import Attempt, AttemptState, NoPast, Past, Sent
from simulator.provider.lookup import PLAIN, Query, View
from simulator.provider.message import Submission
from simulator.provider.meters import Standing
from simulator.provider.notes import Noted
from simulator.provider.notices import Notice
from simulator.provider.obligations import Judgement, Obligation, judge
from simulator.provider.plan import wire_of
from simulator.provider.quick import Quick
from simulator.provider.restoring import restore
from simulator.provider.rule import Rule
from simulator.provider.steps import Steps
from simulator.provider.striking import Striking
from simulator.provider.submissions import Submissions, Verdict
from simulator.provider.tenancy import Tenancy

__all__ = ["DEFAULT_ACCOUNT", "Account", "Detail", "Provider", "Record", "Setup", "Verdict"]


class Provider:
    """Decides; never acts. One object per simulated service; every method returns at once.

    `now` is the real time everywhere. Each public method turns it into the time of the account it is about
    (`Account.clock`); what is recorded is in that time. Each part of the work has its own room:

    | room | what it knows |
    |---|---|
    | `Directory` | the accounts, and how they are set up |
    | `Journal` | what a store must keep, and how attempts are numbered |
    | `Steps` | the stages before booking |
    | `Striking` | the rules of the plans |
    | `Holding` | limits and greylists |
    | `Submissions`, `Batches` | a mail, or several in one request: key, checks, booking, answer |
    | `Asking` | look-ups |
    | `Quick` | the short way, for mails to which nothing can happen |
    | `Aftermaths` | events, webhooks, what must be remembered |
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        setup: Setup = Setup(),
        tenancy: Tenancy = Tenancy(),
        past: Past = NoPast(),
        now: datetime,
    ) -> None:
        """`past` finds what the accounts do not hold in memory any more."""
        self.seed = seed
        directory = self._directory = Directory(setup=setup, tenancy=tenancy, past=past, now=now)
        self.accounts: dict[str, Account] = directory.by_name
        self._journal = directory.journal
        self.refusals: Counter[tuple[str, ...]] = self._journal.refusals
        """How often the provider refused for a reason of its own, by dialect and reason."""
        self._advising = Advising()
        self._foretold = Foretold()
        self._striking = Striking(self.accounts, self._journal)
        holding = Holding(self.accounts, self._journal, directory.gate, self._striking, self._advising)
        self._aftermaths = Aftermaths(directory)
        self.stirring: Collection[str] = self._aftermaths.stirring
        """The accounts that `stirred` would hand out now."""
        self._steps = Steps(directory, self._striking, holding, self._advising, self._foretold)
        self._submissions = Submissions(
            seed=seed,
            directory=directory,
            striking=self._striking,
            holding=holding,
            advising=self._advising,
            foretold=self._foretold,
            aftermaths=self._aftermaths,
        )
        self._batches = Batches(directory, self._submissions, self._striking, self._advising, self._foretold)
        self._asking = Asking(directory, self._striking)
        self.quick = Quick(directory, self._submissions, self._advising, self._foretold)

    # --- accounts -----------------------------------------------------------------------------------

    def account(self, name: str, now: datetime) -> Account:
        """Return the account of this name; it is made if there is none. Who only reads looks into `accounts`."""
        return self._directory.account(name, now)

    def name(self, name: str, now: datetime) -> Account:
        """Return the account that somebody has named; it is there after a restart, too."""
        return self._directory.name(name, now)

    def account_of(self, credential: str | None) -> str:
        """Return the account behind an API key or SMTP user; what becomes of unknown ones was decided at start."""
        return self._directory.account_of(credential)

    def turned_away(self, credential: str | None, secret: str | None = None) -> Refused | None:
        """Say why whoever comes with this credential is not let in; None: it is. `secret` None: none was asked for."""
        return self._directory.turned_away(credential, secret)

    def beginning(self, name: str) -> Setup:
        """Return how an account of this name is set up when it begins, or began: as it was announced, or as everybody."""
        return self._directory.beginning(name)

    def set_up(self, name: str, setup: Setup, now: datetime) -> None:
        """Replace plan, key rules and limits of an account; counters start anew."""
        self._directory.set_up(name, setup, now)

    def take_up_setup(self, name: str, setup: Setup, since: datetime, now: datetime) -> None:
        """Take a setup again that was in force before a restart, since this instant of the account's time."""
        self._directory.take_up_setup(name, setup, since, now)

    def add_rules(self, name: str, rules: Sequence[Rule], now: datetime) -> None:
        """Append rules to an account's plan; what the others counted stays."""
        self._directory.add_rules(name, rules, now)

    def heal(self, name: str, now: datetime) -> None:
        """Take all rules away; keys and limits stay as they are."""
        self._directory.heal(name, now)

    def advance(self, name: str, seconds: float, now: datetime) -> datetime:
        """Move an account's clock ahead; return what time it is there now. Raises `ClockError`."""
        return self._directory.advance(name, seconds, now)

    def set_clock(self, name: str, to: datetime, now: datetime) -> datetime:
        """Move an account's clock ahead to an instant; return what time it is there now. Raises `ClockError`."""
        return self._directory.set_clock(name, to, now)

    def reset(self, name: str, now: datetime) -> None:
        """Forget everything of an account: ledger, attempts, obligations, keys, plan, and how its clock was moved."""
        self._directory.reset(name, now)

    # --- the three questions ------------------------------------------------------------------------

    def open(
        self, dialect: str, peer: str, now: datetime, *, connection: str = "", account: str = DEFAULT_ACCOUNT
    ) -> Attempt:
        """A sender came: begin to record an attempt."""
        self._journal.opened += 1
        number = self._journal.opened
        tenant = self._directory.account(account, now)
        attempt = Attempt(
            id=f"att_{number}",
            number=number,
            account=account,
            dialect=dialect,
            connection=connection or f"c{number}",
            peer=peer,
            opened_at=tenant.clock.now(now),
        )
        tenant.attempts[attempt.id] = attempt
        return attempt

    def step(self, attempt: Attempt, stage: str, detail: Detail, now: datetime) -> Answer | None:
        """Say what goes wrong at this stage. None: nothing, go on as the protocol wants."""
        return self._steps.step(attempt, stage, detail, now)

    def claim(self, attempt: Attempt, detail: Detail, now: datetime) -> Refused | InTurn | None:
        """Ask for the key again, after the request in front has ended. None: it is this attempt's now."""
        account = self.account(attempt.account, now)
        return keyring.claim(account, attempt, detail.key, detail.fingerprint, account.clock.now(now))

    def submit(self, attempt: Attempt, submission: Submission, now: datetime) -> Verdict:
        """The mail is here and nothing went wrong before: look up its key, check it, book it, word the answer.

        Rules of the stages before booking have been asked by `step` already, so that a slow or held answer
        can be waited for in between; here the rules of the stages after booking are asked.
        """
        return self._submissions.submit(attempt, submission, now)

    def told(self, attempt: Attempt, sent: Sent, now: datetime, *, answer: str | None = None) -> None:
        """Record how much of the answer really went out, and in which words."""
        attempt.sent = sent
        if answer is not None:
            attempt.answer = answer
        self._advising.was_sent(attempt, sent, self.account(attempt.account, now).clock.now(now))
        self._journal.keep(attempt)

    def close(self, attempt: Attempt, now: datetime) -> None:
        """The attempt is over, however it ended."""
        if attempt.state is AttemptState.CLOSED:
            return
        account = self.account(attempt.account, now)
        attempt.state = AttemptState.CLOSED
        attempt.closed_at = account.clock.now(now)
        # They were for the rules; those of an accepted mail stand in the acceptance.
        attempt.headers = ()
        self._foretold.forget(attempt.id)
        self._advising.forget(attempt.id)
        account.occasions.ended(attempt.id)
        self._submissions.batch_keys.pop(attempt.id, None)
        account.keys.release(attempt.id)
        if wire_of(attempt.dialect) == "http":
            # A kept connection on which nothing is asked is no load; over SMTP it is.
            self.gone(attempt.connection)
        self._journal.keep(attempt)
        account.let_go(attempt)

    def gone(self, connection: str) -> None:
        """A connection has ended: it does not count among the parallel ones any more."""
        self._directory.gate.gone(connection)

    def standings(self, attempt: Attempt, now: datetime) -> list[Standing]:
        """Say how the limits stand for whoever makes this attempt: what RateLimit fields are made of."""
        account = self.account(attempt.account, now)
        return self._directory.gate.standings(account, attempt, account.clock.now(now))

    # --- several mails in one request ---------------------------------------------------------------

    def open_items(self, lead: Attempt, count: int, now: datetime) -> list[Attempt]:
        """A request brought so many mails: each is an attempt of its own, the one of the request is the first."""

        def another() -> Attempt:
            return self.open(lead.dialect, lead.peer, now, connection=lead.connection, account=lead.account)

        return self._batches.open_items(lead, count, another)

    def begin_batch(
        self, lead: Attempt, key: str | None, fingerprint: str, now: datetime
    ) -> Words | InTurn | None:
        """Look up the key of a whole batch. None: go on, the key (if there is one) is this batch's now."""
        return self._batches.begin(lead, key, fingerprint, now)

    def would_take(self, attempt: Attempt, submission: Submission, now: datetime) -> Refused | None:
        """Say what speaks against a mail, and book nothing: where one that is refused refuses all."""
        return self._batches.would_take(attempt, submission, now)

    def take(
        self, attempt: Attempt, submission: Submission, now: datetime, *, owed: bool = False
    ) -> Accepted | Refused | Reply:
        """Take one mail of a batch, or not; the answer is said of the whole batch later.

        `owed`: all were looked at before, and what exceeds a limit together has to be waited for afterwards.
        """
        return self._batches.take(attempt, submission, now, owed=owed)

    def answer_batch(
        self, attempts: Sequence[Attempt], words: Words, fingerprint: str, now: datetime
    ) -> Verdict:
        """Every mail of a batch has been taken or not: say so, unless a rule of the stages after booking strikes."""
        return self._batches.answer(attempts, words, fingerprint, now)

    # --- promises and look-ups ----------------------------------------------------------------------

    def owe(self, obligations: Iterable[Obligation], now: datetime) -> None:
        """Enter promises (or what the sender says of them now); the same ref and recipient replaces the former."""
        for obligation in obligations:
            self.account(obligation.account, now).owe(obligation)
            self._journal.write(obligation)

    def judge(self, name: str, now: datetime, *, final: bool = False) -> Judgement:
        """Compare an account's promises with its ledger."""
        account = self.account(name, now)
        return judge(list(account.obligations.values()), account.ledger.everything(), final=final)

    def open_look_up(self, account: str, peer: str, connection: str, query: Query, now: datetime) -> Attempt:
        """A sender looks mail up. That is no attempt of the ledger's, but rules and people see it as they see those."""
        return self._asking.open(account, peer, connection, query, now)

    def ask_look_up(self, asking: Attempt, now: datetime) -> tuple[Answer | None, View]:
        """Say what goes wrong at stage `lookup`, and how this look-up sees the ledger."""
        return self._asking.step(asking, now)

    def look_up(self, query: Query, name: str, now: datetime, *, view: View = PLAIN) -> list[Acceptance]:
        """Return what a sender's look-up shows of an account by now."""
        return self._asking.find(query, name, now, view=view)

    # --- what becomes of it -------------------------------------------------------------------------

    def stirred(self) -> set[str]:
        """Hand out the accounts in which mail was taken since the last call: something will become of it."""
        return self._aftermaths.stirred()

    def calm(self, name: str) -> None:
        """Nobody carries what becomes of this account's mail: it has not been stirred."""
        self._aftermaths.calm(name)

    def tell(self, event: Event, now: datetime) -> list[Notice]:
        """Return how an event that has happened is told to the account's webhook."""
        return self._aftermaths.tell(event, now)

    def remember(self, notes: Iterable[Noted], *, known: bool = True) -> None:
        """Make notes durable. `known` False: whoever wrote them keeps them in mind, so that nobody else need."""
        self._aftermaths.remember(notes, known=known)

    # --- what is to be kept, and kept from before ---------------------------------------------------

    def records(self) -> list[Record]:
        """Hand out what a store must keep since the last call, in order."""
        return self._journal.take()

    def settle(self) -> None:
        """The end is near: what could wait to be kept is among the next records."""
        self._journal.take_all_counts()

    def restore(self, records: Iterable[Record], now: datetime) -> None:
        """Take up where a former process ended. Bodies are not needed: `Booked.raw` may be empty."""
        restore(records, self._directory, now)

    def take_up(self, now: datetime) -> None:
        """After a restart: mind the mails to which something is still to happen, however long ago they were taken."""
        self._aftermaths.take_up(now)
