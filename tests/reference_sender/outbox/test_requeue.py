"""What a person does to a row, as far as only SQL can ask; what it promises is in the contract."""

from __future__ import annotations

from reference_sender.life import State
from tests.reference_sender.outbox.benches import SqlBench
from tests.reference_sender.outbox.contract import ACCEPTED, parked
from tests.reference_sender.samples import NOW


def test_a_person_is_named_in_the_record(outbox: SqlBench) -> None:
    docket = parked(outbox)
    assert outbox.store.requeue(docket, ACCEPTED, now=NOW)
    assert outbox.row().state is State.ACCEPTED
    assert outbox.attempts()[-1].reason == "person: accepted"
