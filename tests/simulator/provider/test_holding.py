"""Mail held back: the answer, the line in the decision log, and that a look counts nothing."""

from __future__ import annotations

from simulator.provider.answer import Reason, Refused
from simulator.provider.ledger import Decided
from simulator.provider.limits import Limits
from tests.simulator.provider.mails import BOB, NOW, mail, planned, provider, refusal, send


def test_whoever_is_held_back_is_told_and_it_is_written_down() -> None:
    it = provider(planned(limits=Limits(rate_per_s=1)))
    said = refusal(it, 2, dialect="native")

    assert said.reason is Reason.RATE_LIMITED
    (decided,) = [each.decision for each in it.records() if isinstance(each, Decided)]
    assert (decided.stage, decided.mail, decided.nth) == ("booking", f"to:{BOB}", 2)
    assert decided.rules[0].startswith("limit: ")


def test_a_look_counts_nothing() -> None:
    it = provider(planned(limits=Limits(rate_per_s=1)))
    attempt = it.open("native", "127.0.0.1:1", NOW)

    assert [it.would_take(attempt, mail(dialect="native"), NOW) for _ in range(3)] == [None] * 3
    assert not isinstance(it.take(attempt, mail(dialect="native"), NOW), Refused)
    assert isinstance(it.would_take(attempt, mail(dialect="native"), NOW), Refused)


def test_who_is_not_too_much_is_not_in_the_log() -> None:
    it = provider(planned(limits=Limits(rate_per_s=5)))
    send(it, mail(dialect="native"))

    assert not [each for each in it.records() if isinstance(each, Decided)]
