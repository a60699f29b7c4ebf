"""The contenders, as programs: `python -m tests.benchmarks.senders.runs NAME SINK_URL COUNT CONCURRENCY [DATABASE_URL]`.

Each hands over COUNT mails of 1 KB and then writes one line of JSON: the CPU seconds it took from its
first look at the work on. `outbox` works off an
outbox that was filled before, `pgqueuer` a queue.
"""

from __future__ import annotations

import asyncio
import base64
import json
import resource
import sys
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

import uvloop

RAW = b"Subject: x\r\n\r\n" + b"x" * 76 + b"\r\n" * 1 + b"y" * 900


def body_of(number: int) -> bytes:
    """What the outbox sends for a mail like these."""
    return json.dumps(
        {
            "from": "shop@example.org",
            "to": [f"customer-{number}@example.com"],
            "raw": base64.b64encode(RAW).decode("ascii"),
        }
    ).encode()


def cpu_s() -> float:
    """CPU seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def raw(url: str, count: int, concurrency: int, _database: str) -> float:
    """Nothing but bytes: one request after the other on so many connections."""
    where = urlsplit(url)
    numbers = iter(range(count))

    async def line() -> None:
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        for number in numbers:
            body = body_of(number)
            writer.write(
                b"POST /v1/emails HTTP/1.1\r\nHost: sink\r\nContent-Type: application/json\r\n"
                b"Idempotency-Key: k%d\r\nContent-Length: %d\r\n\r\n%b" % (number, len(body), body)
            )
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                int(each.split(b":")[1])
                for each in head.lower().split(b"\r\n")
                if each.startswith(b"content-length")
            )
            await reader.readexactly(length)
        writer.close()

    began_s = cpu_s()
    await asyncio.gather(*(line() for _ in range(concurrency)))
    return began_s


async def client(url: str, count: int, concurrency: int, _database: str) -> float:
    """The HTTP client of the sender in a plain loop."""
    import aiohttp

    numbers = iter(range(count))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=concurrency)) as session:

        async def line() -> None:
            for number in numbers:
                async with session.post(
                    f"{url}/v1/emails",
                    data=body_of(number),
                    headers={"Idempotency-Key": f"k{number}", "Content-Type": "application/json"},
                ) as answer:
                    assert answer.status == 200
                    await answer.read()

        began_s = cpu_s()
        await asyncio.gather(*(line() for _ in range(concurrency)))
    return began_s


async def outbox(url: str, count: int, concurrency: int, database: str) -> float:
    """The reference sender, as `reference-sender work` has it."""
    from reference_sender import cli, wiring

    options = wiring.options_from(
        {
            "database_url": database,
            "provider_url": url,
            "concurrency": concurrency,
            "lease_s": 62.0,
            "poll_s": 0.2,
        }
    )
    sender = wiring.build(options)
    cli.keep_for_good()
    began_s = cpu_s()
    stop = asyncio.Event()
    working = asyncio.create_task(sender.run(stop))
    while not await asyncio.to_thread(_is_done, sender.store):  # noqa: ASYNC110 # the database tells nobody
        await asyncio.sleep(0.2)
    stop.set()
    await working
    return began_s


def _is_done(store: object) -> bool:
    from reference_sender.life import FINAL
    from reference_sender.outbox.store import Store

    assert isinstance(store, Store)
    return all(tally.state in FINAL for tally in store.tallies())


async def pgqueuer(url: str, count: int, concurrency: int, database: str) -> float:
    """A queue on PostgreSQL with the sender's HTTP client."""
    import aiohttp
    import asyncpg  # type: ignore[import-not-found,import-untyped,unused-ignore] # extra `bench`
    from pgqueuer import PgQueuer  # type: ignore[import-not-found,unused-ignore] # extra `bench`
    from pgqueuer.db import AsyncpgPoolDriver  # type: ignore[import-not-found,unused-ignore] # extra `bench`
    from pgqueuer.types import QueueExecutionMode  # type: ignore[import-not-found,unused-ignore] # extra `bench`

    async with (
        asyncpg.create_pool(database) as pool,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=concurrency)) as session,
    ):
        queue = PgQueuer(AsyncpgPoolDriver(pool))

        async def send(job: object) -> None:
            number = int(getattr(job, "payload", b"0") or b"0")
            async with session.post(
                f"{url}/v1/emails",
                data=body_of(number),
                headers={"Idempotency-Key": f"k{number}", "Content-Type": "application/json"},
            ) as answer:
                assert answer.status == 200
                await answer.read()

        queue.entrypoint("send")(send)
        began_s = cpu_s()
        await queue.run(batch_size=100, mode=QueueExecutionMode.drain)
    return began_s


RUNS: dict[str, Callable[[str, int, int, str], Awaitable[float]]] = {
    "raw": raw,
    "client": client,
    "outbox": outbox,
    "pgqueuer": pgqueuer,
}


def main() -> None:
    name, url, count, concurrency, *more = sys.argv[1:]

    async def run() -> float:
        return await RUNS[name](url, int(count), int(concurrency), more[0] if more else "")

    began_s = uvloop.run(run())
    sys.stdout.write(json.dumps({"cpu_s": cpu_s() - began_s}) + "\n")


if __name__ == "__main__":
    main()
