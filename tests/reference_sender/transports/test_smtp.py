"""The SMTP wire against servers that misbehave, step by step: the evidence names the step."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from reference_sender.life import Parcel
from reference_sender.policy.evidence import Evidence, Phase
from reference_sender.transports import smtp
from reference_sender.transports.smtp import SmtpOptions, SmtpTransport, Tls
from tests.reference_sender.samples import parcel
from tests.reference_sender.transports.wires import (
    Script,
    for_ever,
    free_port,
    go_on,
    reset,
    serving,
    withdraw,
)

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


def test_lines_beginning_with_dots_are_stuffed() -> None:
    server = Server()
    attempt(server, parcel(raw=b".a\r\n..\r\n.\r\nb.\r\n"))
    assert server.mails == [b"..a\r\n...\r\n..\r\nb.\r\n.\r\n"]


def test_a_mail_without_a_last_line_end_gets_one() -> None:
    server = Server()
    attempt(server, parcel(raw=b"a"))
    assert server.mails == [b"a\r\n.\r\n"]


def test_a_large_mail_goes_out_whole() -> None:
    server = Server()
    mail = parcel(raw=b".abcdefgh\r\n" * 500_000)
    assert attempt(server, mail).code == 250
    assert server.mails == [b"..abcdefgh\r\n" * 500_000 + b".\r\n"]


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
    monkeypatch.setattr(smtp, "_GOODBYE_S", 25.0)
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
    monkeypatch.setattr(smtp, "_GOODBYE_S", 25.0)

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
    monkeypatch.setattr(smtp, "_GOODBYE_S", 0.5)
    server = Server(QUIT="hang")

    async def run() -> list[str]:
        async with serving(server) as port:
            transport = SmtpTransport(options(port, idle_s=0.0))
            await transport.send(parcel(), key="k", point_of_no_return=go_on)
            await asyncio.wait_for(server.left.wait(), 10)
            await transport.close()
            return [repr(each) for each in asyncio.all_tasks() if "_Talk.quit" in repr(each)]

    assert asyncio.run(run()) == []


def test_a_line_on_which_more_was_said_than_asked_is_not_used_again() -> None:
    """What is left over would be taken for the reply to the next mail's first command."""
    server = Server(mail=b"250 ok: queued as A\r\n554 and something else\r\n")

    assert [e.code for e in attempts(server, parcel(), parcel())] == [250, 250]
    assert (server.connections, len(server.mails)) == (2, 2)


@pytest.mark.parametrize(("step", "noticed"), [("RCPT", Phase.DATA), ("DATA", Phase.BODY)])
def test_a_reply_too_many_ends_the_attempt_before_anything_can_be_mistaken(step: str, noticed: Phase) -> None:
    """Each later reply would be read as that of the command before it."""
    usual = GOOD[step]
    assert isinstance(usual, bytes)
    server = Server(**{step: usual + b"250 ok again\r\n"})
    evidence = attempt(server)

    assert (evidence.phase, evidence.code, evidence.trouble) == (noticed, None, "garbled")
    assert [each for each in server.mails if each.strip(b".\r\n")] == []


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
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"250 ok already\r\n")
        await for_ever()

    first, second = attempts(script, parcel(raw=b"y" * 30_000_000), parcel(raw=b"y" * 30_000_000))
    assert (first.phase, first.code) == (second.phase, second.code) == (Phase.BODY, 250)
    assert connections == 2


@pytest.mark.parametrize("step", [s for s in STEPS if s != "AUTH"])
@pytest.mark.parametrize("code", [421, 451, 550])
def test_a_refusal_is_reported_with_its_step(step: str, code: int) -> None:
    evidence = attempt(Server(**{step: f"{code} 4.3.0 no\r\n".encode(), "HELO": f"{code} no\r\n".encode()}))
    phase = Phase.SENT if step == "mail" else Phase(step.lower())
    assert (phase, code) == (evidence.phase, evidence.code)


@pytest.mark.parametrize("step", [s for s in STEPS if s != "AUTH"])
@pytest.mark.parametrize(
    ("behaviour", "troubles"),
    [
        ("fin", {"eof", "reset"}),
        ("rst", {"reset", "eof"}),
        ("hang", {"timeout"}),
        ("half:25", {"eof", "reset", "garbled"}),
        (b"rubbish\r\n", {"garbled"}),
        (b"25\r\n", {"garbled"}),
        (b"2500 ok\r\n", {"garbled"}),
        (b"250ok\r\n", {"garbled"}),
        (b"999 ok\r\n", {"garbled"}),
        (b"250-a\r\n550 b\r\n", {"garbled"}),
        (b"\x00\xff\r\n", {"garbled"}),
    ],
    ids=[
        "fin",
        "rst",
        "hang",
        "half",
        "rubbish",
        "two digits",
        "four digits",
        "no space",
        "999",
        "mixed",
        "binary",
    ],
)
def test_without_a_complete_reply_there_is_no_code(
    step: str, behaviour: Behaviour, troubles: set[str]
) -> None:
    evidence = attempt(Server(**{step: behaviour}), read_timeout_s=0.2)
    phase = Phase.SENT if step == "mail" else Phase(step.lower())
    assert (phase, None) == (evidence.phase, evidence.code)
    assert evidence.trouble in troubles


def test_a_reset_after_the_dot_is_named_a_reset() -> None:
    assert attempt(Server(mail="rst")).trouble == "reset"


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


def test_a_withdrawn_attempt_sends_no_byte_of_the_mail() -> None:
    server = Server()
    evidence = attempt(server, point_of_no_return=withdraw)
    assert (evidence.phase, evidence.trouble) == (Phase.DATA, "withdrawn")
    assert (server.heard[-1], server.mails) == ("DATA", [])


def test_the_point_of_no_return_lies_between_354_and_the_first_byte() -> None:
    server = Server()
    seen: list[tuple[str, int]] = []

    async def mark() -> bool:
        seen.append((server.heard[-1], len(server.mails)))
        return True

    attempt(server, point_of_no_return=mark)
    assert seen == [("DATA", 0)]


def test_without_an_accepted_recipient_the_mail_is_not_begun() -> None:
    server = Server(RCPT=b"550 5.1.1 no such user\r\n")
    attempt(server)
    assert "DATA" not in server.heard


def test_a_server_that_stops_reading_leaves_the_mail_incomplete() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 hi\r\n")
        for reply in (b"250 hi\r\n", b"250 ok\r\n", b"250 ok\r\n", b"354 go\r\n"):
            await reader.readline()
            writer.write(reply)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await for_ever()

    evidence = attempt(script, parcel(raw=b"x" * 70 + b"\r\n" + b"y" * 30_000_000), total_timeout_s=0.5)
    assert (evidence.phase, evidence.trouble) == (Phase.BODY, "timeout")


def test_a_refusal_in_the_middle_of_the_mail_is_heard() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 hi\r\n")
        for reply in (b"250 hi\r\n", b"250 ok\r\n", b"250 ok\r\n", b"354 go\r\n"):
            await reader.readline()
            writer.write(reply)
        await reader.readexactly(100_000)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"552 5.3.4 too big\r\n")
        await for_ever()

    evidence = attempt(script, parcel(raw=b"y" * 30_000_000))
    assert (evidence.phase, evidence.code) == (Phase.BODY, 552)


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


def test_an_old_server_without_ehlo_is_greeted_with_helo() -> None:
    server = Server(EHLO=b"502 what?\r\n")
    assert attempt(server).code == 250
    assert server.heard[:3] == ["EHLO [127.0.0.1]", "HELO [127.0.0.1]", "MAIL FROM:<shop@example.org>"]


def test_login_is_plain_where_it_is_offered() -> None:
    server = Server()
    assert attempt(server, user="shop", password="geheim ä").code == 250
    word = base64.b64encode("\0shop\0geheim ä".encode()).decode()
    assert f"AUTH PLAIN {word}" == server.heard[1]


def test_login_is_login_where_only_that_is_offered() -> None:
    class Login(Server):
        async def _behave(self, step: str, writer: asyncio.StreamWriter) -> bool:
            if step == "AUTH":
                done = self.heard[-1] == base64.b64encode(b"secret").decode()
                self.table["AUTH"] = b"235 in\r\n" if done else b"334 VXNlcm5hbWU6\r\n"
            return await super()._behave(step, writer)

    server = Login(EHLO=b"250-hi\r\n250 AUTH LOGIN\r\n")
    assert attempt(server, user="shop", password="secret").code == 250
    assert server.heard[1:4] == ["AUTH LOGIN", "c2hvcA==", "c2VjcmV0"]


@pytest.mark.parametrize("code", [454, 535])
def test_a_refused_login_is_reported(code: int) -> None:
    evidence = attempt(Server(AUTH=f"{code} no\r\n".encode()), user="shop", password="x")
    assert (Phase.AUTH, code) == (evidence.phase, evidence.code)


def test_a_server_without_login_is_not_written_to() -> None:
    server = Server(EHLO=b"250 hi\r\n")
    evidence = attempt(server, user="shop", password="x")
    assert (evidence.phase, evidence.trouble) == (Phase.AUTH, "not offered")
    assert len(server.heard) == 1


def test_a_server_without_starttls_is_not_written_to() -> None:
    server = Server()
    evidence = attempt(server, tls=Tls.STARTTLS)
    assert (evidence.phase, evidence.trouble) == (Phase.STARTTLS, "not offered")


def test_a_refused_starttls_is_reported() -> None:
    server = Server(EHLO=b"250-hi\r\n250 STARTTLS\r\n", STARTTLS=b"454 4.7.0 not now\r\n")
    evidence = attempt(server, tls=Tls.STARTTLS)
    assert (evidence.phase, evidence.code) == (Phase.STARTTLS, 454)


def test_a_refused_starttls_in_another_charset_can_be_written_down() -> None:
    """Or no attempt could be settled, and every mail would spend its attempts that way."""
    server = Server(EHLO=b"250-hi\r\n250 STARTTLS\r\n", STARTTLS=b"454 4.7.0 nicht verf\xfcgbar\x00\r\n")
    evidence = attempt(server, tls=Tls.STARTTLS)
    assert evidence.answer == "4.7.0 nicht verf\N{REPLACEMENT CHARACTER}gbar"


@pytest.mark.parametrize(
    ("host", "port", "expected"),
    [
        ("localhost", 1025, Tls.OFF),
        ("127.0.0.1", 587, Tls.OFF),
        ("::1", 25, Tls.OFF),
        ("mail.example.com", 587, Tls.STARTTLS),
        ("mail.example.com", 465, Tls.IMPLICIT),
        ("192.0.2.1", 25, Tls.STARTTLS),
    ],
)
def test_without_a_word_only_this_machine_is_spoken_to_in_the_clear(
    host: str, port: int, expected: Tls
) -> None:
    assert SmtpOptions(host=host, port=port).tls_now is expected
    assert SmtpOptions(host=host, port=port, tls=Tls.OFF).tls_now is Tls.OFF
