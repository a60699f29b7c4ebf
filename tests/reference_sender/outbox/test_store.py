"""What every database must do for the outbox: one suite of behaviour, run on each of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Row, event, func, select, text, update
from sqlalchemy.orm import Session

from reference_sender.life import Parcel, State
from reference_sender.message import InvalidMail, Mail
from reference_sender.outbox.schema import email_attempt, outgoing_email
from reference_sender.outbox.store import Store, StoreTrouble, enqueue, open_engine
from reference_sender.policy.decision import Decision, Doubt
from reference_sender.policy.evidence import Evidence, Phase, Wire
from tests.reference_sender.outbox.databases import database
from tests.reference_sender.samples import MAIL, NOW

ACCEPTED = Decision(state=State.ACCEPTED, reason="accepted", provider_id="m1")
ANSWER = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=200, answer='{"id": "m1"}')
LATER = Decision(state=State.PENDING, reason="later", next_attempt_at=NOW + timedelta(seconds=5))
UNKNOWN = Decision(
    state=State.UNKNOWN,
    reason="silence",
    next_attempt_at=NOW,
    doubt=Doubt.NEW,
    if_not_sent=State.PENDING,
)


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with database(request.param, tmp_path) as url:
        store = Store(open_engine(url))
        store.create()
        yield store
        store.engine.dispose()


def put(store: Store, key: str = "order-1", mail: Mail = MAIL, **more: Any) -> tuple[int, ...]:
    with store.engine.begin() as connection:
        return enqueue(connection, mail, key=key, now=NOW, **more).ids


def claim(store: Store, at_s: float = 0.0, limit: int = 10, *, dedupes: bool = True) -> list[Parcel]:
    return store.claim(now=NOW + timedelta(seconds=at_s), limit=limit, lease_s=60.0, dedupes=dedupes)


def row(store: Store, row_id: int = 1) -> Row[Any]:
    with store.engine.connect() as connection:
        return connection.execute(select(outgoing_email).where(outgoing_email.c.id == row_id)).one()


def attempts(store: Store) -> list[Row[Any]]:
    with store.engine.connect() as connection:
        return list(connection.execute(select(email_attempt).order_by(email_attempt.c.id)))


# -- enqueue --------------------------------------------------------------------------------------------------


def test_a_mail_is_there_after_the_commit(store: Store) -> None:
    (row_id,) = put(store)
    stored = row(store, row_id)
    assert (stored.state, stored.attempts, stored.in_doubt) == (State.PENDING, 0, False)
    assert stored.message_id.encode() in stored.raw
    assert NOW == stored.created_at == stored.next_attempt_at


def test_a_rollback_leaves_nothing(store: Store) -> None:
    with store.engine.connect() as connection:
        enqueue(connection, MAIL, key="order-1", now=NOW)
        connection.rollback()
    assert store.standings() == []


def test_the_same_key_again_is_the_same_mail(store: Store) -> None:
    with store.engine.begin() as connection:
        first = enqueue(connection, MAIL, key="order-1", now=NOW)
    with store.engine.begin() as connection:
        second = enqueue(connection, MAIL, key="order-1", now=NOW + timedelta(days=1))
    assert (first.created, second.created) == (True, False)
    assert replace(first, created=False) == second
    assert len(store.standings()) == 1


def test_the_same_key_twice_in_one_transaction_is_one_mail(store: Store) -> None:
    with store.engine.begin() as connection:
        created = [enqueue(connection, MAIL, key="order-1", now=NOW).created for _ in range(2)]
    assert created == [True, False]


def test_two_events_with_equal_content_are_two_mails(store: Store) -> None:
    assert put(store, "order-1") != put(store, "order-2")


def test_each_recipient_gets_a_row_of_its_own_from_one_insert(store: Store) -> None:
    statements: list[str] = []

    @event.listens_for(store.engine, "before_cursor_execute")
    def _seen(_c: Any, _cur: Any, statement: str, *_rest: Any) -> None:
        statements.append(statement.split()[0])

    mail = replace(MAIL, recipients=("ann@example.com", "Bob <bob@example.com>", "ann@EXAMPLE.com"))
    with store.engine.begin() as connection:
        done = enqueue(connection, mail, key="order-1", now=NOW)
    assert (statements.count("INSERT"), statements.count("SELECT")) == (1, 1)
    assert len(set(done.idempotency_keys)) == len(set(done.message_ids)) == len(set(done.ids)) == 2


def test_a_new_recipient_of_a_known_event_is_a_new_row(store: Store) -> None:
    put(store)
    with store.engine.begin() as connection:
        mail = replace(MAIL, recipients=("ann@example.com", "bob@example.com"))
        assert enqueue(connection, mail, key="order-1", now=NOW).created
    assert [s.recipient for s in store.standings()] == ["ann@example.com", "bob@example.com"]


def test_an_orm_session_will_do(store: Store) -> None:
    with Session(store.engine) as session, session.begin():
        assert enqueue(session, MAIL, key="order-1", now=NOW).created
    with Session(store.engine) as session:
        enqueue(session, MAIL, key="order-2", now=NOW)
        session.rollback()
    assert [s.key for s in store.standings()] == ["order-1"]


def test_two_transactions_with_the_same_key_at_once_make_one_mail(store: Store) -> None:
    began = threading.Barrier(2)
    made: list[bool] = []

    def transact() -> None:
        began.wait()
        with store.engine.begin() as connection:
            made.append(enqueue(connection, MAIL, key="order-1", now=NOW).created)

    threads = [threading.Thread(target=transact) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == [False, True]


@pytest.mark.parametrize("key", ["", "x" * 256, "a\x00b"])
def test_a_key_that_names_nothing_is_refused(store: Store, key: str) -> None:
    with pytest.raises(ValueError, match="event key"):
        put(store, key)


def test_a_bad_mail_never_reaches_the_database(store: Store) -> None:
    with pytest.raises(InvalidMail):
        put(store, mail=replace(MAIL, subject="a\nb"))


def test_big_mails_come_back_byte_for_byte(store: Store) -> None:
    put(store, mail=replace(MAIL, text="ä" * 3_000_000))
    (parcel,) = claim(store)
    assert parcel.raw == row(store).raw
    assert len(parcel.raw) > 3_000_000


# -- claim ----------------------------------------------------------------------------------------------------


def test_a_claim_is_committed_before_it_is_returned(store: Store) -> None:
    put(store)
    (parcel,) = claim(store)
    stored = row(store)
    assert (stored.state, stored.token, stored.attempts) == (State.SENDING, 1, 1)
    assert (parcel.token, parcel.attempts) == (1, 1)
    assert NOW + timedelta(seconds=60) == stored.lease_until == parcel.lease_until
    assert stored.first_attempt_at == NOW


def test_what_is_claimed_is_not_claimed_again(store: Store) -> None:
    put(store)
    assert len(claim(store)) == 1
    assert claim(store) == []


def test_what_is_not_due_is_not_claimed(store: Store) -> None:
    put(store)
    (parcel,) = claim(store)
    assert store.settle(parcel, LATER, now=NOW)
    assert claim(store, 4.9) == []
    assert len(claim(store, 5)) == 1


def test_a_limit_is_a_limit(store: Store) -> None:
    for number in range(5):
        put(store, f"order-{number}")
    assert len(claim(store, limit=3)) == 3
    assert claim(store, limit=0) == []
    assert len(claim(store, limit=3)) == 2


def test_urgent_mail_goes_first(store: Store) -> None:
    put(store, "bulk")
    put(store, "code", priority=10)
    assert [p.key for p in claim(store)] == ["code", "bulk"]


def test_two_claimers_never_share_a_row(store: Store) -> None:
    for number in range(40):
        put(store, f"order-{number}")
    began = threading.Barrier(4)
    taken: list[int] = []

    def work() -> None:
        began.wait()
        while parcels := claim(store, limit=3):
            taken.extend(p.id for p in parcels)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == sorted(set(taken))
    # With SKIP LOCKED a claimer may look while all that is left is in another's hands; nothing stays behind.
    assert len(taken) + len(claim(store, limit=100)) == 40


def test_with_keys_a_lost_lease_is_claimed_again_and_is_doubted(store: Store) -> None:
    put(store)
    claim(store)
    assert claim(store, 60) == []
    (parcel,) = claim(store, 61)
    assert (parcel.token, parcel.attempts, parcel.doubted) == (2, 2, True)
    assert [a.reason for a in attempts(store)] == ["lease ran out"]


def test_without_keys_a_lease_lost_before_the_marker_is_claimed_again_without_doubt(store: Store) -> None:
    put(store)
    claim(store, dedupes=False)
    (parcel,) = claim(store, 61, dedupes=False)
    assert not parcel.doubted


def test_without_keys_a_lease_lost_after_the_marker_is_never_claimed_again(store: Store) -> None:
    put(store)
    (parcel,) = claim(store, dedupes=False)
    assert store.mark(parcel, now=NOW)
    assert claim(store, 61, dedupes=False) == []


def test_a_change_from_keys_to_no_keys_does_not_repeat_what_may_have_been_sent(store: Store) -> None:
    put(store)
    claim(store, dedupes=True)
    assert claim(store, 61, dedupes=False) == []


# -- fencing --------------------------------------------------------------------------------------------------


def test_a_settled_row_says_what_came_of_it(store: Store) -> None:
    put(store)
    (parcel,) = claim(store)
    assert store.settle(parcel, ACCEPTED, now=NOW, evidence=ANSWER, started_at=NOW)
    stored = row(store)
    assert (
        stored.state,
        stored.provider_id,
        stored.last_code,
        stored.accepted_at,
    ) == (State.ACCEPTED, "m1", 200, NOW)
    assert (stored.lease_until, stored.in_doubt) == (None, False)
    (attempt,) = attempts(store)
    assert (attempt.decision, attempt.phase, attempt.code, attempt.late) == ("accepted", "sent", 200, False)


def test_a_refund_gives_the_attempt_back(store: Store) -> None:
    put(store)
    (parcel,) = claim(store)
    store.settle(parcel, replace(LATER, refund=True), now=NOW)
    # It counts as a try all the same: the back-off grows with those.
    assert (row(store).attempts, row(store).tries, row(store).token) == (0, 1, 1)


def test_a_late_result_changes_no_state_but_is_kept(store: Store) -> None:
    put(store)
    (zombie,) = claim(store)
    (second,) = claim(store, 61)
    assert not store.settle(zombie, ACCEPTED, now=NOW + timedelta(seconds=62), evidence=ANSWER)
    assert (row(store).state, row(store).token) == (State.SENDING, 2)
    assert [a.late for a in attempts(store) if a.decision == "accepted"] == [True]
    assert store.late_acceptance(second) == "m1"
    assert store.settle(second, LATER, now=NOW + timedelta(seconds=63))


def test_a_marker_without_the_lease_is_refused(store: Store) -> None:
    put(store)
    (zombie,) = claim(store, dedupes=False)
    claim(store, 61, dedupes=False)
    assert not store.mark(zombie, now=NOW)
    assert row(store).in_doubt is False


def test_nobody_settles_twice(store: Store) -> None:
    put(store)
    (parcel,) = claim(store)
    assert store.settle(parcel, ACCEPTED, now=NOW)
    assert not store.settle(parcel, LATER, now=NOW)
    assert row(store).state is State.ACCEPTED


def test_a_move_that_is_not_in_the_table_is_a_bug(store: Store) -> None:
    put(store)
    (parcel,) = claim(store)
    store.settle(parcel, ACCEPTED, now=NOW)
    (docket,) = store.find(key="order-1")
    with pytest.raises(AssertionError):
        store.requeue(docket, LATER, now=NOW)


# -- doubt ----------------------------------------------------------------------------------------------------


def parked(store: Store) -> Any:
    put(store)
    (parcel,) = claim(store, dedupes=False)
    store.mark(parcel, now=NOW)
    store.settle(parcel, UNKNOWN, now=NOW)
    (docket,) = store.doubtful(now=NOW, limit=10)
    return docket


def test_a_worker_lost_after_the_marker_leaves_an_unknown_row(store: Store) -> None:
    put(store)
    (parcel,) = claim(store, dedupes=False)
    store.mark(parcel, now=NOW)
    late = NOW + timedelta(seconds=61)
    assert store.park_lost(now=NOW + timedelta(seconds=60), dedupes=False) == []
    assert [parcel.id] == store.park_lost(now=late, dedupes=False)
    assert store.park_lost(now=late, dedupes=False) == []
    stored = row(store)
    assert (State.UNKNOWN, State.PENDING, late) == (stored.state, stored.if_not_sent, stored.doubted_at)
    # Nobody who comes back can write to it any more.
    assert not store.mark(parcel, now=late)
    assert not store.settle(parcel, LATER, now=late)


def test_where_the_provider_dedupes_nothing_is_parked(store: Store) -> None:
    put(store)
    claim(store)
    assert store.park_lost(now=NOW + timedelta(seconds=61), dedupes=True) == []


def test_an_unknown_row_is_looked_at_when_it_is_due(store: Store) -> None:
    docket = parked(store)
    again = replace(UNKNOWN, doubt=Doubt.KEEP, next_attempt_at=NOW + timedelta(seconds=9), reason="too early")
    assert store.resolve(docket, again, now=NOW)
    assert store.doubtful(now=NOW, limit=10) == []
    (later,) = store.doubtful(now=NOW + timedelta(seconds=9), limit=10)
    assert (docket.doubted_at, "silence") == (later.doubted_at, later.last_error)


def test_a_row_is_resolved_once(store: Store) -> None:
    docket = parked(store)
    back = Decision(state=State.PENDING, reason="not sent", next_attempt_at=NOW, doubt=Doubt.CLEAR)
    assert store.resolve(docket, back, now=NOW)
    assert not store.resolve(docket, replace(ACCEPTED), now=NOW)
    assert (row(store).state, row(store).doubted_at) == (State.PENDING, None)


def test_a_late_answer_brings_the_next_look_forward(store: Store) -> None:
    put(store)
    (zombie,) = claim(store, dedupes=False)
    store.mark(zombie, now=NOW)
    late = NOW + timedelta(seconds=61)
    store.park_lost(now=late, dedupes=False)
    (docket,) = store.doubtful(now=late, limit=10)
    store.resolve(
        docket, replace(UNKNOWN, doubt=Doubt.KEEP, next_attempt_at=NOW + timedelta(days=1)), now=late
    )
    assert store.doubtful(now=late, limit=10) == []
    assert not store.settle(zombie, ACCEPTED, now=late, evidence=ANSWER)
    assert len(store.doubtful(now=late, limit=10)) == 1


# -- people ---------------------------------------------------------------------------------------------------


def test_a_requeued_mail_starts_afresh_with_the_same_key_and_bytes(store: Store) -> None:
    put(store)
    (parcel,) = claim(store)
    store.settle(parcel, Decision(state=State.DEAD, reason="spent"), now=NOW)
    (docket,) = store.find(key="order-1")
    later = NOW + timedelta(days=9)
    back = Decision(state=State.PENDING, reason="by hand", next_attempt_at=later, doubt=Doubt.CLEAR)
    assert store.requeue(docket, back, now=later)
    assert not store.requeue(docket, back, now=later)
    (again,) = claim(store, 9 * 86_400)
    assert (1, 1, later) == (again.attempts, again.tries, again.queued_at)
    assert (parcel.idempotency_key, parcel.raw) == (again.idempotency_key, again.raw)
    assert row(store).created_at == NOW


def test_rows_are_found_by_key_number_and_state(store: Store) -> None:
    first, second = put(store, "order-1"), put(store, "order-2")
    assert first == tuple(d.id for d in store.find(key="order-1"))
    assert second == tuple(d.id for d in store.find(ids=second))
    assert first + second == tuple(d.id for d in store.find(states=[State.PENDING]))
    assert store.find(states=[State.DEAD]) == []


def test_the_tally_counts_states_and_knows_the_oldest(store: Store) -> None:
    put(store)
    put(store, "order-2")
    claim(store, limit=1)
    assert [(t.state, t.count, t.oldest) for t in store.tallies()] == [
        (State.PENDING, 1, NOW),
        (State.SENDING, 1, NOW),
    ]


def test_everything_can_be_dropped_and_created_again(store: Store) -> None:
    put(store)
    assert store.create() == []
    assert len(store.standings()) == 1
    assert store.create(recreate=True) == ["outgoing_email", "email_attempt"]
    assert store.standings() == []


def test_an_attempt_goes_with_its_mail(store: Store) -> None:
    put(store)
    (parcel,) = claim(store)
    store.settle(parcel, ACCEPTED, now=NOW)
    with store.engine.begin() as connection:
        connection.execute(outgoing_email.delete())
    assert attempts(store) == []


def test_a_missing_table_is_one_sentence(store: Store) -> None:
    store.check()
    with store.engine.begin() as connection:
        connection.execute(text("DROP TABLE email_attempt"))
        connection.execute(text("DROP TABLE outgoing_email"))
    with pytest.raises(StoreTrouble, match="run `reference-sender init` first"):
        store.check()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["DROP COLUMN may_repeat"], "the column may_repeat of the table outgoing_email .* older than"),
        (
            ["RENAME COLUMN may_repeat TO may_be_repeated"],
            "the column may_repeat of the table outgoing_email .* newer than",
        ),
        (["ADD COLUMN more INTEGER NOT NULL"], "wants a value for the column more"),
    ],
)
def test_a_schema_of_another_version_is_one_sentence(store: Store, changes: list[str], words: str) -> None:
    with store.engine.begin() as connection:
        for change in changes:
            if "NOT NULL" in change and store.engine.dialect.name == "sqlite":
                # SQLite adds no such column later on; a table that was made with it can be had by making it anew.
                made = connection.execute(text("SELECT sql FROM sqlite_master WHERE name='email_attempt'"))
                sql = made.scalar_one().replace("token INTEGER", "more INTEGER NOT NULL, token INTEGER")
                connection.execute(text("DROP TABLE email_attempt"))
                connection.execute(text(sql))
            else:
                table = "email_attempt" if "NOT NULL" in change else "outgoing_email"
                connection.execute(text(f"ALTER TABLE {table} {change}"))
    with pytest.raises(StoreTrouble, match=words) as caught:
        store.check()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("column", ["note TEXT", "flag INTEGER NOT NULL DEFAULT 0"])
def test_a_column_that_somebody_added_does_no_harm(store: Store, column: str) -> None:
    with store.engine.begin() as connection:
        connection.execute(text(f"ALTER TABLE outgoing_email ADD COLUMN {column}"))
    store.check()
    put(store)
    assert len(claim(store)) == 1


def test_stores_agree_on_time_with_the_database(store: Store) -> None:
    put(store)
    with store.engine.begin() as connection:
        connection.execute(update(outgoing_email).values(next_attempt_at=NOW + timedelta(microseconds=1)))
        assert (
            connection.execute(select(func.count()).where(outgoing_email.c.next_attempt_at <= NOW)).scalar()
            == 0
        )
    assert claim(store) == []


# -- the databases themselves ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("nonsense", "not a database URL"),
        ("", "not a database URL"),
        ("oracle://x", "not supported"),
        ("mysql://x/y", "not supported"),
        ("sqlite://", "in memory"),
        ("sqlite:///:memory:", "in memory"),
        ("sqlite:///file::memory:?mode=memory&uri=true", "in memory"),
    ],
)
def test_a_url_that_leads_nowhere_is_one_sentence(url: str, word: str) -> None:
    with pytest.raises(StoreTrouble, match=word):
        open_engine(url)


def test_a_commit_on_sqlite_survives_a_power_cut(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path / 'outbox.db'}")
    with engine.connect() as connection:
        pragmas = [
            connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "busy_timeout", "foreign_keys")
        ]
    engine.dispose()
    assert pragmas == ["wal", 2, 30_000, 1]


def test_a_reader_on_sqlite_does_not_wait_for_the_writer(tmp_path: Path) -> None:
    store = Store(open_engine(f"sqlite:///{tmp_path / 'outbox.db'}"))
    store.create()
    with store.engine.begin() as connection:
        enqueue(connection, MAIL, key="order-1", now=NOW)
        assert store.standings() == []
    assert len(store.standings()) == 1
    store.engine.dispose()
