"""A whole simulator on real sockets in a thread of the test process, and a raw client that sees every byte."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from simulator.client import ControlClient
from simulator.clock import SystemClock
from simulator.config import read_plan
from simulator.servers.options import Address, Options
from simulator.servers.service import Service

ANY_PORT = Address(host="127.0.0.1", port=0)
#: How long a test waits for something that must come, in seconds.
PATIENCE_S = 15.0


class Running:
    """A service that runs until `stop`."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._up = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="simulator")
        self._failed: BaseException | None = None

    def start(self) -> Self:
        self._thread.start()
        assert self._up.wait(PATIENCE_S), "the service did not start"
        if self._failed is not None:
            self._thread.join(PATIENCE_S)
            raise self._failed
        return self

    def stop(self) -> None:
        """Stop the service; once more is no mistake."""
        if not self._thread.is_alive():
            return
        self.loop.call_soon_threadsafe(self._enough.set)
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the service did not stop"

    async def _run(self) -> None:
        self.loop, self._enough = asyncio.get_running_loop(), asyncio.Event()
        self.service = Service(self._options, SystemClock())
        try:
            await self.service.start()
        except BaseException as problem:
            self._failed = problem
            self._up.set()
            return
        self._up.set()
        await self._enough.wait()
        await self.service.stop()

    @property
    def http(self) -> tuple[str, int]:
        return "127.0.0.1", self.service.http_port

    @property
    def smtp(self) -> tuple[str, int]:
        return "127.0.0.1", self.service.smtp_port

    def control(self, account: str = "default", token: str | None = None) -> ControlClient:
        return ControlClient(self.service.ready["control"], account, token)


@contextlib.contextmanager
def running(plan: Mapping[str, Any] | None = None, **options: Any) -> Iterator[Running]:
    """Run a service for the time of a `with` block."""
    chosen: dict[str, Any] = {"http": ANY_PORT, "smtp": ANY_PORT, "ledger": "memory", "seed": 7}
    if plan is not None:
        chosen["setup"] = read_plan(plan, "the test's plan")
    service = Running(Options(**chosen | options)).start()
    try:
        yield service
    finally:
        service.stop()


def mail(**changes: Any) -> dict[str, Any]:
    """Return the JSON of a small mail."""
    return {
        "from": "shop@example.org",
        "to": ["ada@example.com"],
        "subject": "Your order",
        "text": "Thank you!",
    } | changes


def raw_mail(raw: bytes, *to: str) -> dict[str, Any]:
    """Return the JSON that hands in finished bytes."""
    return {"from": "shop@example.org", "to": list(to), "raw": base64.b64encode(raw).decode()}


def request(
    body: Mapping[str, Any] | bytes | None = None,
    *,
    method: str = "POST",
    path: str = "/v1/emails",
    key: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """Return the bytes of a request."""
    content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1"]
    if content or method == "POST":
        lines.append(f"Content-Length: {len(content)}")
    if key is not None:
        lines.append(f"Idempotency-Key: {key}")
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a sender saw after it asked: the bytes, and how the line ended."""

    data: bytes
    end: str
    """`open` (an answer is complete), `eof`, `reset`, or `silence`."""

    @property
    def status(self) -> int:
        return int(self.data.split(b" ", 2)[1])

    @property
    def headers(self) -> dict[str, str]:
        lines = self.data.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")[1:]
        return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}

    @property
    def body(self) -> bytes:
        return self.data.partition(b"\r\n\r\n")[2]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Sender:
    """A raw connection to the HTTP side."""

    def __init__(self, address: tuple[str, int], *, timeout_s: float = PATIENCE_S) -> None:
        self.socket = socket.create_connection(address, timeout=timeout_s)
        self._rest = b""

    @classmethod
    def over(cls, line: socket.socket) -> Self:
        """Return a sender that speaks over a line that is there already."""
        sender = cls.__new__(cls)
        sender.socket, sender._rest = line, b""
        return sender

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def say(self, data: bytes) -> Self:
        with contextlib.suppress(ConnectionError):  # What the other side did is seen by reading.
            self.socket.sendall(data)
        return self

    def see(self, *, silence_s: float | None = None) -> Seen:
        """Read one answer, or to the end of the line; `silence_s`: give up after so long without a byte."""
        if silence_s is not None:
            self.socket.settimeout(silence_s)
        data, self._rest = self._rest, b""
        try:
            while True:
                size = _whole(data)
                if size is not None:
                    self._rest = data[size:]
                    return Seen(data=data[:size], end="open")
                piece = self.socket.recv(65_536)
                if not piece:
                    return Seen(data=data, end="eof")
                data += piece
        except TimeoutError:
            self._rest = data  # The next look begins with it.
            return Seen(data=data, end="silence")
        except ConnectionResetError:
            return Seen(data=data, end="reset")
        finally:
            self.socket.settimeout(PATIENCE_S)

    def until(self, mark: bytes) -> bytes:
        """Read up to and including `mark`."""
        data, self._rest = self._rest, b""
        while mark not in data:
            piece = self.socket.recv(65_536)
            assert piece, f"the line ended before {mark!r} came: {data!r}"
            data += piece
        size = data.index(mark) + len(mark)
        self._rest = data[size:]
        return data[:size]

    def end(self) -> str:
        """Return how the line ends from here on: `eof` or `reset`."""
        try:
            while self.socket.recv(65_536):
                pass
        except ConnectionResetError:
            return "reset"
        return "eof"


def _whole(data: bytes) -> int | None:
    """Return the size of a whole answer at the beginning of `data`, None if it is not whole yet."""
    head, blank, _ = data.partition(b"\r\n\r\n")
    if not blank:
        return None
    length = next(
        (
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length:")
        ),
        0,
    )
    size = len(head) + 4 + length
    return size if len(data) >= size else None


def ask(running: Running, data: bytes, *, silence_s: float | None = None) -> Seen:
    """Make one request on a connection of its own."""
    with Sender(running.http) as sender:
        return sender.say(data).see(silence_s=silence_s)
