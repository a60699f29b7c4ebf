"""Sessions at ease: when nobody but the call that brings a command needs to be there, and what ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from simulator.provider.faults import ReplyWith
from simulator.provider.ledger import Sent
from simulator.servers.smtp.session import SmtpSession
from tests.simulator.servers.smtp.house import House, house, rule, run
from tests.simulator.servers.smtp.tap import Tap, parted

MAIL = b"MAIL FROM:<a@x.example>\r\nRCPT TO:<b@y.example>\r\nDATA\r\nSubject: x\r\n\r\nHello\r\n.\r\n"
HELLO = b"EHLO client.example\r\n"


def connected(home: House) -> tuple[SmtpSession, Tap]:
    session, tap = SmtpSession(home.server), Tap()
    session.connection_made(tap)
    return session, tap


async def until(is_so: Callable[[], bool]) -> None:
    """Let the loop turn until it is so."""
    while not is_so():  # noqa: ASYNC110 - nobody is told of it
        await asyncio.sleep(0)


async def answered(tap: Tap, *codes: bytes) -> None:
    """Wait until so many replies are there, and hold that they begin so."""
    await until(lambda: len(final(tap)) >= len(codes))
    assert final(tap) == list(codes)


def final(tap: Tap) -> list[bytes]:
    return [line[:3] for line in bytes(tap.written).splitlines() if line[3:4] == b" "]


def test_a_plain_session_needs_no_task() -> None:
    async def story() -> None:
        async with house() as home:
            session, tap = connected(home)
            session.data_received(HELLO + MAIL + MAIL + b"QUIT\r\n")
            await answered(tap, b"220", b"250", *[b"250", b"250", b"354", b"250"] * 2, b"221")
            assert session.task is None
            assert session.has_parted
            assert [each.sent for each in home.attempts()] == [Sent.COMPLETE] * 2
            session.connection_lost(None)

    run(story())


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (b"VRFY somebody\r\n", b"252"),
        (b"MAIL FROM:<>\r\nRSET\r\n", b"250"),
        (b"NOOP\n", b"500"),
        (b"EHLO\r\n", b"501"),
    ],
)
def test_a_session_is_at_ease_again_after_a_command_that_is_not_plain(said: bytes, code: bytes) -> None:
    async def story() -> None:
        async with house() as home:
            session, tap = connected(home)
            session.data_received(HELLO + said)
            await until(lambda: final(tap)[-1] == code and not session._inbox.data)
            assert session.task is not None
            tap.written.clear()
            session.data_received(MAIL[:50])
            assert final(tap) == [b"250", b"250"], "within the call"
            session.data_received(MAIL[50:] + b"QUIT\r\n")
            await parted(session)
            assert final(tap) == [b"250", b"250", b"354", b"250", b"221"]
            session.connection_lost(None)

    run(story())


def test_where_somebody_has_something_to_say_no_session_is_at_ease() -> None:
    async def story() -> None:
        async with house(rule(ReplyWith(code=451), "rset")) as home:
            session, tap = connected(home)
            assert session.task is not None
            session.data_received(HELLO)
            await answered(tap, b"220", b"250")
            session.connection_lost(None)
            await parted(session)

    run(story())


def test_half_a_command_is_waited_for_as_long_as_a_whole_one() -> None:
    """An octet now and then does not make a sender less idle."""

    async def story() -> None:
        async with house(idle_timeout_s=100.0) as home:
            session, tap = connected(home)
            session.data_received(HELLO)
            home.clock.time_s = 60.0
            session.data_received(b"NO")
            home.clock.time_s = 99.0
            session.data_received(b"O")
            session._look_for_idleness()
            assert session.task is None
            home.clock.time_s = 100.0
            session._look_for_idleness()
            await parted(session)
            assert final(tap) == [b"220", b"250", b"421"]
            session.connection_lost(None)

    run(story())


def test_a_mail_that_is_being_kept_when_the_server_stops_gets_its_answer() -> None:
    async def story() -> None:
        kept = asyncio.Event()

        async def commit() -> None:
            await kept.wait()

        async with house(commit=commit) as home:
            session, tap = connected(home)
            session.data_received(HELLO + MAIL)
            stopping = asyncio.ensure_future(home.server.stop(5.0))
            await until(lambda: session.task is not None)
            assert not final(tap)[5:]
            kept.set()
            await parted(session)
            assert final(tap)[5:] == [b"250", b"421"]
            session.connection_lost(None)
            await stopping

    run(story())


@pytest.mark.parametrize("what", ["mail", "end"])
def test_a_mistake_of_ours_ends_the_session_and_is_logged(
    what: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*given: Any) -> Callable[[], None]:
        raise RuntimeError("a bug")

    async def story() -> None:
        async with house() as home:
            session, tap = connected(home)
            monkeypatch.setattr(home.provider.quick, what, fails)
            session.data_received(HELLO + MAIL)
            await parted(session)
            assert final(tap)[-1] == b"421"
            assert tap.closed
            session.connection_lost(None)

    run(story())
    assert "a bug" in caplog.text
