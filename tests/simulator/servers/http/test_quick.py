"""The short way and the long way of the same requests: the same answers, ledger and decisions, to the byte.

Both run without sockets, on transports that remember what is written, by a clock that stands still.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.config import read_plan
from simulator.driven import Waiter
from simulator.provider.ledger import Tried
from simulator.provider.provider import Provider, Record
from simulator.servers.alarms import Alarms
from simulator.servers.http.api import NativeApi
from simulator.servers.http.server import HttpServer
from simulator.servers.wire import Holds, Wire
from simulator.store import StoreError
from simulator.store.committer import Committer
from simulator.store.memory import MemoryStore
from tests.simulator.servers.smtp.tap import Tap

NOW = datetime(2030, 1, 1, tzinfo=UTC)


class Clock:
    """Time stands still."""

    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


class Line(Tap):
    """Whose other side is known."""

    is_read = True

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 5000) if name in ("peername", "sockname") else default


@dataclass(frozen=True)
class Seen:
    """What is to be seen of a run."""

    heard: tuple[bytes, ...]
    closed: tuple[bool, ...]
    patience_s: tuple[float, ...]
    """How long each connection may idle."""
    ledger: tuple[str, ...]
    attempts: tuple[str, ...]
    bodies: tuple[bytes, ...]
    decisions: tuple[str, ...]
    occasions: tuple[tuple[str, int], ...]
    short: int
    """How many went the short way."""


def play(
    plan: dict[str, Any],
    pieces: Sequence[tuple[int, bytes]],
    *,
    short: bool,
    broken: bool = False,
    later: dict[str, Any] | None = None,
) -> Seen:
    """Let connections send pieces, each after what came before was answered; return what is to be seen.

    `later`: the plan from the third piece on.
    """

    async def story() -> Seen:
        clock = Clock()
        provider = Provider(seed=7, setup=read_plan(plan, "the test"), now=NOW)
        provider.quick.is_open = short
        kept: list[Record] = []
        store = MemoryStore()
        if broken:

            def fail(records: Sequence[Record]) -> None:
                raise StoreError("the disk is full")

            store.append = fail  # type: ignore[method-assign] # that is the trouble
        committer = Committer(provider.records, store, kept.extend)
        taken = 0
        hand_in = provider.quick.hand_in

        def counted(*given: Any) -> Any:
            nonlocal taken
            found = hand_in(*given)
            taken += found is not None
            return found

        provider.quick.hand_in = counted  # type: ignore[method-assign, assignment] # it is only counted
        native = NativeApi(
            provider,
            Wire(Alarms(clock), Holds(), lambda: None),
            committer.commit,
            committer.soon,
            clock,
            trouble_with_ledger=lambda: committer.trouble,
            tell_when_kept=committer.tell,
        )
        server = HttpServer(native.app, native, clock, quick=native.quick)
        lines, visitors = [], []
        for _ in range(2):
            visitor, line = server._visitor(), Line()
            visitor.connection_made(line)
            lines.append(line)
            visitors.append(visitor)
        for at, (number, piece) in enumerate(pieces):
            if at == 2 and later is not None:
                provider.set_up("default", read_plan(later, "the test"), NOW)
            if not lines[number].closed:
                visitors[number].data_received(piece)
            for _ in range(40):
                await asyncio.sleep(0)
        for visitor in visitors:
            visitor.connection_lost(None)
        for _ in range(40):
            await asyncio.sleep(0)
        if not broken:
            await committer.close()
        elif committer._timer is not None:
            committer._timer.cancel()
        accounts = sorted(provider.accounts.items())
        last = {each.attempt.id: each.attempt for each in kept if isinstance(each, Tried)}
        return Seen(
            heard=tuple(bytes(line.written) for line in lines),
            closed=tuple(line.closed for line in lines),
            patience_s=tuple(visitor.timeout_keep_alive for visitor in visitors),
            ledger=tuple(line for _, account in accounts for line in account.ledger.dump()),
            attempts=(
                *(repr(each) for _, account in accounts for each in account.attempts.values()),
                *(repr(each) for each in last.values()),
            ),
            bodies=tuple(
                store.body(name, each.id) or b""
                for name, account in accounts
                for each in account.ledger.acceptances
            ),
            decisions=tuple(repr(each) for _, account in accounts for each in account.decisions),
            occasions=tuple(item for _, account in accounts for item in account.occasions._mails.items()),
            short=taken,
        )

    return asyncio.run(story())


def same(plan: dict[str, Any], pieces: Sequence[tuple[int, bytes]], **more: Any) -> Seen:
    """Hold that both ways are to be seen alike; return what is to be seen of the short one."""
    short, long = (play(plan, pieces, short=way, **more) for way in (True, False))
    assert long.short == 0
    for name in ("heard", "closed", "patience_s", "ledger", "attempts", "bodies", "decisions", "occasions"):
        assert getattr(short, name) == getattr(long, name), name
    return short


def request(body: bytes, *headers: tuple[str, str], path: str = "/v1/emails", method: str = "POST") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: x", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode("latin-1") + body


MAIL = {"from": "shop@example.org", "to": ["ada@example.com"], "subject": "Hi", "text": "Hello"}

_ADDRESSES = st.sampled_from(
    [
        "ada@example.com",
        "Bob <bob@example.com>",
        "bounce@magic.test",
        "429@magic.test",
        "lost@x.example",
        "no address",
    ]
)
_MAILS = st.fixed_dictionaries(
    {
        "from": st.sampled_from(["shop@example.org", "Shop <shop@example.org>", "x@shop-1.example.net"]),
        "to": st.lists(_ADDRESSES, min_size=1, max_size=2),
        "text": st.sampled_from(["Hello", "Grüße"]),
    },
    optional={
        "subject": st.sampled_from(["Hi", "Grüße", 'a "b"']),
        "headers": st.just({"X-Obligation": "order-1"}),
        "nonsense": st.just(1),
    },
)
_BODIES = _MAILS.map(lambda mail: json.dumps(mail).encode()) | st.sampled_from([b"", b"{", b"[]"])
_HEADERS = st.lists(
    st.sampled_from(
        [
            ("Idempotency-Key", "k-1"),
            ("Idempotency-Key", '"k-2"'),
            ("Idempotency-Key", ""),
            ("X-Dedupe-Key", "k-3"),
            ("Authorization", "Bearer shop"),
            ("Authorization", "Basic eA=="),
            ("Connection", "close"),
            ("Proxy-Connection", "close"),
            ("Host", "y"),
            ("Expect", "100-continue"),
            ("Content-Encoding", "gzip"),
        ]
    ),
    max_size=3,
)
_PATHS = st.sampled_from(["/v1/emails", "/v1/emails", "/send", "/v1/emails?x=1", "/nowhere"])
_REQUESTS = st.builds(
    lambda body, headers, path: request(body, *headers, path=path), _BODIES, _HEADERS, _PATHS
) | st.builds(
    lambda key: request(json.dumps(MAIL).encode(), ("Idempotency-Key", key)), st.sampled_from(["a", "b", "c"])
)
_PLANS = st.sampled_from(
    [
        {},
        {},
        {"rules": [{"fault": "reply", "code": 503, "recipient": "bob@example.com", "first": 1}]},
        {"rules": [{"fault": "slow", "delay_s": 1, "sender": "*@shop-1.example.net"}]},
        {"rules": [{"fault": "hang_up", "stage": "reply", "key": "a", "every": 2}]},
        {"rules": [{"fault": "reply", "code": 500, "stage": "accept", "attempt": 2, "per": "mail"}]},
        {"rules": [{"fault": "reply", "code": 429, "probability": 0.5}]},
        {"idempotency": {"required": True}},
        {"limits": {"per_minute": 2}},
        {"limits": {"max_recipients": 1}},
        {"magic": {"on": False}},
        {"http": {"keep_alive_s": 7}},
    ]
)


@st.composite
def _pieces(draw: st.DrawFn) -> list[tuple[int, bytes]]:
    """Requests of two connections: some whole, some in pieces, some pipelined."""
    found: list[tuple[int, bytes]] = []
    for data in draw(st.lists(_REQUESTS, min_size=1, max_size=6)):
        number = draw(st.integers(0, 1))
        how = draw(st.sampled_from(["whole", "whole", "whole", "cut", "twice"]))
        if how == "cut":
            at = draw(st.integers(1, len(data) - 1))
            found += [(number, data[:at]), (number, data[at:])]
        else:
            found.append((number, data * (2 if how == "twice" else 1)))
    return found


@settings(max_examples=60, deadline=None)
@given(plan=_PLANS, pieces=_pieces(), later=st.none() | _PLANS)
def test_both_ways_are_the_same_to_everybody(
    plan: dict[str, Any], pieces: list[tuple[int, bytes]], later: dict[str, Any] | None
) -> None:
    same(plan, pieces, later=later)


def test_who_ends_the_connection_in_the_old_way_has_it_ended() -> None:
    """`Proxy-Connection: close` is nobody's standard, but the parser goes by it."""
    seen = same({}, [(0, request(json.dumps(MAIL).encode(), ("Proxy-Connection", "close")))])

    assert seen.closed[0]


def test_a_plain_mail_goes_the_short_way_whatever_rules_there_are_for_others() -> None:
    rules = [{"fault": "reply", "code": 503, "recipient": f"customer-{n}@example.net"} for n in range(100)]
    body = json.dumps(MAIL).encode()
    pieces = [(n % 2, request(body, ("Idempotency-Key", f"k-{n}"))) for n in range(6)]
    seen = same({"rules": rules}, pieces)
    assert seen.short == 6
    assert all(line.count(b"HTTP/1.1 200 OK") == 3 for line in seen.heard)


def test_what_comes_before_its_turn_waits_for_it() -> None:
    """Pipelined behind a request whose answer is due: in order, and each answered once."""
    body = json.dumps(MAIL).encode()
    first, second = (request(body, ("Idempotency-Key", key)) for key in ("a", "b"))
    seen = same({}, [(0, first), (0, second + first), (0, second[:9]), (0, second[9:])])
    assert seen.heard[0].count(b"HTTP/1.1 200 OK") == 4
    assert seen.heard[0].count(b"idempotency-replayed") == 2


def test_a_line_is_not_read_on_where_there_is_too_much_behind_a_request_that_waits() -> None:
    """Whoever pipelines a large body is held back as elsewhere: memory stays bounded."""

    async def story() -> None:
        clock = Clock()
        provider = Provider(seed=7, now=NOW)
        waiters: list[Waiter[StoreError | None]] = []
        native = NativeApi(
            provider,
            Wire(Alarms(clock), Holds(), lambda: None),
            nothing,
            lambda: None,
            clock,
            trouble_with_ledger=lambda: None,
            tell_when_kept=waiters.append,
        )
        visitor, line = HttpServer(native.app, native, clock, quick=native.quick)._visitor(), Line()
        visitor.connection_made(line)
        visitor.data_received(request(json.dumps(MAIL).encode()))
        assert visitor.waits
        visitor.data_received(request(b"x" * 200_000)[:100_000])
        assert not line.is_read
        (waiter,) = waiters
        waiter.set_result(None)
        assert line.written.startswith(b"HTTP/1.1 200 OK")
        assert visitor.flow.read_paused
        assert not line.is_read
        visitor.connection_lost(None)
        await asyncio.gather(*visitor.tasks, return_exceptions=True)

    asyncio.run(story())


async def nothing() -> None:
    """Everything is durable already."""


def test_nothing_is_said_of_what_could_not_be_kept() -> None:
    seen = same({}, [(0, request(json.dumps(MAIL).encode()))], broken=True)
    assert seen.heard[0] == b""
    assert seen.closed[0]
