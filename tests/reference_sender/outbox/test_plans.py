"""However long the history, a claim reads only what is due: every query of it goes by an index."""

from __future__ import annotations

from reference_sender.outbox.schema import outgoing_email
from reference_sender.policy.gate import Gate, GateRules
from reference_sender.policy.routes import Mine
from tests.reference_sender.outbox.benches import SqlBench
from tests.reference_sender.outbox.plans import add_history, asked, plan_of
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
        "outgoing_email_due",
        "outgoing_email_lease",
        "outgoing_email_doubt",
    } <= used
