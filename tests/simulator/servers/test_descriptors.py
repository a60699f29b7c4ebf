"""Thousands of idle connections on each wire, against a `simulator serve` of its own: bounded memory, and nobody notices.

Both ends need a descriptor for each connection, so they live in two processes.
"""

from __future__ import annotations

import contextlib
import re
import resource
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from simulator.servers.descriptors import raise_limit
from tests.simulator.running import PATIENCE_S, Sender, mail, request
from tests.simulator.servers.test_serve import Process

#: How many on each wire: in each run of the tests, and where a run may be long.
CONNECTIONS = [1_500, pytest.param(10_000, marks=pytest.mark.long)]
#: What both processes need besides.
SPARE = 200
#: Measured: about 9 over HTTP, about 8 over SMTP (docs/performance.md).
MOST_KB_EACH = 24.0
#: Less than the listeners' backlog, so that no connection waits for a second try of the kernel's.
WAVE = 250


@pytest.fixture(autouse=True)
def _own_limit() -> Iterator[None]:
    """What a test does to the limit of the test process is undone after it."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_limit_is_raised_as_far_as_it_goes() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))

    allowed = raise_limit()

    assert allowed == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert allowed > 256
    assert raise_limit() == allowed


def test_a_system_without_limits_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resource", None)

    assert raise_limit() is None


class Idle:
    """Connections of one wire that say nothing (SMTP: after their greeting)."""

    def __init__(self, address: tuple[str, int], *, greets: bool) -> None:
        self._address, self._greets = address, greets
        self.sockets: list[socket.socket] = []

    def open(self, number: int) -> None:
        while len(self.sockets) < number:
            wave = [
                socket.create_connection(self._address, timeout=PATIENCE_S)
                for _ in range(min(WAVE, number - len(self.sockets)))
            ]
            self.sockets += wave
            if self._greets:
                for each in wave:
                    assert each.recv(256).startswith(b"220 ")
            else:
                # That this one is answered says that those before it were let in.
                assert self.still_serves(wave[-1])

    def still_serves(self, line: socket.socket) -> bool:
        if self._greets:
            line.sendall(b"NOOP\r\n")
            return line.recv(256).startswith(b"250 ")
        line.sendall(request(method="GET", path="/v1/emails/msg_nobody"))
        return line.recv(4_096).startswith(b"HTTP/1.1 404 ")

    def close(self) -> None:
        for each in self.sockets:
            each.close()


def resident_kb(pid: int) -> int:
    found = re.search(r"^VmRSS:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


def open_now(simulator: Process, wire: str) -> int:
    """Return how many connections the server counts. The one that asks is one of HTTP."""
    with Sender(simulator.http, timeout_s=60.0) as sender:
        told = sender.say(request(method="GET", path="/metrics")).see()
    found = re.search(rf'^simulator_connections{{wire="{wire}"}} (\d+)', told.body.decode(), re.MULTILINE)
    assert found is not None, told
    return int(found[1])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory of a process is read from /proc")
@pytest.mark.parametrize("wanted", CONNECTIONS)
def test_idle_connections_on_each_wire_cost_little(tmp_path: Path, wanted: int) -> None:
    allowed = raise_limit() or wanted + SPARE
    number = min(wanted, allowed - SPARE)
    if number < wanted:
        sys.stderr.write(
            f"only {number} connections: this system allows a process {allowed} open files "
            f"(ulimit -Hn), {wanted + SPARE} are needed\n"
        )
    with Process(tmp_path) as simulator:
        pid = simulator.process.pid
        before = resident_kb(pid)
        for wire, address in (("http", simulator.http), ("smtp", simulator.smtp)):
            mine = 1 if wire == "http" else 0
            idle = Idle(address, greets=wire == "smtp")
            with contextlib.closing(idle):
                idle.open(number)
                # Since the start: what the first wire's left behind is used again, and hides what the second's take.
                each_kb = (resident_kb(pid) - before) / number

                assert open_now(simulator, wire) == number + mine
                assert each_kb < MOST_KB_EACH, f"{each_kb:.1f} kB for each connection of {wire}"
                # Who comes behind them is served, and so are they.
                with Sender(simulator.http) as sender:
                    assert sender.say(request(mail(), key=wire)).see().status == 200
                assert all(map(idle.still_serves, idle.sockets[:: number // 10]))
            for _ in range(1_000):
                if open_now(simulator, wire) == mine:
                    break
            else:
                pytest.fail(f"{open_now(simulator, wire)} connections of {wire} are left of those that went")
        code, said = simulator.end(signal.SIGTERM)
        assert (code, "Traceback" in said) == (0, False), said
