"""What a failing test says."""

from __future__ import annotations

from typing import Any

from simulator import shapes
from simulator.testing import words

#: What the control API shows, as far as it is worded.
MAIL: Any = {
    "id": "msg_1",
    "account": "a",
    "dialect": "smtp",
    "accepted_at": "2026-01-02T03:04:05.678901+00:00",
    "sender": "shop@example.org",
    "recipients": ["ada@example.com"],
    "message_id": "<1@x>",
    "key": None,
    "subject": "Your order",
    "size_bytes": 1,
    "sha256": "0" * 64,
    "obligation": None,
    "fate": "delivered",
    "fates": {},
    "dsn": None,
    "copies_of_body": 1,
    "attempt": "att_1",
}
ATTEMPT: Any = {
    "id": "att_1",
    "account": "a",
    "dialect": "smtp",
    "connection": "c1",
    "peer": "127.0.0.1:1",
    "opened_at": "2026-01-02T03:04:05.678901+00:00",
    "stage": "reply",
    "state": "closed",
    "sender": "shop@example.org",
    "recipients": ["ada@example.com"],
    "message_id": "<1@x>",
    "key": None,
    "accepted": ["ada@example.com"],
    "answer": "hang up",
    "sent": "nothing",
    "rules": ["lose 1 answer"],
    "closed_at": None,
}


def test_a_mail_in_a_line() -> None:
    """What tells it from its copies is there."""
    assert words.mail_line(MAIL) == (
        "msg_1 at 03:04:05.678, to ada@example.com, over smtp, subject 'Your order', Message-ID <1@x>, by att_1"
    )
    dropped: Any = {**MAIL, "fate": "dropped", "key": "k1", "message_id": None}
    assert words.mail_line(dropped).endswith("Message-ID –, key k1, fate dropped, by att_1")


def test_an_attempt_in_a_line() -> None:
    """What struck it, what was said, what was booked all the same."""
    assert words.attempt_line(ATTEMPT) == (
        "att_1 at 03:04:05.678 over smtp to ada@example.com: reached reply, struck by 'lose 1 answer',"
        " said hang up (nothing), booked for ada@example.com"
    )
    young: Any = {**ATTEMPT, "state": "held", "rules": [], "recipients": [], "accepted": []}
    assert words.attempt_line(young).endswith("to nobody yet: reached reply, held, nothing booked")


def test_a_long_list_shows_its_end() -> None:
    """A burst of ten thousand must not fill the screen."""
    shown = words.listed("tried", (f"line {number}" for number in range(words.MOST + 5)))

    assert shown.splitlines()[:3] == ["tried:", "  … 5 earlier ones", "  line 5"]
    assert words.listed("tried", []) == "tried: none"


def test_who_did_not_get_exactly_one_mail() -> None:
    """Too many, or none: with what is there."""
    assert words.not_once("ada@example.com", [], []).startswith(
        "ada@example.com got no mail, exactly one was expected\naccepted: none\ntried: none"
    )
    assert "got 2 mails" in words.not_once("ada@example.com", [MAIL, MAIL], [ATTEMPT])


def test_promises_that_were_not_kept() -> None:
    """Each with its meaning; what is well is not listed."""
    finding: Any = {
        "ref": "order-1",
        "recipient": "ada@example.com",
        "expected": 1,
        "copies": 2,
        "ids": ["a", "b"],
    }
    verdict: Any = {name: [] for name in shapes.Verdict.__annotations__}
    verdict |= {"obligations": 2, "accepted_once": 1, "duplicated": [finding]}

    assert words.not_valid(verdict) == (
        "1 of 2 obligations were accepted exactly once\nwrong:\n"
        "  ada@example.com (order-1), 2 of 1 copies: a, b: accepted too often"
    )
