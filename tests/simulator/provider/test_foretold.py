"""What rules say of mails that are not booked yet."""

from __future__ import annotations

import pytest

from simulator.provider.answer import (
    Accepted,
    HangUp,
    TellFirst,
)
from simulator.provider.fate import Destiny, Fate
from simulator.provider.faults import (
    DecideFate,
    HangUpOnThem,
    ReplyWith,
    TellBeforeTheAnswer,
)
from simulator.provider.rule import Pattern, Who
from tests.simulator.provider.mails import ANN, BOB, NOW, mail, planned, provider, rule, send


@pytest.mark.parametrize(
    ("dialect", "place"), [("smtp", ("smtp", "message")), ("native", ("http", "accept"))]
)
def test_a_rule_decides_the_fate_of_those_it_means(dialect: str, place: tuple[str, str]) -> None:
    """The first rule that means a recipient counts; whom none means is delivered to."""
    it = provider(
        planned(
            rule(DecideFate(fate=Fate.HARD_BOUNCE, after_s=3), place, who=Who(recipient=Pattern(BOB))),
            rule(DecideFate(fate=Fate.OPENED), place, who=Who(recipient=Pattern("b*"))),
        )
    )
    _, verdict = send(it, mail(BOB, ANN, dialect=dialect))

    assert verdict is not None
    assert isinstance(verdict.answer, Accepted)
    assert verdict.acceptance is not None
    assert verdict.acceptance.fate is Fate.DELIVERED
    assert verdict.acceptance.destinies == ((BOB, Destiny(fate=Fate.HARD_BOUNCE, after_s=3)),)
    assert verdict.acceptance.destiny_of(ANN).fate is Fate.DELIVERED
    assert [each.answer for each in it.accounts["default"].decisions] == ["fate: hard_bounce"]


def test_a_fate_that_all_share_is_the_mails() -> None:
    _, verdict = send(
        provider(planned(rule(DecideFate(fate=Fate.COMPLAINT), ("smtp", "message")))), mail(BOB, ANN)
    )

    assert verdict is not None
    assert verdict.acceptance is not None
    assert verdict.acceptance.fate is Fate.COMPLAINT


def test_the_answer_may_go_wrong_whatever_the_fate() -> None:
    """A rule of fate leaves the answer to later rules."""
    it = provider(
        planned(
            rule(DecideFate(fate=Fate.OPENED), ("smtp", "message")),
            rule(ReplyWith(code=451), ("smtp", "message")),
        )
    )
    _, verdict = send(it, mail())

    assert verdict is None
    assert it.accounts["default"].decisions[0].rules == ("r", "r")


@pytest.mark.parametrize(
    ("dialect", "place"), [("smtp", ("smtp", "message")), ("native", ("http", "accept"))]
)
def test_events_may_come_before_the_answer(dialect: str, place: tuple[str, str]) -> None:
    """What becomes of the mail happens at once, unless a rule says when; what is said is said after it."""
    it = provider(
        planned(
            rule(TellBeforeTheAnswer(within_s=4), place),
            rule(DecideFate(fate=Fate.HARD_BOUNCE, after_s=9), place, who=Who(recipient=Pattern(ANN))),
            rule(HangUpOnThem(), (place[0], "reply")),
        )
    )
    _, verdict = send(it, mail(BOB, ANN, dialect=dialect))
    log = it.accounts["default"].aftermath.events
    log.advance(NOW)

    assert verdict is not None
    assert verdict.answer == TellFirst(within_s=4, attempts=("att_1",), then=HangUp())
    assert [(event.type, event.recipient) for _, event in log.since(0)] == [
        ("email.accepted", BOB),
        ("email.delivered", BOB),
        ("email.accepted", ANN),
    ]
