"""What holds for every transaction of the outbox."""

from __future__ import annotations

from pathlib import Path

from reference_sender.outbox.engine import READS_ONLY, open_engine
from reference_sender.outbox.schema import outgoing_email
from reference_sender.outbox.store import Store, enqueue
from tests.reference_sender.outbox.benches import SqlBench
from tests.reference_sender.outbox.contract import ACCEPTED
from tests.reference_sender.samples import MAIL, NOW


def test_an_attempt_goes_with_its_mail(outbox: SqlBench, store: Store) -> None:
    outbox.put()
    (parcel,) = outbox.claim()
    store.settle(parcel, ACCEPTED, now=NOW)
    with store.engine.begin() as connection:
        connection.execute(outgoing_email.delete())
    assert outbox.attempts() == []


def test_a_reader_on_sqlite_does_not_wait_for_the_writer(tmp_path: Path) -> None:
    store = Store(open_engine(f"sqlite:///{tmp_path / 'outbox.db'}"))
    store.create()
    with store.engine.begin() as connection:
        enqueue(connection, MAIL, key="order-1", now=NOW)
        assert store.standings() == []
    assert len(store.standings()) == 1
    store.engine.dispose()


def test_whoever_only_read_leaves_no_note_for_the_next(store: Store) -> None:
    """The connection goes back to the pool, and its next user may write."""
    store.standings()
    with store.engine.connect() as connection:
        assert READS_ONLY not in connection.info
