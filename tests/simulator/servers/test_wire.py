"""The wire carries answers out: what is said, what is not, how the line ends, and how much of it is claimed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from datetime import UTC, datetime

import pytest

from simulator.dialects.script import Script as Played
from simulator.provider.answer import (
    Accepted,
    Alert,
    Answer,
    Dressed,
    Garble,
    Hang,
    HangUp,
    Hold,
    Reply,
    Reset,
    Slow,
    TellFirst,
    TlsAlert,
    Truncate,
    Words,
)
from simulator.provider.dress import Dress, Dripped
from simulator.provider.ledger import Attempt, AttemptState, Sent
from simulator.servers.alarms import Alarms
from simulator.servers.wire import Holds, Line, Wire

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NO = Reply(code=451)
DEADLINE_S = 10.0


class StillClock:
    """A clock on which waiting takes no time and is written down."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


class Script:
    """A voice that writes down what it was told to say, and says it if there is a line."""

    def __init__(self, line: Line | None = None) -> None:
        self.said: list[object] = []
        self._line = line

    async def speak(self, words: Words) -> None:
        self.said.append(words)
        if self._line is not None:
            self._line.transport.write(b"whole\r\n")

    async def speak_in_part(self, words: Words | None) -> None:
        self.said.append(("part", words))
        if self._line is not None:
            self._line.transport.write(b"wh")

    async def babble(self, code: int) -> None:
        self.said.append(("babble", code))
        if self._line is not None:
            self._line.transport.write(b"\xff\r\n")

    def script(self, dress: Dress, words: Words | None) -> Played:
        self.said.append((dress, words))
        return Played(
            pieces=(b"a", b"b", b"c"), pause_s=2.0, whole=isinstance(dress, Dripped) and dress.size_bytes == 1
        )

    def played(self) -> None:
        self.said.append("played")


class Peer(asyncio.Protocol):
    """Our side of a real connection: tells the line what happens, like a server's protocol."""

    def __init__(self) -> None:
        self.heard = bytearray()
        self.deaf = False
        self.made: asyncio.Future[Line] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.line = Line(transport, turn_deaf=self._turn_deaf)
        self.made.set_result(self.line)

    def _turn_deaf(self) -> None:
        self.deaf = True

    def data_received(self, data: bytes) -> None:
        if not self.deaf:
            self.heard += data

    def eof_received(self) -> bool:
        self.line.ended()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.line.lost()


def attempt() -> Attempt:
    return Attempt(
        id="att_1", number=1, account="default", dialect="smtp", connection="c1", peer="p", opened_at=NOW
    )


def on_a_line(
    story: Callable[[Wire, Line, Script, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    clock: StillClock | None = None,
    holds: Holds | None = None,
    moved: Callable[[], None] = lambda: None,
) -> None:
    """Run a story on a real connection between a line of ours and a client."""

    async def run() -> None:
        peer = Peer()
        server = await asyncio.get_running_loop().create_server(lambda: peer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            line = await peer.made
            wire = Wire(Alarms(clock or StillClock()), holds or Holds(), moved)
            async with asyncio.timeout(DEADLINE_S):
                await story(wire, line, Script(line), reader, writer)
        finally:
            writer.close()
            peer.line.transport.abort()
            try:
                await writer.wait_closed()
            except ConnectionError:
                pass  # The story was about a broken line.
            server.close()
            await server.wait_closed()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("answer", "said", "sent", "heard"),
    [
        pytest.param(NO, [NO], Sent.COMPLETE, b"whole\r\n", id="words"),
        pytest.param(Garble(code=200), [("babble", 200)], Sent.PARTIAL, b"\xff\r\n", id="garble"),
        pytest.param(Slow(delay_s=5.0, then=NO), [NO], Sent.COMPLETE, b"whole\r\n", id="slow"),
    ],
)
def test_what_is_said_leaves_the_line_open(
    answer: Answer, said: list[object], sent: Sent, heard: bytes
) -> None:
    async def story(
        wire: Wire, line: Line, voice: Script, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        assert sent is await wire.deliver(answer, attempt(), voice, line)
        assert said == voice.said
        assert heard == await reader.readexactly(len(heard))
        assert not line.is_gone()

    on_a_line(story)


def test_truncate_says_a_part_and_closes() -> None:
    async def story(
        wire: Wire, line: Line, voice: Script, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        assert Sent.PARTIAL is await wire.deliver(Truncate(then=NO), attempt(), voice, line)
        assert voice.said == [("part", NO)]
        assert await reader.read() == b"wh"
        assert line.is_gone()

    on_a_line(story)


def test_hang_up_is_a_fin_even_if_the_sender_still_talks() -> None:
    """A kernel answers close with unread input by RST; the line waits for the sender instead."""

    async def story(
        wire: Wire, line: Line, voice: Script, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        assert Sent.NOTHING is await wire.deliver(HangUp(), attempt(), voice, line)
        writer.write(b"x" * 1_000_000)
        await writer.drain()
        assert await reader.read() == b""
        assert line.is_gone()
        writer.close()
        await line.gone()

    on_a_line(story)


def test_a_line_that_cannot_turn_deaf_is_simply_closed() -> None:
    """Protocols that go on with what comes in (HTTP) must not be left to it."""

    async def story(
        wire: Wire, line: Line, voice: Script, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        plain = Line(line.transport)
        plain.hang_up()
        assert line.transport.is_closing()
        assert await reader.read() == b""
        await line.gone()

    on_a_line(story)


@pytest.mark.parametrize("whole", [True, False])
def test_a_script_is_played_piece_by_piece(whole: bool) -> None:
    """A pause before each piece but the first; what is no whole answer ends the line."""
    clock = StillClock()
    drip = Dripped(pause_s=2.0, size_bytes=1 if whole else 2)

    async def story(
        wire: Wire, line: Line, voice: Script, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        sent = await wire.deliver(Dressed(dress=drip, then=NO), attempt(), voice, line)

        assert await reader.readexactly(3) == b"abc"
        assert clock.slept == [2.0, 2.0]
        assert voice.said == [(drip, NO), *(["played"] if whole else [])]
        assert sent is (Sent.COMPLETE if whole else Sent.PARTIAL)
        assert line.is_gone() is not whole
        if not whole:
            assert await reader.read() == b""

    on_a_line(story, clock)


def test_reset_is_a_real_rst() -> None:
    async def story(
        wire: Wire, line: Line, voice: Script, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        assert Sent.NOTHING is await wire.deliver(Reset(), attempt(), voice, line)
        with pytest.raises(ConnectionResetError):
            await reader.read()
        await line.gone()

    on_a_line(story)


def test_an_alert_is_the_last_word() -> None:
    """Its octets, then an orderly end; it is no part of any answer."""

    async def story(
        wire: Wire, line: Line, voice: Script, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        refusal = Alert(alert=TlsAlert.HANDSHAKE_FAILURE)
        assert Sent.NOTHING is await wire.deliver(refusal, attempt(), voice, line)
        assert await reader.read() == b"\x15\x03\x03\x00\x02\x02\x28"
        assert Sent.NOTHING is await wire.deliver(refusal, attempt(), voice, line)

    on_a_line(story)


def test_a_hang_without_end_lasts_until_the_sender_leaves() -> None:
    async def story(
        wire: Wire, line: Line, voice: Script, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        hanging = asyncio.ensure_future(wire.deliver(Hang(), attempt(), voice, line))
        writer.write(b"hello?\r\n")
        await writer.drain()
        assert not hanging.done()
        writer.write_eof()
        assert Sent.NOTHING is await hanging
        assert voice.said == []

    on_a_line(story)


def test_a_hang_with_an_end_closes_the_line_then() -> None:
    clock = StillClock()

    async def story(
        wire: Wire, line: Line, voice: Script, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        assert Sent.NOTHING is await wire.deliver(Hang(for_s=7.0), attempt(), voice, line)
        assert await reader.read() == b""

    on_a_line(story, clock)
    assert clock.slept == [7.0]


def test_nothing_is_claimed_for_a_line_that_is_gone() -> None:
    async def story(
        wire: Wire, line: Line, voice: Script, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        line.reset()
        await line.gone()
        for answer in (NO, Garble(), Truncate(then=NO)):
            assert Sent.NOTHING is await wire.deliver(answer, attempt(), voice, line)
        assert voice.said == []

    on_a_line(story)


def test_words_for_a_sender_that_half_closed_are_of_unknown_fate() -> None:
    async def story(
        wire: Wire, line: Line, voice: Script, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write_eof()
        await line.gone()
        assert Sent.UNKNOWN is await wire.deliver(NO, attempt(), voice, line)
        assert await reader.readline() == b"whole\r\n"

    on_a_line(story)


def test_slow_goes_on_with_what_comes_then() -> None:
    """Waits are spent in order; None is left where nothing else was said than to wait."""
    clock = StillClock()
    wire = Wire(Alarms(clock), Holds(), lambda: None)

    rest = asyncio.run(wire.wait_out(Slow(delay_s=1.0, then=Slow(delay_s=2.0, then=NO)), attempt()))
    nothing = asyncio.run(wire.wait_out(Slow(delay_s=3.0), attempt()))

    assert (rest, nothing) == (NO, None)
    assert clock.slept == [1.0, 2.0, 3.0]


def test_a_held_answer_waits_for_its_release_and_is_seen_waiting() -> None:
    states: list[AttemptState] = []
    held = attempt()
    yes = Accepted(id="msg_1", message_id=None, recipients=("a@x",))

    async def story() -> Answer | None:
        holds = Holds()
        seen = asyncio.Event()

        def moved() -> None:
            states.append(held.state)
            seen.set()

        wire = Wire(Alarms(StillClock()), holds, moved)
        waiting = asyncio.ensure_future(wire.wait_out(Hold(then=yes), held))
        await seen.wait()
        assert holds.release("another account") == 0
        assert not waiting.done()
        assert holds.release("default") == 1
        rest = await waiting
        assert holds.release("default") == 0
        return rest

    assert yes == asyncio.run(story())
    assert states == [AttemptState.HELD, AttemptState.OPEN]


def test_whoever_listens_is_told_how_many_answers_are_held() -> None:
    """When one comes, when one goes by itself, and when all are let go."""
    told: list[tuple[str, int]] = []
    holds = Holds(lambda account: told.append((account, holds.held(account))))

    async def story() -> None:
        waiting = [asyncio.ensure_future(holds.wait("a")) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.gather(waiting[0], return_exceptions=True)
        holds.release("b")
        holds.release("a")
        await asyncio.gather(*waiting[1:])

    asyncio.run(story())
    assert told == [("a", 1), ("a", 2), ("a", 3), ("a", 2), ("a", 0)]


def test_holding_does_not_reopen_an_attempt_that_has_ended() -> None:
    """What is said on a line after the end of its mail is held in the name of that attempt."""
    ended = attempt()
    ended.state = AttemptState.CLOSED

    async def story() -> None:
        holds = Holds()
        seen = asyncio.Event()
        waiting = asyncio.ensure_future(Wire(Alarms(StillClock()), holds, seen.set).wait_out(Hold(), ended))
        await seen.wait()
        assert AttemptState.HELD is ended.state
        holds.release("default")
        await waiting

    asyncio.run(story())
    assert AttemptState.CLOSED is ended.state


def test_a_cancelled_hold_is_not_counted_as_released() -> None:
    async def story() -> None:
        holds = Holds()
        seen = asyncio.Event()
        waiting = asyncio.ensure_future(
            Wire(Alarms(StillClock()), holds, seen.set).wait_out(Hold(), attempt())
        )
        await seen.wait()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert holds.release("default") == 0

    asyncio.run(story())


def test_events_are_told_before_the_answer_if_they_can_be_in_time() -> None:
    """The answer waits until the telling has ended, or its time is up; where nobody tells, not at all."""

    async def scenario(end_s: float | None) -> list[str]:
        seen: list[str] = []
        over = asyncio.Event()

        async def tell(account: str, attempts: Collection[str]) -> None:
            seen.append(f"{account} told of {' and '.join(attempts)}")
            if end_s is None:
                await over.wait()
            seen.append("has told")

        clock = HourClock() if end_s is not None else StillClock()
        wire = Wire(Alarms(clock), Holds(), lambda: None, tell=tell)
        answer = await wire.wait_out(TellFirst(within_s=3, attempts=("att_1", "att_2"), then=NO), attempt())
        assert answer == NO
        assert (
            await Wire(Alarms(clock), Holds(), lambda: None).wait_out(
                TellFirst(within_s=3, attempts=("att_1", "att_2"), then=NO), attempt()
            )
            == NO
        )
        return seen

    assert asyncio.run(scenario(0.0)) == ["default told of att_1 and att_2", "has told"]
    assert asyncio.run(scenario(None)) == ["default told of att_1 and att_2"]


class HourClock(StillClock):
    """A clock on which a wait never ends within a test."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.Event().wait()


# --- whoever does not read --------------------------------------------------------------------------


class Full(asyncio.Transport):
    """A transport with something in it that nobody takes, or not all at once."""

    def __init__(self, *sizes: int) -> None:
        super().__init__()
        self._sizes = list(sizes)
        self.aborted = asyncio.Event()
        self._closing = False

    def get_write_buffer_size(self) -> int:
        return self._sizes.pop(0) if len(self._sizes) > 1 else self._sizes[0]

    def close(self) -> None:
        self._closing = True

    def is_closing(self) -> bool:
        return self._closing

    def abort(self) -> None:
        self.aborted.set()

    @property
    def looks(self) -> int:
        """How many looks are still to come before it stays as it is."""
        return len(self._sizes) - 1


def unread(story: Callable[[], Awaitable[None]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulator.servers.wire.UNREAD_S", 0.01)

    async def timed() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await story()

    asyncio.run(timed())


def test_who_takes_nothing_is_seen_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as something is taken, the time begins anew."""

    async def story() -> None:
        transport = Full(100, 70, 70, 40, 40, 40)
        Line(transport).clogged()
        await transport.aborted.wait()
        assert transport.looks == 0

    unread(story, monkeypatch)


@pytest.mark.parametrize("how", ["close", "hang up", "linger"])
def test_a_line_that_is_closed_does_not_wait_for_ever_either(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing waits until what was said is out, which may be never."""
    monkeypatch.setattr("simulator.servers.wire.LINGER_S", 0.01)

    async def story() -> None:
        transport = Full(10)
        line = Line(transport, turn_deaf=(lambda: None) if how == "linger" else None)
        if how == "linger":
            monkeypatch.setattr(transport, "can_write_eof", lambda: True)
            monkeypatch.setattr(transport, "write_eof", lambda: None)
        (line.close if how == "close" else line.hang_up)()
        await transport.aborted.wait()
        assert transport.is_closing()

    unread(story, monkeypatch)


@pytest.mark.parametrize("how", ["it took it", "it is gone", "it took it while we closed"])
def test_who_has_taken_it_is_left_alone(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        transport = Full(10, 0)
        line = Line(transport)
        looked = asyncio.Event()
        sees_out = line._see_out

        def see_out() -> None:
            sees_out()
            looked.set()

        monkeypatch.setattr(line, "_see_out", see_out)
        line.clogged()
        if how == "it took it":
            line.freed()
        elif how == "it is gone":
            line.lost()
        else:
            line.close()
            line.freed()
            await looked.wait()
        assert not transport.aborted.is_set()
        assert line._watch is None or line._watch.cancelled()

    unread(story, monkeypatch)


def test_without_a_limit_nobody_is_seen_out() -> None:
    async def story() -> None:
        line = Line(Full(10))
        line.unread_s = None
        line.clogged()
        assert line._watch is None

    asyncio.run(story())
