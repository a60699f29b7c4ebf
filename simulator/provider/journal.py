"""What a store must keep, in order, and the numbers by which attempts and decisions are called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

from simulator.provider import counts, kept
from simulator.provider.account import Account
from simulator.provider.answer import Refused
from simulator.provider.clock import ClockMoved
from simulator.provider.faults.written import written
from simulator.provider.ledger import Attempt, Booked, Decided, Decision, Named, Struck, Tried, Wiped
from simulator.provider.message import Moment
from simulator.provider.notes import Noted
from simulator.provider.obligations import Obligation
from simulator.provider.plan import wire_of
from simulator.provider.strike import Held, Hit

Record = Booked | Tried | Decided | Obligation | Named | Wiped | ClockMoved | Noted


class Journal:
    """Records that wait for a store. Nothing is durable before somebody has taken them and written them."""

    def __init__(self, accounts: Mapping[str, Account]) -> None:
        self._accounts = accounts
        self._records: list[Record] = []
        self._counting: dict[str, None] = {}
        """Accounts whose rules have counted something."""
        self._latest: dict[str, int] = {}
        """Where among the records each attempt stands."""
        self.opened = 0
        """How many attempts there ever were: names the next one."""
        self.decided = 0
        """How many lines the decision log ever had: numbers the next one."""
        self.refusals: Counter[tuple[str, ...]] = Counter()
        """How often the provider refused for a reason of its own, by dialect and reason."""

    def write(self, record: Record) -> None:
        """Something has happened that must outlive this process."""
        if isinstance(record, Wiped):
            # What is written of an attempt after a reset must stand after it.
            self._latest.clear()
        self._records.append(record)

    def take(self) -> list[Record]:
        """Hand out what was written since the last call, in order."""
        self._take_counts(self._counting)
        records, self._records = self._records, []
        self._latest.clear()
        return records

    def take_all_counts(self) -> None:
        """Write what all rules have counted, whether it may wait or not."""
        self._take_counts(list(self._accounts), whole=True)

    def _take_counts(self, names: Iterable[str], *, whole: bool = False) -> None:
        for name in names:
            account = self._accounts.get(name)
            if account is not None and (news := account.counted(whole=whole)):
                self.note(name, counts.TOPIC, news)
        self._counting.clear()

    def counts(self, account: str) -> None:
        """The rules of this account count something: it is written with whatever is written next."""
        self._counting[account] = None

    def note(self, account: str, topic: str, news: Mapping[str, str | None]) -> None:
        """Remember facts by name, of something that an account keeps in mind itself."""
        for name, facts in news.items():
            self._records.append(Noted(account=account, topic=topic, name=name, facts=facts))

    def keep(self, attempt: Attempt) -> None:
        """Write down an attempt as it stands, unless a reset has forgotten it meanwhile."""
        account = self._accounts.get(attempt.account)
        if account is not None and attempt.id in account.attempts:
            self.keep_this(attempt.as_it_stands())

    def keep_this(self, attempt: Attempt) -> None:
        """Write down an attempt that the account has and that nobody changes any more."""
        record = Tried(attempt=attempt)
        position = self._latest.get(attempt.id)
        if position is None:
            self._latest[attempt.id] = len(self._records)
            self._records.append(record)
        else:
            self._records[position] = record  # How it stood a moment ago is of no interest any more.

    def enter(
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
        """Write a line of the decision log. `now` is the account's time."""
        self.decided += 1
        mail, nth = moment.occasion
        decision = Decision(
            number=self.decided,
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

    def refused(self, attempt: Attempt, refused: Refused) -> None:
        """Count a refusal that is the provider's own."""
        self.refusals[attempt.dialect, refused.reason.value] += 1
