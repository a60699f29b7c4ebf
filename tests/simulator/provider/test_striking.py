"""The rules are asked: what an occasion is, and what the decision log says of a strike."""

from __future__ import annotations

import pytest

from simulator.provider.fate import Fate
from simulator.provider.faults import (
    DecideFate,
    Drop,
    Fault,
    RefuseRecipients,
    ReplyWith,
    TellBeforeTheAnswer,
)
from simulator.provider.ledger import Decided
from tests.simulator.provider.mails import ANN, BOB, mail, planned, provider, rule, send


@pytest.mark.parametrize(
    ("fault", "stage", "said"),
    [
        (ReplyWith(code=500), "reply", "500"),
        (Drop(), "validate", "drop"),
        (DecideFate(fate=Fate.HARD_BOUNCE), "validate", "fate: hard_bounce"),
        (TellBeforeTheAnswer(), "validate", "events first"),
        (RefuseRecipients(), "validate", "refuse 2 of 2 recipients"),
    ],
    ids=lambda it: None if isinstance(it, str) else it.name,
)
def test_the_decision_log_says_what_a_strike_did(fault: Fault, stage: str, said: str) -> None:
    it = provider(planned(rule(fault, ("http", stage))))
    send(it, mail(ANN, BOB, dialect="native"))

    (decided,) = [each.decision for each in it.records() if isinstance(each, Decided)]
    assert (decided.answer, decided.stage, decided.rules) == (said, stage, ("r",))


def test_a_second_attempt_of_a_mail_is_another_occasion() -> None:
    it = provider(planned(rule(ReplyWith(code=451), ("smtp", "message"))))
    for _ in range(2):
        send(it, mail(BOB))

    decided = [each.decision for each in it.records() if isinstance(each, Decided)]
    assert [(each.mail, each.nth) for each in decided] == [(f"to:{BOB}", 1), (f"to:{BOB}", 2)]
