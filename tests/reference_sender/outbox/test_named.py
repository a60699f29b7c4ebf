"""Whom events name is noted; that an erasure finds it is tested in `test_erasing`, here: what it reads for that."""

from __future__ import annotations

from reference_sender.outbox.schema import webhook_event
from reference_sender.policy.hearing import Fate, Settled
from reference_sender.retention import erase
from tests.reference_sender.outbox.benches import SqlBench
from tests.reference_sender.outbox.contract import ACCEPTED
from tests.reference_sender.outbox.plans import add_events, asked, plan_of
from tests.reference_sender.samples import NOW


def test_what_was_told_of_everybody_else_is_not_gone_through(own: SqlBench) -> None:
    """Three thousand events of others: no query of an erasure reads the table from end to end."""
    store = own.store
    own.put()
    (parcel,) = own.claim()
    assert store.settle(parcel, ACCEPTED, now=NOW)
    store.receive([("e1", b'{"data": {"recipient": "ann@example.com"}}')], source="webhook", now=NOW)
    (told,) = store.due_events(now=NOW, limit=1)
    assert store.conclude(told, Settled(fate=Fate.APPLIED, reason="x"), now=NOW)
    with own.begin() as connection:
        add_events(connection, [column.name for column in webhook_event.columns])
    with asked(store.engine) as seen:
        done = erase(store, "ann@example.com", now=NOW, keep_suppression=False)
    assert (done.mails, done.events) == (1, 1)
    with store.engine.connect() as connection:
        plans = {statement: plan_of(connection, statement, asked_with) for statement, asked_with in seen}
    read = {
        (statement, each)
        for statement, plan in plans.items()
        for each in plan
        if each.table.startswith(("webhook_event", "event_address"))
    }
    assert [(statement, each) for statement, each in read if each.index is None] == []
    used = {str(each.index) for _, each in read}
    assert {"webhook_event_unnamed", "ix_webhook_event_email_id"} <= used
    assert len(read) >= 5, "noted, found by address, found by mail, and what is left of both"
