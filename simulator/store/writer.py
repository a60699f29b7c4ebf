"""Entries become rows of a ledger; and the oldest rows go when a bound is reached. `?` stands for a value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from hashlib import sha256
from itertools import chain, islice
from typing import Any, Protocol

from simulator.provider.acceptance import Acceptance
from simulator.provider.ledger import Attempt
from simulator.provider.retention import PER_MAIL, Retention
from simulator.store.entries import (
    BOOKED,
    DECIDED,
    NAMED,
    STATE_BY_CODE,
    STATE_BY_NAME,
    TRIED,
    WIPED,
    Entry,
    clean,
    decode,
)
from simulator.store.rows import (
    ACCEPTANCE,
    ATTEMPT,
    BACK,
    DECISION,
    RECIPIENT,
    acceptance_row,
    attempt_row,
    digest_of,
    micros,
    recipient_rows,
)

#: Rows of one statement. SQLite lets go of Python's lock while it works on a statement: few long ones are better for
#: everybody else than many short ones.
CHUNK = 64
#: After so many rows, of whatever table, there is a rest.
REST = 2 * CHUNK
#: At most so many mails go in one transaction.
TRIM = 2_000

_AT = ACCEPTANCE.index("at")
_EMPTY = sha256(b"").digest()
_CLOCK = STATE_BY_NAME["clock"].code


class Result(Protocol):
    """What a statement has brought."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Database(Protocol):
    """A connection, as `sqlite3` has it."""

    def execute(self, query: str, values: Sequence[Any] = ..., /) -> Result: ...

    def executemany(self, query: str, rows: Sequence[Sequence[Any]], /) -> object: ...


class Writer:
    """Writes within the transactions of somebody else. Not to be used by two threads at once."""

    def __init__(self, db: Database, breathe: Callable[[], None] = lambda: None) -> None:
        self._db = db
        self.breathe = breathe
        """Called between pieces of work."""
        self._rows = 0
        """Written since then."""
        self._accounts: dict[str, int] = {
            name: id_ for id_, name in db.execute("SELECT id, name FROM account")
        }
        self._newest: dict[int, int] = dict(
            db.execute("SELECT account, max(number) FROM acceptance GROUP BY account")
        )
        self._meta: dict[str, int] = dict(db.execute("SELECT name, value FROM meta"))
        self._known = dict(self._meta)
        self._latest: dict[int, int] = {}
        """The latest time of an account's mails, in microseconds."""
        if not self._newest:
            self._meta.setdefault(BACK, 0)  # Ledgers of former versions do not know it.
        for account in self._newest:
            (latest,) = db.execute("SELECT max(at) FROM acceptance WHERE account = ?", (account,)).fetchone()
            self._latest[account] = latest

    # --- what is counted ----------------------------------------------------------------------------

    def meta(self, name: str) -> int:
        """Return a number that stands in `meta`, 0 if there is none."""
        return self._meta.get(name, 0)

    def note(self, name: str, value: int) -> None:
        """Change a number in `meta`; `flush` writes it."""
        self._meta[name] = value

    def flush(self) -> None:
        """Write the numbers that have changed."""
        changed = [(name, value) for name, value in self._meta.items() if self._known.get(name) != value]
        self._db.executemany(
            "INSERT INTO meta VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", changed
        )
        self._known = dict(self._meta)

    def count(self) -> None:
        """Count all rows there are."""
        for name, query in (
            ("mails", "SELECT count(*) FROM acceptance"),
            ("bytes", "SELECT coalesce(sum(length(raw)), 0) FROM body"),
            ("attempts", "SELECT count(*) FROM attempt"),
            ("decisions", "SELECT count(*) FROM decision"),
        ):
            self.note(name, self._db.execute(query).fetchone()[0])
        self.flush()

    def _add(self, name: str, more: int) -> None:
        self._meta[name] = self._meta.get(name, 0) + more

    # --- what comes in ------------------------------------------------------------------------------

    def account(self, name: str) -> int:
        """Return the number of an account; it is entered when it is named for the first time."""
        known = self._accounts.get(name)
        if known is None:
            row = self._db.execute("INSERT INTO account (name) VALUES (?) RETURNING id", (name,)).fetchone()
            known = self._accounts[name] = row[0]
        return known

    def write(self, entries: Iterable[Entry]) -> None:
        """Enter these, in order. Entering some again changes nothing."""
        mails: dict[tuple[str, int], tuple[Acceptance, bytes]] = {}
        bodies: dict[bytes, bytes] = {}
        attempts: dict[int, tuple[Attempt, bytes]] = {}
        decisions: dict[int, tuple[Any, ...]] = {}
        states: dict[tuple[str, int, str], bytes | None] = {}

        def enter() -> None:
            self._enter_bodies(bodies)
            self._enter_mails(mails.values())
            # Most attempts stand here twice, as they were and as they ended: the last one counts.
            tried = [
                attempt_row(self.account(clean(each.account)), each, facts)
                for each, facts in attempts.values()
            ]
            self._enter("attempt", ATTEMPT, tried, "number", count="attempts")
            self._enter("decision", DECISION, list(decisions.values()), "number", count="decisions")
            self._enter_states(states)
            for each in (mails, bodies, attempts, decisions, states):
                each.clear()

        for kind, facts, body, value in entries:
            if value is None:
                value = decode(kind, facts)
            if kind == TRIED:
                attempts[value.number] = (value, facts)
            elif kind == BOOKED:
                mails[value.account, value.number] = (value, facts)
                digest = digest_of(value)
                if body or digest == _EMPTY:
                    bodies.setdefault(digest, body)
            elif kind == DECIDED:
                account = self.account(clean(value.account))
                decisions[value.number] = (value.number, account, micros(value.at), facts.decode())
            elif kind == WIPED:
                enter()
                self._wipe(self.account(clean(value.account)))
            elif kind == NAMED:
                self.account(clean(value.account))
            else:
                state = STATE_BY_CODE[kind]
                named = (state.name, self.account(clean(value.account)), clean(state.key(value)))
                states[named] = None if state.is_gone(value) else facts
        enter()

    def _enter_bodies(self, bodies: Mapping[bytes, bytes]) -> None:
        if not bodies:
            return
        newest = self._db.execute("SELECT coalesce(max(id), 0) FROM body").fetchone()[0]
        fresh = 0
        for rows in _chunks(bodies.items(), CHUNK):
            # Without RETURNING, which would copy each body once more.
            fresh += self._db.execute(
                f"INSERT INTO body (sha256, raw) VALUES {_marks('(?, ?)', len(rows))} ON CONFLICT DO NOTHING",
                list(chain.from_iterable(rows)),
            ).rowcount
            self._rest_after(len(rows))
        if fresh == len(bodies):
            self._add("bytes", sum(map(len, bodies.values())))
        elif fresh:
            added = self._db.execute("SELECT sum(length(raw)) FROM body WHERE id > ?", (newest,)).fetchone()
            self._add("bytes", int(added[0]))

    def _enter_mails(self, mails: Iterable[tuple[Acceptance, bytes]]) -> None:
        rows: list[tuple[Any, ...]] = []
        recipients: dict[tuple[int, str, int], tuple[Any, ...]] = {}
        fresh = 0
        for each, facts in mails:
            account = self.account(clean(each.account))
            row = acceptance_row(account, each, facts)
            rows.append(row)
            for recipient in recipient_rows(account, each):
                recipients[recipient[:3]] = recipient
            if each.number > self._newest.get(account, 0):
                self._newest[account] = each.number
                fresh += 1
                self._see_time(account, row[_AT])
        self._add("mails", fresh)
        last = "(SELECT id FROM body WHERE sha256 = ?)"
        self._upsert("acceptance", ACCEPTANCE, rows, "account, number", last=last)
        self._upsert("recipient", RECIPIENT, recipients.values(), "account, address, number")

    def _see_time(self, account: int, at: int) -> None:
        """A new mail is of this time: remember it if times fell."""
        latest = self._latest.get(account, at)
        if at >= latest:
            self._latest[account] = at
        elif BACK in self._meta:
            self._meta[BACK] = max(self._meta[BACK], latest - at)

    def _enter_states(self, states: dict[tuple[str, int, str], bytes | None]) -> None:
        rows = [(*key, facts.decode()) for key, facts in states.items() if facts is not None]
        self._upsert("state", ("kind", "account", "key", "facts"), rows, "account, kind, key")
        self._db.executemany(
            "DELETE FROM state WHERE kind = ? AND account = ? AND key = ?",
            [key for key, facts in states.items() if facts is None],
        )

    def _enter(
        self, table: str, columns: tuple[str, ...], rows: Sequence[tuple[Any, ...]], key: str, *, count: str
    ) -> None:
        """Enter rows whose first column is their number, and count those that are new."""
        if not rows:
            return
        newest = self._meta.get(f"newest_{table}", 0)
        self._add(count, sum(row[0] > newest for row in rows))
        self._meta[f"newest_{table}"] = max(newest, *(row[0] for row in rows))
        self._upsert(table, columns, rows, key)

    def _upsert(
        self,
        table: str,
        columns: tuple[str, ...],
        rows: Iterable[tuple[Any, ...]],
        key: str,
        *,
        last: str = "?",
    ) -> None:
        for chunk in _chunks(rows, CHUNK):
            self._db.execute(
                _upserting(table, columns, key, last, len(chunk)), list(chain.from_iterable(chunk))
            )
            self._rest_after(len(chunk))

    def _rest_after(self, rows: int) -> None:
        self._rows += rows
        if self._rows >= REST:
            self._rows = 0
            self.breathe()

    # --- what goes ----------------------------------------------------------------------------------

    def _wipe(self, account: int) -> None:
        """Take everything of an account away; it is known all the same."""
        bodies = [
            body
            for (body,) in self._db.execute(
                "SELECT DISTINCT body FROM acceptance WHERE account = ?", (account,)
            )
        ]
        for table, count in (("acceptance", "mails"), ("attempt", "attempts"), ("decision", "decisions")):
            gone = self._db.execute(f"DELETE FROM {table} WHERE account = ?", (account,)).rowcount
            self._add(count, -gone)
        self._db.execute("DELETE FROM recipient WHERE account = ?", (account,))
        self._db.execute("DELETE FROM state WHERE account = ?", (account,))
        self._newest.pop(account, None)
        self._latest.pop(account, None)
        self._drop_bodies(bodies)

    def trim(self, retention: Retention, now: Callable[[], datetime] | None) -> bool:
        """Take away what is too old or too much, within bounds; tell whether there is more to be taken."""
        gone = 0
        if retention.age_s is not None and now is not None:
            gone = self._trim_by_age(retention.age_s, now())
        if retention.count is not None:
            gone += self._drop_oldest(min(TRIM, self.meta("mails") - retention.count))
            for table, count in (("attempt", "attempts"), ("decision", "decisions")):
                gone += self._drop_numbers(
                    table, count, min(TRIM, self.meta(count) - PER_MAIL * retention.count)
                )
        if retention.bytes is not None:
            while self.meta("bytes") > retention.bytes and gone < TRIM:
                # Few at a time: how many bytes go with a mail is known afterwards.
                excess = 1 + (self.meta("bytes") - retention.bytes) // self._large()
                some = self._drop_oldest(min(TRIM - gone, excess))
                if not some:
                    break
                gone += some
        return gone >= TRIM

    def _large(self) -> int:
        """Return a size that few mails have."""
        return max(1, self.meta("bytes") // max(1, self.meta("mails")) * 2)

    def _trim_by_age(self, age_s: float, now: datetime) -> int:
        clock = {
            account: decode(_CLOCK, facts.encode()).ahead_s
            for account, facts in self._db.execute("SELECT account, facts FROM state WHERE kind = 'clock'")
        }
        gone = 0
        for account in self._accounts.values():
            before = micros(now + timedelta(seconds=clock.get(account, 0.0) - age_s))
            gone += self._drop(
                self._db.execute(
                    "SELECT seq, account, number, body, facts FROM acceptance"
                    " WHERE account = ? AND at < ? AND number < ? ORDER BY at LIMIT ?",
                    (account, before, self._newest.get(account, 0), TRIM),
                ).fetchall()
            )
            for table, count in (("attempt", "attempts"), ("decision", "decisions")):
                some = self._db.execute(
                    f"DELETE FROM {table} WHERE number IN"
                    f" (SELECT number FROM {table} WHERE account = ? AND at < ? ORDER BY number LIMIT ?)",
                    (account, before, TRIM),
                ).rowcount
                self._add(count, -some)
                gone += some
        return gone

    def _drop_oldest(self, how_many: int) -> int:
        if how_many <= 0:
            return 0
        return self._drop(
            self._db.execute(
                "SELECT seq, account, number, body, facts FROM acceptance AS each WHERE number <"
                " (SELECT max(number) FROM acceptance AS other WHERE other.account = each.account)"
                " ORDER BY seq LIMIT ?",
                (how_many,),
            ).fetchall()
        )

    def _drop_numbers(self, table: str, count: str, how_many: int) -> int:
        if how_many <= 0:
            return 0
        gone = self._db.execute(
            f"DELETE FROM {table} WHERE number IN (SELECT number FROM {table} ORDER BY number LIMIT ?)",
            (how_many,),
        ).rowcount
        self._add(count, -gone)
        return gone

    def _drop(self, rows: Sequence[tuple[int, int, int, int, str]]) -> int:
        """Take these mails away, with their recipients, and the bodies that nobody needs any more."""
        recipients = [
            (account, address, number)
            for _, account, number, _, facts in rows
            for _, address, _, _ in recipient_rows(account, decode(BOOKED, facts.encode()))
        ]
        self._db.executemany("DELETE FROM acceptance WHERE seq = ?", [(seq,) for seq, *_ in rows])
        self._db.executemany(
            "DELETE FROM recipient WHERE account = ? AND address = ? AND number = ?", recipients
        )
        self._add("mails", -len(rows))
        self._drop_bodies({body for _, _, _, body, _ in rows})
        return len(rows)

    def _drop_bodies(self, bodies: Iterable[int | None]) -> None:
        for each in bodies:
            gone = self._db.execute(
                "DELETE FROM body WHERE id = ? AND NOT EXISTS (SELECT 1 FROM acceptance WHERE body = body.id)"
                " RETURNING length(raw)",
                (each,),
            ).fetchall()
            self._add("bytes", -sum(size for (size,) in gone))


def _chunks(rows: Iterable[tuple[Any, ...]], size: int) -> Iterable[Sequence[tuple[Any, ...]]]:
    begun = iter(rows)
    while chunk := list(islice(begun, size)):
        yield chunk


@cache
def _marks(row: str, count: int) -> str:
    return ", ".join([row] * count)


@cache
def _upserting(table: str, columns: tuple[str, ...], key: str, last: str, count: int) -> str:
    """Return the statement that enters so many rows; there are no more of them than `CHUNK` for each table."""
    named = [each.strip() for each in key.split(",")]
    update = ", ".join(f"{each} = excluded.{each}" for each in columns if each not in named)
    one = f"({', '.join('?' * (len(columns) - 1))}, {last})"
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES {_marks(one, count)}"
        f" ON CONFLICT ({key}) DO UPDATE SET {update}"
    )
