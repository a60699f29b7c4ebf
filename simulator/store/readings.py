"""Reading a ledger that is kept in tables, the same in SQLite and PostgreSQL."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

from simulator.provider.acceptance import Acceptance
from simulator.provider.ledger import WINDOW, Attempt, Booked, Decided, Decision, Named, Tried
from simulator.provider.provider import Record
from simulator.provider.search import PAGE, AttemptSearch, Page, Search, bare
from simulator.store import StoreError
from simulator.store.entries import BOOKED, DECIDED, STATE_KINDS, TRIED, clean, decode
from simulator.store.rows import Condition, attempt_conditions, conditions, indexed, paged, select


class Readings(ABC):
    """What stores with tables have in common. `?` stands for a value in every query."""

    #: The function that finds a text in a text, from 1.
    INSTR: ClassVar[str] = "instr"
    name: str
    """What it is called in sentences."""

    @abstractmethod
    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return what a query finds; it may take its time. Raises `StoreError`."""

    @abstractmethod
    def _glance(self, query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return what a short query finds, while others read long. Raises `StoreError`."""

    @abstractmethod
    def _catch_up(self) -> None:
        """See to it that everything appended stands in the tables. Raises `StoreError`."""

    def load(self) -> Iterator[Record]:
        """Yield accounts, what is not history, and the newest mails, attempts and decisions."""
        accounts = self._rows("SELECT id, name FROM account ORDER BY name")
        for _, name in accounts:
            yield Named(account=name)
        for kind in STATE_KINDS:
            for (facts,) in self._rows("SELECT facts FROM state WHERE kind = ? ORDER BY seq", (kind.name,)):
                yield self._read(kind.code, facts)
        for facts in self._newest("acceptance", "seq", accounts):
            yield Booked(acceptance=self._read(BOOKED, facts), raw=b"")
        for facts in self._newest("attempt", "number", accounts):
            yield Tried(attempt=self._read(TRIED, facts))
        for facts in self._newest("decision", "number", accounts):
            yield Decided(decision=self._read(DECIDED, facts))

    def _newest(self, table: str, order: str, accounts: Sequence[tuple[Any, ...]]) -> Iterator[str]:
        """Yield the facts of the newest rows, oldest first, and before them the newest of the other accounts."""
        ((last,),) = self._rows(f"SELECT coalesce(max({order}), 0) FROM {table}")
        begin = last - WINDOW
        latest = f"SELECT {order}, facts FROM {table} WHERE account = ? ORDER BY number DESC LIMIT 1"
        yield from (
            facts
            for place, facts in sorted(row for id_, _ in accounts for row in self._rows(latest, (id_,)))
            if place <= begin
        )
        newest = f"SELECT facts FROM {table} WHERE {order} > ? ORDER BY {order}"
        yield from (facts for (facts,) in self._rows(newest, (begin,)))

    # --- look-ups by name ---------------------------------------------------------------------------

    def get(self, account: str, id_: str) -> Acceptance | None:
        found = self._named("id", account, clean(id_), Search())
        return found[0] if found else None

    def with_key(self, account: str, key: str) -> list[Acceptance]:
        return self._named("key", account, indexed(key), Search(key=clean(key)))

    def with_message_id(self, account: str, message_id: str) -> list[Acceptance]:
        wanted = clean(message_id)
        return self._named("message_id", account, indexed(bare(wanted) or ""), Search(message_id=wanted))

    def _named(self, column: str, account: str, value: str, search: Search) -> list[Acceptance]:
        query = (
            "SELECT facts FROM acceptance WHERE account = (SELECT id FROM account WHERE name = ?)"
            f" AND {column} = ? ORDER BY number"
        )
        found = [self._read(BOOKED, facts) for (facts,) in self._glance(query, (clean(account), value))]
        return [each for each in found if search.matches(each)]

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
        return self._page("acceptance", BOOKED, account, search, conditions, after, limit, newest_first)

    def attempts(
        self,
        account: str,
        search: AttemptSearch = AttemptSearch(),
        *,
        after: int | None = None,
        limit: int = PAGE,
        newest_first: bool = False,
    ) -> Page[Attempt]:
        return self._page("attempt", TRIED, account, search, attempt_conditions, after, limit, newest_first)

    def decisions(self, account: str, *, after: int | None = None, limit: int = PAGE) -> Page[Decision]:
        return self._page("decision", DECIDED, account, _EVERYTHING, _of_account, after, limit, False)

    def acceptances(self, account: str) -> Iterator[Acceptance]:
        after: int | None = None
        while True:
            page = self.messages(account, after=after, limit=1_000)
            yield from page.found
            after = page.cursor
            if after is None:
                return

    def keys(self, account: str, after: str = "", limit: int = PAGE) -> list[str]:
        query = (
            "SELECT DISTINCT key FROM acceptance WHERE account = (SELECT id FROM account WHERE name = ?)"
            " AND key IS NOT NULL AND key > ? ORDER BY key LIMIT ?"
        )
        return [key for (key,) in self._rows(query, (clean(account), after, limit))]

    def copies(self, account: str, sha256s: Iterable[str]) -> dict[str, int]:
        self._catch_up()
        query = (
            "SELECT count(*) FROM acceptance JOIN body ON body.id = acceptance.body"
            " WHERE sha256 = ? AND account = (SELECT id FROM account WHERE name = ?)"
        )
        return {each: self._rows(query, (bytes.fromhex(each), clean(account)))[0][0] for each in set(sha256s)}

    def body(self, account: str, id_: str) -> bytes | None:
        self._catch_up()
        rows = self._rows(
            "SELECT raw FROM body JOIN acceptance ON body.id = acceptance.body"
            " WHERE acceptance.id = ? AND account = (SELECT id FROM account WHERE name = ?)",
            (clean(id_), clean(account)),
        )
        return bytes(rows[0][0]) if rows else None

    def mails(self) -> int:
        self._catch_up()
        rows = self._rows("SELECT value FROM meta WHERE name = 'mails'")
        return rows[0][0] if rows else 0

    # --- inside -------------------------------------------------------------------------------------

    def _page(
        self,
        table: str,
        kind: int,
        account: str,
        search: Any,
        narrowed: Callable[[int, Any], list[Condition]],
        after: int | None,
        limit: int,
        newest_first: bool,
    ) -> Page[Any]:
        self._catch_up()
        known = self._rows("SELECT id FROM account WHERE name = ?", (clean(account),))
        if not known:
            return Page(found=())
        narrow = narrowed(known[0][0], search)

        def fetch(last: int | None, how_many: int) -> list[tuple[int, Any]]:
            query, values = select(table, narrow, last, newest_first=newest_first)
            rows = self._rows(query.format(instr=self.INSTR), (*values, how_many))
            return [(number, self._read(kind, facts)) for number, facts in rows]

        return paged(fetch, search.matches, after, limit)

    def _read(self, kind: int, facts: str) -> Any:
        try:
            return decode(kind, facts.encode())
        except (ValueError, KeyError, TypeError) as problem:
            raise self._damaged(problem) from problem

    def _damaged(self, problem: Exception) -> StoreError:
        return StoreError(
            f"the ledger {self.name} is damaged ({problem}); restore it from a copy or name another one"
        )


class _Everything:
    """No condition."""

    def matches(self, each: object) -> bool:
        return True


_EVERYTHING = _Everything()


def _of_account(account: int, search: object) -> list[Condition]:
    return [("account = ?", (account,))]
