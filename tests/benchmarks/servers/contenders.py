"""The servers that are measured: each runs in a process of its own, on one CPU if there are more."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: On which CPU servers run, and on which the load; the same where there is only one.
CPUS = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
SERVER_CPU, LOAD_CPU = CPUS[0], CPUS[-1]
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A server: how it is started with its ports, and what it needs to be there."""

    name: str
    start: Callable[[int, int], Started]
    needs: Sequence[str] = ()
    """Programs that must be installed."""

    @property
    def missing(self) -> str | None:
        return next((each for each in self.needs if shutil.which(each) is None), None)


@dataclass(frozen=True, slots=True)
class Started:
    """A process that serves."""

    pid: int
    stop: Callable[[], None]

    def cpu_s(self) -> float:
        """Return the CPU time it has used so far, in seconds."""
        with open(f"/proc/{self.pid}/stat") as file:
            parts = file.read().rpartition(")")[2].split()
        return (int(parts[11]) + int(parts[12])) / TICKS_PER_S

    def rss_mib(self) -> float:
        """Return how much memory it has now, in MiB."""
        with open(f"/proc/{self.pid}/status") as file:
            (line,) = [line for line in file if line.startswith("VmRSS:")]
        return int(line.split()[1]) / 1024


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def wait_for(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)  # a benchmark's start, not a test's signal
        else:
            return
    raise RuntimeError(f"nothing listens on port {port}")


@contextlib.contextmanager
def served(contender: Contender, wire: str) -> Iterator[tuple[Started, int]]:
    """Start a server; yield it and the port of this wire."""
    smtp, http = free_port(), free_port()
    started = contender.start(smtp, http)
    try:
        port = smtp if wire == "smtp" else http
        wait_for(port)
        yield started, port
    finally:
        started.stop()


def _python(target: Callable[..., None], *arguments: object) -> Started:
    process = multiprocessing.get_context("spawn").Process(target=_pinned, args=(target, *arguments))
    process.start()
    assert process.pid is not None

    def stop() -> None:
        process.terminate()
        process.join(20)
        if process.is_alive():
            process.kill()
            process.join()

    return Started(process.pid, stop)


def _pinned(target: Callable[..., None], *arguments: object) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {SERVER_CPU})
    target(*arguments)


# --- ours -------------------------------------------------------------------------------------------


def simulator(name: str, ledger: str, plan: Mapping[str, Any] | None = None) -> Contender:
    """The simulator with this ledger and plan."""
    return Contender(
        name=name, start=lambda smtp, http: _python(_simulator, smtp, http, ledger, dict(plan or {}))
    )


def _simulator(smtp: int, http: int, ledger: str, plan: dict[str, Any]) -> None:
    from simulator.config import read_plan
    from simulator.servers.options import Address, Options
    from simulator.servers.serve import serve

    serve(
        Options(
            http=Address(host="127.0.0.1", port=http),
            smtp=Address(host="127.0.0.1", port=smtp),
            ledger=ledger,
            setup=read_plan(plan, "the benchmark's plan"),
        )
    )


# --- what it is compared with -----------------------------------------------------------------------


def smtp_sink() -> Contender:
    """Postfix' smtp-sink: C, discards."""

    def start(smtp: int, http: int) -> Started:
        program = ["smtp-sink", "-u", "nobody", f"127.0.0.1:{smtp}", "1000"]
        if os.geteuid() != 0:
            program[1:3] = []
        if shutil.which("taskset"):
            program = ["taskset", "-c", str(SERVER_CPU), *program]
        process = subprocess.Popen(program, stderr=subprocess.DEVNULL)

        def stop() -> None:
            process.send_signal(signal.SIGKILL)
            process.wait()

        return Started(process.pid, stop)

    return Contender(name="smtp-sink (C, discards)", start=start, needs=("smtp-sink",))


def aiosmtpd(ledger: str | None) -> Contender:
    """Stock aiosmtpd; with a ledger, one SQLite transaction a mail, as one would write it."""
    name = "stock aiosmtpd, null handler" if ledger is None else "stock aiosmtpd, SQLite commit per mail"
    return Contender(name=name, start=lambda smtp, http: _python(_aiosmtpd, smtp, ledger))


def _aiosmtpd(smtp: int, ledger: str | None) -> None:
    import sqlite3

    from aiosmtpd.smtp import SMTP, Envelope, Session

    db = None
    if ledger is not None:
        db = sqlite3.connect(ledger, isolation_level=None)
        db.executescript(
            "PRAGMA journal_mode = WAL; CREATE TABLE mail (id INTEGER PRIMARY KEY, sender, recipients, raw);"
        )

    class Handler:
        async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
            if db is not None:
                db.execute(
                    "INSERT INTO mail (sender, recipients, raw) VALUES (?, ?, ?)",
                    (envelope.mail_from, ",".join(envelope.rcpt_tos), envelope.content),
                )
            return "250 OK"

    async def main() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: SMTP(Handler(), hostname="stock"), "127.0.0.1", smtp)
        await server.serve_forever()

    _run(main())


def starlette() -> Contender:
    """One bare Starlette route on uvicorn with httptools, a fixed JSON answer, no access log."""
    return Contender(
        name="bare Starlette route, fixed JSON", start=lambda smtp, http: _python(_starlette, http)
    )


def _starlette(http: int) -> None:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def send(request: Request) -> JSONResponse:
        await request.body()
        return JSONResponse({"id": "msg_0"})

    app = Starlette(routes=[Route("/v1/emails", send, methods=["POST"])])
    uvicorn.run(app, host="127.0.0.1", port=http, log_level="error", access_log=False)


def _run(main: Any) -> None:
    """Run on uvloop where it is installed, as uvicorn and the simulator do."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(main)
    else:
        uvloop.run(main)
