"""The tables of a ledger in a database, the same in SQLite and PostgreSQL: rows, and how a search narrows them down.

A condition here lets through whatever `Search.matches` would, and perhaps more; what it means is decided there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from simulator.provider.acceptance import Acceptance
from simulator.provider.ledger import INDEXED_CHARS, Attempt
from simulator.provider.search import AttemptSearch, Page, Search, bare, folded, page_of
from simulator.store.entries import clean

Found = TypeVar("Found")
Condition = tuple[str, tuple[Any, ...]]

#: What stands in `meta` of how far, in microseconds, the time of a mail ever was behind one with a smaller number.
BACK = "back"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

#: The columns of `acceptance` in the order of `acceptance_row`; `body` is looked up by the digest.
ACCEPTANCE = ("account", "number", "id", "at", "sender", "key", "message_id", "text", "facts", "body")
ATTEMPT = ("number", "account", "at", "text", "facts")
DECISION = ("number", "account", "at", "facts")
RECIPIENT = ("account", "address", "number", "fate")


def micros(at: datetime) -> int:
    """Return an instant as microseconds since 1970."""
    return (at - _EPOCH) // _MICROSECOND


def is_plain(facts: bytes) -> bool:
    """Tell whether the texts of a record with these facts are ASCII without NUL, so that nothing needs to be cleaned."""
    return facts.isascii() and b"\\u0000" not in facts


def acceptance_row(account: int, each: Acceptance, facts: bytes) -> tuple[Any, ...]:
    """Return the row of an acceptance, as in `ACCEPTANCE`."""
    tidy = _beginning if is_plain(facts) else indexed
    return (
        account,
        each.number,
        each.id,
        (each.accepted_at - _EPOCH) // _MICROSECOND,
        tidy(folded(each.sender)),
        None if each.key is None else tidy(each.key),
        None if each.message_id is None else tidy(bare(each.message_id) or ""),
        text_of(each),
        facts.decode(),
        digest_of(each),
    )


def indexed(text: str) -> str:
    """Return the part of a text that an index takes: PostgreSQL's take some 2,700 bytes."""
    return clean(text)[:INDEXED_CHARS]


def _beginning(text: str) -> str:
    return text[:INDEXED_CHARS]


def digest_of(each: Acceptance) -> bytes:
    """Return the SHA-256 of a mail's body in bytes."""
    return bytes.fromhex(each.sha256)


def recipient_rows(account: int, each: Acceptance) -> list[tuple[int, str, int, str]]:
    """Return the rows of an acceptance's recipients, as in `RECIPIENT`."""
    if not each.destinies:
        fate = each.fate.value
        return [(account, indexed(folded(to)), each.number, fate) for to in each.recipients]
    return [
        (account, indexed(folded(to)), each.number, each.destiny_of(to).fate.value) for to in each.recipients
    ]


def text_of(each: Acceptance) -> str:
    """Return what can be searched for in parts: addresses, subject, names, header fields; each a line, folded."""
    lines = [each.subject, each.sender, each.message_id or "", each.key or "", *each.recipients]
    lines += map(": ".join, each.headers)
    return clean("\n".join(lines).lower())


def attempt_row(account: int, each: Attempt, facts: bytes) -> tuple[Any, ...]:
    """Return the row of an attempt, as in `ATTEMPT`."""
    text = "\n".join((folded("\n".join(each.recipients)), each.key or "", each.message_id or ""))
    at = (each.opened_at - _EPOCH) // _MICROSECOND
    return (each.number, account, at, clean(text), facts.decode())


def conditions(account: int, search: Search) -> list[Condition]:
    """Return what narrows the acceptances of an account down to those that are wanted, and perhaps some more."""
    found: list[Condition] = [("account = ?", (account,))]
    if search.key is not None:
        found.append(("key = ?", (indexed(search.key),)))
    if search.message_id is not None:
        found.append(("message_id = ?", (indexed(bare(search.message_id) or ""),)))
    if search.to is not None:
        found.append(
            (
                "number IN (SELECT number FROM recipient WHERE account = ? AND address = ?)",
                (account, indexed(folded(search.to))),
            )
        )
    if search.fate is not None and search.fate != "delivered":
        found.append(
            (
                "number IN (SELECT number FROM recipient WHERE account = ? AND fate = ? AND fate <> 'delivered')",
                (account, clean(search.fate)),
            )
        )
    if search.sender is not None:
        found.append(("sender = ?", (indexed(folded(search.sender)),)))
    found += _in_time(account, search)
    parts = [search.subject, search.q, *(search.header or ())]
    found += [("{instr}(text, ?) > 0", (clean(folded(part)),)) for part in parts if part]
    return found


def _in_time(account: int, search: Search) -> list[Condition]:
    """Times rise with numbers, nearly always: a range of one is a range of the other, and that needs no sorting.

    The smallest number is that of the first instant, or of one that is later by no more than times ever fell
    (`BACK`): few rows are looked at, however many are in the range. Where that is not known, all of them are.
    """
    if search.since is None and search.until is None:
        return []
    since = micros(search.since) if search.since is not None else -(1 << 62)
    until = micros(search.until) if search.until is not None else 1 << 62
    rows = "FROM acceptance WHERE account = ?"
    inner = f"{rows} AND at >= ? AND at < ?"
    back = f"(SELECT coalesce(max(value), {1 << 61}) FROM meta WHERE name = '{BACK}')"
    # One bound on each side, for an index takes no more.
    smallest = f"(SELECT min(number) {rows} AND at >= ? AND at <= (SELECT min(at) {inner}) + {back})"
    largest = f"(SELECT max(number) {rows} AND at < ? AND at >= (SELECT max(at) {inner}) - {back})"
    within = (account, since, until)
    return [
        (
            f"number BETWEEN {smallest} AND {largest}",
            (account, since, *within, account, until, *within),
        )
    ]


def attempt_conditions(account: int, search: AttemptSearch) -> list[Condition]:
    """Return what narrows the attempts of an account down to those that are wanted, and perhaps some more."""
    found: list[Condition] = [("account = ?", (account,))]
    parts = (
        None if search.to is None else folded(search.to),
        search.key,
        bare(search.message_id),
    )
    found += [("{instr}(text, ?) > 0", (clean(part),)) for part in parts if part]
    return found


def select(table: str, found: Sequence[Condition], after: int | None, *, newest_first: bool) -> Condition:
    """Return the query for numbers and facts of what meets the conditions, in order; a limit is the last parameter."""
    found = list(found)
    if after is not None:
        found.append((f"number {'<' if newest_first else '>'} ?", (after,)))
    where = " AND ".join(text for text, _ in found)
    order = "DESC" if newest_first else "ASC"
    query = f"SELECT number, facts FROM {table} WHERE {where} ORDER BY number {order} LIMIT ?"
    return query, tuple(value for _, values in found for value in values)


def paged(
    fetch: Callable[[int | None, int], list[tuple[int, Found]]],
    matches: Callable[[Found], bool],
    after: int | None,
    limit: int,
) -> Page[Found]:
    """Return a page of what `fetch(after, how many)` brings and `matches` wants."""

    def wanted() -> Iterable[tuple[int, Found]]:
        last, size = after, limit + 1
        while True:
            rows = fetch(last, size)
            yield from ((number, value) for number, value in rows if matches(value))
            if len(rows) < size:
                return
            last, size = rows[-1][0], min(2 * size, 2_000)

    return page_of(wanted(), limit)
