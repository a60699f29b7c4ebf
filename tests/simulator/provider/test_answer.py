"""Answers are values: words, and the manner in which they are (not) delivered."""

from __future__ import annotations

from datetime import timedelta, timezone

import pytest

from simulator.provider.answer import (
    Accepted,
    Alert,
    Answer,
    Dressed,
    Garble,
    Hang,
    HangUp,
    Hold,
    InTurn,
    KeepExpecting,
    Reason,
    Refused,
    Reply,
    Reset,
    Results,
    RetryAfter,
    RetryAfterKind,
    Slow,
    TellFirst,
    TlsAlert,
    Truncate,
    goes_on,
    spoken,
    with_words,
    words_of,
)
from simulator.provider.dress import Gzipped
from tests.simulator.provider.mails import NOW, after

YES = Accepted(id="msg_1", message_id="<1@x>", recipients=("a@x",))


@pytest.mark.parametrize(
    ("retry", "text"),
    [
        (RetryAfter(kind=RetryAfterKind.SECONDS, seconds=30), "30"),
        (RetryAfter(kind=RetryAfterKind.SECONDS, seconds=0.5), "0.5"),
        (RetryAfter(kind=RetryAfterKind.SECONDS, seconds=1_000_000), "1000000"),
        (RetryAfter(kind=RetryAfterKind.SECONDS), "0"),
        (RetryAfter(kind=RetryAfterKind.DATE, seconds=30), "Tue, 01 Jan 2030 00:00:30 GMT"),
        (RetryAfter(kind=RetryAfterKind.DATE, seconds=29.5), "Tue, 01 Jan 2030 00:00:30 GMT"),
        (RetryAfter(kind=RetryAfterKind.ZERO), "0"),
        (RetryAfter(kind=RetryAfterKind.GARBAGE), "soon, perhaps"),
    ],
    ids=str,
)
def test_retry_after_has_four_forms(retry: RetryAfter, text: str) -> None:
    assert retry.text(NOW) == text


def test_a_date_is_told_in_gmt_wherever_now_is() -> None:
    retry = RetryAfter(kind=RetryAfterKind.DATE, seconds=1)
    elsewhere = NOW.astimezone(timezone(timedelta(hours=5)))

    assert retry.text(elsewhere) == retry.text(NOW)
    assert retry.text(after(0.25)) == "Tue, 01 Jan 2030 00:00:02 GMT"


@pytest.mark.parametrize(
    ("answer", "filled"),
    [
        (Slow(delay_s=1), Slow(delay_s=1, then=YES)),
        (Slow(delay_s=1, then=Hold()), Slow(delay_s=1, then=Hold(then=YES))),
        (Hold(), Hold(then=YES)),
        (Truncate(), Truncate(then=YES)),
        (Dressed(dress=Gzipped()), Dressed(dress=Gzipped(), then=YES)),
        (KeepExpecting(), KeepExpecting()),
        (Slow(delay_s=1, then=Reply(code=451)), Slow(delay_s=1, then=Reply(code=451))),
        (Hang(), Hang()),
        (Garble(), Garble()),
    ],
    ids=spoken,
)
def test_only_open_places_are_filled_with_words(answer: Answer, filled: Answer) -> None:
    assert with_words(answer, YES) == filled


@pytest.mark.parametrize(
    ("answer", "on"),
    [
        (Slow(delay_s=1), True),
        (Slow(delay_s=1, then=Hold()), True),
        (Hold(), True),
        (Slow(delay_s=1, then=Reset()), False),
        (Hold(then=Reply(code=500)), False),
        (Hang(), False),
        (Truncate(), False),
        (Dressed(dress=Gzipped()), False),
        (KeepExpecting(), True),
    ],
    ids=lambda value: str(value),
)
def test_an_answer_that_only_delays_goes_on(answer: Answer, on: bool) -> None:
    assert goes_on(answer) is on


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        (None, "normal"),
        (YES, "accepted"),
        (Accepted(id="m", message_id=None, recipients=(), replayed=True), "accepted (replayed)"),
        (Refused(reason=Reason.TOO_LARGE, detail=""), "refused: too_large"),
        (Reply(code=451), "451"),
        (Hang(), "hang"),
        (Hang(for_s=2), "hang 2s"),
        (HangUp(), "hang up"),
        (Reset(), "reset"),
        (Garble(), "garbled reply"),
        (Truncate(), "truncated reply"),
        (Slow(delay_s=2, then=Reset()), "slow 2s, then reset"),
        (Hold(), "held, then normal"),
        (TellFirst(within_s=5, attempts=(), then=Reset()), "events first, then reset"),
        (Reply(code=503, replayed=True), "503 (replayed)"),
        (Refused(reason=Reason.KEY_DONE, detail="", replayed=True), "refused: key_done (replayed)"),
        (Results(items=(YES, Reply(code=503))), "accepted 1 of 2"),
        (Results(items=(YES, YES), replayed=True), "accepted 2 of 2 (replayed)"),
        (InTurn(for_s=1, then=YES), "waits for the request in front"),
        (Dressed(dress=Gzipped()), "gzip"),
        (Dressed(dress=Gzipped(), then=YES), "accepted, gzip"),
        (KeepExpecting(), "no 100, then normal"),
        (Alert(alert=TlsAlert.ACCESS_DENIED), "TLS alert: access denied"),
    ],
)
def test_every_answer_has_a_name_for_people(answer: Answer | None, name: str) -> None:
    assert spoken(answer) == name


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (YES, YES),
        (Slow(delay_s=1, then=Hold(then=Reply(code=500))), Reply(code=500)),
        (Slow(delay_s=1), None),
        (TellFirst(within_s=5, attempts=(), then=Reply(code=500)), Reply(code=500)),
        (Truncate(then=YES), None),
        (Reset(), None),
    ],
    ids=str,
)
def test_what_is_said_whole_in_the_end(answer: Answer, words: object) -> None:
    assert words_of(answer) == words
