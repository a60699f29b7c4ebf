"""Hand-made histories with verdicts that a person can check."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from simulator.provider.acceptance import Acceptance
from simulator.provider.fate import Destiny, Fate
from simulator.provider.obligations import Obligation, Reported, judge
from tests.simulator.provider.mails import ANN, BOB, acceptance


def owed(
    ref: str = "o1",
    recipient: str = BOB,
    state: str | None = None,
    *,
    copies: int = 1,
    sha256: str | None = None,
) -> Obligation:
    return Obligation(
        account="default",
        ref=ref,
        recipient=recipient,
        copies=copies,
        sha256=sha256,
        state=None if state is None else Reported(state),
    )


def took(number: int, recipient: str = BOB, ref: str | None = None, **changes: object) -> Acceptance:
    return acceptance(number, [recipient], obligation=ref, **changes)


@dataclass(frozen=True)
class Case:
    """A history and what must be found in it: list name -> refs."""

    owed: list[Obligation]
    took: list[Acceptance]
    valid: bool | None
    once: int = 0
    found: tuple[tuple[str, tuple[str | None, ...]], ...] = ()
    final: bool = False


CASES = {
    "accepted once": Case([owed()], [took(1)], True, 1),
    "accepted once, case of the address differs": Case([owed()], [took(1, BOB.upper())], True, 1),
    "duplicated": Case([owed()], [took(1), took(2)], False, 0, (("duplicated", ("o1",)),)),
    "duplicated although reported failed": Case(
        [owed(state="failed")],
        [took(1), took(2)],
        False,
        0,
        (("duplicated", ("o1",)), ("misreported", ("o1",))),
    ),
    "open": Case([owed()], [], None, 0, (("open", ("o1",)),)),
    "pending is open": Case([owed(state="pending")], [], None, 0, (("open", ("o1",)),)),
    "lost after the calm": Case([owed(state="sending")], [], False, 0, (("lost", ("o1",)),), final=True),
    "lost: called sent, never accepted": Case([owed(state="accepted")], [], False, 0, (("lost", ("o1",)),)),
    "phantom": Case([owed()], [took(1), took(2, ANN)], False, 1, (("phantom", (None,)),)),
    "phantom with an unknown mark": Case(
        [owed()], [took(1), took(2, ANN, "rolled-back")], False, 1, (("phantom", ("rolled-back",)),)
    ),
    "misdirected to a stranger": Case(
        [owed()], [took(1, ANN, "o1")], False, 0, (("misdirected", ("o1",)), ("open", ("o1",)))
    ),
    "misdirected to somebody else who is owed": Case(
        [owed("o1", BOB), owed("o2", ANN)],
        [took(1, BOB, "o2"), took(2, BOB, "o1"), took(3, ANN, "o2")],
        False,
        2,
        (("misdirected", ("o2",)),),
    ),
    "misdirected: other bytes than promised": Case(
        [owed(sha256="right")], [took(1, sha256="wrong")], False, 1, (("misdirected", ("o1",)),)
    ),
    "the bytes that were promised": Case([owed(sha256="s")], [took(1)], True, 1),
    "misreported": Case([owed(state="failed")], [took(1)], False, 1, (("misreported", ("o1",)),)),
    "misreported as expired": Case([owed(state="expired")], [took(1)], False, 1, (("misreported", ("o1",)),)),
    "parked": Case([owed(state="unknown")], [], True, 0, (("parked", ("o1",)),)),
    "parked stays parked after the calm": Case(
        [owed(state="dead")], [], True, 0, (("parked", ("o1",)),), final=True
    ),
    "unknown, but accepted once": Case([owed(state="unknown")], [took(1)], True, 1),
    "unsent": Case([owed(state="failed")], [], True, 0, (("unsent", ("o1",)),), final=True),
    "unsent: suppressed": Case([owed(state="suppressed")], [], True, 0, (("unsent", ("o1",)),)),
    "dropped": Case([owed()], [took(1, fate=Fate.DROPPED)], True, 1, (("dropped", ("o1",)),)),
    "two equal events, two copies": Case([owed(copies=2)], [took(1), took(2)], True, 1),
    "two equal events, one copy so far": Case([owed(copies=2)], [took(1)], None, 0, (("open", ("o1",)),)),
    "two equal events, one copy for ever": Case(
        [owed(copies=2)], [took(1)], False, 0, (("lost", ("o1",)),), final=True
    ),
    "two equal events, three copies": Case(
        [owed(copies=2)], [took(1), took(2), took(3)], False, 0, (("duplicated", ("o1",)),)
    ),
    "two promises to one person, unmarked": Case([owed("o1"), owed("o2")], [took(1), took(2)], True, 2),
    "two promises to one person, one kept twice": Case(
        [owed("o1"), owed("o2")],
        [took(1, ref="o1"), took(2, ref="o1")],
        False,
        0,
        (("duplicated", ("o1",)), ("lost", ("o2",))),
        final=True,
    ),
    "two promises to one person, three mails": Case(
        [owed("o1"), owed("o2")], [took(1), took(2), took(3)], False, 1, (("duplicated", ("o2",)),)
    ),
    "one mail to two people": Case(
        [owed("o1", BOB), owed("o1", ANN)], [acceptance(1, [BOB, ANN], obligation="o1")], True, 2
    ),
    "nothing promised, nothing sent": Case([], [], None),
    "nothing promised, one mail": Case([], [took(1)], None),
    "nothing promised, the same Message-ID twice": Case(
        [], [took(1, message_id="<a@x>"), took(2, message_id="<a@x>")], False, 0, (("duplicated", (None,)),)
    ),
    "nothing promised, no Message-IDs": Case([], [took(1, message_id=None), took(2, message_id=None)], None),
    "dropped for one of two": Case(
        [owed(), owed("o2", ANN)],
        [acceptance(1, [BOB, ANN], destinies=((ANN, Destiny(fate=Fate.DROPPED)),))],
        True,
        2,
        (("dropped", ("o2",)),),
    ),
    "nothing promised, dropped": Case([], [took(1, fate=Fate.DROPPED)], None, 0, (("dropped", (None,)),)),
}

LISTS = (
    "duplicated", "lost", "phantom", "misdirected", "misreported", "parked", "open", "unsent", "dropped", "forgotten"
)  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_history_gets_its_verdict(case: Case) -> None:
    judgement = judge(case.owed, case.took, final=case.final)

    assert {name: tuple(each.ref for each in getattr(judgement, name)) for name in LISTS} == {
        name: dict(case.found).get(name, ()) for name in LISTS
    }
    assert judgement.accepted_once == case.once
    assert judgement.valid is case.valid


@pytest.mark.parametrize(
    ("first", "booked", "gone", "valid"),
    [(1, None, 0, False), (1, 1, 0, False), (2, 2, 1, None), (2, 1, 1, None), (9, 9, 8, None)],
)
def test_where_mails_are_gone_no_promise_is_called_lost(
    first: int, booked: int | None, gone: int, valid: bool | None
) -> None:
    """What came while the judge was looking (a higher number than `booked`) is not counted against those that are gone."""
    judgement = judge([owed(), owed("o2", ANN)], [took(first)], final=True, booked=booked)

    assert judgement.gone == gone
    assert [each.ref for each in judgement.lost] == ([] if gone else ["o2"])
    assert [each.ref for each in judgement.forgotten] == (["o2"] if gone else [])
    assert judgement.accepted_once == 1
    assert judgement.valid is valid


def test_where_mails_are_gone_nothing_is_called_valid() -> None:
    """One of them may have been a second copy; a second copy that is there is one all the same."""
    assert judge([owed()], [took(2)], booked=2).valid is None
    ended = judge([owed(state="expired")], [took(2, ANN, "o2")], booked=2)
    assert ([each.ref for each in ended.forgotten], ended.unsent) == (["o1"], [])
    assert judge([owed()], [took(2), took(3)], booked=3).valid is False


def test_a_finding_names_what_explains_it() -> None:
    told = judge([owed(state="accepted")], [took(1), took(2)]).as_json()

    assert told["valid"] is False
    assert told["obligations"] == 1
    assert told["duplicated"] == [
        {
            "ref": "o1",
            "recipient": BOB,
            "expected": 1,
            "copies": 2,
            "state": "accepted",
            "ids": ["msg_1", "msg_2"],
            "message_ids": ["<1@example.org>", "<2@example.org>"],
            "keys": ["key-1", "key-2"],
            "attempts": ["att_1", "att_2"],
            "accepted_at": ["2030-01-01T00:00:00+00:00"] * 2,
            "subject": "Hello",
        }
    ]
