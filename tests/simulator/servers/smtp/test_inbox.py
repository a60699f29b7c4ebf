"""Lines of what a sender sent, whole and too long ones, and a socket that is not read while nobody listens."""

from __future__ import annotations

import asyncio

from simulator.clock import SystemClock
from simulator.servers.smtp.inbox import INBOX_LIMIT_BYTES, Inbox, Trouble


class Tap(asyncio.Transport):
    """Remembers whether it is read from."""

    reading = True

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


def test_lines_come_out_one_by_one_however_they_came_in() -> None:
    async def story() -> None:
        inbox = Inbox(Tap(), SystemClock())
        inbox.feed(b"one\r\ntwo\nthr")
        assert [await inbox.line(9), await inbox.line(9)] == [b"one\r\n", b"two\n"]
        inbox.feed(b"ee\r\n")
        assert await inbox.line(9) == b"three\r\n"

    asyncio.run(story())


def test_a_line_that_is_too_long_is_read_to_its_end_and_not_kept() -> None:
    async def story() -> None:
        inbox = Inbox(Tap(), SystemClock())
        waiting = asyncio.ensure_future(inbox.line(10))
        for _ in range(50):
            inbox.feed(b"x" * 10_000)
            await asyncio.sleep(0)
            assert len(inbox.data) <= 10_000
        inbox.feed(b"\r\nnext\r\n")
        assert await waiting is Trouble.TOO_LONG
        assert await inbox.line(10) == b"next\r\n"

    asyncio.run(story())


def test_a_full_inbox_stops_the_socket_until_somebody_waits_for_more() -> None:
    async def story() -> None:
        tap = Tap()
        inbox = Inbox(tap, SystemClock())
        inbox.feed(b"x" * (INBOX_LIMIT_BYTES + 1))
        assert not tap.reading
        waiting = asyncio.ensure_future(inbox.more())
        await asyncio.sleep(0)
        assert tap.reading
        inbox.feed(b"y")
        assert await waiting

    asyncio.run(story())


def test_a_line_that_is_there_can_be_taken_without_waiting() -> None:
    """What is not there, not whole, or not to be obeyed as it is, is left to whoever waits."""

    async def story() -> None:
        inbox = Inbox(Tap(), SystemClock())
        assert inbox.take_line(9) is None
        inbox.feed(b"one\r\ntoo long for that\r\nrest")
        assert inbox.take_line(9) == b"one\r\n"
        assert inbox.take_line(9) is None
        assert await inbox.line(9) is Trouble.TOO_LONG
        assert inbox.take_line(9) is None
        inbox.feed(b"\r\nnext\r\n")
        assert inbox.take_line(9) == b"rest\r\n"
        inbox.dismiss()
        assert inbox.take_line(9) is None

    asyncio.run(story())
