"""The suppression list on every database."""

from __future__ import annotations

from datetime import timedelta

from reference_sender.outbox.store import Store
from reference_sender.outbox.suppression import suppress, suppressions_of
from reference_sender.policy.suppression import Kind
from tests.reference_sender.samples import NOW


def test_who_is_put_on_is_there_once_with_the_newest_words(store: Store) -> None:
    store.suppress("Ann@Example.com", reason="hard_bounce", source="evt_1", now=NOW)
    store.suppress("ann@example.com", reason="manual", source="bob", now=NOW + timedelta(days=1))
    (entry,) = store.suppressions()
    assert (entry.address, entry.kind, entry.reason, entry.source, entry.since, entry.until) == (
        "ann@example.com",
        Kind.ALL,
        "manual",
        "bob",
        NOW + timedelta(days=1),
        None,
    )


def test_an_unsubscribed_address_may_bounce_as_well(store: Store) -> None:
    store.suppress("ann@example.com", reason="unsubscribe", source="link", now=NOW, kind=Kind.NEWSLETTER)
    store.suppress("ann@example.com", reason="hard_bounce", source="evt_1", now=NOW)
    store.suppress("bob@example.com", reason="complaint", source="evt_2", now=NOW, until=NOW)
    with store.engine.begin() as connection:
        found = suppressions_of(connection, ["ann@example.com", "eve@example.com"])
    assert {address: [each.kind for each in entries] for address, entries in found.items()} == {
        "ann@example.com": [Kind.ALL, Kind.NEWSLETTER]
    }
    assert store.unsuppress("ANN@example.com", kind=Kind.ALL) == 1
    assert [each.address for each in store.suppressions()] == ["ann@example.com", "bob@example.com"]
    assert [each.address for each in store.suppressions(after=("ann@example.com", "newsletter"))] == [
        "bob@example.com"
    ]
    assert store.unsuppress("ann@example.com") == 1
    assert store.unsuppress("ann@example.com") == 0


def test_a_rollback_takes_it_back(store: Store) -> None:
    with store.engine.connect() as connection, connection.begin() as transaction:
        suppress(connection, "ann@example.com", reason="manual", source="bob", now=NOW)
        transaction.rollback()
    assert store.suppressions() == []
