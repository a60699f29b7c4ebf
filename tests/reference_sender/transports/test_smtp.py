"""The SMTP wire: which connection a mail takes, how long one is kept, and how it is left."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any

import pytest

from reference_sender.policy.classify import classify
from reference_sender.policy.evidence import NO_LETTERS, Evidence, Phase, Refused
from reference_sender.transports import smtp_talk
from reference_sender.transports.smtp import SmtpTransport
from reference_sender.transports.smtp_options import Tls
from tests.reference_sender.samples import parcel
from tests.reference_sender.transports.smtp_servers import GOOD, Server, attempt, attempts, options
from tests.reference_sender.transports.wires import for_ever, free_port, go_on, serving


def test_a_mail_is_handed_over() -> None:
    server = Server()
    evidence = attempt(server)
    assert (
        evidence.phase,
        evidence.code,
        evidence.enhanced,
        evidence.provider_id,
    ) == (Phase.SENT, 250, "2.0.0", "ABC123")
    assert [
        "EHLO [127.0.0.1]",
        f"MAIL FROM:<shop@example.org> SIZE={len(parcel().raw)}",
        "RCPT TO:<ann@example.com>",
        "DATA",
        "QUIT",
    ] == server.heard
    assert [parcel().raw + b".\r\n"] == server.mails


def test_of_a_servers_addresses_one_that_is_dead_holds_up_nobody() -> None:
    """Its first one says nothing for longer than we wait to connect: no mail would ever get as far as the second."""

    async def run() -> int | None:
        server = Server()
        async with serving(server) as port:
            with (
                socket.create_server(("127.0.0.2", port), backlog=0) as deaf,
                contextlib.ExitStack() as stack,
            ):
                # Whoever stands in its queue is let wait there, and whoever comes behind them hears nothing at all.
                for _ in range(4):
                    waits = stack.enter_context(socket.socket())
                    waits.setblocking(False)
                    waits.connect_ex(deaf.getsockname())

                async def two(*_: Any, **__: Any) -> list[Any]:
                    kind = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
                    return [(*kind, ("127.0.0.2", port)), (*kind, ("127.0.0.1", port))]

                asyncio.get_running_loop().getaddrinfo = two  # type: ignore[method-assign] # of this loop only
                transport = SmtpTransport(options(port, host="mail.example", tls=Tls.OFF))
                evidence = await transport.send(parcel(), key="k", point_of_no_return=go_on)
                await transport.close()
                return evidence.code

    assert asyncio.run(run()) == 250


@pytest.mark.parametrize("where", ["sender", "recipient"])
def test_an_address_that_it_has_no_letters_for_is_refused_without_asking(where: str) -> None:
    """It was written into the row by other hands: `enqueue` lets none in."""
    server, changes = Server(), {where: "ann@exämple.com"}
    strange, plain = attempts(server, parcel(parcel().raw, **changes), parcel())
    assert (strange.phase, strange.code, strange.trouble) == (Phase.CONNECT, None, NO_LETTERS)
    assert isinstance(classify(strange), Refused)
    assert (plain.code, server.connections) == (250, 1)


def test_a_connection_is_used_again() -> None:
    server = Server()
    assert [e.code for e in attempts(server, parcel(), parcel())] == [250, 250]
    assert (server.connections, len(server.mails)) == (1, 2)


def test_a_connection_that_no_mail_needs_is_left_after_a_time() -> None:
    """Where a provider allows one at a time, another worker waits for it."""
    server = Server()

    async def run() -> list[int | None]:
        async with serving(server) as port:
            transport = SmtpTransport(options(port, idle_s=0.05))
            first = await transport.send(parcel(), key="k", point_of_no_return=go_on)
            await asyncio.wait_for(server.left.wait(), 10)
            second = await transport.send(parcel(), key="k", point_of_no_return=go_on)
            await transport.close()
            return [first.code, second.code]

    assert asyncio.run(run()) == [250, 250]
    assert (server.connections, len(server.mails)) == (2, 2)


def test_a_mail_that_begins_during_a_goodbye_takes_another_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What comes back to QUIT, or never does, concerns no mail, and none waits for it."""
    monkeypatch.setattr(smtp_talk, "_GOODBYE_S", 25.0)
    server = Server(QUIT="hang")

    async def run() -> list[int | None]:
        async with serving(server) as port:
            transport = SmtpTransport(options(port, idle_s=0.0))
            first = await transport.send(parcel(), key="k", point_of_no_return=go_on)
            await asyncio.wait_for(server.left.wait(), 10)
            second = await transport.send(parcel(), key="k", point_of_no_return=go_on)
            return [first.code, second.code]

    assert asyncio.run(run()) == [250, 250]
    assert (server.connections, len(server.mails)) == (2, 2)
    assert server.heard[server.heard.index("QUIT") + 1].startswith("EHLO")


def test_a_connection_in_use_is_not_left() -> None:
    """Its time is over at once, and the second mail has taken it before anybody could look."""
    server = Server()
    seen: list[tuple[int, int]] = []

    async def look() -> bool:
        seen.append((server.connections, server.heard.count("QUIT")))
        return True

    async def run() -> list[int | None]:
        async with serving(server) as port:
            transport = SmtpTransport(options(port, idle_s=0.0))
            first = await transport.send(parcel(), key="k", point_of_no_return=look)
            second = await transport.send(parcel(), key="k", point_of_no_return=look)
            await transport.close()
            return [first.code, second.code]

    assert asyncio.run(run()) == [250, 250]
    assert seen == [(1, 0), (1, 0)]


def test_the_end_says_all_goodbyes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that does not answer costs one patience, and not one for each connection."""
    monkeypatch.setattr(smtp_talk, "_GOODBYE_S", 25.0)

    class AnswersAll(Server):
        """Says no goodbye before it has heard eight."""

        async def _behave(self, step: str, writer: asyncio.StreamWriter) -> bool:
            if step == "QUIT":
                if self.heard.count("QUIT") == 8:
                    everybody.set()
                await everybody.wait()
            return await super()._behave(step, writer)

    server = AnswersAll()
    everybody = asyncio.Event()

    async def run() -> None:
        async with serving(server) as port:
            transport = SmtpTransport(options(port))
            together = asyncio.Barrier(8)

            async def beside() -> bool:
                await together.wait()
                return True

            await asyncio.gather(
                *(transport.send(parcel(), key="k", point_of_no_return=beside) for _ in range(8))
            )
            await asyncio.wait_for(transport.close(), 20)

    asyncio.run(run())
    assert (server.connections, server.heard.count("QUIT")) == (8, 8)


def test_the_end_waits_for_a_goodbye_that_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the loop would complain about a task that nobody saw the end of."""
    monkeypatch.setattr(smtp_talk, "_GOODBYE_S", 0.5)
    server = Server(QUIT="hang")

    async def run() -> list[str]:
        async with serving(server) as port:
            transport = SmtpTransport(options(port, idle_s=0.0))
            await transport.send(parcel(), key="k", point_of_no_return=go_on)
            await asyncio.wait_for(server.left.wait(), 10)
            await transport.close()
            return [repr(each) for each in asyncio.all_tasks() if "Talk.quit" in repr(each)]

    assert asyncio.run(run()) == []


def test_a_line_on_which_more_was_said_than_asked_is_not_used_again() -> None:
    """What is left over would be taken for the reply to the next mail's first command."""
    server = Server(mail=b"250 ok: queued as A\r\n554 and something else\r\n")

    assert [e.code for e in attempts(server, parcel(), parcel())] == [250, 250]
    assert (server.connections, len(server.mails)) == (2, 2)


def test_a_yes_before_the_dot_leaves_a_line_that_nobody_may_use() -> None:
    """Half a mail is in it: the next mail's commands would be its text."""
    connections = 0

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        writer.write(b"220 hi\r\n")
        for reply in (b"250 hi\r\n", b"250 ok\r\n", b"250 ok\r\n", b"354 go\r\n"):
            await reader.readline()
            writer.write(reply)
        await reader.readexactly(100_000)
        writer.transport.pause_reading()  # type: ignore[attr-defined] # a read transport
        writer.write(b"250 ok already\r\n")
        await for_ever()

    first, second = attempts(script, parcel(raw=b"y" * 30_000_000), parcel(raw=b"y" * 30_000_000))
    assert (first.phase, first.code) == (second.phase, second.code) == (Phase.BODY, 250)
    assert connections == 2


def test_what_happens_at_quit_does_not_matter() -> None:
    for behaviour in ("hang", "rst", "fin", b"500 what?\r\n"):
        assert attempt(Server(QUIT=behaviour)).code == 250


def test_nobody_listening_means_nothing_left() -> None:
    async def run() -> Evidence:
        return await SmtpTransport(options(free_port())).send(parcel(), key="k", point_of_no_return=go_on)

    evidence = asyncio.run(run())
    assert (evidence.phase, evidence.trouble) == (Phase.CONNECT, "no connection")


def test_the_total_deadline_beats_the_steps() -> None:
    evidence = attempt(Server(RCPT="hang"), read_timeout_s=3.0, total_timeout_s=0.2)
    assert (evidence.phase, evidence.trouble) == (Phase.RCPT, "timeout")


def test_a_connection_closed_while_idle_is_replaced_without_an_attempt() -> None:
    class Impatient(Server):
        async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if self.connections == 0:
                self.table = GOOD | {"mail": b"250 ok\r\n421 4.4.2 idle too long\r\n"}
                self.connections = 1
                await super().__call__(_UntilMail(reader, self), writer)
                return
            self.table = GOOD
            await super().__call__(reader, writer)

    class _UntilMail(asyncio.StreamReader):
        """Ends the conversation when a second MAIL arrives."""

        def __init__(self, inner: asyncio.StreamReader, server: Server) -> None:
            super().__init__()
            self._inner, self._server = inner, server

        async def readline(self) -> bytes:
            line = await self._inner.readline()
            return b"" if self._server.mails and line.startswith(b"MAIL") else line

        async def readuntil(self, separator: Any = b"\n") -> bytes:
            return await self._inner.readuntil(separator)

    server = Impatient()
    assert [e.code for e in attempts(server, parcel(), parcel())] == [250, 250]
    assert len(server.mails) == 2
