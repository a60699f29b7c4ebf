"""Why mail is dead: every sentence that ends a mail so has its cause, and no number in it makes another one."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from reference_sender.life import Bar, State
from reference_sender.outbox.strays import STRAYS, Stray
from reference_sender.policy.causes import CAUSES, cause_of, counted
from reference_sender.policy.classify import classify
from reference_sender.policy.decision import Decision, before_sending, decide
from reference_sender.policy.evidence import Evidence, Phase, Wire
from reference_sender.policy.lookup import NotFound, after_lookup
from reference_sender.policy.suspects import LOST_TOGETHER
from tests.reference_sender.samples import NOW, docket, settings

OTHER_BODY = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=422, problem="key_reused")
DONE = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=409, problem="key_done")
SILENCE = Evidence(wire=Wire.HTTP, phase=Phase.SENT, trouble="timeout")
LATER = Evidence(wire=Wire.SMTP, phase=Phase.RCPT, code=450)


def after(evidence: Evidence, **facts: object) -> Decision:
    mail = docket(**facts)
    return decide(classify(evidence), evidence, mail, settings(), now=NOW, rng=random.Random(1))


def proved(parked: Decision) -> Decision:
    """What becomes of a mail that was parked so, once a look-up says that it is not there."""
    assert parked.state is State.UNKNOWN
    unknown = docket(
        state=State.UNKNOWN, if_not_sent=parked.if_not_sent, last_error=parked.reason, doubted_at=NOW
    )
    return after_lookup(NotFound(), unknown, settings(), NOW + timedelta(days=1))


def before(**facts: object) -> Decision:
    found = before_sending(docket(**facts), settings(), NOW)
    assert found is not None
    return found


OLD = NOW - timedelta(days=30)


@pytest.mark.parametrize(
    ("decision", "says"),
    [
        (after(LATER, attempts=12), "attempts are spent"),
        (after(LATER, attempts=1, queued_at=OLD), "it is too old"),
        (before(queued_at=OLD), "it is too old"),
        (before(attempts=13), "attempts are spent"),
        (before(attempts=13, losses=LOST_TOGETHER + 1), "its workers died with it"),
        (before(bar=Bar.INCOMPLETE), "an attachment is not stored any more"),
        (before(bar=Bar.WORDLESS), "what it said is gone"),
        (proved(after(SILENCE, attempts=12)), "attempts are spent"),
        (proved(after(SILENCE, queued_at=OLD)), "it is too old"),
        (proved(after(OTHER_BODY)), "another mail has its key"),
        (proved(after(DONE)), "another mail has its key"),
        (proved(before(bar=Bar.INCOMPLETE, doubted_at=NOW)), "an attachment is not stored any more"),
    ],
    ids=lambda value: value.reason if isinstance(value, Decision) else "",
)
def test_each_way_to_be_dead_has_its_cause(decision: Decision, says: str) -> None:
    assert (decision.state, cause_of(decision.reason).says) == (State.DEAD, says)


@pytest.mark.parametrize("stray", [each for each in STRAYS if each.is_edited], ids=lambda stray: stray.reason)
def test_what_was_edited_by_hand_says_so(stray: Stray) -> None:
    assert cause_of(stray.reason).says == "the row was edited by hand"


def test_a_sentence_that_is_in_no_table_is_its_own_cause() -> None:
    assert cause_of("the moon").says == "the moon"
    assert cause_of(None).says == "nobody wrote down why"
    assert cause_of("the moon").todo


def test_they_are_counted_by_cause_the_most_frequent_first() -> None:
    found = counted(
        {
            "11 attempts spent": 1,
            "the server cannot take it now; 12 attempts spent": 2,
            "older than 172800 seconds": 1,
            "the moon": 3,
        }
    )
    assert [(each.says, count) for each, count in found] == [
        ("attempts are spent", 3),
        ("the moon", 3),
        ("it is too old", 1),
    ]


def test_every_cause_says_what_to_do() -> None:
    assert all(words and cause.says and cause.todo for words, cause in CAUSES)
