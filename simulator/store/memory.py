"""A store that forgets everything with its process: for tests, and for runs that need no ledger afterwards."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import Any, TypeVar

from simulator.provider.acceptance import Acceptance
from simulator.provider.clock import ClockMoved
from simulator.provider.ledger import Attempt, Booked, Decided, Decision, Tried, Wiped
from simulator.provider.provider import Record
from simulator.provider.retention import FOR_EVER, PER_MAIL, Retention
from simulator.provider.search import PAGE, AttemptSearch, Page, Search, bare, folded, page_of
from simulator.store import Durability

Value = TypeVar("Value")


@dataclass(slots=True)
class _Account:
    """What is kept of one account. Dictionaries keep the order in which numbers came."""

    mails: dict[int, Acceptance] = field(default_factory=dict)
    attempts: dict[int, Attempt] = field(default_factory=dict)
    decisions: dict[int, Decision] = field(default_factory=dict)
    by_id: dict[str, int] = field(default_factory=dict)
    by_key: dict[str, dict[int, None]] = field(default_factory=dict)
    by_message_id: dict[str, dict[int, None]] = field(default_factory=dict)
    by_recipient: dict[str, dict[int, None]] = field(default_factory=dict)
    bodies: Counter[str] = field(default_factory=Counter)
    ahead: timedelta = timedelta(0)

    def names(self, each: Acceptance) -> Iterator[tuple[dict[str, dict[int, None]], str]]:
        """Yield by which names a mail is found."""
        if each.key is not None:
            yield self.by_key, each.key
        if each.message_id is not None:
            yield self.by_message_id, bare(each.message_id) or ""
        for recipient in each.recipients:
            yield self.by_recipient, folded(recipient)


class MemoryStore:
    """Keeps everything as Python objects; with a retention, within bounds."""

    name = "memory"
    durability = Durability.NOTHING
    is_quick = True

    def __init__(self, *, now: Callable[[], datetime] | None = None, retention: Retention = FOR_EVER) -> None:
        """`now` is needed for a retention by age."""
        self._now = now
        self._retention = retention
        self._lock = threading.RLock()
        self._accounts: dict[str, _Account] = {}
        self._bodies: dict[str, bytes] = {}
        self._users: Counter[str] = Counter()
        self._size = 0
        self._order: dict[tuple[str, int], None] = {}

    def load(self) -> Iterable[Record]:
        """Yield nothing: nobody was here before."""
        return ()

    def append(self, records: Sequence[Record]) -> None:
        """Keep these."""
        with self._lock:
            for record in records:
                match record:
                    case Booked(acceptance=acceptance, raw=raw):
                        self._book(acceptance, raw)
                    case Tried(attempt=attempt):
                        self._account(attempt.account).attempts[attempt.number] = attempt.as_it_stands(
                            headers=()
                        )
                    case Decided(decision=decision):
                        self._account(decision.account).decisions[decision.number] = decision
                    case ClockMoved(account=account, ahead_s=ahead_s):
                        self._account(account).ahead = timedelta(seconds=ahead_s)
                    case Wiped(account=name):
                        self._wipe(name)
                    case _:
                        pass  # What is not history lives in the provider, and dies with it.
            if self._retention.is_bounded:
                self._trim(self._retention)

    # --- look-ups by name ---------------------------------------------------------------------------

    def get(self, account: str, id_: str) -> Acceptance | None:
        with self._lock:
            known = self._account(account)
            number = known.by_id.get(id_)
            return None if number is None else known.mails[number]

    def with_key(self, account: str, key: str) -> list[Acceptance]:
        return self._named(account, lambda known: known.by_key.get(key))

    def with_message_id(self, account: str, message_id: str) -> list[Acceptance]:
        return self._named(account, lambda known: known.by_message_id.get(bare(message_id) or ""))

    def _named(self, account: str, look: Callable[[_Account], dict[int, None] | None]) -> list[Acceptance]:
        with self._lock:
            known = self._account(account)
            return [known.mails[number] for number in look(known) or ()]

    # --- readings -----------------------------------------------------------------------------------

    def messages(
        self,
        account: str,
        search: Search = Search(),
        *,
        after: int | None = None,
        limit: int = PAGE,
        newest_first: bool = False,
    ) -> Page[Acceptance]:
        with self._lock:
            known = self._account(account)
            if search.to is not None:
                numbers: Iterable[int] = known.by_recipient.get(folded(search.to), ())
            elif search.key is not None:
                numbers = known.by_key.get(search.key, ())
            elif search.message_id is not None:
                numbers = known.by_message_id.get(bare(search.message_id) or "", ())
            else:
                numbers = known.mails
            found = {number: known.mails[number] for number in numbers}
            return _page(found, search.matches, after, limit, newest_first=newest_first)

    def attempts(
        self,
        account: str,
        search: AttemptSearch = AttemptSearch(),
        *,
        after: int | None = None,
        limit: int = PAGE,
        newest_first: bool = False,
    ) -> Page[Attempt]:
        with self._lock:
            return _page(
                self._account(account).attempts, search.matches, after, limit, newest_first=newest_first
            )

    def decisions(self, account: str, *, after: int | None = None, limit: int = PAGE) -> Page[Decision]:
        with self._lock:
            return _page(self._account(account).decisions, lambda each: True, after, limit)

    def acceptances(self, account: str) -> Iterator[Acceptance]:
        with self._lock:
            found = list(self._account(account).mails.values())
        return iter(found)

    def keys(self, account: str, after: str = "", limit: int = PAGE) -> list[str]:
        with self._lock:
            return sorted(key for key in self._account(account).by_key if key > after)[:limit]

    def copies(self, account: str, sha256s: Iterable[str]) -> dict[str, int]:
        with self._lock:
            known = self._account(account).bodies
            return {each: known[each] for each in sha256s}

    def mails(self) -> int:
        with self._lock:
            return len(self._order)

    def body(self, account: str, id_: str) -> bytes | None:
        with self._lock:
            found = self.get(account, id_)
            return None if found is None else self._bodies.get(found.sha256)

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._accounts.clear()
            self._bodies.clear()

    # --- inside -------------------------------------------------------------------------------------

    def _account(self, name: str) -> _Account:
        known = self._accounts.get(name)
        if known is None:
            known = self._accounts[name] = _Account()
        return known

    def _book(self, each: Acceptance, raw: bytes) -> None:
        known = self._account(each.account)
        if each.number not in known.mails:
            self._order[each.account, each.number] = None
            known.by_id[each.id] = each.number
            known.bodies[each.sha256] += 1
            self._users[each.sha256] += 1
            for index, name in known.names(each):
                index.setdefault(name, {})[each.number] = None
            if each.sha256 not in self._bodies:
                self._bodies[each.sha256] = raw
                self._size += len(raw)
        known.mails[each.number] = each

    def _wipe(self, name: str) -> None:
        for each in list(self._account(name).mails.values()):
            self._drop(each)
        del self._accounts[name]

    def _drop(self, each: Acceptance) -> None:
        known = self._account(each.account)
        del known.mails[each.number], known.by_id[each.id], self._order[each.account, each.number]
        for index, name in known.names(each):
            index[name].pop(each.number, None)
            if not index[name]:
                del index[name]
        known.bodies[each.sha256] -= 1
        self._users[each.sha256] -= 1
        if not self._users[each.sha256]:
            self._size -= len(self._bodies.pop(each.sha256))
            del self._users[each.sha256]

    def _trim(self, retention: Retention) -> None:
        if retention.age_s is not None and self._now is not None:
            self._trim_by_age(self._now() - timedelta(seconds=retention.age_s))
        if retention.count is not None:
            most = retention.count
            self._drop_while(lambda: len(self._order) > most)
            for known in self._accounts.values():
                _drop_first(known.attempts, len(known.attempts) - PER_MAIL * most)
                _drop_first(known.decisions, len(known.decisions) - PER_MAIL * most)
        if retention.bytes is not None:
            room = retention.bytes
            self._drop_while(lambda: self._size > room)

    def _trim_by_age(self, before: datetime) -> None:
        for known in self._accounts.values():
            begin = before + known.ahead
            last = next(reversed(known.mails), None)
            old = _older((each.accepted_at for each in known.mails.values()), begin)
            for each in list(islice(known.mails.values(), old)):
                if each.number != last:
                    self._drop(each)
            _drop_first(known.attempts, _older((each.opened_at for each in known.attempts.values()), begin))
            _drop_first(known.decisions, _older((each.at for each in known.decisions.values()), begin))

    def _drop_while(self, too_many: Callable[[], bool]) -> None:
        """Drop the oldest mails; the newest one of an account stays."""
        passed = 0
        while too_many() and passed < len(self._order):
            account, number = next(islice(self._order, passed, None))
            known = self._accounts[account]
            if number == next(reversed(known.mails)):
                passed += 1
            else:
                self._drop(known.mails[number])


def _older(instants: Iterable[datetime], than: datetime) -> int:
    """Return how many of the first are older."""
    return sum(1 for _ in takewhile(lambda each: each < than, instants))


def _drop_first(found: dict[int, Any], how_many: int) -> None:
    for number in list(islice(found, max(0, how_many))):
        del found[number]


def _page(
    found: dict[int, Value],
    matches: Callable[[Value], bool],
    after: int | None,
    limit: int,
    *,
    newest_first: bool = False,
) -> Page[Value]:
    numbers = sorted(found, reverse=newest_first)
    if after is not None:
        numbers = [each for each in numbers if (each < after if newest_first else each > after)]
    return page_of(((number, found[number]) for number in numbers if matches(found[number])), limit)
