"""Tests of what goes wrong on the way to a webhook: what each fault makes of the notices of an event."""

from __future__ import annotations

import random
from datetime import datetime

import pytest

from simulator.provider.events import Event, events_of
from simulator.provider.fate import Destiny, Fate, Happening
from simulator.provider.faults import FAULTS
from simulator.provider.faults.webhooks import (
    ContradictIt,
    LoseIt,
    SignBadly,
    SignLongAgo,
    TellLate,
    TellNonsenseToo,
    TellOfAnUnknownMail,
    TellOutOfOrder,
    TellTwice,
    TellTwiceUnderAnotherId,
    WebhookFault,
)
from simulator.provider.notices import Damage, Flaw, Forgery, Notice, Spoilt, notice_of
from tests.simulator.provider.faults.samples import sample
from tests.simulator.provider.mails import ANN, BOB, NOW, acceptance, after

CLICKED = list(
    events_of(acceptance(1, [ANN, BOB], destinies=((BOB, Destiny(fate=Fate.CLICKED, after_s=30)),)))
)
BOBS = [event for event in CLICKED if event.recipient == BOB]


def changed(fault: WebhookFault, event: Event = BOBS[0], seed: int = 1) -> list[Notice]:
    return fault.change([notice_of(event)], random.Random(seed))


def due(notices: list[Notice]) -> list[datetime]:
    return [notice.due_at for notice in notices]


@pytest.mark.parametrize("name", [name for name, kind in FAULTS.items() if "webhook" in kind.stages])
def test_every_fault_keeps_the_event_first_and_its_source(name: str) -> None:
    """What happened is not changed by how it is told, and the same dice tell it in the same way."""
    fault = sample(name)
    assert isinstance(fault, WebhookFault)
    notices = changed(fault)

    assert notices[0].event == BOBS[0]
    assert {notice.source for notice in notices} == {BOBS[0].id}
    assert notices == changed(fault)
    assert notices != [notice_of(BOBS[0])]


def test_a_duplicate_has_the_same_id_or_another_one() -> None:
    same = changed(TellTwice(copies=3, delay_s=5))
    new = changed(TellTwiceUnderAnotherId(copies=3, delay_s=5))

    assert due(same) == due(new) == [NOW, after(5), after(10)]
    assert len({notice.event.id for notice in same}) == 1
    assert len({notice.event.id for notice in new}) == 3
    assert len({str(notice.event.data()) for notice in (*same, *new)}) == 1


def test_out_of_order_is_after_the_next_event_of_the_same_mail_and_recipient() -> None:
    """The last one has none behind it: others overtake it."""
    first = changed(TellOutOfOrder(), BOBS[1])
    last = changed(TellOutOfOrder(delay_s=7), BOBS[-1])

    assert BOBS[1].at < BOBS[2].at < first[0].due_at < BOBS[3].at
    assert due(last) == [after(37)]


def test_late_and_lost() -> None:
    assert due(changed(TellLate(delay_s=9))) == [after(9)]
    assert [notice.lost for notice in changed(LoseIt())] == [True]


def test_spoilt_attempts_are_followed_by_sound_ones() -> None:
    (signature,) = changed(SignBadly(forgery=Forgery.TAMPERED, tries=2))
    (stale,) = changed(SignLongAgo(age_s=60))

    assert signature.flaws_at(2) == (Flaw(what=Spoilt.SIGNATURE, how="tampered", tries=2),)
    assert signature.flaws_at(3) == ()
    assert stale.flaws_at(1) == (Flaw(what=Spoilt.TIMESTAMP, age_s=60.0),)


def test_nonsense_comes_beside_the_event_and_once() -> None:
    """The event itself stays whole; the kind of damage is the seed's if none is given."""
    sound, spoilt = changed(TellNonsenseToo(damage=Damage.NULL))
    found = {changed(TellNonsenseToo(), seed=seed)[1].flaws[0].how for seed in range(60)}

    assert (sound.flaws, sound.once) == ((), False)
    assert (spoilt.flaws, spoilt.once) == ((Flaw(what=Spoilt.BODY, how="null"),), True)
    assert found == {damage.value for damage in Damage}


def test_a_contradiction_is_about_the_same_mail_at_the_same_instant() -> None:
    bounced = list(events_of(acceptance(destinies=((BOB, Destiny(fate=Fate.HARD_BOUNCE)),))))[-1]
    true, false = changed(ContradictIt(), BOBS[1])
    _, of_a_bounce = changed(ContradictIt(), bounced)
    _, chosen = changed(ContradictIt(says=Happening.OPENED))

    assert (true.event.type, false.event.type) == ("email.delivered", "email.bounced")
    assert true.event.at == false.event.at
    assert true.event.email_id == false.event.email_id
    assert true.event.id != false.event.id
    assert false.event.data()["bounce"] == "hard"
    assert (of_a_bounce.event.type, of_a_bounce.event.data()["bounce"]) == ("email.delivered", None)
    assert chosen.event.type == "email.opened"


def test_an_unknown_mail_is_unknown_by_every_name() -> None:
    known, unknown = (notice.event for notice in changed(TellOfAnUnknownMail()))

    assert known.type == unknown.type
    for name in ("email_id", "message_id", "recipient"):
        assert known.data()[name] != unknown.data()[name]
    assert (unknown.data()["key"], unknown.data()["obligation"]) == (None, None)


def test_rules_add_up() -> None:
    """Each changes what the one before has left."""
    dice = random.Random(1)
    notices = SignBadly().change(TellTwice().change([notice_of(BOBS[0])], dice), dice)

    assert [bool(notice.flaws) for notice in notices] == [True, True]
