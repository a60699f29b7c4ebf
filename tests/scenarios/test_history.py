"""Histories: what is read from the control API and from a sender's status."""

from __future__ import annotations

import pytest

from scenarios.history import History, Mark, Said, acceptance_from, said_from, try_from
from simulator.provider.answer import Dressed, Reply, spoken
from simulator.provider.batch import OF_ALL, UNTOLD
from simulator.provider.dress import Chunked, Chunks, Flaw, Gzipped, Odd, Shape
from simulator.provider.fate import Fate
from simulator.provider.obligations import Reported
from tests.scenarios.made import ANN, at, copy, owed, tried


def test_an_acceptance_is_read_with_what_matters_to_a_judge() -> None:
    """Recipients, identity, content and fate; the promise it names is told apart."""
    facts = {
        "id": "msg_1",
        "account": "default",
        "dialect": "smtp",
        "accepted_at": "2026-01-01T00:00:01+00:00",
        "sender": "shop@example.org",
        "recipients": [ANN],
        "message_id": "<1@shop>",
        "key": None,
        "subject": "Your order",
        "size_bytes": 100,
        "sha256": "aa",
        "fate": "dropped",
        "attempt": "att_1",
    }

    assert acceptance_from(facts | {"obligation": "order-1"}, number=1) == copy(fate=Fate.DROPPED)


def test_an_attempt_under_way_has_no_end() -> None:
    """Nothing is invented for what is not known yet."""
    read = try_from({"id": "att_1", "opened_at": "2026-01-01T00:00:01+00:00", "closed_at": None})

    assert read.closed_at is None
    assert read.recipients == ()


@pytest.mark.parametrize(
    ("answer", "sent", "took", "told_yes", "in_doubt"),
    [
        ("250 2.0.0 OK", "complete", True, True, False),
        ("200", "complete", True, True, False),
        ("accepted (replayed)", "complete", False, True, False),
        ("200", "partial", True, False, True),
        ("hang", "nothing", True, False, True),
        ("500", "complete", True, False, True),
        ("451 4.3.0", "complete", False, False, False),
        ("held, then accepted", "nothing", True, False, True),
        (spoken(Dressed(dress=Odd(shape=Shape.NO_ID))), "complete", True, False, True),
        (spoken(Dressed(dress=Odd(shape=Shape.WHOLE))), "complete", True, True, False),
        (spoken(Dressed(dress=Gzipped(flaw=Flaw.CUT), then=Reply(code=200))), "complete", True, False, True),
        (spoken(Dressed(dress=Gzipped(), then=Reply(code=200))), "complete", True, True, False),
        (
            spoken(Dressed(dress=Chunked(chunks=Chunks.BAD_SIZE), then=Reply(code=200))),
            "complete",
            True,
            False,
            True,
        ),
        (
            spoken(Dressed(dress=Chunked(chunks=Chunks.TRAILER), then=Reply(code=200))),
            "complete",
            True,
            True,
            False,
        ),
        (f"200, {UNTOLD}", "complete", True, False, True),
        (f"200, {OF_ALL}", "complete", True, True, False),
    ],
)
def test_doubt_is_an_acceptance_the_sender_was_not_told_of(
    answer: str, sent: str, took: bool, told_yes: bool, in_doubt: bool
) -> None:
    """Only a whole, well-formed yes ends it."""
    attempt = tried(1, answer, sent=sent, took=took)

    assert (attempt.told_yes, attempt.in_doubt) == (told_yes, in_doubt)


def test_of_two_rows_for_one_person_the_less_settled_counts() -> None:
    """A person must see what is still open."""
    told = tuple(
        Said(key=key, recipient=ANN, state=state)
        for key, state in (("a", Reported.ACCEPTED), ("b", Reported.PENDING))
    )

    assert History(said=told).state_of(ANN.upper()) is Reported.PENDING


def test_a_timeline_is_in_order_and_leaves_others_out() -> None:
    """Marks for everybody belong to every mail's story."""
    history = History(
        obligations=(owed(),),
        acceptances=(copy(2), copy(3, "bob@example.com")),
        attempts=(tried(2, took=True),),
        marks=(
            Mark(at=at(5), actor="harness", text="kill -9"),
            Mark(at=at(0), actor="app", text="order-1 committed", recipient=ANN),
            Mark(at=at(0), actor="app", text="other", recipient="bob@example.com"),
        ),
    )

    texts = [mark.text for mark in history.timeline([ANN])]

    assert texts[0] == "order-1 committed"
    assert texts[-1] == "kill -9"
    assert len(texts) == 5
    assert not any("other" in text or "msg_3" in text for text in texts)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"key": "a", "recipient": ANN}, "no text 'state'"),
        ({"key": "a", "recipient": ANN, "state": "sent"}, "'sent' is not one of pending"),
        ({"key": 1, "recipient": ANN, "state": "accepted"}, "no text 'key'"),
    ],
)
def test_a_status_that_is_none_is_said_in_a_sentence(row: dict[str, object], says: str) -> None:
    """Nobody has to guess which states there are."""
    with pytest.raises(ValueError, match=says):
        said_from([row])


def test_a_status_is_read() -> None:
    """Attempts and id are optional."""
    (said,) = said_from([{"key": "a", "recipient": ANN, "state": "accepted", "attempts": 2}])

    assert (said.state, said.attempts, said.provider_id) == (Reported.ACCEPTED, 2, None)


def test_a_recipient_may_be_written_with_its_name() -> None:
    """As it was handed over; what counts is the address."""
    written = [f"Ann <{ANN}>", f" Zoë Łącka <{ANN}> ", f"<{ANN}>", ANN]

    said = said_from([{"key": "a", "recipient": each, "state": "accepted"} for each in written])

    assert [each.recipient for each in said] == [ANN] * 4


def test_an_attempt_knows_what_was_spoken() -> None:
    """What may be missing in an attempt depends on the wire."""
    assert (
        try_from({"id": "a", "opened_at": "2026-01-01T00:00:01+00:00", "dialect": "smtp"}).dialect == "smtp"
    )
