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
    engine = create_engine(make_url(url).set(drivername=_DRIVERS[make_url(url).get_backend_name()]))
    with engine.begin() as connection:
        connection.exec_driver_sql(_SERIES[engine.dialect.name].format(count=count))
    engine.dispose()


_DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}
_COLUMNS = (
    "dedupe_key, idempotency_key, message_id, sender, recipient, raw, priority, created_at, queued_at, state, "
    "attempts, tries, token, in_doubt, may_repeat, updated_at, accepted_at, provider_id"
)
_ROW = (
    "'done-' || n, 'done-' || n, '<' || n || '@done>', 'shop@example.org', 'ann@example.com', {raw}, 0, {now}, {now}, "
    "'accepted', 1, 1, 1, {no}, {no}, {now}, {now}, 'p' || n"
)
_INTO = f"INSERT INTO outgoing_email ({_COLUMNS}) "
#: A statement for each kind of database that makes finished rows.
_SERIES = {
    "sqlite": _INTO
    + "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {count}) SELECT "
    + _ROW.format(raw="x'00'", now="'2026-01-01 00:00:00.000000'", no=0)
    + " FROM s",
    "postgresql": _INTO
    + "SELECT "
    + _ROW.format(raw="'x'", now="now()", no="false")
    + " FROM generate_series(1, {count}) AS s(n)",
    "mysql": _INTO
    + "SELECT concat('done-', seq), concat('done-', seq), concat('<', seq, '@done>'), 'shop@example.org', "
    "'ann@example.com', 'x', 0, now(6), now(6), 'accepted', 1, 1, 1, 0, 0, now(6), now(6), concat('p', seq) "
    "FROM seq_1_to_{count}",
}
