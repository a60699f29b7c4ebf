"""What an attempt means, as a table: both wires, each phase, each kind of reply and of silence."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_sender.policy.classify import HTTP_PROBLEMS, SMTP_CHANNEL_PHASES, classify, plain
from reference_sender.policy.evidence import (
    Accepted,
    Evidence,
    Phase,
    Refused,
    TryLater,
    Unknown,
    Wire,
)

CHANNEL, MAIL, DOUBT = "later, channel", "later, mail", "later, doubt"
FUTILE = "unknown, and the same bytes will hear the same"
FAST, SLOW_DOWN = "later, channel, too fast", "later, mail, too fast"


def verdict(evidence: Evidence) -> str:
    match classify(evidence):
        case Accepted():
            return "accepted"
        case TryLater(channel=True, throttled=True):
            return FAST
        case TryLater(channel=True):
            return CHANNEL
        case TryLater(throttled=True):
            return SLOW_DOWN
        case TryLater(doubt=True):
            return DOUBT
        case TryLater():
            return MAIL
        case Refused():
            return "refused"
        case Unknown(futile=True):
            return FUTILE
        case Unknown():
            return "unknown"


@pytest.mark.parametrize(
    ("code", "more", "expected"),
    [
        (200, {"provider_id": "m1"}, "accepted"),
        (201, {"provider_id": "m1"}, "accepted"),
        (202, {"provider_id": "m1"}, "accepted"),
        (200, {}, "unknown"),
        (204, {}, "unknown"),
        (200, {"provider_id": "m1", "recipient_code": 550}, "refused"),
        (207, {"provider_id": "m1", "recipient_code": 451}, MAIL),
        (300, {}, CHANNEL),
        (301, {}, CHANNEL),
        (302, {}, CHANNEL),
        (303, {}, "unknown"),
        (304, {}, CHANNEL),
        (307, {}, CHANNEL),
        (308, {}, CHANNEL),
        (399, {}, CHANNEL),
        (400, {}, "refused"),
        (400, {"problem": "key_required"}, CHANNEL),
        # Throttling in the clothes of something else: the provider's own name for it counts, however it is spelled.
        (400, {"problem": "ThrottlingException"}, FAST),
        (400, {"problem": "Throttling"}, FAST),
        (403, {"problem": "rate_limit_exceeded"}, FAST),
        (403, {"problem": "Too-Many-Requests"}, FAST),
        (400, {"problem": "daily_quota_exceeded"}, FAST),
        (422, {"problem": "rate_limited"}, FAST),
        # The account in the clothes of the mail.
        (400, {"problem": "SendingPausedException"}, CHANNEL),
        (400, {"problem": "ACCOUNT_SUSPENDED"}, CHANNEL),
        (400, {"problem": "account_under_validation"}, CHANNEL),
        (400, {"problem": "invalid_request"}, "refused"),
        # The kinds of 409: under way, done, other bytes.
        (409, {"problem": "concurrent_idempotent_requests"}, DOUBT),
        (409, {"problem": "key_done"}, FUTILE),
        (409, {"problem": "key_reused"}, FUTILE),
        (409, {"problem": "invalid_idempotent_request"}, FUTILE),
        # A success is one by its id, whatever else its body says; without one it is nobody's yes or no.
        (200, {"problem": "rate_limited"}, "unknown"),
        (200, {"problem": "key_failed"}, "unknown"),
        (200, {"problem": "rate_limited", "provider_id": "m1"}, "accepted"),
        (401, {}, CHANNEL),
        (402, {}, CHANNEL),
        (403, {}, CHANNEL),
        (404, {}, CHANNEL),
        (405, {}, CHANNEL),
        (406, {}, CHANNEL),
        (407, {}, CHANNEL),
        (408, {}, MAIL),
        (409, {}, DOUBT),
        (410, {}, CHANNEL),
        (411, {}, CHANNEL),
        (413, {}, "refused"),
        (414, {}, CHANNEL),
        (415, {}, "refused"),
        (418, {}, "refused"),
        (422, {}, "refused"),
        (422, {"problem": "key_reused"}, FUTILE),
        (412, {"problem": "key_failed"}, "refused"),
        (420, {}, FAST),
        (426, {}, CHANNEL),
        (428, {}, CHANNEL),
        (429, {}, FAST),
        (499, {}, "refused"),
        (500, {}, "unknown"),
        (502, {}, "unknown"),
        (503, {}, CHANNEL),
        (504, {}, "unknown"),
        (599, {}, "unknown"),
        (100, {}, "unknown"),
        (999, {}, "unknown"),
        (0, {}, "unknown"),
    ],
)
def test_http_codes(code: int, more: dict[str, Any], expected: str) -> None:
    assert expected == verdict(Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=code, **more))


@pytest.mark.parametrize(
    ("phase", "expected"), [(Phase.CONNECT, CHANNEL), (Phase.BODY, MAIL), (Phase.SENT, "unknown")]
)
@pytest.mark.parametrize("trouble", ["timeout", "reset", "eof", "garbled", "truncated", "withdrawn"])
def test_http_without_a_reply_the_phase_decides(phase: Phase, trouble: str, expected: str) -> None:
    assert expected == verdict(Evidence(wire=Wire.HTTP, phase=phase, trouble=trouble))


@pytest.mark.parametrize(
    ("phase", "code", "expected"),
    [
        (Phase.GREETING, 421, CHANNEL),
        (Phase.GREETING, 554, CHANNEL),
        (Phase.EHLO, 502, CHANNEL),
        (Phase.STARTTLS, 454, CHANNEL),
        (Phase.AUTH, 454, CHANNEL),
        (Phase.AUTH, 535, CHANNEL),
        (Phase.MAIL, 421, CHANNEL),
        (Phase.MAIL, 451, MAIL),
        (Phase.MAIL, 530, CHANNEL),
        (Phase.MAIL, 550, "refused"),
        (Phase.MAIL, 552, "refused"),
        (Phase.RCPT, 421, CHANNEL),
        (Phase.RCPT, 450, MAIL),
        (Phase.RCPT, 452, MAIL),
        (Phase.RCPT, 550, "refused"),
        (Phase.RCPT, 552, MAIL),
        (Phase.RCPT, 599, "refused"),
        (Phase.RCPT, 354, MAIL),
        (Phase.DATA, 250, MAIL),
        (Phase.DATA, 451, MAIL),
        (Phase.DATA, 554, "refused"),
        (Phase.BODY, 421, CHANNEL),
        (Phase.BODY, 552, "refused"),
        (Phase.BODY, 250, "unknown"),
        (Phase.SENT, 250, "accepted"),
        (Phase.SENT, 251, "accepted"),
        (Phase.SENT, 299, "accepted"),
        (Phase.SENT, 354, "unknown"),
        (Phase.SENT, 421, CHANNEL),
        (Phase.SENT, 451, MAIL),
        (Phase.SENT, 499, MAIL),
        (Phase.SENT, 550, "refused"),
        (Phase.SENT, 554, "refused"),
    ],
)
def test_smtp_replies(phase: Phase, code: int, expected: str) -> None:
    assert expected == verdict(Evidence(wire=Wire.SMTP, phase=phase, code=code))


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("trouble", ["timeout", "reset", "eof", "garbled"])
def test_smtp_without_a_reply_only_the_last_phase_is_in_doubt(phase: Phase, trouble: str) -> None:
    expected = CHANNEL if phase in SMTP_CHANNEL_PHASES else "unknown" if phase is Phase.SENT else MAIL
    assert expected == verdict(Evidence(wire=Wire.SMTP, phase=phase, trouble=trouble))


def test_the_enhanced_code_never_beats_the_basic_one() -> None:
    assert verdict(Evidence(wire=Wire.SMTP, phase=Phase.SENT, code=450, enhanced="5.1.1")) == MAIL


def test_the_text_never_decides() -> None:
    said = Evidence(wire=Wire.SMTP, phase=Phase.SENT, code=451, answer="250 queued, all is well")
    assert verdict(said) == MAIL


@pytest.mark.parametrize(
    ("phase", "code", "enhanced", "answer", "expected"),
    [
        # What providers say when somebody is too fast, or has had enough for today.
        (Phase.SENT, 550, "5.7.0", "5.7.0 Requested action not taken: too many emails per second", MAIL),
        (Phase.MAIL, 550, "5.4.5", "5.4.5 Daily user sending quota exceeded", MAIL),
        (Phase.DATA, 454, None, "Throttling failure: Maximum sending rate exceeded.", FAST),
        (Phase.RCPT, 452, None, "Too many recipients received this hour (throttled)", SLOW_DOWN),
        (Phase.MAIL, 451, "4.7.0", "4.7.0 too many messages, try again later", SLOW_DOWN),
        (Phase.DATA, 452, "4.5.3", "4.5.3 the quota of mails is used up; try again in 60 seconds", SLOW_DOWN),
        (Phase.MAIL, 450, None, "hourly limit reached", SLOW_DOWN),
        (Phase.MAIL, 421, "4.7.0", "4.7.0 too many messages, closing", CHANNEL),
        (Phase.MAIL, 451, "4.3.2", "4.3.2 system not accepting network messages", CHANNEL),
        (Phase.RCPT, 451, "4.4.5", "4.4.5 congestion", CHANNEL),
        # A mailbox has a quota of its own, and that it is full is a matter of this one mail.
        (Phase.RCPT, 452, "4.2.2", "4.2.2 mailbox quota exceeded", MAIL),
        # The same codes with other words are what they are, and so are these words with other codes.
        (Phase.SENT, 550, "5.7.0", "5.7.0 Message refused by policy", "refused"),
        (Phase.SENT, 550, "5.7.1", "5.7.1 Relaying denied", "refused"),
        (Phase.SENT, 550, "5.7.1", "5.7.1 corporate filter: our helpdesk can be reached at 0800", "refused"),
        (Phase.SENT, 550, "5.7.1", "5.7.1 the sending domain could not be reached", "refused"),
        (Phase.RCPT, 550, "5.1.1", "5.1.1 too many people are called that", "refused"),
        (Phase.SENT, 552, "5.3.4", "5.3.4 Message size exceeds fixed limit", "refused"),
        (Phase.SENT, 550, None, "too many emails per second", "refused"),
        (Phase.SENT, 250, None, "ok, but too many messages are on their way", "accepted"),
    ],
)
def test_too_fast_in_the_words_of_providers(
    phase: Phase, code: int, enhanced: str | None, answer: str, expected: str
) -> None:
    """Words may soften one sort of refusal; they never make one, and never a yes."""
    assert expected == verdict(
        Evidence(wire=Wire.SMTP, phase=phase, code=code, enhanced=enhanced, answer=answer)
    )


@pytest.mark.parametrize(
    ("wire", "phase", "code", "lasting"),
    [
        (Wire.HTTP, Phase.SENT, 401, True),
        (Wire.HTTP, Phase.SENT, 403, True),
        (Wire.HTTP, Phase.SENT, 404, True),
        (Wire.HTTP, Phase.SENT, 302, True),
        (Wire.HTTP, Phase.SENT, 429, False),
        (Wire.HTTP, Phase.SENT, 503, False),
        (Wire.HTTP, Phase.CONNECT, None, False),
        (Wire.SMTP, Phase.AUTH, 535, True),
        (Wire.SMTP, Phase.AUTH, 454, False),
        (Wire.SMTP, Phase.GREETING, 421, False),
        (Wire.SMTP, Phase.GREETING, 554, True),
        (Wire.SMTP, Phase.MAIL, 530, True),
        (Wire.SMTP, Phase.EHLO, None, False),
    ],
)
def test_what_only_a_person_can_mend_is_told_from_what_passes(
    wire: Wire, phase: Phase, code: int | None, lasting: bool
) -> None:
    outcome = classify(Evidence(wire=wire, phase=phase, code=code, trouble=None if code else "refused"))
    assert isinstance(outcome, TryLater)
    assert outcome.channel
    assert outcome.lasting is lasting


def test_error_names_are_looked_up_as_they_are_written_down() -> None:
    """A table whose keys nobody can meet is a table that is not read."""
    assert {plain(name) for name in HTTP_PROBLEMS} == set(HTTP_PROBLEMS)


codes = st.none() | st.integers(0, 999)


@given(
    st.builds(
        Evidence,
        wire=st.sampled_from(Wire),
        phase=st.sampled_from(Phase),
        code=codes,
        provider_id=st.none() | st.just("m1"),
        recipient_code=st.none() | st.sampled_from([450, 550]),
        trouble=st.none() | st.just("timeout"),
    )
)
def test_accepted_needs_a_complete_success_at_the_right_place(evidence: Evidence) -> None:
    outcome = classify(evidence)
    if isinstance(outcome, Accepted):
        assert evidence.code is not None
        assert evidence.code // 100 == 2
        assert evidence.wire is Wire.HTTP or evidence.phase is Phase.SENT
    if evidence.code is None:
        assert (evidence.phase is Phase.SENT) == isinstance(outcome, Unknown)
