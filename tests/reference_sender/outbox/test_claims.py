"""Claiming, as far as only SQL can ask; what it promises is in the contract."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import func, select, update

from reference_sender.outbox.schema import outgoing_email
from reference_sender.outbox.store import Store, enqueue
from reference_sender.policy.breaker import BreakerRules
from reference_sender.policy.evidence import Evidence, Phase, TryLater, Wire
from reference_sender.policy.gate import Gate, GateRules
from tests.reference_sender.outbox.benches import SqlBench
from tests.reference_sender.outbox.plans import asked
from tests.reference_sender.samples import MAIL, NOW


def test_whoever_finds_nothing_again_and_again_only_looks(store: Store) -> None:
    """One statement that locks nothing; what is due is found by the next look all the same, and so is what was lost."""
    with asked(store.engine) as seen:

        def claim(at: datetime) -> list[str]:
            seen.clear()
            return [p.key for p in store.claim(now=at, limit=5, lease_s=60, dedupes=True)]

        # Lost and due ones; and once in a while, who waits for another mail.
        for expected in (3, 2):
            assert claim(NOW) == []
            assert len(seen) == expected
        assert claim(NOW) == []
        ((statement, _),) = seen
        assert "FOR UPDATE" not in statement
        with store.engine.begin() as connection:
            enqueue(connection, MAIL, key="order-1", now=NOW + timedelta(seconds=5))
        assert claim(NOW) == []
        assert claim(NOW + timedelta(seconds=5)) == ["order-1"]
        for _ in range(4):
            assert claim(NOW + timedelta(seconds=6)) == []
        assert claim(NOW + timedelta(seconds=66)) == ["order-1"]


def test_whoever_may_not_pass_only_looks(store: Store) -> None:
    """In an outage there is mail all day long: two questions that lock nothing, until the gate opens."""
    rules = GateRules(breaker=BreakerRules(failures=1, pause_s=60.0))
    gate = Gate(rules)
    with asked(store.engine) as seen:

        def claim(at: datetime) -> list[str]:
            seen.clear()
            return [p.key for p in store.claim(now=at, limit=5, lease_s=60, dedupes=True, gate=gate)]

        with store.engine.begin() as connection:
            enqueue(connection, MAIL, key="order-1", now=NOW)
        down = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=503)
        store.hear(rules, TryLater(reason="503", channel=True), down, now=NOW, began_at=NOW)
        for _ in range(2):
            assert claim(NOW) == []
        assert claim(NOW) == []
        assert [statement.split()[0] for statement, _ in seen] == ["SELECT", "SELECT"]
        assert not any("FOR UPDATE" in statement for statement, _ in seen)
        assert gate.again_at == NOW + timedelta(seconds=60)
        assert claim(NOW + timedelta(seconds=60)) == ["order-1"]


def test_stores_agree_on_time_with_the_database(outbox: SqlBench, store: Store) -> None:
    outbox.put()
    with store.engine.begin() as connection:
        connection.execute(update(outgoing_email).values(next_attempt_at=NOW + timedelta(microseconds=1)))
        assert (
            connection.execute(select(func.count()).where(outgoing_email.c.next_attempt_at <= NOW)).scalar()
            == 0
        )
    assert outbox.claim() == []
