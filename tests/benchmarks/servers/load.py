"""The load: compiled programs where they are installed (smtp-source, wrk), else a raw client in Python."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tests.benchmarks.servers.contenders import LOAD_CPU

SESSIONS, CONNECTIONS, MAIL_BYTES = 10, 20, 4096
BODY = {"from": "a@example.org", "to": ["b@example.com"], "subject": "benchmark", "text": "x" * 900}
_MAIL = b"Subject: benchmark\r\nMessage-ID: <b@example.org>\r\n\r\n" + (b"y" * 70 + b"\r\n") * 56

_LUA = """
local count, name = 0, tostring({}):sub(8)
function init(arguments) name = arguments[1] end
function request()
  count = count + 1
  HEADERS["Idempotency-Key"] = name .. "-" .. count
  return wrk.format("POST", PATH, HEADERS, BODY)
end
function done(summary, latency)
  io.write(string.format("MEASURED %d %d %d %d %d\\n", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99), summary.errors.status + summary.errors.read))
end
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """What one run of a load saw."""

    mails: int
    seconds: float
    more: int = 0
    """Mails that were handed over besides, to find out how many it takes: they cost the server time, too."""
    p50_ms: float | None = None
    p99_ms: float | None = None

    @property
    def rate(self) -> float:
        return self.mails / self.seconds


Load = Callable[[int, float], Measured]
"""Loads the server behind a port for so many seconds."""


def _pinned(*program: str) -> list[str]:
    return ["taskset", "-c", str(LOAD_CPU), *program] if shutil.which("taskset") else list(program)


# --- SMTP -------------------------------------------------------------------------------------------


def smtp_one(port: int, seconds: float) -> Measured:
    """Ten sessions, a new connection for each mail."""
    return _smtp_source(port, seconds) if shutil.which("smtp-source") else _in_python(_one, port, seconds)


def smtp_many(port: int, seconds: float) -> Measured:
    """Ten sessions, many mails on each connection."""
    return (
        _smtp_source(port, seconds, "-d") if shutil.which("smtp-source") else _in_python(_many, port, seconds)
    )


def _smtp_source(port: int, seconds: float, *options: str) -> Measured:
    """It takes a number of mails, not of seconds: a first run tells how many."""
    count, before = 400, 0
    for _ in range(2):
        began = time.perf_counter()
        subprocess.run(
            _pinned(
                *("smtp-source", *options, "-s", str(SESSIONS), "-l", str(MAIL_BYTES), "-m", str(count)),
                *("-f", "a@example.org", "-t", "b@example.com", f"127.0.0.1:{port}"),
            ),
            check=True,
        )
        took = time.perf_counter() - began
        measured = Measured(count, took, more=before)
        count, before = max(400, int(count / took * seconds)), count
    return measured


async def _reply(reader: asyncio.StreamReader) -> None:
    while (await reader.readline())[3:4] == b"-":
        pass


async def _mails(port: int, until: float, how_many: int, sender: bytes = b"a@example.org") -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await _reply(reader)
    count = 0
    lines = (
        b"MAIL FROM:<" + sender + b">\r\n",
        b"RCPT TO:<b@example.com>\r\n",
        b"DATA\r\n",
        _MAIL + b".\r\n",
    )
    writer.write(b"EHLO bench\r\n")
    await _reply(reader)
    while count < how_many and time.monotonic() < until:
        for line in lines:
            writer.write(line)
            await _reply(reader)
        count += 1
    writer.close()
    return count


async def _many(port: int, until: float) -> int:
    return await _mails(port, until, 1 << 40)


async def _one(port: int, until: float) -> int:
    count = 0
    while time.monotonic() < until:
        count += await _mails(port, until, 1)
    return count


def _in_python(session: Callable[[int, float], Awaitable[int]], port: int, seconds: float) -> Measured:
    async def load() -> int:
        until = time.monotonic() + seconds
        return sum(await asyncio.gather(*(session(port, until) for _ in range(SESSIONS))))

    began = time.perf_counter()
    mails = asyncio.run(load())
    return Measured(mails, time.perf_counter() - began)


def beside_faults(port: int, seconds: float, *, faulty: int) -> Measured:
    """Healthy sessions, and beside them some that meet a fault again and again (`faulty@…`)."""

    async def stuck(until: float) -> None:
        while time.monotonic() < until:
            try:
                async with asyncio.timeout(0.5):
                    await _mails(port, until, 1, b"faulty@example.org")
            except (TimeoutError, ConnectionError):
                pass

    async def load() -> int:
        until = time.monotonic() + seconds
        others = [asyncio.ensure_future(stuck(until)) for _ in range(faulty)]
        counts = await asyncio.gather(*(_many(port, until) for _ in range(2 * SESSIONS)))
        for other in others:
            other.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        return sum(counts)

    began = time.perf_counter()
    mails = asyncio.run(load())
    return Measured(mails, time.perf_counter() - began)


# --- HTTP -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Request:
    """What is asked again and again."""

    path: str
    body: Mapping[str, Any]
    headers: Mapping[str, str]


def http(
    port: int,
    seconds: float,
    *,
    path: str = "/v1/emails",
    body: Mapping[str, Any] = BODY,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> Measured:
    """Twenty connections, 1 KB JSON, a new idempotency key for each mail."""
    request = _Request(path, body, {"Content-Type": "application/json", **headers})
    return _wrk(port, seconds, request) if shutil.which("wrk") else _http_in_python(port, seconds, request)


def _wrk(port: int, seconds: float, request: _Request) -> Measured:
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        # Texts of JSON are texts of Lua, as long as they are ASCII without slashes that JSON might escape.
        headers = ", ".join(
            f"[{json.dumps(name)}] = {json.dumps(value)}" for name, value in request.headers.items()
        )
        script.write(
            f"local BODY, PATH = {json.dumps(json.dumps(request.body))}, {json.dumps(request.path)}\n"
            f"local HEADERS = {{{headers}}}\n{_LUA}"
        )
        script.flush()
        said = subprocess.run(
            _pinned(
                *("wrk", "-t1", f"-c{CONNECTIONS}", f"-d{max(1, round(seconds))}s", "-s", script.name),
                *(f"http://127.0.0.1:{port}", "--", os.urandom(6).hex()),
            ),
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    found = re.search(r"MEASURED (\d+) (\d+) (\d+) (\d+) (\d+)", said)
    if found is None or int(found[5]):
        raise RuntimeError(f"not every request was answered with yes:\n{said}")
    requests, micros, p50, p99 = (int(each) for each in found.groups()[:4])
    return Measured(requests, micros / 1e6, p50_ms=p50 / 1000, p99_ms=p99 / 1000)


async def _posts(port: int, until: float, request: _Request, name: str, took: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = json.dumps(request.body).encode()
    lines = "".join(f"{field}: {value}\r\n" for field, value in request.headers.items())
    head = f"POST {request.path} HTTP/1.1\r\nHost: b\r\n{lines}".encode()
    while time.monotonic() < until:
        began = time.perf_counter()
        writer.write(
            head
            + b"Idempotency-Key: %s-%d\r\nContent-Length: %d\r\n\r\n" % (name.encode(), len(took), len(body))
            + body
        )
        answer = await reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        if not answer.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(answer.decode())
        took.append(time.perf_counter() - began)
    writer.close()


def _http_in_python(port: int, seconds: float, request: _Request) -> Measured:
    took: list[float] = []

    async def load() -> None:
        until = time.monotonic() + seconds
        run = os.urandom(6).hex()
        await asyncio.gather(*(_posts(port, until, request, f"{run}-{n}", took) for n in range(CONNECTIONS)))

    began = time.perf_counter()
    asyncio.run(load())
    passed = time.perf_counter() - began
    took.sort()
    return Measured(
        len(took),
        passed,
        p50_ms=took[len(took) // 2] * 1000,
        p99_ms=took[len(took) * 99 // 100] * 1000,
    )
