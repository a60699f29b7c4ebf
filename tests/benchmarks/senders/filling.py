"""Outboxes and queues with mails in them."""

from __future__ import annotations

import asyncio

from sqlalchemy import create_engine, insert, make_url

from reference_sender.clock import SystemClock
from reference_sender.message import Mail
from reference_sender.outbox.engine import open_engine
from reference_sender.outbox.enqueueing import rows_of
from reference_sender.outbox.schema import outgoing_email
from reference_sender.outbox.store import Store

_PAGE = 500


def outbox(url: str, count: int) -> None:
    """An outbox with so many mails of 1 KB that are due."""
    store = Store(open_engine(url))
    store.create()
    now = SystemClock().now()
    for start in range(0, count, _PAGE):
        with store.engine.begin() as connection:
            rows = [
                row
                for number in range(start, min(start + _PAGE, count))
                for row in rows_of(
                    Mail(
                        sender="shop@example.org",
                        recipients=(f"customer-{number}@example.com",),
                        subject=f"Your order {number}",
                        text="y" * 70 + "\n" + "z" * 600,
                    ),
                    key=f"order-{number}",
                    now=now,
                )
            ]
            connection.execute(insert(outgoing_email), rows)
    store.engine.dispose()


def pgqueuer(url: str, count: int) -> None:
    """A queue with so many jobs."""
    asyncio.run(_fill_queue(url, count))


async def _fill_queue(url: str, count: int) -> None:
    import asyncpg  # type: ignore[import-not-found,import-untyped,unused-ignore] # extra `bench`
    from pgqueuer.db import AsyncpgDriver  # type: ignore[import-not-found,unused-ignore] # extra `bench`
    from pgqueuer.queries import Queries  # type: ignore[import-not-found,unused-ignore] # extra `bench`

    connection = await asyncpg.connect(url)
    try:
        queries = Queries(AsyncpgDriver(connection))
        await queries.install()
        for start in range(0, count, _PAGE):
            numbers = range(start, min(start + _PAGE, count))
            await queries.enqueue(
                ["send"] * len(numbers), [str(n).encode() for n in numbers], [0] * len(numbers)
            )
    finally:
        await connection.close()


def finished(url: str, count: int) -> None:
    """So many rows that are done, made by the database itself."""
    _make(url, count, "done", "accepted", octets=1)


def waiting(url: str, count: int) -> None:
    """So many rows of 1 KB that are due, made by the database itself: faster than `outbox`, and all alike."""
    _make(url, count, "due", "pending", octets=1024)


def _make(url: str, count: int, name: str, state: str, *, octets: int) -> None:
    engine = create_engine(make_url(url).set(drivername=_DRIVERS[make_url(url).get_backend_name()]))
    words = _WORDS[engine.dialect.name]
    series = words["series"].format(count=count, numbers=_numbers(count))
    done = state == "accepted"
    values = {
        "dedupe_key": f"{name}-",
        "idempotency_key": f"{name}-",
        "message_id": f"{name}-",
        "provider_id": "p-",
    }
    named = {column: words["named"].format(value) for column, value in values.items()}
    now, null = words["now"], "NULL"
    row = {
        **named,
        "provider_id": named["provider_id"] if done else null,
        "sender": "'shop@example.org'",
        "recipient": "'ann@example.com'",
        "raw": words["raw"].format(octets),
        "priority": "0",
        "created_at": now,
        "queued_at": now,
        "updated_at": now,
        "state": f"'{state}'",
        **dict.fromkeys(("attempts", "tries", "token"), str(int(done))),
        **dict.fromkeys(("in_doubt", "may_repeat"), words["no"]),
        "accepted_at": now if done else null,
        "next_attempt_at": null if done else now,
    }
    with engine.begin() as connection:
        connection.exec_driver_sql(
            f"INSERT INTO outgoing_email ({', '.join(row)}) SELECT {', '.join(row.values())} FROM {series}"
        )
    engine.dispose()


def _numbers(count: int) -> str:
    """At least the numbers from 1 to that: MariaDB and MySQL have no words for a series in common that go so far."""
    digits = " UNION ALL ".join(f"SELECT {n} AS n" for n in range(10))
    places = range(len(str(count - 1)))
    sums = " + ".join(f"{10**place} * d{place}.n" for place in places)
    return f"SELECT 1 + {sums} AS n FROM " + ", ".join(f"({digits}) AS d{place}" for place in places)


_DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}
#: How each kind of database spells what a row is made of.
_WORDS = {
    "sqlite": {
        "series": "(WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {count}) SELECT n FROM s)",
        "named": "'{}' || n",
        "raw": "zeroblob({})",
        "now": "'2026-01-01 00:00:00.000000'",
        "no": "0",
    },
    "postgresql": {
        "series": "generate_series(1, {count}) AS s(n)",
        "named": "'{}' || n",
        "raw": "convert_to(repeat('x', {}), 'UTF8')",
        "now": "now()",
        "no": "false",
    },
    "mysql": {
        "series": "({numbers}) AS s WHERE n <= {count}",
        "named": "concat('{}', n)",
        "raw": "repeat('x', {})",
        "now": "utc_timestamp(6)",
        "no": "0",
    },
}
