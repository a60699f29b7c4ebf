"""The judge of what was told: silent about a good story, and naming each way in which it can be bad."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from scenarios.hearing import KINDS, Mind, Request, Telling, answers, judge, kind_of, stands, tellings_from
from scenarios.history import History, Said
from simulator.provider.obligations import Reported
from tests.reference_sender.samples import NOW

YES, NO, AWAY = (Request(flaws=frozenset(), status=status) for status in (204, 401, None))
FORGED = frozenset({"bad_signature"})
ANN, BOB = "ann@example.com", "bob@example.com"


def telling(
    kind: str, recipient: str = BOB, after_s: float = 0.0, *requests: Request, **more: Any
) -> Telling:
    facts: dict[str, Any] = {
        "event_id": f"evt_{kind}_{after_s}",
        "kind": kind,
        "at": NOW + timedelta(seconds=after_s),
        "recipient": recipient,
        "readable": True,
        "requests": requests or (YES,),
    }
    return Telling(**facts | more)


TOLD = (
    telling("queued", ANN),
    telling("delivered", ANN, 1.0),
    telling("queued", BOB),
    telling("hard_bounce", BOB, 2.0),
)
STATES: dict[str, Reported] = {ANN: Reported.ACCEPTED, BOB: Reported.ACCEPTED}
FACTS: dict[str, list[tuple[str, datetime]]] = {
    ANN: [("queued", NOW), ("delivered", NOW + timedelta(seconds=1))],
    BOB: [("queued", NOW), ("hard_bounce", NOW + timedelta(seconds=2))],
}
STANDING: dict[str, str | None] = {ANN: "delivered", BOB: "hard_bounce"}
MIND = Mind(states=STATES, facts=FACTS, standing=STANDING, suppressed=frozenset({BOB}))


def kinds(told: Any = TOLD, mind: Mind = MIND) -> set[str]:
    return {each.kind for each in judge(told, mind)}


def test_of_a_good_story_nothing_is_said() -> None:
    assert kinds() == set()


@pytest.mark.parametrize(
    "more",
    [
        telling("delivered", BOB, 3.0, AWAY),
        telling("delivered", BOB, 3.0, Request(flaws=FORGED, status=401)),
        telling("delivered", "nobody@example.com", 3.0),
        telling("delivered", BOB, 3.0, Request(flaws=frozenset({"malformed"}), status=400), readable=False),
        telling("delivered", ANN, 1.0),
        replace(telling("delivered", BOB, 9.0), kind=None),
    ],
    ids=["never heard", "forged and refused", "of nobody", "spoilt", "told again", "of another sort"],
)
def test_what_proves_nothing_is_no_fault(more: Telling) -> None:
    assert kinds((*TOLD, more)) == set()


def test_a_kill_between_keeping_and_saying_yes_is_no_fault() -> None:
    """It was told and not acknowledged; whoever knows it all the same has done nothing wrong."""
    unsaid = replace(TOLD[3], requests=(AWAY,))
    assert kinds((*TOLD[:3], unsaid)) == set()


CASES: list[tuple[Any, Mind, str]] = [
    ((*TOLD, telling("opened", ANN, 5.0, Request(flaws=FORGED, status=204))), MIND, "believed"),
    ((*TOLD, telling("opened", ANN, 5.0, NO)), MIND, "refused"),
    (TOLD, replace(MIND, facts=FACTS | {ANN: [("queued", NOW)]}), "event lost"),
    (
        TOLD,
        replace(MIND, facts=FACTS | {ANN: [*FACTS[ANN], ("queued", NOW + timedelta(seconds=9))]}),
        "counted twice",
    ),
    (TOLD, replace(MIND, standing=STANDING | {BOB: "delivered"}), "news erased"),
    (TOLD, replace(MIND, suppressed=frozenset({ANN, BOB})), "suppressed for nothing"),
    (TOLD, replace(MIND, suppressed=frozenset()), "not suppressed"),
    (TOLD, replace(MIND, states=STATES | {ANN: Reported.UNKNOWN}), "told in vain"),
]


@pytest.mark.parametrize(("told", "mind", "kind"), CASES)
def test_each_fault_has_its_name(told: Any, mind: Mind, kind: str) -> None:
    assert kinds(told, mind) == {kind}


def test_every_name_is_used_here() -> None:
    used = {case[2] for case in CASES}
    assert used == set(KINDS)


def test_events_are_known_by_their_names() -> None:
    assert kind_of("email.bounced", {"bounce": "hard"}) == "hard_bounce"
    assert kind_of("email.bounced", {"bounce": "soft"}) == "soft_bounce"
    assert kind_of("email.complained", {}) == "complaint"
    assert kind_of("email.painted", {}) is None


def test_deliveries_of_the_control_api_are_read() -> None:
    event = {"id": "evt_1", "type": "email.bounced", "source": "evt_1", "recipient": BOB, "email_id": "m1"}
    tries = [{"status": 401, "flaws": ["bad_signature"]}, {"status": 204, "flaws": []}]
    facts = {"due_at": NOW.isoformat(), "events": [event], "tries": tries}
    (told,) = tellings_from([facts])
    assert (told.event_id, told.recipient, told.readable, told.acknowledged) == ("evt_1", BOB, True, True)
    assert list(answers([told])) == []
    (spoilt,) = tellings_from([facts | {"tries": [{"status": 400, "flaws": ["malformed"]}]}])
    assert not spoilt.readable
    both = tellings_from(
        [facts | {"events": [event, event], "tries": [{"status": 400, "flaws": ["malformed"]}]}]
    )
    assert [each.kind for each in answers(both)] == ["refused", "refused"]


def test_where_a_mail_stands_is_what_the_sender_says() -> None:
    said = Said(key="k", recipient=BOB, state=Reported.ACCEPTED, delivery="hard_bounce")
    assert stands(History(said=(said,)), BOB.upper(), "hard_bounce") == []
    (finding,) = stands(History(said=(said,)), BOB, "delivered", kind="news erased")
    assert (finding.kind, finding.sentence) == ("news erased", "told delivered, and it says: hard_bounce")
    assert len(stands(History(), BOB, "delivered")) == 1
