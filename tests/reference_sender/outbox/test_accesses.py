"""The access log: written by mail or for all, read newest first, and kept when the mail is gone."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import delete

from reference_sender.outbox.schema import operator_access, outgoing_email
from reference_sender.outbox.store import Store
from tests.reference_sender.outbox.benches import SqlBench
from tests.reference_sender.samples import MAIL, NOW


def test_looks_are_kept_by_mail_and_outlive_it(outbox: SqlBench, store: Store) -> None:
    with outbox.begin() as connection:
        connection.execute(delete(operator_access))
        (first,) = outbox.enqueue(connection, MAIL, key="order-1", now=NOW).ids
        (second,) = outbox.enqueue(connection, MAIL, key="order-2", now=NOW).ids
    store.note_access("anna", "trace", now=NOW, email_ids=[first, second])
    store.note_access("bob", "status", now=NOW + timedelta(seconds=1), detail="all")
    with outbox.begin() as connection:
        connection.execute(delete(outgoing_email))
    assert [(a.operator, a.action, a.email_id, a.detail) for a in store.accesses()] == [
        ("bob", "status", None, "all"),
        ("anna", "trace", second, None),
        ("anna", "trace", first, None),
    ]
    assert [a.at for a in store.accesses(email_ids=[first])] == [NOW]
    assert [a.operator for a in store.accesses(operator="bob")] == ["bob"]
    assert len(store.accesses(limit=2)) == 2
    assert store.accesses(email_ids=[]) == []
