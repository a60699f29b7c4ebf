"""How fast the provider accepts, beside what it is built on, in one run.

    python -m tests.benchmarks.bench_servers [--seconds 3]

Loopback, client and server share the machine: read the ratios, not the rates. Each row is the median of three
interleaved rounds. SMTP: 10 sessions, 4 KB mails, many mails per connection. HTTP: 20 connections, 1 KB JSON
with an idempotency key. `stock` rows are aiosmtpd with a null handler and one bare Starlette route on uvicorn.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import socket
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

MAIL = b"Subject: benchmark\r\nMessage-ID: <b@example.org>\r\n\r\n" + b"x" * 70 + b"\r\n"
MAIL = MAIL + (b"y" * 70 + b"\r\n") * 56


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


# --- what is measured: each runs in a process of its own ---------------------------------------------


def _simulator(smtp: int, http: int, ledger: str) -> None:
    from simulator.servers.serve import Address, Options, serve

    serve(
        Options(
            http=Address(host="127.0.0.1", port=http),
            smtp=Address(host="127.0.0.1", port=smtp),
            ledger=ledger,
        )
    )


def _stock_smtp(smtp: int, http: int, ledger: str) -> None:
    from aiosmtpd.smtp import SMTP, Envelope, Session

    class Null:
        async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
            return "250 OK"

    async def main() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: SMTP(Null(), hostname="stock"), "127.0.0.1", smtp)
        await server.serve_forever()

    asyncio.run(main())


def _stock_http(smtp: int, http: int, ledger: str) -> None:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def send(request: Request) -> JSONResponse:
        await request.body()
        return JSONResponse({"id": "msg_0"})

    app = Starlette(routes=[Route("/v1/emails", send, methods=["POST"])])
    uvicorn.run(app, host="127.0.0.1", port=http, log_level="error", access_log=False, loop="asyncio")


# --- the load ---------------------------------------------------------------------------------------


async def _smtp_session(port: int, until: float) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    count = 0

    async def say(line: bytes) -> None:
        writer.write(line)
        while (await reader.readline())[3:4] == b"-":
            pass

    await reader.readline()
    await say(b"EHLO bench\r\n")
    while time.monotonic() < until:
        await say(b"MAIL FROM:<a@example.org>\r\n")
        await say(b"RCPT TO:<b@example.com>\r\n")
        await say(b"DATA\r\n")
        await say(MAIL + b".\r\n")
        count += 1
    writer.close()
    return count


async def _http_session(port: int, until: float, name: str) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    count = 0
    body = json.dumps(
        {"from": "a@example.org", "to": ["b@example.com"], "subject": "benchmark", "text": "x" * 900}
    ).encode()
    while time.monotonic() < until:
        writer.write(
            b"POST /v1/emails HTTP/1.1\r\nHost: b\r\nContent-Type: application/json\r\n"
            b"Idempotency-Key: %s-%d\r\nContent-Length: %d\r\n\r\n" % (name.encode(), count, len(body)) + body
        )
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.decode())
        count += 1
    writer.close()
    return count


async def _rate(sessions: Callable[[float], list[Awaitable[int]]], seconds: float) -> float:
    begun = time.monotonic()
    counts = await asyncio.gather(*sessions(begun + seconds))
    return sum(counts) / (time.monotonic() - begun)


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)  # a benchmark's start, not a test's signal
        else:
            return
    raise RuntimeError(f"nothing listens on port {port}")


def measure(
    target: Callable[[int, int, str], None], wire: str, ledger: str, seconds: float, round_: int
) -> float:
    """Start one server, load it, stop it; return accepted mails per second."""
    smtp, http = _free_port(), _free_port()
    process = multiprocessing.get_context("spawn").Process(target=target, args=(smtp, http, ledger))
    process.start()
    try:
        if wire == "smtp":
            _wait_for(smtp)
            return asyncio.run(_rate(lambda until: [_smtp_session(smtp, until) for _ in range(10)], seconds))
        _wait_for(http)
        return asyncio.run(
            _rate(lambda until: [_http_session(http, until, f"r{round_}-{n}") for n in range(20)], seconds)
        )
    finally:
        process.terminate()
        process.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            ("SMTP", "stock aiosmtpd, null handler", _stock_smtp, "smtp", "memory"),
            ("SMTP", "simulator, ledger in memory", _simulator, "smtp", "memory"),
            ("SMTP", "simulator, SQLite ledger", _simulator, "smtp", "file"),
            ("HTTP", "bare Starlette route", _stock_http, "http", "memory"),
            ("HTTP", "simulator, ledger in memory", _simulator, "http", "memory"),
            ("HTTP", "simulator, SQLite ledger", _simulator, "http", "file"),
        ]
        rates: dict[int, list[float]] = {n: [] for n in range(len(rows))}
        for round_ in range(3):
            for n, (_, _, target, wire, kind) in enumerate(rows):
                ledger = str(Path(folder) / f"{n}-{round_}.db") if kind == "file" else "memory"
                rates[n].append(measure(target, wire, ledger, seconds, round_))
    table = Table("wire", "server", "mails/s", "× stock")
    base = {rows[n][0]: statistics.median(rates[n]) for n in (0, 3)}
    for n, (wire, name, *_) in enumerate(rows):
        median = statistics.median(rates[n])
        table.add_row(wire, name, f"{median:,.0f}", f"{median / base[wire]:.2f}")
    Console(width=90).print(table)


if __name__ == "__main__":
    main()
