"""Gates on every database: the contract, and what only SQL can ask."""

from __future__ import annotations

import threading
from typing import Any

from sqlalchemy import event, insert, text

from reference_sender.outbox.enqueueing import rows_of
from reference_sender.outbox.schema import outgoing_email
from reference_sender.policy.bucket import Rate
from reference_sender.policy.gate import Gate, GateRules
from tests.reference_sender.outbox.benches import SqlBench
from tests.reference_sender.outbox.gate_contract import GateContract, claim, keys
from tests.reference_sender.samples import MAIL, NOW


class TestGatesOnADatabase(GateContract):
    """The contract of gates."""


def test_ten_thousand_bulk_mails_do_not_delay_a_code(own: SqlBench) -> None:
    """Also where they came first, hold every slot they may have, and have used up every token they may have."""
    (sample,) = rows_of(MAIL, key="bulk", now=NOW, priority=-100)
    bulk = [sample | {"dedupe_key": f"bulk-{n}", "idempotency_key": f"bulk-{n}"} for n in range(10_000)]
    with own.store.engine.begin() as connection:
        connection.execute(insert(outgoing_email), bulk)
    gate = Gate(GateRules(rates=(("main", Rate(per_s=1.0, burst=20, reserve=5.0)),)))
    # Eight slots, two of them reserved: bulk fills what it may, and comes back until there are no tokens for it.
    while claim(own, gate, limit=8, bulk=6):
        pass
    own.put("code", priority=100)
    assert keys(claim(own, gate, limit=2, bulk=0)) == ["code"]
    assert claim(own, gate, limit=8, bulk=6) == []


def test_claims_through_a_gate_use_the_index_of_due_rows(outbox: SqlBench) -> None:
    """However much waits: urgent rows are at its head, and what is not urgent begins in the middle of it."""
    if outbox.store.engine.dialect.name != "sqlite":
        return  # the plans of servers depend on what they know of the data
    said: list[tuple[str, Any]] = []

    @event.listens_for(outbox.store.engine, "before_cursor_execute")
    def _seen(_c: Any, _cursor: Any, statement: str, values: Any, *_rest: Any) -> None:
        said.append((statement, values))

    outbox.put("a")
    claim(outbox, Gate(GateRules()), limit=3, bulk=1)
    event.remove(outbox.store.engine, "before_cursor_execute", _seen)
    due = [(s, v) for s, v in said if "'pending'" in s and "priority" in s and s.startswith("UPDATE")]
    assert len(due) == 2
    with outbox.store.engine.connect() as connection:
        for statement, values in due:
            plan = str(connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values).all())
            assert "outgoing_email_next" in plan
            assert "TEMP B-TREE" not in plan


def test_doubts_at_a_provider_that_is_gone_are_counted(outbox: SqlBench) -> None:
    """Nobody takes them and nobody asks about them; whoever starts a worker should hear of it."""
    for key in ("a", "b", "c"):
        outbox.put(key)
    claim(outbox, Gate(GateRules(provider="sold", providers=("sold",))), limit=2)
    claim(outbox, Gate(GateRules()), limit=1)
    assert outbox.store.homeless(("main", "spare")) == {"sold": 2}
    assert outbox.store.homeless(("main", "sold")) == {}


def test_a_rate_is_shared_by_workers_that_claim_at_the_same_moment(own: SqlBench) -> None:
    """Two connections, two transactions: whoever comes second waits for the bucket, not for luck."""
    for n in range(40):
        own.put(f"k{n}")
    rules = GateRules(rates=(("main", Rate(per_s=0.001, burst=15)),))
    start, got = threading.Barrier(4), []

    def work() -> None:
        start.wait(10)
        got.append(sum(len(claim(own, Gate(rules), limit=4)) for _ in range(5)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (len(got), sum(got)) == (4, 15)
    with own.store.engine.connect() as connection:
        sending = connection.execute(text("SELECT count(*) FROM outgoing_email WHERE state = 'sending'"))
        assert sending.scalar() == 15
