"""Sessions nobody would think of: sequences of commands against a machine of few states, and bytes that were damaged.

The server runs without sockets, on a transport that remembers what is written.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.clock import SystemClock
from simulator.provider.ledger import Booked
from simulator.provider.limits import Limits
from simulator.provider.provider import Provider, Setup
from simulator.servers.alarms import Alarms
from simulator.servers.smtp.server import SmtpServer
from simulator.servers.smtp.session import SmtpSession
from simulator.servers.wire import Holds, Wire
from tests.simulator.servers.smtp.bodies import transparent
from tests.simulator.servers.smtp.house import no_commit, telling
from tests.simulator.servers.smtp.machine import RECIPIENT_LIMIT, SIZE_LIMIT, Machine
from tests.simulator.servers.smtp.tap import Tap, parted

_REPLY = re.compile(rb"(?:(\d{3})-[ -~]*\r\n)*(?P<code>[2345]\d\d) (?P<text>[ -~]*)\r\n")
_ENHANCED = re.compile(rb"([245])\.\d{1,3}\.\d{1,3} ")


def play(said: bytes, cuts: list[int], *, short: bool) -> tuple[bytes, list[Booked]]:
    """Say it all, cut into pieces; return what was heard and what was booked."""

    async def story() -> tuple[bytes, list[Booked]]:
        clock = SystemClock()
        limits = Limits(max_size_bytes=SIZE_LIMIT, max_recipients=RECIPIENT_LIMIT)
        provider = Provider(setup=Setup(limits=limits), now=clock.now())
        wire = Wire(Alarms(clock), Holds(), lambda: None)
        server = SmtpServer(
            provider,
            wire,
            no_commit,
            lambda: None,
            clock,
            hostname="mx.example",
            tell_when_kept=telling(no_commit) if short else None,
        )
        session, tap = SmtpSession(server), Tap()
        session.connection_made(tap)
        rest, at = said, 0
        while rest:
            size = cuts[at % len(cuts)] if cuts else len(rest)
            if not tap.closed:
                session.data_received(rest[:size])
            rest, at = rest[size:], at + 1
            await asyncio.sleep(0)
        session.eof_received()
        await parted(session)
        session.connection_lost(None)
        assert server.connections == 0
        return bytes(tap.written), [each for each in provider.records() if isinstance(each, Booked)]

    return asyncio.run(story())


@contextmanager
def no_trace() -> Iterator[None]:
    """Hold that nothing was logged as our own mistake."""
    found: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("simulator")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
    assert found == []


def codes(heard: bytes) -> list[int]:
    """Return the codes of the replies. Every reply must be well-formed, and its enhanced code of its class."""
    found, at = [], 0
    while at < len(heard):
        reply = _REPLY.match(heard, at)
        assert reply is not None, heard[at : at + 80]
        enhanced = _ENHANCED.match(reply["text"])
        assert enhanced is None or enhanced[1] == reply["code"][:1], reply[0]
        found.append(int(reply["code"]))
        at = reply.end()
    return found


# --- sequences of commands --------------------------------------------------------------------------

Said = tuple[bytes, list[int]]

PATHS = ["<a@x.example>", "<>", '<"a b"@x.example>']
BAD_PATHS = ["a@x.example", "<a>", "<a@>", "<a b@x>", "<a@x.example", "<a@x..example>"]
MAILBOXES = ["<a@x.example>", "<b@y.example>", '<"c d"@y.example>', "<e@[192.0.2.1]>"]
PARAMETERS = [
    ("", 250),
    (" SIZE=10 BODY=8BITMIME", 250),
    (" SMTPUTF8", 250),
    (" RET=FULL ENVID=a", 250),
    (" SIZE=401", 552),
    (" SIZE=x", 501),
    (" NO=1", 555),
    ("x", 501),
]
PIECES = [
    b"Subject: x\r\n",
    b"\r\n",
    b".",
    b"..\r\n",
    b".\r\n",
    b"\xff",
    b"text",
    b" ",
    b"QUIT\r\n",
    b"BDAT 9\r\n",
]
DIRT = [b"\n", b"\r", b"\0", b"\n.\n", b"\r\n.\n", b"x" * (SIZE_LIMIT + 1)]
LINES = [
    (b"NOOP\r\n", 250),
    (b"noop x\r\n", 250),
    (b"VRFY a\r\n", 252),
    (b"EXPN a\r\n", 502),
    (b"HELP\r\n", 214),
    (b"STARTTLS\r\n", 502),
    (b"RSET now\r\n", 501),
    (b"WHAT\r\n", 500),
    (b"\r\n", 500),
    (b"\xff\xfe\r\n", 500),
    (b"NOOP\n", 500),
    (b"NOOP \0\r\n", 500),
    (b"NOOP \r\r\n", 500),
    (b"NOOP " + b"x" * 3_000 + b"\r\n", 500),
]
CREDENTIALS = [(b"\0shop\0pw", 235), (b"shop", 501), (b"\0\0pw", 535), (b"a\0b\0c\0d", 501)]


def text(dice: random.Random) -> bytes:
    """Return a message, or a part of one, that is sound more often than not."""
    pieces = [dice.choice(PIECES) for _ in range(dice.randrange(12))]
    if dice.random() < 0.2:
        pieces.insert(dice.randrange(len(pieces) + 1), dice.choice(DIRT))
    return b"".join(pieces)


def whole(raw: bytes) -> bytes:
    """Return mail data that can follow DATA: it ends with CRLF."""
    return raw.rstrip(b"\r\n") + b"\r\n" if raw.strip(b"\r\n") else b""


#: What a sender may do next, and how often it does. What is out of place is answered so.
STEPS: dict[Callable[[Machine, random.Random], Said], int] = {
    lambda it, dice: it.greet(dice.choice(["EHLO", "EHLO", "HELO"]), "c.example", True): 3,
    lambda it, dice: it.greet("EHLO", dice.choice(["", "<c>", "a b", "a..b"]), False): 1,
    lambda it, dice: it.mail(dice.choice(PATHS), *dice.choice(PARAMETERS)): 8,
    lambda it, dice: it.mail(dice.choice(BAD_PATHS), "", 501): 1,
    lambda it, dice: it.rcpt(dice.choice(MAILBOXES), 250): 14,
    lambda it, dice: it.rcpt(dice.choice([*BAD_PATHS, "<>"]), 501): 1,
    lambda it, dice: it.data(whole(text(dice))): 5,
    lambda it, dice: it.bdat(text(dice), dice.random() < 0.5): 5,
    lambda it, dice: it.rset(): 1,
    lambda it, dice: it.auth(*dice.choice(CREDENTIALS)): 2,
    lambda it, dice: it.auth_given_up(): 1,
    lambda it, dice: it.plain(*dice.choice(LINES)): 5,
}


def next_step(it: Machine, dice: random.Random) -> Said:
    """Do what is in place, mostly; else anything."""
    if dice.random() < 0.35:
        (step,) = dice.choices([*STEPS], [*STEPS.values()])
        return step(it, dice)
    if it.hello is None:
        return it.greet(dice.choice(["EHLO", "EHLO", "EHLO", "HELO"]), "c.example", True)
    if it.sender is None:
        if not it.authenticated and dice.random() < 0.3:
            return it.auth_given_up() if dice.random() < 0.3 else it.auth(*dice.choice(CREDENTIALS))
        return it.mail(dice.choice(PATHS), *dice.choice([("", 250), ("", 250), *PARAMETERS]))
    if it.chunks is None and (not it.recipients or dice.random() < 0.6):
        return it.rcpt(dice.choice(MAILBOXES), 250)
    if it.chunks is None and dice.random() < 0.5:
        return it.data(whole(text(dice)))
    return it.bdat(text(dice), dice.random() < 0.5)


CUTS = st.lists(st.integers(1, 200), max_size=4)
#: How often the sessions of this run heard which code, and how many mails were booked.
_seen: Counter[int | str] = Counter()


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), cuts=CUTS, short=st.booleans())
def test_every_session_goes_as_the_machine_says(seed: int, cuts: list[int], short: bool) -> None:
    """The same replies in the same order however the bytes come in, and exactly those mails are booked.

    Hypothesis draws seeds, not steps: left to itself it finds short sessions that never get to a mail.
    """
    dice = random.Random(seed)
    machine, said, expected = Machine(), bytearray(), [220]
    for _ in range(dice.randrange(60)):
        wire, replies = next_step(machine, dice)
        said += wire
        expected += replies
    wire, replies = machine.quit()
    with no_trace():
        heard, booked = play(bytes(said + wire), cuts, short=short)
    assert codes(heard) == expected + replies, bytes(said)
    _seen.update(codes(heard))
    _seen["mails"] += len(booked)
    assert [
        (each.acceptance.sender, each.acceptance.recipients, each.raw) for each in booked
    ] == machine.accepted


def test_the_sessions_came_everywhere() -> None:
    """A run that never hands over a mail, or is never refused one, proves nothing."""
    if not _seen:
        pytest.skip("the sessions were not played in this run")
    wanted: tuple[int | str, ...] = ("mails", 221, 235, 250, 334, 354, 452, 500, 501, 503, 552, 554, 555)
    assert [each for each in wanted if _seen[each] < 3] == []


# --- damaged bytes ----------------------------------------------------------------------------------

MAIL = b"MAIL FROM:<a@x.example>\r\nRCPT TO:<b@y.example>\r\n"
SESSION = (
    b"EHLO c.example\r\nAUTH LOGIN\r\nc2hvcA==\r\ncHc=\r\n"
    + MAIL
    + b"DATA\r\nSubject: x\r\n\r\n..dot\r\ntext\r\n.\r\n"
    + MAIL
    + b"BDAT 14\r\nSubject: one\r\nBDAT 6 LAST\r\n\r\nend\n"
    + MAIL
    + b"BDAT 5 LAST\r\nabc\r\nRSET\r\nNOOP\r\nQUIT\r\n"
)
DAMAGE = st.lists(
    st.tuples(
        st.integers(0, len(SESSION)),
        st.integers(0, 3),
        st.sampled_from(
            [b"", b"\r", b"\n", b"\r\n", b".", b"\0", b" ", b"\xff", b"<", b">", b"BDAT 3\r\n", b"DATA\r\n"]
        ),
    ),
    max_size=6,
)


@settings(max_examples=120, deadline=None)
@given(damage=DAMAGE, cuts=CUTS)
def test_damaged_sessions_get_replies_and_only_what_was_said_is_booked(
    damage: list[tuple[int, int, bytes]], cuts: list[int]
) -> None:
    """However it is damaged: well-formed replies, no trace, as many yeses as mails, and no mail that nobody said."""
    said = SESSION
    for at, take, put in damage:
        said = said[:at] + put + said[at + take :]
    _judge(said, cuts)


@settings(max_examples=100, deadline=None)
@given(
    said=st.lists(
        st.one_of(
            st.binary(max_size=40), st.sampled_from([b"\r\n", MAIL, b"EHLO c\r\n", b"DATA\r\n", b".\r\n"])
        ),
        max_size=20,
    ).map(b"".join),
    cuts=CUTS,
)
def test_noise_gets_replies(said: bytes, cuts: list[int]) -> None:
    _judge(said, cuts)


def _judge(said: bytes, cuts: list[int]) -> None:
    with no_trace():
        # Half of it the short way.
        heard, booked = play(said, cuts, short=len(said) % 2 == 0)
    codes(heard)
    assert heard.count(b": queued as ") == len(booked)
    for each in booked:
        assert len(each.raw) <= SIZE_LIMIT
        assert not re.search(rb"\0|\r(?!\n)|(?<!\r)\n", each.raw)
        assert 0 < len(each.acceptance.recipients) <= RECIPIENT_LIMIT
        assert all(recipient.encode() in said for recipient in each.acceptance.recipients)
        if not each.raw.endswith(b"\r\n") or transparent(each.raw) + b".\r\n" not in said:
            # In chunks, then.
            assert pieces_of(each.raw, said) <= said.upper().count(b"BDAT")


def pieces_of(raw: bytes, said: bytes) -> int:
    """Return into how many pieces `raw` must be cut at least, so that each was said."""
    pieces = 0
    while raw:
        size = next(size for size in range(len(raw), -1, -1) if raw[:size] in said)
        assert size, "an octet that nobody said"
        raw, pieces = raw[size:], pieces + 1
    return pieces
