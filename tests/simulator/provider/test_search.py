"""What a search means: every condition alone, all of them together, and nothing where there is nothing."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from simulator.provider.fate import Destiny, Fate
from simulator.provider.ledger import Attempt, AttemptState, Sent
from simulator.provider.search import AttemptSearch, Search, page_of
from tests.simulator.provider.mails import ANN, BOB, acceptance, after

MAIL = acceptance(
    1,
    [ANN, "Grüße@example.org"],
    sender="Shop@example.org",
    subject="Your Order Ä1",
    key="Key-1",
    message_id="<One@example.org>",
    accepted_at=after(10),
    fate=Fate.DROPPED,
    destinies=((ANN, Destiny(fate=Fate.COMPLAINT)),),
    headers=(("X-Shop", "north"), ("x-shop", "South 7"), ("Received", "from a\tby b")),
)
BARE = acceptance(2, [BOB], sender="", subject="", key=None, message_id=None)


@pytest.mark.parametrize(
    ("wanted", "is_met"),
    [
        (Search(), True),
        (Search(to=ANN.upper()), True),
        (Search(to="GRÜSSE@example.org"), False),
        (Search(to="GRÜßE@example.org"), True),
        (Search(to=ANN[:-1]), False),
        (Search(sender="shop@EXAMPLE.org"), True),
        (Search(sender=""), False),
        (Search(subject="order ä"), True),
        (Search(subject="ordär"), False),
        (Search(header=("X-SHOP", "south")), True),
        (Search(header=("X-Shop", "")), True),
        (Search(header=("Received", "a\tb")), True),
        (Search(header=("Received", "south")), False),
        (Search(header=("Shop", "")), False),
        (Search(key="Key-1"), True),
        (Search(key="key-1"), False),
        (Search(message_id="One@example.org"), True),
        (Search(message_id=" <One@example.org> "), True),
        (Search(message_id="one@example.org"), False),
        (Search(since=after(10)), True),
        (Search(since=after(11)), False),
        (Search(until=after(10)), False),
        (Search(until=after(11)), True),
        (Search(fate="dropped"), True),
        (Search(fate="complaint"), True),
        (Search(fate="delivered"), False),
        (Search(q="order"), True),
        (Search(q="key-1"), True),
        (Search(q="one@"), True),
        (Search(q="north"), False),
        (Search(to=ANN, key="Key-1", fate="dropped"), True),
        (Search(to=ANN, key="Key-2"), False),
    ],
    ids=str,
)
def test_a_search_means_this(wanted: Search, is_met: bool) -> None:
    assert wanted.matches(MAIL) is is_met


def test_what_a_mail_does_not_have_is_not_found_in_it() -> None:
    """No key is not the empty key; the null sender is one, though."""
    assert Search(sender="").matches(BARE)
    for wanted in (
        Search(key=""),
        Search(message_id=""),
        Search(subject="x"),
        Search(header=("Subject", "")),
    ):
        assert not wanted.matches(BARE), wanted


ATTEMPT = Attempt(
    id="att_1",
    number=1,
    account="default",
    dialect="smtp",
    connection="c1",
    peer="127.0.0.1:1",
    opened_at=datetime(2030, 1, 1, tzinfo=UTC),
    stage="reply",
    state=AttemptState.HELD,
    recipients=(ANN, BOB),
    message_id="<One@example.org>",
    answer="reset",
    sent=Sent.NOTHING,
    rules=("rule 1",),
)


@pytest.mark.parametrize(
    ("name", "value", "other"),
    [
        ("to", BOB.upper(), "nobody@example.org"),
        ("message_id", "One@example.org", "Two@example.org"),
        ("stage", "reply", "rcpt"),
        ("state", "held", "open"),
        ("rule", "rule 1", "rule"),
        ("dialect", "smtp", "native"),
        ("answer", "reset", "hang"),
        ("sent", "nothing", "complete"),
    ],
)
def test_attempts_are_found_by(name: str, value: str, other: str) -> None:
    assert AttemptSearch(**{name: value}).matches(ATTEMPT)
    assert not AttemptSearch(**{name: other}).matches(ATTEMPT)
    assert not AttemptSearch(**{name: value, "key": "k"}).matches(ATTEMPT)


def test_a_page_has_a_next_one_only_if_there_is_more() -> None:
    """Whoever follows cursors must not end on an empty page."""
    assert page_of([(1, "a"), (2, "b")], 2).cursor is None
    assert page_of([(1, "a"), (2, "b"), (3, "c")], 2).cursor == 2
    assert page_of([], 2).found == ()
