"""Answers as SMTP reply lines, byte by byte."""

from __future__ import annotations

import re

import pytest

from simulator.dialects.smtp import GARBLED, REASONS, USUAL, cut, lines, part_of, reply, without_enhanced
from simulator.provider.answer import (
    Accepted,
    Piece,
    Reason,
    Refused,
    Reply,
    RetryAfter,
    RetryAfterKind,
    Words,
)
from tests.simulator.provider.mails import NOW

SECONDS = RetryAfter(kind=RetryAfterKind.SECONDS, seconds=30)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (Accepted(id="msg_1", message_id=None, recipients=("a@x",)), b"250 2.0.0 OK: queued as msg_1\r\n"),
        (Refused(reason=Reason.TOO_LARGE, detail="too much"), b"552 5.3.4 too much\r\n"),
        (Refused(reason=Reason.TOO_MANY_RECIPIENTS, detail="two"), b"452 4.5.3 two\r\n"),
        (
            Refused(reason=Reason.RATE_LIMITED, detail="too fast", retry_after=SECONDS),
            b"451 4.7.0 too fast; try again in 30 seconds\r\n",
        ),
        (Reply(code=451), b"451 4.3.0 local error in processing, try again later\r\n"),
        (Reply(code=421), b"421 4.3.2 service not available, closing the connection\r\n"),
        (Reply(code=354), b"354 end data with <CR><LF>.<CR><LF>\r\n"),
        (Reply(code=599), b"599 5.0.0 refused for good\r\n"),
        (Reply(code=451, enhanced="4.7.1"), b"451 4.7.1 local error in processing, try again later\r\n"),
        # A rule's own words go out as they were written, with no enhanced code it did not name.
        (Reply(code=451, text="greylisted"), b"451 greylisted\r\n"),
        (Reply(code=550, enhanced="4.1.1", text="odd"), b"550 4.1.1 odd\r\n"),
        (Reply(code=451, text="später"), "451 später\r\n".encode()),
        (Reply(code=451, text=""), b"451 \r\n"),
        (
            Reply(code=451, enhanced="4.3.0", text="a\nb\r\nc"),
            b"451-4.3.0 a\r\n451-4.3.0 b\r\n451 4.3.0 c\r\n",
        ),
        (Reply(code=451, text="busy", retry_after=SECONDS), b"451 busy; try again in 30 seconds\r\n"),
        (Reply(code=451, text="", retry_after=SECONDS), b"451 try again in 30 seconds\r\n"),
        (
            Reply(code=451, text="busy", retry_after=RetryAfter(kind=RetryAfterKind.DATE, seconds=30)),
            b"451 busy; try again after Tue, 01 Jan 2030 00:00:30 GMT\r\n",
        ),
        (
            Reply(code=451, text="busy", retry_after=RetryAfter(kind=RetryAfterKind.ZERO)),
            b"451 busy; try again in 0 seconds\r\n",
        ),
        (
            Reply(code=451, text="busy", retry_after=RetryAfter(kind=RetryAfterKind.GARBAGE)),
            b"451 busy; try again soon, perhaps\r\n",
        ),
    ],
    ids=str,
)
def test_words_become_reply_lines(words: Words, said: bytes) -> None:
    assert reply(words, NOW) == said


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_a_code_that_agrees_with_itself(reason: Reason) -> None:
    code, enhanced = REASONS[reason]

    assert 400 <= code <= 599
    assert enhanced.startswith(f"{code // 100}.")


@pytest.mark.parametrize("code", USUAL)
def test_the_usual_enhanced_code_agrees_with_its_code(code: int) -> None:
    enhanced, _ = USUAL[code]

    assert enhanced is None or enhanced.startswith(f"{code // 100}.")


@pytest.mark.parametrize("code", range(200, 600))
def test_every_code_has_words(code: int) -> None:
    assert re.fullmatch(rb"%d [^\r\n]*\r\n" % code, reply(Reply(code=code), NOW))


def test_a_garbled_reply_is_a_line_but_no_reply() -> None:
    assert GARBLED.endswith(b"\r\n")
    assert not re.match(rb"[0-9]{3}", GARBLED)
    with pytest.raises(UnicodeDecodeError):
        GARBLED.decode("utf-8")


def test_a_part_of_a_reply_holds_no_code() -> None:
    """A client that takes an unfinished line for a whole one must not read a yes."""
    assert part_of(lines(250, "2.0.0", "OK")) == b"25"


def test_a_reply_is_cut_into_what_it_consists_of() -> None:
    whole = b"250-mx\r\n250 OK\r\n"

    assert cut(whole, Piece.REPLY) == [whole]
    assert cut(whole, Piece.LINE) == [b"250-mx\r\n", b"250 OK\r\n"]
    assert cut(whole, Piece.OCTET) == [bytes([each]) for each in whole]


def test_enhanced_codes_can_be_left_out() -> None:
    assert without_enhanced(b"250-2.1.0 a\r\n250 2.1.0 b 2.1.0\r\n") == b"250-a\r\n250 b 2.1.0\r\n"
    assert without_enhanced(b"354 go on\r\n") == b"354 go on\r\n"
