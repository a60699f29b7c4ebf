"""The access log: written by mail or for all, read newest first, and kept when the mail is gone.

On SQLite; on the others it is written and read by `test_histories` and `test_purging`.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from sqlalchemy import delete

from reference_sender.outbox.engine import open_engine
from reference_sender.outbox.schema import outgoing_email
from reference_sender.outbox.store import Store, enqueue
from tests.reference_sender.samples import MAIL, NOW


def test_looks_are_kept_by_mail_and_outlive_it(tmp_path: Path) -> None:
    store = Store(open_engine(f"sqlite:///{tmp_path / 'outbox.db'}"))
    store.create()
    with store.engine.begin() as connection:
        (first,) = enqueue(connection, MAIL, key="order-1", now=NOW).ids
        (second,) = enqueue(connection, MAIL, key="order-2", now=NOW).ids
    store.note_access("anna", "trace", now=NOW, email_ids=[first, second])
    store.note_access("bob", "status", now=NOW + timedelta(seconds=1), detail="all")
    with store.engine.begin() as connection:
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
    store.engine.dispose()
