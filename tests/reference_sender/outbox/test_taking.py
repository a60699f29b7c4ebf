"""Rows that are found, changed and read at once, on databases that can; on the others it comes to the same."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sqlalchemy import event

from reference_sender.outbox.taking import takes_what_it_finds
from reference_sender.policy.gate import Gate, GateRules
from tests.reference_sender.outbox.benches import SqlBench
from tests.reference_sender.outbox.gate_contract import claim, keys
from tests.reference_sender.samples import NOW


def test_in_good_times_a_claim_looks_once_and_takes_what_it_finds_at_once(outbox: SqlBench) -> None:
    """Where the database returns what it changes; elsewhere it is found, changed and read."""
    said: list[str] = []

    @event.listens_for(outbox.store.engine, "before_cursor_execute")
    def _seen(_c: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        said.append(statement.split()[0])

    try:
        outbox.claim()  # looks for mail that waits for other mail, which is done once a second
        outbox.put("a")
        said.clear()
        assert keys(claim(outbox, Gate(GateRules()), limit=5)) == ["a"]
    finally:
        event.remove(outbox.store.engine, "before_cursor_execute", _seen)
    returns = outbox.store.engine.dialect.update_returning
    assert said == (["SELECT", "UPDATE"] if returns else ["SELECT", "SELECT", "UPDATE", "SELECT"])


def test_what_is_taken_at_once_comes_in_the_order_in_which_it_goes(outbox: SqlBench) -> None:
    for key, priority in (("late", 0), ("code", 100), ("bulk", -100), ("early", 0)):
        outbox.put(key, priority=priority)
    outbox.edit(4, next_attempt_at=NOW - timedelta(seconds=1))
    assert keys(claim(outbox, Gate(GateRules()), limit=5)) == ["code", "early", "late", "bulk"]


def test_what_was_lost_is_taken_with_what_is_due_and_its_end_is_on_record(outbox: SqlBench) -> None:
    outbox.put("lost")
    claim(outbox, Gate(GateRules()), limit=1)
    outbox.put("due")
    taken = claim(outbox, Gate(GateRules()), at_s=61, limit=5)
    assert [(each.key, each.token, each.doubted) for each in taken] == [("lost", 2, True), ("due", 1, False)]
    assert [(each.token, each.reason) for each in outbox.attempts()] == [(1, "lease ran out")]


def test_where_domains_have_limits_it_is_found_first(outbox: SqlBench) -> None:
    """Some of what is found is left lying."""
    with outbox.store.engine.connect() as connection:
        assert not takes_what_it_finds(connection, Gate(GateRules(domains={"*": 1})))
        assert not takes_what_it_finds(connection, None)
        returns = connection.dialect.update_returning
        assert takes_what_it_finds(connection, Gate(GateRules())) is returns
