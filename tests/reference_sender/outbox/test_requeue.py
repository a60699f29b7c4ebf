"""What a person does to a row, as far as only SQL can ask; what it promises is in the contract."""

from __future__ import annotations

import threading

from sqlalchemy import select, update

from reference_sender.life import Bar, Docket, State
from reference_sender.outbox.schema import ordering_lane, outgoing_email
from reference_sender.outbox.store import enqueue
from reference_sender.policy.decision import Decision
from tests.reference_sender.outbox.benches import SqlBench
from tests.reference_sender.outbox.contract import ACCEPTED, parked
from tests.reference_sender.outbox.manners_contract import end
from tests.reference_sender.samples import MAIL, NOW


def test_a_person_is_named_in_the_record(outbox: SqlBench) -> None:
    docket = parked(outbox)
    assert outbox.store.requeue(docket, ACCEPTED, now=NOW)
    assert outbox.row().state is State.ACCEPTED
    assert outbox.attempts()[-1].reason == "person: accepted"


def dead_and_next(outbox: SqlBench) -> Docket:
    """One of an ordering key is dead, and the next one is due; the dead one."""
    outbox.put("a", ordering_key="user-7")
    outbox.put("b", ordering_key="user-7")
    end(outbox, outbox.claim()[0], State.DEAD)
    (docket,) = outbox.store.find(key="a")
    return docket


def is_back(outbox: SqlBench, docket: Docket) -> bool:
    back = Decision(state=State.PENDING, reason="by hand", next_attempt_at=NOW)
    return outbox.store.requeue(docket, back, now=NOW)


def test_who_puts_one_back_waits_for_who_enqueues_under_its_key(outbox: SqlBench) -> None:
    """Or it would be put back behind a mail that has seen nobody before it."""
    docket = dead_and_next(outbox)
    (b,) = outbox.claim()
    end(outbox, b, State.ACCEPTED)
    order: list[str] = []
    thread = threading.Thread(target=lambda: order.append(f"back: {is_back(outbox, docket)}"))
    with outbox.begin() as connection:
        enqueue(connection, MAIL, key="c", now=NOW, ordering_key="user-7")
        thread.start()
        thread.join(0.2)
        order.append("enqueued")
    thread.join()
    assert order == ["enqueued", "back: True"]
    assert {each.key: each.bar for each in outbox.claim()} == {"a": None, "c": Bar.OUT_OF_TURN}


def test_who_puts_one_back_waits_for_who_claims_the_next(outbox: SqlBench) -> None:
    """Or each would have seen a moment in which the other was not under way."""
    docket = dead_and_next(outbox)
    order: list[str] = []
    thread = threading.Thread(target=lambda: order.append(f"back: {is_back(outbox, docket)}"))
    with outbox.begin() as connection:
        claim = update(outgoing_email).where(outgoing_email.c.dedupe_key == "b")
        connection.execute(claim.values(state=State.SENDING, lease_until=NOW, token=7))
        thread.start()
        thread.join(0.2)
        order.append("claimed")
    thread.join()
    assert order == ["claimed", "back: True"]
    assert {each.key: each.bar for each in outbox.claim()} == {"a": Bar.OUT_OF_TURN}


def test_who_puts_back_what_has_no_order_locks_nothing(outbox: SqlBench) -> None:
    docket = parked(outbox)
    assert is_back(outbox, docket)
    with outbox.store.engine.connect() as connection:
        assert connection.execute(select(ordering_lane)).all() == []
