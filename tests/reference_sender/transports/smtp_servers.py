"""A mail server that follows a table of behaviours, and attempts at it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from reference_sender.life import Parcel
from reference_sender.policy.evidence import Evidence
from reference_sender.transports.smtp import SmtpTransport
from reference_sender.transports.smtp_options import SmtpOptions
from tests.reference_sender.samples import parcel
from tests.reference_sender.transports.wires import Script, for_ever, go_on, reset, serving

Behaviour = bytes | str  # bytes: say this; "fin", "rst", "hang": do that
STEPS = ("greeting", "EHLO", "AUTH", "MAIL", "RCPT", "DATA", "mail")
GOOD: dict[str, Behaviour] = {
    "greeting": b"220 hello\r\n",
    "EHLO": b"250-hello\r\n250-SIZE 1000000\r\n250-AUTH PLAIN LOGIN\r\n250 HELP\r\n",
    "HELO": b"250 hello\r\n",
    "AUTH": b"235 2.7.0 in\r\n",
    "MAIL": b"250 2.1.0 ok\r\n",
    "RCPT": b"250 2.1.5 ok\r\n",
    "DATA": b"354 go on\r\n",
    "mail": b"250 2.0.0 ok: queued as ABC123\r\n",
    "QUIT": b"221 bye\r\n",
}


class Server:
    """Follows its table of behaviours and writes down what it heard."""

    def __init__(self, **changes: Behaviour) -> None:
        self.table = GOOD | changes
        self.heard: list[str] = []
        self.mails: list[bytes] = []
        self.connections = 0
        self.left = asyncio.Event()
        """Somebody has said QUIT."""

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if not await self._behave("greeting", writer):
            return
        while line := await reader.readline():
            command = line.decode().strip()
            self.heard.append(command)
            verb = command.split(" ")[0].upper()
            if verb == "QUIT":
                self.left.set()
            if not await self._behave(verb if verb in self.table else "AUTH", writer):
                return
            if verb == "DATA":
                if not str(self.table["DATA"]).startswith("b'354"):
                    continue
                self.mails.append(await reader.readuntil(b"\r\n.\r\n"))
                if not await self._behave("mail", writer):
                    return

    async def _behave(self, step: str, writer: asyncio.StreamWriter) -> bool:
        behaviour = self.table[step]
        if isinstance(behaviour, bytes):
            writer.write(behaviour)
            await writer.drain()
            return True
        if behaviour == "hang":
            await for_ever()
        if behaviour == "rst":
            reset(writer)
        if behaviour.startswith("half:"):
            writer.write(behaviour[5:].encode())
        return False


def options(port: int, **more: Any) -> SmtpOptions:
    given: dict[str, Any] = {"host": "127.0.0.1", "port": port, "connect_timeout_s": 2.0}
    given |= {"read_timeout_s": 2.0, "total_timeout_s": 4.0}
    return SmtpOptions(**(given | more))


def attempts(
    script: Script,
    *mails: Parcel,
    point_of_no_return: Callable[[], Awaitable[bool]] = go_on,
    **more: Any,
) -> list[Evidence]:
    async def run() -> list[Evidence]:
        async with serving(script) as port:
            transport = SmtpTransport(options(port, **more))
            try:
                return [
                    await transport.send(mail, key="k", point_of_no_return=point_of_no_return)
                    for mail in mails or (parcel(),)
                ]
            finally:
                await transport.close()

    return asyncio.run(run())


def attempt(script: Script, mail: Parcel | None = None, **more: Any) -> Evidence:
    (evidence,) = attempts(script, mail or parcel(), **more)
    return evidence
