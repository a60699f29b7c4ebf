"""The short way and the long way of the same sessions: the same replies, ledger and decisions, to the byte.

The long way: sessions are tasks, each command is a coroutine, each stage is asked in full.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.config import read_plan
from simulator.driven import Waiter
from simulator.provider.ledger import Booked, Tried
from simulator.provider.provider import Provider
from simulator.servers.alarms import Alarms
from simulator.servers.smtp.inbox import INBOX_LIMIT_BYTES
from simulator.servers.smtp.server import SmtpServer
from simulator.servers.smtp.session import SmtpSession
from simulator.servers.tls import Tls
from simulator.servers.wire import Holds, Wire
from simulator.store import StoreError
from tests.simulator.servers.smtp.house import house
from tests.simulator.servers.smtp.machine import Machine
from tests.simulator.servers.smtp.tap import Tap, parted
from tests.simulator.servers.smtp.test_fuzz import CUTS, next_step

NOW = datetime(2030, 1, 1, tzinfo=UTC)


class Clock:
    """Time stands still."""

    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


@dataclass(frozen=True)
class Seen:
    """What is to be seen of a session."""

    heard: bytes
    ledger: tuple[str, ...]
    bodies: tuple[bytes, ...]
    attempts: tuple[str, ...]
    decisions: tuple[str, ...]
    occasions: tuple[Any, ...]
    short: int
    """How many mails went the short way."""


async def at_rest(turns: int = 400) -> None:
    """Let both ways come as far as they can, however many turns of the loop each needs."""
    for _ in range(turns):
        await asyncio.sleep(0)


class Line(Tap):
    """Holds back what is said while it is not read."""

    def __init__(self) -> None:
        super().__init__()
        self.is_read = True
        self.said: deque[bytes] = deque()

    def pause_reading(self) -> None:
        assert self.is_read
        self.is_read = False

    def resume_reading(self) -> None:
        assert not self.is_read
        self.is_read = True

    def deliver(self, session: SmtpSession) -> None:
        """Let the session have what it reads, but nothing after the end."""
        while self.said and self.is_read and not self.closed:
            session.data_received(self.said.popleft())


class Ledger:
    """Keeps what was decided, as soon as it is told to."""

    def __init__(self, broken: bool) -> None:
        self.trouble = StoreError("the disk is full") if broken else None
        self.is_open = asyncio.Event()
        self.is_open.set()
        self._telling: set[asyncio.Task[None]] = set()

    async def commit(self) -> None:
        await asyncio.sleep(0)
        await self.is_open.wait()
        if self.trouble is not None:
            raise self.trouble

    def tell_when_kept(self, waiter: Waiter[StoreError | None]) -> None:
        async def tell() -> None:
            await self.is_open.wait()
            waiter.set_result(self.trouble)

        self._telling.add(asyncio.get_running_loop().create_task(tell()))


def lose(session: SmtpSession, tap: Tap) -> None:
    """The other side is gone."""
    tap.close()
    session.connection_lost(None)


def pause(session: SmtpSession) -> None:
    """The other side does not read. No transport says so twice."""
    if session._writable is None:
        session.pause_writing()


#: What happens to a session from outside, by name.
EVENTS: dict[str, Callable[[SmtpSession, Tap, Ledger, Provider], object]] = {
    "hold": lambda session, tap, ledger, provider: ledger.is_open.clear(),
    "keep": lambda session, tap, ledger, provider: ledger.is_open.set(),
    "reset": lambda session, tap, ledger, provider: provider.reset("default", NOW),
    "dismiss": lambda session, tap, ledger, provider: session.dismiss(),
    "idle": lambda session, tap, ledger, provider: session._give_up(),
    "eof": lambda session, tap, ledger, provider: session.eof_received(),
    "lost": lambda session, tap, ledger, provider: lose(session, tap),
    "pause": lambda session, tap, ledger, provider: pause(session),
    "resume": lambda session, tap, ledger, provider: session.resume_writing(),
}


def play(
    plan: dict[str, Any],
    said: bytes,
    cuts: list[int],
    *,
    short: bool,
    broken: bool = False,
    later: dict[str, Any] | None = None,
    events: Mapping[int, str] = MappingProxyType({}),
    room: int = INBOX_LIMIT_BYTES,
) -> Seen:
    """Say it all, cut into pieces; return what is to be seen.

    `later`: the plan from the third piece on. `events`: which of `EVENTS` happens before which piece. `room`: of an
    inbox, until its line is not read any more.
    """

    async def story() -> Seen:
        clock, taken = Clock(), 0
        provider = Provider(seed=7, setup=read_plan(plan, "the test"), now=NOW)
        provider.quick.is_open = provider._steps.short = short
        take = provider.quick.take

        def counted(*given: Any) -> Any:
            nonlocal taken
            found = take(*given)
            taken += found is not None
            return found

        provider.quick.take = counted  # type: ignore[method-assign, assignment] # it is only counted
        ledger = Ledger(broken)
        server = SmtpServer(
            provider,
            Wire(Alarms(clock), Holds(), lambda: None),
            ledger.commit,
            lambda: None,
            clock,
            hostname="mx.example",
            tell_when_kept=ledger.tell_when_kept,
            in_tasks=not short,
        )
        session, tap = SmtpSession(server), Line()
        session.connection_made(tap)
        rest, at, over = said, 0, False
        while rest:
            if at == 2 and later is not None:
                await at_rest()
                provider.set_up("default", read_plan(later, "the test"), NOW)
            if at in events:
                await at_rest(50)
                # A FIN comes behind what was said before.
                if not over and not (tap.said and events[at] == "eof"):
                    EVENTS[events[at]](session, tap, ledger, provider)
                    over = events[at] in ("eof", "lost")
                await at_rest(50)
            size = cuts[at % len(cuts)] if cuts else len(rest)
            if not over:
                tap.said.append(rest[:size])
                tap.deliver(session)
            rest, at = rest[size:], at + 1
            await at_rest(4)
        await at_rest()
        ledger.is_open.set()
        session.resume_writing()
        await at_rest()
        while tap.said and not tap.closed and not over:
            tap.deliver(session)
            await at_rest()
            assert tap.is_read or tap.closed, "who has obeyed everything reads on"
        if not over:
            session.eof_received()
        await parted(session)
        session.connection_lost(None)
        records = provider.records()
        account = provider.accounts["default"]
        last = {each.attempt.id: each.attempt for each in records if isinstance(each, Tried)}
        return Seen(
            heard=bytes(tap.written),
            ledger=tuple(account.ledger.dump()),
            bodies=tuple(each.raw for each in records if isinstance(each, Booked)),
            attempts=(*map(repr, account.attempts.values()), *map(repr, last.values())),
            decisions=tuple(map(repr, account.decisions)),
            occasions=(*account.occasions._mails.items(), *sorted(account.occasions._stages.items())),
            short=taken,
        )

    with patch("simulator.servers.smtp.inbox.INBOX_LIMIT_BYTES", room):
        return asyncio.run(story())


def same(plan: dict[str, Any], said: bytes, cuts: list[int], **more: Any) -> Seen:
    """Hold that both ways are to be seen alike; return what is to be seen of the short one."""
    short, long = (play(plan, said, cuts, short=way, **more) for way in (True, False))
    assert long.short == 0
    for name in ("heard", "ledger", "bodies", "attempts", "decisions", "occasions"):
        assert getattr(short, name) == getattr(long, name), name
    return short


PLANS = [
    {},
    {"rules": [{"fault": "reply", "code": 451, "stage": "rcpt", "recipient": "b@*", "first": 1}]},
    {"rules": [{"fault": "reply", "code": 554, "stage": "message", "every": 2}]},
    {"rules": [{"fault": "slow", "delay_s": 1, "stage": "data", "dialect": "smtp"}]},
    {"rules": [{"fault": "hang_up", "stage": "reply", "first": 1}]},
    {"rules": [{"fault": "reply", "code": 503, "recipient": "b@*", "dialect": "native"}]},
    {"rules": [{"fault": "close_on_next", "skip": 1}]},
    {"limits": {"per_minute": 1}},
    {"limits": {"max_recipients": 1, "max_size_bytes": 60}},
    {"greylist": {"delay_s": 60}},
    {"smtp": {"hide": ["PIPELINING", "ENHANCEDSTATUSCODES"]}},
    {"smtp": {"require_auth": True}},
    {"smtp": {"max_messages": 1, "max_line_bytes": 10}},
    {"smtp": {"hide": ["SIZE", "8BITMIME"], "max_local_part_bytes": 3}},
    {"smtp": {"ehlo": False, "banner": "mail.example at your service"}},
    {"rules": [{"fault": "reply", "code": 554, "stage": "connect"}]},
    {"rules": [{"fault": "garble", "stage": "body"}]},
    {"rules": ["lose answers 50%"]},
    {"rules": ["slow 0.1 s"], "limits": {"per_day": 2}},
]
MAIL = b"MAIL FROM:<a@x.example>\r\nRCPT TO:<b@y.example>\r\nRCPT TO:<c@y.example>\r\nDATA\r\nSubject: x\r\n\r\n..dot\r\n.\r\n"


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    cuts=CUTS,
    plan=st.sampled_from([{}, *PLANS]),
    later=st.none() | st.sampled_from(PLANS),
)
def test_both_ways_are_the_same_to_everybody(
    seed: int, cuts: list[int], plan: dict[str, Any], later: dict[str, Any] | None
) -> None:
    dice = random.Random(seed)
    machine, said = Machine(), bytearray()
    for _ in range(dice.randrange(40)):
        said += (
            next_step(machine, dice)[0]
            if dice.random() < 0.9
            else MAIL.replace(b"b@y.example", b"nobody@magic.test")
        )
    same(plan, bytes(said + machine.quit()[0]), cuts, later=later)


@settings(max_examples=60, deadline=None)
@given(
    mails=st.integers(1, 3),
    cuts=st.lists(st.sampled_from([7, 20, 60, 170, 1000]), max_size=4),
    events=st.dictionaries(st.integers(0, 12), st.sampled_from([*EVENTS]), max_size=5),
    broken=st.booleans(),
    later=st.none() | st.sampled_from([{}, *PLANS]),
    room=st.sampled_from([30, 100, INBOX_LIMIT_BYTES]),
)
def test_whatever_happens_meanwhile_both_ways_are_the_same(
    mails: int, cuts: list[int], events: dict[int, str], broken: bool, later: dict[str, Any] | None, room: int
) -> None:
    """Acceptances that take their time to be kept, resets, stops, ends of every kind, and who does not read."""
    said = b"EHLO c.example\r\n" + mails * MAIL + 10 * b"NOOP\r\n" + b"QUIT\r\n"
    same({}, said, cuts, events=events, broken=broken, later=later, room=room)


@pytest.mark.parametrize("plan", PLANS, ids=repr)
def test_a_plain_session_is_the_same_under_every_plan(plan: dict[str, Any]) -> None:
    same(plan, b"EHLO c.example\r\n" + 3 * MAIL + b"QUIT\r\n", [])


@pytest.mark.parametrize("size", [20, 100, 170, 250])
@pytest.mark.parametrize("plan", PLANS, ids=repr)
def test_a_plan_may_change_in_the_middle_of_everything(plan: dict[str, Any], size: int) -> None:
    same({}, b"EHLO c.example\r\n" + 3 * MAIL + b"QUIT\r\n", [size], later=plan)


def test_magic_addresses_go_the_long_way() -> None:
    seen = same(
        {}, b"EHLO c.example\r\n" + MAIL.replace(b"b@y.example", b"nobody@magic.test") + b"QUIT\r\n", []
    )
    assert b"550 5.1.1" in seen.heard


@pytest.mark.parametrize("cuts", [[], [7], [60]])
def test_a_plain_session_goes_the_short_way(cuts: list[int]) -> None:
    seen = same({}, b"EHLO c.example\r\n" + 3 * MAIL + b"QUIT\r\n", cuts)
    assert seen.heard.count(b": queued as ") == 3
    assert seen.short == 3


@pytest.mark.parametrize("then", ["resume", "lost", "eof", "dismiss", "idle", "reset", "keep"])
@pytest.mark.parametrize("paused", [1, 9])
def test_an_answer_that_the_sender_does_not_read_is_waited_for(paused: int, then: str) -> None:
    """On the short way, too: the mail's attempt ends when its answer is out, and nothing is obeyed before."""
    said = b"EHLO c.example\r\n" + MAIL + 20 * b"NOOP\r\n" + b"QUIT\r\n"
    seen = same(
        {}, said, [20], events={paused - 1: "hold", paused: "pause", paused + 1: "keep", paused + 2: then}
    )
    assert seen.short == (paused > 1)


@pytest.mark.parametrize("room", [30, 100])
def test_who_talks_on_and_does_not_read_is_not_read_either(room: int) -> None:
    """What waits for it is bounded; when it reads again, every command has its reply, also where all of them came whole."""
    said = b"EHLO c12.example\r\n" + 60 * b"NOOP\r\n" + MAIL + b"QUIT\r\n"
    seen = same({}, said, [12], events={3: "pause"}, room=room)
    assert seen.heard.count(b"250 2.0.0 OK\r\n") == 60
    assert seen.heard.endswith(b"221 2.0.0 bye\r\n")


def test_nothing_is_said_of_what_could_not_be_kept() -> None:
    seen = same({}, b"EHLO c.example\r\n" + MAIL, [], broken=True)
    assert seen.heard.endswith(b"354 end data with <CR><LF>.<CR><LF>\r\n")


#: What is said after the greeting, each part with how many replies it has. The first: STARTTLS, and with it TLS.
UNDER_TLS = [
    (b"EHLO c.example\r\nSTARTTLS\r\n", 2),
    (b"NOOP\r\nEHLO c.example\r\n", 2),
    (MAIL, 5),
    (b"AUTH PLAIN AHNob3AAc2VjcmV0\r\n", 1),
    (MAIL + MAIL[:30], 6),
    (MAIL[30:] + b"RSET\r\n" + MAIL[:-20], 9),
    (MAIL[-20:] + b"QUIT\r\n", 2),
]


@pytest.mark.parametrize("piece", [1 << 20, 23])
@pytest.mark.parametrize("begin", ["STARTTLS", "first"])
def test_under_tls_both_ways_are_the_same(tls: Tls, begin: str, piece: int) -> None:
    """And with an account in the middle."""

    async def story(short: bool) -> tuple[bytes, list[Any], list[Any]]:
        async with house(tls=tls, accounts=("shop",), short=short) as home:
            client = await home.client(tls=begin == "first")
            if begin == "first":
                await client.secure(tls)
            heard = await client.reply()
            for said, replies in UNDER_TLS[begin == "first" :]:
                for start in range(0, len(said), piece):
                    await client.say(said[start : start + piece])
                for _ in range(replies):
                    heard += await client.reply()
                if b"STARTTLS" in said:
                    await client.secure(tls)
            heard += await client.rest()
            attempts = [await home.closed(account) for account in ("default", "shop")]
            facts = [[replace(each, peer="") for each in some] for some in attempts]
            return heard, facts, [home.booked(account) for account in ("default", "shop")]

    quick, slow = (asyncio.run(story(short)) for short in (True, False))
    assert quick == slow
    assert [len(some) for some in quick[2]] == [1, 3]
