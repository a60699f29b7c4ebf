"""What an SMTP server says is read exactly, and a broken line has a name."""

from __future__ import annotations

import pytest
from aiosmtplib.errors import SMTPException, SMTPServerDisconnected

from reference_sender.policy.evidence import Evidence, Phase, Wire
from reference_sender.transports.smtp_replies import (
    Garbled,
    NotOffered,
    evidence_of,
    hung_up_while_idle,
    reply_octets,
    trouble_of,
)


def test_a_reply_is_its_code_its_words_and_the_name_in_them() -> None:
    seen = evidence_of(b"250-2.0.0 Ok\r\n250 2.0.0 queued as <4Xy>\r\n", Phase.SENT)
    assert (seen.code, seen.enhanced, seen.provider_id) == (250, "2.0.0", "4Xy")
    assert seen.answer == "2.0.0 Ok\n2.0.0 queued as <4Xy>"
    assert evidence_of(b"250 fine\r\n", Phase.SENT).provider_id == "fine"


@pytest.mark.parametrize(
    "heard", [b"", b"25 ok\r\n", b"250OK\r\n", b"250 ok", b"250-a\r\n251 b\r\n", b"150 x\r\n"]
)
def test_what_is_no_reply_is_garbled(heard: bytes) -> None:
    with pytest.raises(Garbled):
        evidence_of(heard, Phase.SENT)


def test_only_the_first_reply_is_read() -> None:
    assert reply_octets(b"250-a\r\n250 b\r\n421 bye\r\n") == 14
    assert reply_octets(b"250-a\r\n") == 0


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (TimeoutError(), "timeout"),
        (Garbled("x"), "garbled"),
        (NotOffered("x"), "not offered"),
        (ConnectionRefusedError(), "no connection"),
        (ConnectionResetError(), "reset"),
        (BrokenPipeError(), "reset"),
        (SMTPServerDisconnected("x"), "eof"),
        (OSError(), "OSError"),
    ],
)
def test_a_broken_line_has_a_name(error: Exception, name: str) -> None:
    assert trouble_of(error) == name


def test_a_reset_behind_another_exception_is_a_reset() -> None:
    hidden = SMTPException("gone")
    hidden.__cause__ = ConnectionResetError()
    assert trouble_of(hidden) == "reset"


@pytest.mark.parametrize(
    ("phase", "code", "trouble", "idle"),
    [
        (Phase.MAIL, 421, None, True),
        (Phase.MAIL, None, "eof", True),
        (Phase.MAIL, None, "timeout", False),
        (Phase.MAIL, 451, None, False),
        (Phase.RCPT, 421, None, False),
    ],
)
def test_only_before_the_first_word_of_a_mail_it_was_idle(
    phase: Phase, code: int | None, trouble: str | None, idle: bool
) -> None:
    seen = Evidence(wire=Wire.SMTP, phase=phase, code=code, trouble=trouble)
    assert hung_up_while_idle(seen) is idle
