"""Events in the database: kept once, taken up once, and all that follows from one is written together."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, select

from reference_sender.life import State
from reference_sender.outbox.engine import open_engine
from reference_sender.outbox.events import Events
from reference_sender.outbox.schema import delivery_fact, suppression, webhook_event
from reference_sender.outbox.store import Store
from reference_sender.policy.hearing import Fact, Fate, Settled, Told, on_event
from tests.reference_sender.outbox.benches import SqlBench
from tests.reference_sender.outbox.contract import ACCEPTED, parked
from tests.reference_sender.samples import NOW

FACT = Fact(kind="delivered", happened_at=NOW, provider_id="m1", detail="250 OK")
APPLIED = Settled(fate=Fate.APPLIED, reason="about an accepted mail")


def tell(store: Store, *items: tuple[str, bytes], at: datetime = NOW, source: str = "webhook") -> int:
    return store.receive(items or [("evt_1", b"{}")], source=source, now=at)


def due(store: Store, at: datetime = NOW) -> list[Told]:
    return store.due_events(now=at, limit=10)


def rows(store: Store) -> list[Any]:
    with store.engine.connect() as connection:
        return list(connection.execute(select(webhook_event).order_by(webhook_event.c.id)))


def test_what_was_told_is_there_as_it_came(outbox: SqlBench) -> None:
    raw = '{ "who": "Zoë" }'.encode() + b"\x00\xff"
    assert tell(outbox.store, ("evt_1", raw)) == 1
    (told,) = due(outbox.store)
    assert (told.event_id, told.source, told.raw, told.looks) == ("evt_1", "webhook", raw, 0)
    assert told.received_at == NOW


def test_the_same_event_again_is_the_same_row(outbox: SqlBench) -> None:
    assert tell(outbox.store, ("a", b"1"), ("b", b"2"), ("a", b"1")) == 2
    assert tell(outbox.store, ("b", b"2"), ("c", b"3")) == 1
    assert tell(outbox.store, ("c", b"3"), source="mail") == 1
    assert [each.event_id for each in due(outbox.store)] == ["a", "b", "c", "c"]
    assert tell(outbox.store, ("A", b"1")) == 1


def test_more_than_one_insert_may_hold_is_kept_as_well(outbox: SqlBench) -> None:
    assert tell(outbox.store, *((f"evt_{n}", b"{}") for n in range(1_203))) == 1_203
    assert outbox.store.receive([], source="webhook", now=NOW) == 0
    assert len(rows(outbox.store)) == 1_203


@pytest.mark.parametrize(
    "names",
    [{"provider_id": "m1"}, {"key": "idempotency_key"}, {"message_id": "message_id"}],
    ids=["provider id", "key", "Message-ID"],
)
def test_a_mail_is_found_by_each_of_its_names(outbox: SqlBench, names: dict[str, str]) -> None:
    outbox.put()
    (parcel,) = outbox.claim()
    outbox.store.settle(parcel, ACCEPTED, now=NOW)
    asked = {name: getattr(outbox.row(), value, value) for name, value in names.items()}
    (found,) = outbox.store.about(**({"provider_id": None, "message_id": None, "key": None} | asked))
    assert (found.id, found.state) == (1, State.ACCEPTED)


def test_names_that_lead_to_several_mails_lead_to_all_of_them(outbox: SqlBench) -> None:
    outbox.put("order-1")
    outbox.put("order-2")
    first, second = outbox.row(1), outbox.row(2)
    found = outbox.store.about(provider_id=None, message_id=first.message_id, key=second.idempotency_key)
    assert [each.id for each in found] == [1, 2]
    assert outbox.store.about(provider_id="?", message_id="?", key="?") == []


def test_an_event_of_a_parked_mail_moves_it_notes_the_fact_and_is_done(outbox: SqlBench) -> None:
    docket = parked(outbox)
    tell(outbox.store)
    (told,) = due(outbox.store)
    heard = on_event(docket, "m1")
    settled = Settled(
        fate=Fate.APPLIED,
        reason=heard.reason,
        docket=docket,
        move=heard.move,
        fact=FACT,
        suppress=("Ann@EXAMPLE.com", "hard_bounce"),
    )
    assert outbox.store.conclude(told, settled, now=NOW + timedelta(seconds=5))

    row = outbox.row()
    assert (row.state, row.provider_id, row.last_event_at) == (State.ACCEPTED, "m1", NOW)
    assert row.accepted_at == NOW + timedelta(seconds=5)
    assert outbox.attempts()[-1].reason == "events: an event proves that it was accepted"
    (stored,) = rows(outbox.store)
    assert (stored.state, stored.email_id, stored.next_look_at) == ("applied", 1, None)
    assert stored.settled_at == NOW + timedelta(seconds=5)
    assert due(outbox.store, NOW + timedelta(days=9)) == []
    with outbox.begin() as connection:
        (entry,) = connection.execute(select(suppression))
    assert (entry.address, entry.kind, entry.reason) == ("ann@example.com", "all", "hard_bounce")
    assert (entry.source, entry.since, entry.until) == ("webhook evt_1", NOW + timedelta(seconds=5), None)


def test_whoever_is_second_writes_nothing(outbox: SqlBench) -> None:
    """Two processors have taken up the same event."""
    tell(outbox.store)
    (told,) = due(outbox.store)
    assert outbox.store.conclude(told, APPLIED, now=NOW)
    again = Settled(fate=Fate.PARKED, reason="late", suppress=("ann@example.com", "complaint"))
    assert not outbox.store.conclude(told, again, now=NOW)
    assert [row.state for row in rows(outbox.store)] == ["applied"]
    with outbox.begin() as connection:
        assert connection.execute(select(suppression)).all() == []


def test_if_the_mail_has_moved_meanwhile_nothing_is_written_and_the_event_stays(outbox: SqlBench) -> None:
    docket = parked(outbox)
    tell(outbox.store)
    (told,) = due(outbox.store)
    outbox.store.resolve(docket, ACCEPTED, now=NOW)
    heard = on_event(docket, "m1")
    settled = Settled(fate=Fate.APPLIED, reason="x", docket=docket, move=heard.move, fact=FACT)
    assert not outbox.store.conclude(told, settled, now=NOW)
    assert due(outbox.store) == [told]
    assert outbox.store.facts([1]) == {}


def test_an_address_that_is_none_is_no_trouble(outbox: SqlBench) -> None:
    tell(outbox.store)
    (told,) = due(outbox.store)
    settled = Settled(fate=Fate.APPLIED, reason="x", suppress=("jo rg@exämple..com", "complaint"))
    assert outbox.store.conclude(told, settled, now=NOW)
    assert outbox.store.suppressions() == []


def test_a_fact_is_noted_once_under_whatever_event(outbox: SqlBench) -> None:
    outbox.put()
    (parcel,) = outbox.claim()
    tell(outbox.store, ("a", b"{}"), ("b", b"{}"))
    for told in due(outbox.store):
        settled = Settled(fate=Fate.APPLIED, reason="x", docket=parcel, fact=FACT)
        assert outbox.store.conclude(told, settled, now=NOW)
    (fact,) = outbox.store.facts([1, 2])[1]
    assert (fact.kind, fact.happened_at, fact.detail) == ("delivered", NOW, "250 OK")


def test_the_newest_event_stays_the_newest(outbox: SqlBench) -> None:
    outbox.put()
    (parcel,) = outbox.claim()
    tell(outbox.store, *((name, b"{}") for name in "abc"))
    for told, seconds in zip(due(outbox.store), (5, 9, 2), strict=True):
        fact = Fact(kind="deferred", happened_at=NOW + timedelta(seconds=seconds))
        assert outbox.store.conclude(
            told, Settled(fate=Fate.APPLIED, reason="x", docket=parcel, fact=fact), now=NOW
        )
    assert outbox.row().last_event_at == NOW + timedelta(seconds=9)
    assert [f.happened_at - NOW for f in outbox.store.facts([1])[1]] == [
        timedelta(seconds=n) for n in (2, 5, 9)
    ]


def test_a_date_of_the_far_future_keeps_no_mail_for_ever(outbox: SqlBench) -> None:
    outbox.put()
    (parcel,) = outbox.claim()
    tell(outbox.store, ("a", b"{}"))
    (told,) = due(outbox.store)
    fact = Fact(kind="deferred", happened_at=NOW + timedelta(days=60_000))
    settled = Settled(fate=Fate.APPLIED, reason="x", docket=parcel, fact=fact)
    assert outbox.store.conclude(told, settled, now=NOW)
    assert outbox.row().last_event_at == NOW + timedelta(days=1)
    assert outbox.store.facts([1])[1][0].happened_at == fact.happened_at, "the fact is kept as it was told"


def test_what_is_known_of_all_mails_is_one_question(outbox: SqlBench) -> None:
    outbox.put("order-1")
    outbox.put("order-2")
    rows_of_both = outbox.claim()
    tell(outbox.store, *((name, b"{}") for name in "abc"))
    for told, parcel, kind in zip(
        due(outbox.store), [*rows_of_both, rows_of_both[0]], ("queued", "queued", "deferred"), strict=True
    ):
        fact = Fact(kind=kind, happened_at=NOW)
        settled = Settled(fate=Fate.APPLIED, reason="x", docket=parcel, fact=fact)
        assert outbox.store.conclude(told, settled, now=NOW)
    assert outbox.store.kinds_told() == {1: ["queued", "deferred"], 2: ["queued"]}


def test_what_waits_is_looked_at_again_in_its_time(outbox: SqlBench) -> None:
    later = NOW + timedelta(seconds=30)
    tell(outbox.store)
    (told,) = due(outbox.store)
    waiting = Settled(fate=Fate.WAITING, reason="the mail is being sent", look_again_at=later)
    assert outbox.store.conclude(told, waiting, now=NOW)
    assert due(outbox.store, later - timedelta(seconds=1)) == []
    assert [each.looks for each in due(outbox.store, later)] == [1]
    assert rows(outbox.store)[0].settled_at is None


def test_the_reconciler_is_told_what_an_event_knew(outbox: SqlBench) -> None:
    docket = parked(outbox)
    assert outbox.store.told_of(docket) is None
    for number, provider_id in enumerate((None, "m1")):
        tell(outbox.store, (f"evt_{number}", b"{}"))
        (told,) = due(outbox.store)
        fact = Fact(kind="queued", happened_at=NOW + timedelta(seconds=number), provider_id=provider_id)
        outbox.store.conclude(told, Settled(fate=Fate.APPLIED, reason="x", docket=docket, fact=fact), now=NOW)
        assert outbox.store.told_of(docket) == (provider_id or "")


def test_facts_go_with_their_mail(outbox: SqlBench) -> None:
    outbox.put()
    (parcel,) = outbox.claim()
    tell(outbox.store)
    (told,) = due(outbox.store)
    outbox.store.conclude(told, Settled(fate=Fate.APPLIED, reason="x", docket=parcel, fact=FACT), now=NOW)
    with outbox.begin() as connection:
        connection.exec_driver_sql("DELETE FROM outgoing_email")
        assert connection.execute(select(delivery_fact)).all() == []


def test_the_due_are_found_by_an_index(tmp_path: Path) -> None:
    """However many events are done with. On SQLite: plans of other databases follow their statistics."""
    store = Store(open_engine(f"sqlite:///{tmp_path / 'outbox.db'}"))
    store.create()
    seen: list[tuple[str, Any]] = []

    @event.listens_for(store.engine, "before_cursor_execute")
    def _seen(_c: Any, _cur: Any, statement: str, parameters: Any, *_rest: Any) -> None:
        seen.append((statement, parameters))

    due(store)
    event.remove(store.engine, "before_cursor_execute", _seen)
    ((statement, parameters),) = seen
    with store.engine.connect() as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
    store.engine.dispose()
    assert "ix_webhook_event_next_look_at" in str(plan)


def test_it_is_a_part_of_the_store() -> None:
    assert issubclass(Store, Events)
