"""The same moment of another run is found again by mail and attempt, or by its place in the order."""

from __future__ import annotations

import pytest

from simulator.provider import occasions as room
from simulator.provider.occasions import Occasions
from tests.simulator.provider.mails import ANN, BOB


def test_a_mail_has_one_number_at_every_stage_of_an_attempt() -> None:
    it = Occasions()

    assert [it.of_mail("a1", None, (BOB,)) for _ in range(3)] == [(f"to:{BOB}", 1)] * 3
    assert it.of_mail("a2", None, (BOB,)) == (f"to:{BOB}", 2)
    assert it.of_mail("a1", None, (BOB,)) == (f"to:{BOB}", 1), "also while another attempt goes on"


def test_one_recipient_is_the_same_mail_in_question_and_as_a_whole() -> None:
    """At RCPT it is in question, at the dot it is all there is."""
    it = Occasions()

    assert it.of_mail("a1", BOB, ()) == it.of_mail("a1", None, (BOB,)) == (f"to:{BOB}", 1)


def test_several_recipients_are_one_mail_in_any_order() -> None:
    it = Occasions()

    assert it.of_mail("a1", None, (BOB, ANN)) == (f"to:{ANN},{BOB}", 1)
    assert it.of_mail("a2", None, (ANN, BOB)) == (f"to:{ANN},{BOB}", 2)
    assert it.of_mail("a2", BOB, (ANN, BOB)) == (f"to:{BOB}", 1)


def test_stages_without_a_mail_are_numbered() -> None:
    it = Occasions()

    assert [
        it.of_stage(*place) for place in (("smtp", "connect"), ("http", "connect"), ("smtp", "connect"))
    ] == [
        ("", 1),
        ("", 1),
        ("", 2),
    ]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those longest quiet are forgotten first, attempts when they end."""
    monkeypatch.setattr(room, "MOST_MAILS", 2)
    it = Occasions()
    numbers = []
    for attempt, to in enumerate(["a@x", "b@x", "a@x", "c@x", "a@x", "b@x"]):
        numbers.append(it.of_mail(str(attempt), None, (to,))[1])
        it.ended(str(attempt))
        it.ended(str(attempt))

    assert numbers == [1, 1, 2, 1, 3, 1]
    assert it._attempts == {}


def test_counts_go_on_after_a_restart() -> None:
    it = Occasions()
    it.recall("smtp", (BOB, ANN))
    it.recall("http", (BOB, ANN))
    it.recall("smtp", ())
    it.at_least("smtp", "message", f"to:{ANN},{BOB}", 1)
    it.at_least("smtp", "rcpt", f"to:{ANN}", 5)
    it.at_least("smtp", "connect", "", 7)

    assert it.of_mail("a", None, (ANN, BOB)) == (f"to:{ANN},{BOB}", 3)
    assert it.of_mail("b", BOB, (ANN, BOB)) == (f"to:{BOB}", 2)
    assert it.of_mail("b", ANN, (ANN, BOB)) == (f"to:{ANN}", 6)
    assert it.of_stage("smtp", "connect") == ("", 8)
