"""A soak: mail over both wires at once, the server killed again and again; was what it said yes to kept, once?"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from simulator.store.sqlite import SqliteStore
from tests.benchmarks.servers.contenders import Started, free_port, wait_for
from tests.benchmarks.servers.load import BODY

#: Connections of each wire.
SENDERS = 8


@dataclass
class Told:
    """What the senders were told: by Message-ID, the id that came with the yes; None where no answer came."""

    ids: dict[str, str | None] = field(default_factory=dict)
    answered: int = 0
    enough: bool = False
    """No more is to be said."""

    def yes(self, message_id: str, id_: str) -> None:
        """It was taken."""
        self.ids[message_id] = id_
        self.answered += 1


class Server:
    """`simulator serve` on a ledger in a file, which may be killed and started again."""

    def __init__(self, ledger: Path) -> None:
        self.ledger, self.smtp, self.http = ledger, free_port(), free_port()
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [
                *(sys.executable, "-c", "from simulator.cli import main; main()", "serve"),
                *("--ledger", str(self.ledger)),
                *("--smtp", f"127.0.0.1:{self.smtp}", "--http", f"127.0.0.1:{self.http}"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(self.http)
        wait_for(self.smtp)
        return process

    def start_again(self) -> None:
        """It was killed: start it again."""
        self.process.wait()
        self.process = self._start()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)

    @property
    def rss_mib(self) -> float:
        return Started(self.process.pid, self.stop).rss_mib()


async def _over_http(port: int, name: str, told: Told) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        while not told.enough:
            message_id = f"<{name}.{len(told.ids)}@soak.example>"
            mail = BODY | {"message_id": message_id, "subject": name}
            body = json.dumps(mail).encode()
            told.ids[message_id] = None
            writer.write(
                b"POST /v1/emails HTTP/1.1\r\nHost: soak\r\nIdempotency-Key: %b\r\nContent-Length: %d\r\n\r\n%b"
                % (message_id[1:-1].encode(), len(body), body)
            )
            head = await reader.readuntil(b"\r\n\r\n")
            answer = await reader.readexactly(
                int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            )
            if head.startswith(b"HTTP/1.1 200"):
                told.yes(message_id, json.loads(answer)["id"])
    finally:
        writer.close()


async def _over_smtp(port: int, name: str, told: Told) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def ask(said: bytes) -> bytes:
        writer.write(said)
        while (line := await reader.readline())[3:4] == b"-":
            pass
        if not line:
            raise ConnectionResetError("the server has gone")
        return line

    try:
        await ask(b"")
        await ask(b"EHLO soak.example\r\n")
        while not told.enough:
            message_id = f"<{name}.{len(told.ids)}@soak.example>"
            told.ids[message_id] = None
            for command in (
                b"MAIL FROM:<shop@example.org>\r\n",
                b"RCPT TO:<ada@example.com>\r\n",
                b"DATA\r\n",
            ):
                await ask(command)
            mail = f"Subject: {name}\r\nMessage-ID: {message_id}\r\n\r\n" + ("y" * 70 + "\r\n") * 30
            said = await ask(mail.encode() + b".\r\n")
            if said.startswith(b"250"):
                told.yes(message_id, said.split()[-1].decode())
    finally:
        writer.close()


async def _one_life(server: Server, told: Told, life: int, goal: int, *, last: bool) -> float:
    """Hand over mail until so much is answered; then kill the server in the midst of it, but not the `last` time.

    Returns how much memory it had in the end, in MiB.
    """
    told.enough = False
    senders = [
        asyncio.ensure_future(say(port, f"{wire}{life}.{number}", told))
        for wire, port, say in (("http", server.http, _over_http), ("smtp", server.smtp, _over_smtp))
        for number in range(SENDERS)
    ]
    while told.answered < goal and not all(each.done() for each in senders):  # noqa: ASYNC110 - nobody is told
        await asyncio.sleep(0.02)
    rss_mib = server.rss_mib
    if last:
        told.enough = True
    else:
        server.process.send_signal(signal.SIGKILL)
    for end in await asyncio.gather(*senders, return_exceptions=True):
        if isinstance(end, BaseException) and (last or not isinstance(end, OSError | EOFError)):
            raise end
    return rss_mib


def compare(ledger: Path, told: Told) -> dict[str, int]:
    """Read a ledger, and count what is not as senders were told."""
    found: Counter[str | None] = Counter()
    ids: dict[str, str] = {}
    store = SqliteStore(ledger)
    for each in store.acceptances("default"):
        found[each.message_id] += 1
        ids[each.message_id or ""] = each.id
    store.close()
    answered = {message_id: id_ for message_id, id_ in told.ids.items() if id_ is not None}
    return {
        "in the ledger": found.total(),
        "of those, never answered": sum(told.ids.get(each or "", "") is None for each in found),
        "answered, and not there": sum(each not in found for each in answered),
        "there more than once": sum(count > 1 for count in found.values()),
        "there under another id": sum(ids.get(each, id_) != id_ for each, id_ in answered.items()),
        "of nobody": sum(each not in told.ids for each in found),
    }


def measure_soak(folder: Path, mails: int, *, kills: int = 10) -> None:
    """Hand over so many mails, kill the server so often meanwhile; print what became of them and of its memory."""
    told, table = Told(), Table("soak, both wires at once", "mails", "resident, MiB")
    server = Server(folder / "soak.db")
    began = time.monotonic()
    try:
        for life in range(kills + 1):
            last = life == kills
            goal = mails * (life + 1) // (kills + 1)
            rss_mib = asyncio.run(_one_life(server, told, life, goal, last=last))
            table.add_row(
                f"answered when {'all were' if last else 'killed'}", f"{told.answered:,}", f"{rss_mib:.0f}"
            )
            if not last:
                server.start_again()
    finally:
        server.stop()
    table.add_row(
        "a second, kills and starts included", f"{told.answered / (time.monotonic() - began):,.0f}", ""
    )
    for what, count in compare(server.ledger, told).items():
        table.add_row(what, f"{count:,}", "")
    Console(width=110).print(table)
