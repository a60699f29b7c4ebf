"""However long the history, a claim reads only what is due: every query of it goes by an index."""

from __future__ import annotations

import pytest
from sqlalchemy import update

from reference_sender.outbox.schema import outgoing_email
from reference_sender.policy.gate import Gate, GateRules
from reference_sender.policy.routes import Mine
from reference_sender.policy.suspects import Suspects
from tests.reference_sender.outbox.benches import SqlBench
from tests.reference_sender.outbox.plans import add_due, add_history, analyse, asked, plan_of, sorts
from tests.reference_sender.samples import NOW


def test_no_query_of_a_claim_goes_through_the_history(own: SqlBench) -> None:
    store = own.store
    for number in range(4):
        own.put(f"order-{number}")
    own.claim(limit=1)
    with store.engine.begin() as connection:
        add_history(connection, [column.name for column in outgoing_email.columns])
    with asked(store.engine) as seen:
        assert len(own.claim(61, limit=2)) == 2
        own.store.park_lost(now=NOW, dedupes=False, mine=Mine(provider="main", providers=("main", "spare")))
        own.store.doubtful(now=NOW, limit=10)
        own.store.has_doubts(now=NOW, dedupes=False, mine=Mine(provider="main", providers=("main", "spare")))
        assert len(own.store.claim(now=NOW, limit=1, lease_s=60, dedupes=True, gate=Gate(GateRules()))) == 1
        for _ in range(4):
            own.claim(62)
    with store.engine.connect() as connection:
        plans = {statement: plan_of(connection, statement, told) for statement, told in seen}
    scanned = {
        statement: plan
        for statement, plan in plans.items()
        if any(each.table.endswith("email") and each.index is None for each in plan)
    }
    assert scanned == {}
    used = {each.index for plan in plans.values() for each in plan}
    assert {
        "outgoing_email_next",
        "outgoing_email_lease",
        "outgoing_email_doubt",
    } <= used


@pytest.mark.parametrize("alone", [True, False])
def test_what_goes_alone_is_found_by_an_index_of_its_own(own: SqlBench, alone: bool) -> None:
    """However much else there is; where nothing was ever lost again and again, nothing more is asked."""
    for number in range(2):
        own.put(f"order-{number}")
    own.edit(1, losses=2)
    with own.store.engine.begin() as connection:
        add_history(connection, [column.name for column in outgoing_email.columns])
        connection.execute(update(outgoing_email).values(losses=None).where(outgoing_email.c.id > 1))
        analyse(connection, "outgoing_email")
    told = Suspects(may_take=alone, first=alone)
    with asked(own.store.engine) as seen:
        taken = own.store.claim(
            now=NOW, limit=9, lease_s=60, dedupes=True, gate=Gate(GateRules()), suspects=told
        )
    assert [parcel.key for parcel in taken] == (["order-0"] if alone else ["order-1"])
    assert (told.taken, told.waits) == (alone, not alone)
    with own.store.engine.connect() as connection:
        for statement, given in seen:
            for each in plan_of(connection, statement, given):
                assert each.index is not None or not each.table.endswith("email"), statement


@pytest.mark.parametrize("bulk", [30, 20], ids=["all alike", "urgent ones first"])
def test_mails_that_are_due_are_found_in_their_order(own: SqlBench, bulk: int) -> None:
    """Thousands are due before the database has counted any: who claims some reads these, and sorts none."""
    own.put()
    with own.store.engine.begin() as connection:
        add_due(connection, [column.name for column in outgoing_email.columns])
    gate = Gate(GateRules())
    with asked(own.store.engine) as seen:
        taken = own.store.claim(now=NOW, limit=30, bulk=bulk, lease_s=60, dedupes=True, gate=gate)
    assert len(taken) == bulk
    claims = 0
    with own.store.engine.connect() as connection:
        # What was asked before in the transaction belongs to it.
        for statement, told in seen:
            if "priority DESC" not in statement:
                connection.exec_driver_sql(statement, told)
                continue
            claims += 1
            assert not sorts(connection, statement, told)
            used = {each.index for each in plan_of(connection, statement, told)}
            assert "outgoing_email_next" in used
        if own.store.engine.dialect.name == "postgresql":
            # Whatever it believes: with twenty thousand and no count it would sort.
            assert connection.exec_driver_sql("SHOW enable_sort").scalar_one() == "off"
    assert claims == (1 if bulk == 30 else 2)
