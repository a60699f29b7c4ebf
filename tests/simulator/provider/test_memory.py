"""What a provider holds does not grow with the mails: what a store keeps need not be held here as well.

simple.mailserver#7: 150 GB after 200,000 mails.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from types import FunctionType, ModuleType
from typing import Any

import pytest

from simulator.config import read_plan
from simulator.provider import counts, events, greylist, limiter, occasions
from simulator.provider.acceptance import Acceptance
from simulator.provider.ledger import Attempt
from simulator.provider.message import from_bytes, mail_to, short_name
from simulator.provider.provider import Provider
from tests.simulator.provider.mails import after, booked, provider, send

#: So many of the newest mails are held here, in these tests.
WINDOW = 20


def things_in(it: Provider) -> int:
    """Return of how many objects a provider consists, all the way down."""
    seen: set[int] = set()
    ahead: list[object] = [it]
    while ahead:
        thing = ahead.pop()
        if id(thing) in seen or isinstance(thing, type | ModuleType | FunctionType):
            continue
        seen.add(id(thing))
        ahead += gc.get_referents(thing)
    return len(seen)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that has a bound has a small one: it is to be reached within milliseconds."""
    for module, name in (
        (counts, "MOST_SCOPES"),
        (counts, "MOST_ATTEMPTS"),
        (greylist, "MOST_TRIPLETS"),
        (limiter, "MOST_SCOPES"),
        (occasions, "MOST_MAILS"),
        (events, "AHEAD"),
    ):
        assert hasattr(module, name)
        monkeypatch.setattr(module, name, WINDOW)


RULE = {"fault": "accept_then_hang_up"}
PLANS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "magic": {},
    "every third": {"rules": [{"fault": "reply", "code": 451, "every": 3, "dialect": "smtp"}]},
    "once per mail": {"rules": [RULE | {"first": 1, "per": "mail"}]},
    "once per recipient": {"rules": [RULE | {"times": 1, "per": "recipient"}]},
    "once per connection": {"rules": [RULE | {"first": 1, "per": "connection"}]},
    "second attempt of a mail": {"rules": [RULE | {"attempt": 2, "per": "mail"}]},
    "ten millionth attempt": {"rules": [RULE | {"attempt": 10_000_000}]},
    "for ever": {"rules": [RULE | {"sticks": "mail"}]},
    "limits": {
        "limits": {"per_day": 1_000_000},
        "limit": [{"per": each, "per_day": 1_000_000} for each in ("ip", "sender", "recipient_domain")],
    },
    "greylist": {"greylist": {"delay_s": 0}},
    "opened": {"rules": [{"fault": "fate", "fate": "opened", "after_s": 1}]},
}


@pytest.mark.parametrize("name", PLANS)
def test_memory_does_not_grow_with_the_mails(name: str) -> None:
    """No two of them are of the same sender, to the same person, at the same domain, or with the same key."""
    it = provider(read_plan(PLANS[name], "the test's plan"))
    account = it.account("default", after(0))
    account.ledger.window = account.aftermath.events.kept = WINDOW
    sizes = []
    for number in range(300):
        person = f"lost-answer+{number}@magic.test" if name == "magic" else f"b{number}@d{number}.example"
        for dialect, key in (("smtp", None), ("native", f"k{number}")):
            submission = from_bytes(
                b"Subject: %d\r\nMessage-ID: <%d@x>\r\n\r\nbody\r\n" % (number, number),
                dialect=dialect,
                sender=f"s{number}@e{number}.example",
                recipients=(person,),
                key=key,
            )
            attempt, _ = send(it, submission, after(number * 4.0))
            it.gone(attempt.connection)
        it.records()
        it.stirred()
        account.aftermath.events.advance(after(number * 4.0))
        if number % 50 == 49:
            gc.collect()
            sizes.append(things_in(it))

    assert booked(it) <= WINDOW + WINDOW // 8
    assert max(sizes[3:]) <= 1.15 * max(sizes[:3]), sizes


@pytest.mark.parametrize("taken", [True, False], ids=["taken", "refused"])
@pytest.mark.parametrize("what", ["headers", "recipients"])
def test_heavy_mails_are_held_by_their_weight(
    taken: bool, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Header bombs, or mails to hundreds of people each, are a few of them: a window of mails is no bound."""
    monkeypatch.setattr(events, "WAITING_RECIPIENTS", 1_000)
    room_chars = 50_000
    it = provider(read_plan({} if taken else {"rules": ["503 at accept"]}, "the test's plan"))
    account = it.account("default", after(0))
    account.ledger.room_chars = room_chars
    people = range(200 if what == "recipients" else 1)
    filler = b"X-Filler: " + b"x" * (10_000 if what == "headers" else 5_000)
    for number in range(60):
        submission = from_bytes(
            b"Subject: %d\r\n%b\r\n\r\n" % (number, filler),
            dialect="native",
            sender="s@example.org",
            recipients=[f"somebody-{number}-{each}@example.org" for each in people],
        )
        send(it, submission, after(number))
        it.records()

    def chars(held: Iterable[Acceptance | Attempt]) -> int:
        return sum(len(text) for each in held for text in (*each.recipients, *(v for _, v in each.headers)))

    assert 0 < chars(account.attempts.values()) <= room_chars + 20_000
    assert (0 < chars(account.ledger.acceptances) <= room_chars) is taken
    assert chars(account.aftermath.events._fresh) <= room_chars


def test_a_mail_to_many_is_not_called_by_all_of_them() -> None:
    """Fifty thousand such names are remembered; each of them tells its mail from any other."""
    many = tuple(f"{number}@example.org" for number in range(1_000))
    names = {
        mail_to(None, many),
        mail_to(None, many[::-1]),
        mail_to(None, many[1:]),
        mail_to(None, many[:-1]),
    }

    assert len(names) == 3
    assert {len(each) for each in names} == {500}
    assert all(short_name(each) == each for each in names)
