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

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from simulator.provider import kept, keyring
from simulator.provider.account import DEFAULT_ACCOUNT, Account, Setup
from simulator.provider.advising import Advising
from simulator.provider.answer import (
    Accepted,
    Answer,
    InTurn,
    Reason,
    Refused,
    RefusedRecipient,
    Reply,
    Results,
    TellFirst,
    Words,
    goes_on,
    spoken,
    with_words,
)
from simulator.provider.clock import ClockMoved
from simulator.provider.events import Event
from simulator.provider.fate import Destiny, Fate
from simulator.provider.faults.written import written
from simulator.provider.gate import Gate
from simulator.provider.ledger import (
    Acceptance,
    Attempt,
    AttemptState,
    Booked,
    Decided,
    Decision,
    Named,
    NoPast,
    Past,
    Sent,
    Struck,
    Tried,
    Wiped,
    message_name,
    number_of,
)
from simulator.provider.limits import Standing
from simulator.provider.lookup import PLAIN, Query, View, look
from simulator.provider.magic import MAGIC_STAGES
from simulator.provider.message import Moment, Submission, digest, header
from simulator.provider.notes import Noted
from simulator.provider.notices import Notice
from simulator.provider.obligations import Judgement, Obligation, judge
from simulator.provider.plan import Plan, Rule, wire_of
from simulator.provider.strike import Held, Hit, Strike
from simulator.provider.telling import moment_of, tell
from simulator.provider.tenancy import Tenancy, Tenants

__all__ = ["DEFAULT_ACCOUNT", "Account", "Detail", "Provider", "Record", "Setup", "Verdict"]

OBLIGATION_HEADER = "X-Obligation"
#: The stage of the decision log at which a mail is let in or not; no rule can strike there.
BOOKING = "booking"

Record = Booked | Tried | Decided | Obligation | Named | Wiped | ClockMoved | Noted


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """What a server learnt at this stage. None or empty: nothing new."""

    credential: str | None = None
    secret: str | None = None
    """The password that came with it, where the wire has one."""
    sender: str | None = None
    recipient: str | None = None
    """The recipient this stage is about."""
    recipients: tuple[str, ...] = ()
    """All recipients, on a wire that brings them at once."""
    key: str | None = None
    message_id: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    fingerprint: str = ""
    command: str = ""
    """SMTP: `EHLO` or `HELO`, where both come to the same stage."""


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


class Provider:
    """Decides; never acts. One object per simulated service; every method returns at once.

    `now` is the real time everywhere. Each public method turns it into the time of the account it is about
    (`Account.clock`); what is recorded is in that time.
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
        self._setup = setup
        self._past = past
        self._tenants = Tenants(tenancy)
        self._records: list[Record] = []
        self.refusals: Counter[tuple[str, ...]] = Counter()
        """How often the provider refused for a reason of its own, by dialect and reason."""
        self._opened = 0
        self._decided = 0
        self._advising = Advising()
        self._stirred: set[str] = set()
        self._early: dict[str, float] = {}
        """By attempt: how long at most the answer waits for events that are told before it."""
        self._looked = 0
        self._foretold: dict[str, dict[str, Destiny]] = {}
        """By attempt and recipient: what rules said will become of a mail that is not booked yet."""
        self._batch_keys: dict[str, str] = {}
        """By the attempt that stands for a batch: the idempotency key of all of it."""
        self.accounts: dict[str, Account] = {}
        self._gate = Gate(self.accounts)
        for name in (DEFAULT_ACCOUNT, *self._tenants.names):
            self.account(name, now)

    # --- accounts -----------------------------------------------------------------------------------

    def account(self, name: str, now: datetime) -> Account:
        """Return the account of this name; it is made when it is named for the first time."""
        known = self.accounts.get(name)
        if known is None:
            setup = self._tenants.setup_of(name) or self._setup
            known = self.accounts[name] = Account.fresh(name, setup, now, self._past)
        return known

    def name(self, name: str, now: datetime) -> Account:
        """Return the account that somebody has named; it is there after a restart, too."""
        if name not in self.accounts:
            self._records.append(Named(account=name))
        return self.account(name, now)

    def account_of(self, credential: str | None) -> str:
        """Return the account behind an API key or SMTP user; what becomes of unknown ones was decided at start."""
        return self._tenants.account_of(credential, self.accounts)

    def turned_away(self, credential: str | None, secret: str | None = None) -> Refused | None:
        """Say why whoever comes with this credential is not let in; None: it is. `secret` None: none was asked for."""
        return self._tenants.turned_away(credential, secret, self.accounts)

    def set_up(self, name: str, setup: Setup, now: datetime) -> None:
        """Replace plan, key rules and limits of an account; counters start anew."""
        account = self.account(name, now)
        account.set_up(setup, account.clock.now(now))

    def take_up_setup(self, name: str, setup: Setup, since: datetime, now: datetime) -> None:
        """Take a setup again that was in force before a restart, since this instant of the account's time."""
        self.set_up(name, setup, now)
        account = self.accounts[name]
        account.set_up_at = since
        for acceptance in account.ledger.acceptances:
            if acceptance.accepted_at >= since:
                self._gate.recall(account, acceptance)

    def add_rules(self, name: str, rules: Sequence[Rule], now: datetime) -> None:
        """Append rules to an account's plan; what the others counted stays."""
        account = self.account(name, now)
        account.plan.add(rules, account.clock.now(now))

    def heal(self, name: str, now: datetime) -> None:
        """Take all rules away; keys and limits stay as they are."""
        account = self.account(name, now)
        self.set_up(name, dataclasses.replace(account.setup, plan=Plan(seed=account.setup.plan.seed)), now)

    def advance(self, name: str, seconds: float, now: datetime) -> datetime:
        """Move an account's clock ahead; return what time it is there now. Raises `ClockError`."""
        account = self.account(name, now)
        account.clock.advance(seconds, now)
        return self._clock_moved(account, now)

    def set_clock(self, name: str, to: datetime, now: datetime) -> datetime:
        """Move an account's clock ahead to an instant; return what time it is there now. Raises `ClockError`."""
        account = self.account(name, now)
        account.clock.set(to, now)
        return self._clock_moved(account, now)

    def reset(self, name: str, now: datetime) -> None:
        """Forget everything of an account: ledger, attempts, obligations, keys, plan, and how its clock was moved."""
        former = self.accounts.pop(name, None)
        account = self.account(name, now)
        if former is not None:
            # Whoever is connected stays connected.
            account.limiter = former.limiter.renewed(account.setup.throughput)
        self._records.append(Wiped(account=name))

    # --- the three questions ------------------------------------------------------------------------

    def open(
        self, dialect: str, peer: str, now: datetime, *, connection: str = "", account: str = DEFAULT_ACCOUNT
    ) -> Attempt:
        """A sender came: begin to record an attempt."""
        self._opened += 1
        tenant = self.account(account, now)
        attempt = Attempt(
            id=f"att_{self._opened}",
            number=self._opened,
            account=account,
            dialect=dialect,
            connection=connection or f"c{self._opened}",
            peer=peer,
            opened_at=tenant.clock.now(now),
        )
        tenant.attempts[attempt.id] = attempt
        return attempt

    def step(self, attempt: Attempt, stage: str, detail: Detail, now: datetime) -> Answer | None:
        """Say what goes wrong at this stage. None: nothing, go on as the protocol wants."""
        answer = self._decide(attempt, stage, detail, now)
        self._advising.says(attempt, answer, detail.recipient)
        return answer

    def _decide(self, attempt: Attempt, stage: str, detail: Detail, now: datetime) -> Answer | None:
        self._learn(attempt, stage, detail, now)
        now = self.accounts[attempt.account].clock.now(now)
        occasion = self._occasion(self.accounts[attempt.account], attempt, stage, detail)
        strike = self._strike(attempt, stage, detail, occasion, now)
        if strike is not None:
            attempt.drop = attempt.drop or strike.drop
            if strike.refused:
                attempt.refused = (*attempt.refused, *strike.refused)
            if strike.destinies:
                self._foretold.setdefault(attempt.id, {}).update(strike.destinies)
            if strike.early_s is not None:
                self._early[attempt.id] = strike.early_s
        answer = strike.answer if strike is not None else None
        if answer is None or goes_on(answer):
            refused = self._at_the_door(attempt, stage, detail)
            if refused is None:
                refused = self._held_back(attempt, stage, detail, occasion, now)
            if refused is not None:
                self._count(attempt, refused)
                return refused if answer is None else with_words(answer, refused)
        # A mail that is only delayed here is in flight all the while: a second request with its key meets 409.
        if stage == "accept" and (answer is None or goes_on(answer)):
            met = keyring.claim(self.accounts[attempt.account], attempt, detail.key, detail.fingerprint, now)
            if isinstance(met, Refused):
                self._count(attempt, met)
            if met is not None:
                return met if answer is None else with_words(answer, met)
        elif stage == "accept" and answer is not None:
            tenant = self.accounts[attempt.account]
            keyring.failed(tenant, attempt, detail.key, detail.fingerprint, answer, now)
        return answer

    def claim(self, attempt: Attempt, detail: Detail, now: datetime) -> Refused | InTurn | None:
        """Ask for the key again, after the request in front has ended. None: it is this attempt's now."""
        account = self.account(attempt.account, now)
        return keyring.claim(account, attempt, detail.key, detail.fingerprint, account.clock.now(now))

    def submit(self, attempt: Attempt, submission: Submission, now: datetime) -> Verdict:
        """The mail is here and nothing went wrong before: look up its key, check it, book it, word the answer.

        Rules of the stages before booking have been asked by `step` already, so that a slow or held answer
        can be waited for in between; here the rules of the stages after booking are asked.
        """
        account, now = self._now_hand_in(attempt, submission, now)
        words, acceptance = self._take(account, attempt, submission, now)
        if acceptance is None and not words.replayed:
            attempt.answer = spoken(words)
            self._advising.says(attempt, words)
            return Verdict(accepted=(), answer=words, words=words)
        return self._say_yes(attempt, words, attempt.accepted if acceptance else (), acceptance, now)

    def _now_hand_in(
        self, attempt: Attempt, submission: Submission, now: datetime
    ) -> tuple[Account, datetime]:
        account = self.account(attempt.account, now)
        account.attempts.setdefault(attempt.id, attempt)
        attempt.recipients = submission.recipients or attempt.recipients
        attempt.message_id = submission.message_id
        attempt.key = submission.key or self._batch_keys.get(attempt.batch or "")
        attempt.headers = submission.headers
        return account, account.clock.now(now)

    def _take(
        self,
        account: Account,
        attempt: Attempt,
        submission: Submission,
        now: datetime,
        *,
        owed: bool = False,
    ) -> tuple[Words, Acceptance | None]:
        """Look up the key, check, book; return what is to be said, and the acceptance if there is one just now."""
        words, acceptance = self._look_and_book(account, attempt, submission, now, owed=owed)
        if isinstance(words, Refused) and not words.replayed:
            self._count(attempt, words)
        return words, acceptance

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
            self._gate.owe(account, attempt, submission, now)
        elif refused_for is None:
            refused_for = self._held_back_in_the_end(account, attempt, submission, now)
        if refused_for is not None:
            return refused_for, None
        taken, refused = _sorted_out(attempt, submission)
        if not taken:
            nobody = Refused(reason=Reason.NO_RECIPIENTS, detail="no recipient was accepted", refused=refused)
            keyring.failed(account, attempt, submission.key, submission.fingerprint, nobody, now)
            return nobody, None
        acceptance = self._book(account, attempt, submission, taken, refused, now)
        return keyring.yes(acceptance), acceptance

    # --- several mails in one request ---------------------------------------------------------------

    def open_items(self, lead: Attempt, count: int, now: datetime) -> list[Attempt]:
        """A request brought so many mails: each is an attempt of its own, the one of the request is the first."""
        attempts = [lead]
        for _ in range(count - 1):
            attempts.append(
                self.open(lead.dialect, lead.peer, now, connection=lead.connection, account=lead.account)
            )
        for item, attempt in enumerate(attempts):
            attempt.batch, attempt.item, attempt.key = lead.id, item, lead.key
        return attempts

    def begin_batch(
        self, lead: Attempt, key: str | None, fingerprint: str, now: datetime
    ) -> Words | InTurn | None:
        """Look up the key of a whole batch. None: go on, the key (if there is one) is this batch's now."""
        account = self.account(lead.account, now)
        now = account.clock.now(now)
        if key is None:
            return None
        self._batch_keys[lead.id] = key
        met = keyring.ask(account, lead, key, fingerprint, now)
        if met is None:
            keyring.begin(account, lead, key, fingerprint)
        return met

    def would_take(self, attempt: Attempt, submission: Submission, now: datetime) -> Refused | None:
        """Say what speaks against a mail, and book nothing: where one that is refused refuses all."""
        account, now = self._now_hand_in(attempt, submission, now)
        refused_for = self._check(account, attempt, submission)
        if refused_for is not None:
            return refused_for
        if not _sorted_out(attempt, submission)[0]:
            return Refused(
                reason=Reason.NO_RECIPIENTS, detail="no recipient was accepted", refused=attempt.refused
            )
        refused_for = self._held_back_in_the_end(account, attempt, submission, now, look=True)
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
        account, now = self._now_hand_in(attempt, submission, now)
        words, _ = self._take(account, attempt, submission, now, owed=owed)
        attempt.answer = spoken(words)
        self._advising.forget(attempt.id)
        # A batch is never kept under the key of one of its mails.
        assert not isinstance(words, Results)
        return words

    def answer_batch(
        self, attempts: Sequence[Attempt], words: Words, fingerprint: str, now: datetime
    ) -> Verdict:
        """Every mail of a batch has been taken or not: say so, unless a rule of the stages after booking strikes."""
        lead = attempts[0]
        account = self.account(lead.account, now)
        now = account.clock.now(now)
        key = self._batch_keys.get(lead.id)
        accepted = tuple(recipient for attempt in attempts for recipient in attempt.accepted)
        if key is not None and not words.replayed and account.setup.keys.honoured:
            if isinstance(words, Results):
                keyring.remember(account, lead, key, fingerprint, words, now)
            else:
                keyring.failed(account, lead, key, fingerprint, words, now)
        if not isinstance(words, Results):
            for attempt in attempts:
                attempt.answer = spoken(words)
            if isinstance(words, Refused) and not words.replayed:
                self._count(lead, words)
            self._advising.says(lead, words)
            return Verdict(accepted=(), answer=words, words=words)
        return self._say_of_all(attempts, words, accepted, fingerprint, now)

    def _say_of_all(
        self,
        attempts: Sequence[Attempt],
        words: Results,
        accepted: tuple[str, ...],
        fingerprint: str,
        now: datetime,
    ) -> Verdict:
        lead, key = attempts[0], self._batch_keys.get(attempts[0].id)
        everybody = tuple(recipient for attempt in attempts for recipient in attempt.recipients)
        for stage in ("reply", "body"):
            everything = Detail(recipients=everybody)
            occasion = self._occasion(self.accounts[lead.account], lead, stage, everything)
            strike = self._strike(lead, stage, everything, occasion, now)
            for attempt in attempts:
                attempt.stage = stage
                if strike is not None and attempt is not lead:
                    attempt.rules = (*attempt.rules, *strike.rules)
            if strike is not None and strike.answer is not None:
                answer = with_words(strike.answer, words)
                if key is not None and accepted:
                    keyring.lied(self.accounts[lead.account], lead, key, fingerprint, answer, now)
                self._advising.says(lead, answer)
                for attempt in attempts:
                    attempt.answer = spoken(answer)
                return Verdict(accepted=accepted, answer=answer, words=words, after_head=stage == "body")
        return Verdict(accepted=accepted, answer=words, words=words)

    def told(self, attempt: Attempt, sent: Sent, now: datetime, *, answer: str | None = None) -> None:
        """Record how much of the answer really went out, and in which words."""
        attempt.sent = sent
        if answer is not None:
            attempt.answer = answer
        self._advising.was_sent(attempt, sent, self.account(attempt.account, now).clock.now(now))
        self._keep(attempt)

    def close(self, attempt: Attempt, now: datetime) -> None:
        """The attempt is over, however it ended."""
        if attempt.state is AttemptState.CLOSED:
            return
        account = self.account(attempt.account, now)
        attempt.state = AttemptState.CLOSED
        attempt.closed_at = account.clock.now(now)
        self._foretold.pop(attempt.id, None)
        self._advising.forget(attempt.id)
        account.occasions.ended(attempt.id)
        self._early.pop(attempt.id, None)
        self._batch_keys.pop(attempt.id, None)
        account.keys.release(attempt.id)
        if wire_of(attempt.dialect) == "http":
            # A kept connection on which nothing is asked is no load; over SMTP it is.
            self.gone(attempt.connection)
        self._keep(attempt)
        account.let_go()

    def gone(self, connection: str) -> None:
        """A connection has ended: it does not count among the parallel ones any more."""
        self._gate.gone(connection)

    def standings(self, attempt: Attempt, now: datetime) -> list[Standing]:
        """Say how the limits stand for whoever makes this attempt: what RateLimit fields are made of."""
        account = self.account(attempt.account, now)
        return self._gate.standings(account, attempt, account.clock.now(now))

    # --- what is to be kept, and kept from before ---------------------------------------------------

    def records(self) -> list[Record]:
        """Hand out what a store must keep since the last call, in order."""
        records, self._records = self._records, []
        return records

    def restore(self, records: Iterable[Record], now: datetime) -> None:
        """Take up where a former process ended. Bodies are not needed: `Booked.raw` may be empty."""
        orphans: dict[str, Attempt] = {}
        for record in records:
            match record:
                case Booked(acceptance=acceptance):
                    account = self.account(acceptance.account, now)
                    account.ledger.book(acceptance)
                    account.aftermath.events.book(acceptance)
                    account.booked = max(account.booked, acceptance.number)
                    self._gate.recall(account, acceptance)
                    self._opened = max(self._opened, number_of(acceptance.attempt))
                    if acceptance.key is not None:
                        account.keys.recall(acceptance.key, acceptance)
                case Tried(attempt=attempt):
                    account = self.account(attempt.account, now)
                    account.attempts[attempt.id] = attempt
                    orphans.pop(attempt.id, None)
                    if attempt.state is not AttemptState.CLOSED:
                        # Its connection died with the process that wrote this line.
                        attempt.state = AttemptState.CLOSED
                        orphans[attempt.id] = attempt
                    self._opened = max(self._opened, attempt.number)
                    if attempt.kept is not None:
                        account.keys.recall(*kept.read(attempt.kept, attempt.id))
                case Decided(decision=decision):
                    self.account(decision.account, now).decisions.append(decision)
                    self._decided = max(self._decided, decision.number)
                    # The process may have died before it wrote the attempt itself: its name is taken.
                    self._opened = max(self._opened, number_of(decision.attempt))
                case Obligation():
                    self._owe(record, now)
                case Noted():
                    self.account(record.account, now).aftermath.recall(record)
                case Named(account=name):
                    self.account(name, now)
                case Wiped(account=name):
                    self.accounts.pop(name, None)
                    self.account(name, now)
                case ClockMoved(account=name, ahead_s=ahead_s):
                    account = self.account(name, now)
                    account.clock.ahead = timedelta(seconds=ahead_s)
                    account.plan.replant(account.clock.now(now))
        for attempt in orphans.values():
            self._keep(attempt)
        for account in self.accounts.values():
            for attempt in account.attempts.values():
                account.occasions.recall(wire_of(attempt.dialect), attempt.recipients)
            # Of attempts that are not held any more the decisions may know.
            for decision in account.decisions:
                account.occasions.at_least(decision.wire, decision.stage, decision.mail, decision.nth)

    # --- promises and look-ups ----------------------------------------------------------------------

    def owe(self, obligations: Iterable[Obligation], now: datetime) -> None:
        """Enter promises (or what the sender says of them now); the same ref and recipient replaces the former."""
        for obligation in obligations:
            self._owe(obligation, now)
            self._records.append(obligation)

    def judge(self, name: str, now: datetime, *, final: bool = False) -> Judgement:
        """Compare an account's promises with its ledger."""
        account = self.account(name, now)
        return judge(list(account.obligations.values()), account.ledger.everything(), final=final)

    def open_look_up(self, account: str, peer: str, connection: str, query: Query, now: datetime) -> Attempt:
        """A sender looks mail up. That is no attempt of the ledger's, but rules and people see it as they see those."""
        self._looked += 1
        return Attempt(
            id=f"look_{self._looked}",
            number=0,
            account=account,
            dialect="native",
            connection=connection or f"l{self._looked}",
            peer=peer,
            opened_at=self.account(account, now).clock.now(now),
            stage="lookup",
            key=query.key,
            message_id=query.message_id,
        )

    def ask_look_up(self, asking: Attempt, now: datetime) -> tuple[Answer | None, View]:
        """Say what goes wrong at stage `lookup`, and how this look-up sees the ledger."""
        account = self.account(asking.account, now)
        occasion = self._occasion(account, asking, "lookup", Detail())
        strike = self._strike(asking, "lookup", Detail(), occasion, account.clock.now(now))
        return (None, PLAIN) if strike is None else (strike.answer, strike.view)

    def look_up(self, query: Query, name: str, now: datetime, *, view: View = PLAIN) -> list[Acceptance]:
        """Return what a sender's look-up shows of an account by now."""
        account = self.account(name, now)
        lag_s = account.setup.keys.lookup_lag_s
        return look(account.ledger, query, view, lag_s=lag_s, now=account.clock.now(now))

    @property
    def stirring(self) -> frozenset[str]:
        """The accounts that `stirred` would hand out now."""
        return frozenset(self._stirred)

    def stirred(self) -> set[str]:
        """Hand out the accounts in which mail was taken since the last call: something will become of it."""
        stirred, self._stirred = self._stirred, set()
        return stirred

    def tell(self, event: Event, now: datetime) -> list[Notice]:
        """Return how an event that has happened is told to the account's webhook."""
        account = self.account(event.account, now)
        now = account.clock.now(now)
        moment = dataclasses.replace(
            moment_of(event, account.plan, lambda: self._headers(account, event)),
            occasion=account.occasions.of_event(event.type, event.recipient),
        )
        hits = account.plan.strike_event(moment, now)
        notices = tell(event, hits, account.plan.plan.seed)
        if hits:
            attempt = "att_0" if event.mail is None else event.mail.attempt
            said = f"{event.type}: {len(notices)} {'notice' if len(notices) == 1 else 'notices'}"
            rules = tuple(hit.rule for hit in hits)
            self._enter_decision(account, attempt, moment, rules, said, now, hits=hits)
        return notices

    def _headers(self, account: Account, event: Event) -> tuple[tuple[str, str], ...]:
        acceptance = None if event.email_id is None else account.ledger.get(event.email_id)
        return () if acceptance is None else acceptance.headers

    def take_up(self, now: datetime) -> None:
        """After a restart: mind the mails to which something is still to happen, however long ago they were taken."""
        for account in self.accounts.values():
            at, aftermath = account.clock.now(now), account.aftermath
            minded = aftermath.events.awaited()
            over = []
            for id_, last in aftermath.ahead().items():
                acceptance = account.ledger.get(id_) if last >= at and id_ not in minded else None
                if acceptance is not None:
                    aftermath.events.book(acceptance)
                elif id_ not in minded:
                    over.append(id_)
            self.remember(aftermath.past(over))

    def remember(self, notes: Iterable[Noted], *, known: bool = True) -> None:
        """Make notes durable. `known` False: whoever wrote them keeps them in mind, so that nobody else need."""
        for note in notes:
            account = self.accounts.get(note.account)
            if account is None:
                continue
            if known:
                account.aftermath.notes.keep(note)
            self._records.append(note)

    # --- inside: `now` is the account's time here --------------------------------------------------

    def _clock_moved(self, account: Account, real: datetime) -> datetime:
        self._records.append(ClockMoved(account=account.name, ahead_s=account.clock.ahead.total_seconds()))
        return account.clock.now(real)

    def _keep(self, attempt: Attempt) -> None:
        """Hand out an attempt as it stands, unless a reset has forgotten it meanwhile."""
        account = self.accounts.get(attempt.account)
        if account is not None and attempt.id in account.attempts:
            record = Tried(attempt=attempt.as_it_stands())
            last = self._records[-1] if self._records else None
            if isinstance(last, Tried) and last.attempt.id == attempt.id:
                self._records[-1] = record  # How it stood a moment ago is of no interest any more.
            else:
                self._records.append(record)

    def _learn(self, attempt: Attempt, stage: str, detail: Detail, real: datetime) -> None:
        attempt.stage = stage
        if attempt.state is not AttemptState.CLOSED:
            # One that was open over a reset and goes on belongs to the new time; one that had ended does not.
            self.account(attempt.account, real).attempts.setdefault(attempt.id, attempt)
        if (
            detail.credential is not None
            and attempt.state is not AttemptState.CLOSED
            and self.turned_away(detail.credential, detail.secret) is None
        ):
            self._move(attempt, self.account_of(detail.credential), real)
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
        before, after = self.accounts[attempt.account], self.account(name, real)
        del before.attempts[attempt.id]
        attempt.account = name
        attempt.opened_at += after.clock.ahead - before.clock.ahead
        after.attempts[attempt.id] = attempt

    def _moment(self, attempt: Attempt, stage: str, detail: Detail, occasion: tuple[str, int]) -> Moment:
        return Moment(
            stage=stage,
            dialect=attempt.dialect,
            account=attempt.account,
            connection=attempt.connection,
            attempt=attempt.id,
            sender=attempt.sender,
            recipient=detail.recipient,
            recipients=detail.recipients or attempt.recipients,
            key=attempt.key,
            message_id=attempt.message_id,
            headers=attempt.headers,
            command=detail.command,
            occasion=occasion,
        )

    def _occasion(self, account: Account, attempt: Attempt, stage: str, detail: Detail) -> tuple[str, int]:
        """Count this moment. That is done in any case, so that a run that is replayed counts as the first one did."""
        recipients = detail.recipients or attempt.recipients
        if attempt.state is AttemptState.CLOSED or not (detail.recipient or recipients):
            return account.occasions.of_stage(wire_of(attempt.dialect), stage)
        return account.occasions.of_mail(attempt.id, detail.recipient, recipients)

    def _strike(
        self, attempt: Attempt, stage: str, detail: Detail, occasion: tuple[str, int], now: datetime
    ) -> Strike | None:
        account = self.accounts[attempt.account]
        is_magic = stage in MAGIC_STAGES and account.magic.concerns(
            detail.recipient, detail.recipients or attempt.recipients
        )
        if not is_magic and account.plan.is_blind(wire_of(attempt.dialect), stage):
            return None
        moment = self._moment(attempt, stage, detail, occasion)
        strike = account.plan.strike(moment, now)
        if is_magic and not (strike is not None and strike.is_final):
            more = account.magic.strike(moment, now)
            if more is not None:
                strike = more if strike is None else strike.and_then(more)
        if strike is not None:
            self._log(account, attempt, moment, strike, now)
        return strike

    def _log(self, account: Account, attempt: Attempt, moment: Moment, strike: Strike, now: datetime) -> None:
        said = "drop" if strike.drop else spoken(strike.answer)
        if strike.destinies and strike.answer is None and not strike.drop:
            said = f"fate: {', '.join(dict.fromkeys(each.fate.value for _, each in strike.destinies))}"
        if strike.early_s is not None and strike.answer is None and not strike.drop:
            said = "events first"
        if strike.view is not PLAIN:
            said = str(strike.view)
        if strike.refused and wire_of(attempt.dialect) == "http":
            said = f"refuse {len(strike.refused)} of {len(attempt.recipients)} recipients"
        attempt.rules = (*attempt.rules, *strike.rules)
        self._enter_decision(account, attempt.id, moment, strike.rules, said, now, hits=strike.hits)

    def _enter_decision(
        self,
        account: Account,
        attempt: str,
        moment: Moment,
        rules: tuple[str, ...],
        said: str,
        now: datetime,
        *,
        hits: Iterable[Hit] = (),
        held: Held | None = None,
    ) -> None:
        """Write a line of the decision log."""
        self._decided += 1
        mail, nth = moment.occasion
        decision = Decision(
            number=self._decided,
            account=account.name,
            attempt=attempt,
            stage=moment.stage,
            rules=rules,
            answer=said,
            at=now,
            wire=wire_of(moment.dialect),
            mail=mail,
            nth=nth,
            struck=tuple(
                Struck(rule=hit.rule, fault=written(hit.fault), recipients=hit.recipients) for hit in hits
            ),
            held=None if held is None else kept.held_as_json(held),
        )
        account.decisions.append(decision)
        self._records.append(Decided(decision=decision))

    def _at_the_door(self, attempt: Attempt, stage: str, detail: Detail) -> Refused | None:
        match wire_of(attempt.dialect), stage:
            case ("smtp", "auth") | ("http", "request"):
                return self.turned_away(detail.credential, detail.secret)
            case ("smtp", "mail") if attempt.account == DEFAULT_ACCOUNT:
                return self.turned_away(None)
            case _:
                return None

    def _held_back(
        self, attempt: Attempt, stage: str, detail: Detail, occasion: tuple[str, int], now: datetime
    ) -> Refused | None:
        """Say what a limit or the greylist has against this, at a stage before booking."""
        account = self.accounts[attempt.account]
        held = self._gate.at_stage(attempt, stage, detail.recipient, now)
        if held is None and not account.plan.replays:
            return None
        return self._hold_back(account, attempt, self._moment(attempt, stage, detail, occasion), held, now)

    def _held_back_in_the_end(
        self, account: Account, attempt: Attempt, submission: Submission, now: datetime, *, look: bool = False
    ) -> Refused | None:
        """Say what a limit has against this mail, and count it if it may come in. `look`: count nothing."""
        held = self._gate.at_booking(account, attempt, submission, now, look=look)
        if held is None and not account.plan.replays:
            return None
        occasion = self._occasion(account, attempt, BOOKING, Detail())
        moment = self._moment(attempt, BOOKING, Detail(), occasion)
        return self._hold_back(account, attempt, moment, held, now)

    def _hold_back(
        self, account: Account, attempt: Attempt, moment: Moment, held: Held | None, now: datetime
    ) -> Refused | None:
        """Write down that it was no rule of the plan that struck, and say it. A recording may know of it, too."""
        held = account.plan.held(moment) if held is None else held
        if held is None:
            return None
        self._advising.because_of(attempt.id, held)
        attempt.rules = (*attempt.rules, held.rule)
        self._enter_decision(account, attempt.id, moment, (held.rule,), spoken(held.words), now, held=held)
        return held.words

    def _check(self, account: Account, attempt: Attempt, submission: Submission) -> Refused | None:
        limits = account.setup.limits
        if (
            wire_of(attempt.dialect) == "http"
            and account.setup.keys.required
            and submission.key is None
            and (attempt.batch or "") not in self._batch_keys
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

    def _book(
        self,
        account: Account,
        attempt: Attempt,
        submission: Submission,
        taken: tuple[str, ...],
        refused: tuple[RefusedRecipient, ...],
        now: datetime,
    ) -> Acceptance:
        account.booked += 1
        destinies = account.aftermath.destinies(
            taken, self._foretold.get(attempt.id, {}), now, at_once=attempt.id in self._early
        )
        acceptance = Acceptance(
            id=message_name(self.seed, account.name, account.booked),
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
            sha256=digest(submission.raw),
            obligation=header(submission.headers, OBLIGATION_HEADER),
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
        self._keep(attempt)
        self._records.append(Booked(acceptance=acceptance, raw=submission.raw))
        self.remember(account.aftermath.book(acceptance))
        self._stirred.add(account.name)
        return acceptance

    def _count(self, attempt: Attempt, refused: Refused) -> None:
        self.refusals[attempt.dialect, refused.reason.value] += 1

    def _say_yes(
        self,
        attempt: Attempt,
        words: Words,
        accepted: tuple[str, ...],
        acceptance: Acceptance | None,
        now: datetime,
    ) -> Verdict:
        """Say yes, unless a rule of the stages after booking has its way with the answer."""
        stages = ("reply",) if wire_of(attempt.dialect) == "smtp" else ("reply", "body")
        for stage in stages:
            occasion = self._occasion(self.accounts[attempt.account], attempt, stage, Detail())
            strike = self._strike(attempt, stage, Detail(), occasion, now)
            attempt.stage = stage
            if strike is not None and strike.answer is not None:
                answer = with_words(strike.answer, words)
                attempt.answer = spoken(answer)
                if acceptance is not None:
                    tenant = self.accounts[attempt.account]
                    keyring.lied(tenant, attempt, acceptance.key, acceptance.fingerprint, answer, now)
                self._advising.says(attempt, answer)
                return Verdict(
                    accepted=accepted,
                    answer=self._after_its_events(attempt, answer),
                    words=words,
                    after_head=stage == "body",
                    acceptance=acceptance,
                )
        attempt.answer = spoken(words)
        self._advising.says(attempt, words)
        answer = self._after_its_events(attempt, words)
        return Verdict(accepted=accepted, answer=answer, words=words, acceptance=acceptance)

    def _after_its_events(self, attempt: Attempt, answer: Answer) -> Answer:
        within_s = self._early.get(attempt.id)
        return answer if within_s is None else TellFirst(within_s=within_s, then=answer)

    def _owe(self, obligation: Obligation, now: datetime) -> None:
        owed = self.account(obligation.account, now).obligations
        owed[(obligation.ref, obligation.recipient.lower())] = obligation


def _common_fate(destinies: tuple[tuple[str, Destiny], ...], taken: tuple[str, ...]) -> Fate:
    """Return the fate that all recipients share; where they differ, the usual one stands for the mail."""
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
