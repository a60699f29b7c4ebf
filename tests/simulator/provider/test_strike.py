"""Several hits make one answer: waits add up, the first that says something decides."""

from __future__ import annotations

from simulator.provider.answer import Hold, Reply, Slow
from simulator.provider.fate import Destiny, Fate
from simulator.provider.faults import (
    DecideFate,
    Drop,
    Fault,
    HoldTheAnswer,
    RefuseRecipients,
    ReplyWith,
    SlowDown,
    TellBeforeTheAnswer,
)
from simulator.provider.message import Moment
from simulator.provider.strike import Hit, Hits, Strike, by_recipient
from tests.simulator.provider.mails import ANN, BOB

ALL = Moment(stage="accept", dialect="native", account="a", recipients=(BOB, ANN))
ONE = Moment(stage="rcpt", dialect="smtp", account="a", recipient=BOB, recipients=(BOB,))


def together(*hits: tuple[Fault, tuple[str, ...] | None], moment: Moment = ALL) -> Strike | None:
    it = Hits(moment)
    for number, (fault, recipients) in enumerate(hits):
        strike = it.add(Hit(rule=f"r{number}", fault=fault, recipients=recipients))
        if strike is not None:
            return strike
    return it.together()


def test_nothing_is_nothing() -> None:
    assert together() is None


def test_waits_add_up_and_the_first_answer_decides() -> None:
    strike = together(
        (SlowDown(delay_s=1), None), (SlowDown(delay_s=2), None), (ReplyWith(code=451), None), (Drop(), None)
    )

    assert strike == Strike(
        rules=("r0", "r1", "r2"), answer=Slow(delay_s=1, then=Slow(delay_s=2, then=Reply(code=451)))
    )
    assert strike.is_final
    assert [hit.fault for hit in strike.hits] == [
        SlowDown(delay_s=1),
        SlowDown(delay_s=2),
        ReplyWith(code=451),
    ]


def test_fates_and_refusals_leave_the_answer_to_others() -> None:
    bounce = DecideFate(fate=Fate.HARD_BOUNCE)
    strike = together((RefuseRecipients(), (ANN,)), (bounce, (BOB,)), (TellBeforeTheAnswer(within_s=3), None))

    assert strike is not None
    assert [each.recipient for each in strike.refused] == [ANN]
    assert dict(strike.destinies) == {BOB: Destiny(fate=Fate.HARD_BOUNCE)}
    assert (strike.answer, strike.early_s, strike.is_final) == (None, 3, False)


def test_the_first_that_says_something_of_a_recipient_counts() -> None:
    strike = together(
        (DecideFate(fate=Fate.OPENED), (BOB,)),
        (DecideFate(fate=Fate.CLICKED), (BOB, ANN)),
        (RefuseRecipients(code=450), (ANN,)),
        (RefuseRecipients(code=550), (ANN,)),
    )

    assert strike is not None
    assert {to: destiny.fate for to, destiny in strike.destinies} == {BOB: Fate.OPENED, ANN: Fate.CLICKED}
    assert [each.code for each in strike.refused] == [450]


def test_a_refusal_of_the_one_in_question_is_an_answer() -> None:
    strike = together((RefuseRecipients(code=450), None), moment=ONE)

    assert strike is not None
    assert strike.is_final
    assert [each.code for each in strike.refused] == [450]


def test_where_each_recipient_is_an_occasion() -> None:
    fate = DecideFate(fate=Fate.OPENED)

    assert [by_recipient(fault, ALL) for fault in (fate, RefuseRecipients(), Drop())] == [True, True, False]
    assert [by_recipient(fault, ONE) for fault in (fate, RefuseRecipients(), Drop())] == [True, False, False]


def test_two_strikes_one_after_the_other() -> None:
    held = together((HoldTheAnswer(), None))
    fate = together((DecideFate(fate=Fate.OPENED), (BOB,)))
    other = together((DecideFate(fate=Fate.CLICKED), (BOB, ANN)), (ReplyWith(code=500), None))
    assert held is not None
    assert fate is not None
    assert other is not None
    both = held.and_then(fate).and_then(other)

    assert not held.is_final
    assert both.answer == Hold(then=Reply(code=500))
    assert {to: destiny.fate for to, destiny in both.destinies} == {BOB: Fate.OPENED, ANN: Fate.CLICKED}
    assert len(both.hits) == len(both.rules) == 4
