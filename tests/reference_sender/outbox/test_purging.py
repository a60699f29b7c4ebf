"""Purging: finished mail that is old goes; nothing else does, in whatever state and however old it is."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from sqlalchemy import delete, insert, select, update

from reference_sender.life import FINAL, State
from reference_sender.outbox import purging
from reference_sender.outbox.purging import hash_of
from reference_sender.outbox.schema import (
    delivery_fact,
    email_attachment,
    email_attachment_use,
    email_attempt,
    operator_access,
    ordering_lane,
    outgoing_email,
    webhook_event,
)
from reference_sender.outbox.store import Store, rows_of
from reference_sender.policy.decision import Decision
from reference_sender.retention import Periods, purge
from tests.reference_sender.outbox.benches import SqlBench
from tests.reference_sender.samples import MAIL, NOW

_AGES_DAYS = (1.0, 182.9, 183.1, 4000.0)
_LONG_AGO = NOW - timedelta(days=4000)


@pytest.fixture
def clean(outbox: SqlBench) -> SqlBench:
    """Without what other tests left in the tables that are not emptied for everybody."""
    with outbox.begin() as connection:
        for table in (email_attachment_use, email_attachment, operator_access, webhook_event, delivery_fact):
            connection.execute(delete(table))
    return outbox


def put(outbox: SqlBench, key: str, state: State, moment: datetime) -> int:
    """A mail that came to this state then, with an attempt that has an answer."""
    (row,) = rows_of(MAIL, key=key, now=moment)
    row |= {"state": state, "raw_answer": "ann@example.com is fine", "parameters": '{"name": "Ann"}'}
    with outbox.begin() as connection:
        made = connection.execute(insert(outgoing_email).values(row)).inserted_primary_key
        assert made is not None
        connection.execute(
            insert(email_attempt).values(
                email_id=made[0],
                token=1,
                ended_at=moment,
                answer="ann@example.com is fine",
                decision=state.value,
                reason="because",
                late=False,
            )
        )
    return int(made[0])


def everything(outbox: SqlBench) -> set[str]:
    """Every state and age there is, by key."""
    keys = set()
    for state in State:
        for days in _AGES_DAYS:
            put(outbox, f"{state.value}-{days:g}", state, NOW - timedelta(days=days))
            keys.add(f"{state.value}-{days:g}")
    return keys


def keys_of(outbox: SqlBench) -> set[str]:
    with outbox.begin() as connection:
        return set(connection.execute(select(outgoing_email.c.dedupe_key)).scalars())


def test_of_all_states_and_ages_only_finished_and_old_mail_goes_in_small_steps(
    clean: SqlBench, store: Store
) -> None:
    """Stopped after every single step and begun anew, as if it had been killed there."""
    all_keys = everything(clean)
    going = {f"{state.value}-{days:g}" for state in FINAL for days in (183.1, 4000.0)}
    steps = 0
    while next(purge(store, Periods.parse("answers=36500"), now=NOW, limit=3), None) is not None:
        steps += 1
        assert all_keys - going <= keys_of(clean)
    assert steps >= len(going) / 3
    assert keys_of(clean) == all_keys - going
    assert len(clean.attempts()) == len(all_keys - going), "attempts go with their mail"


def test_mail_that_a_person_queued_again_meanwhile_stays(
    clean: SqlBench, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if it was found when it was still dead: the condition stands in what deletes, too."""
    number = put(clean, "order-1", State.DEAD, _LONG_AGO)
    look = purging._walk

    def too_much(number_column: object, _old: object, *more: object) -> object:
        return look(number_column, (), *more)  # type: ignore[arg-type] # finds whatever there is

    monkeypatch.setattr(purging, "_walk", too_much)
    with clean.begin() as connection:
        connection.execute(
            update(outgoing_email).where(outgoing_email.c.id == number).values(state=State.PENDING)
        )
    store.purge_mails(State.DEAD, before=NOW, after=0, limit=10)
    assert keys_of(clean) == {"order-1"}


@pytest.mark.parametrize("state", sorted(set(State) - FINAL))
def test_a_state_that_is_not_final_cannot_even_be_asked_for(state: State) -> None:
    with pytest.raises(AssertionError):
        Store.purge_mails(object(), state, before=NOW, after=0, limit=1)  # type: ignore[arg-type] # not reached


def test_what_was_told_of_a_mail_later_counts_as_its_age(clean: SqlBench, store: Store) -> None:
    number = put(clean, "order-1", State.ACCEPTED, _LONG_AGO)
    with clean.begin() as connection:
        connection.execute(
            update(outgoing_email).where(outgoing_email.c.id == number).values(last_event_at=NOW)
        )
    assert store.purge_mails(State.ACCEPTED, before=NOW, after=0, limit=10) == (0, None)


def test_what_was_told_with_a_date_of_long_ago_makes_no_mail_older(clean: SqlBench, store: Store) -> None:
    """A mail server whose clock never was set: the mail would be gone a day after it was sent, and its key with it."""
    number = put(clean, "order-1", State.ACCEPTED, NOW)
    with clean.begin() as connection:
        connection.execute(
            update(outgoing_email).where(outgoing_email.c.id == number).values(last_event_at=_LONG_AGO)
        )
    assert store.purge_mails(State.ACCEPTED, before=NOW, after=0, limit=10) == (0, None)
    assert store.purge_words(before=NOW, after=0, limit=10) == (0, None)
    assert store.purge_mails(State.ACCEPTED, before=NOW + timedelta(seconds=1), after=0, limit=10)[0] == 1


def test_answers_go_sooner_and_only_of_finished_mail(clean: SqlBench, store: Store) -> None:
    everything(clean)
    list(purge(store, Periods.parse("answers=14,accepted=36500,failed=36500,dead=36500"), now=NOW, limit=4))
    with clean.begin() as connection:
        rows = connection.execute(
            select(outgoing_email.c.dedupe_key, outgoing_email.c.raw_answer, email_attempt.c.answer).join(
                email_attempt, email_attempt.c.email_id == outgoing_email.c.id
            )
        ).all()
    kept = {row.dedupe_key for row in rows if row.answer is not None}
    assert kept == {row.dedupe_key for row in rows if row.raw_answer is not None}
    assert kept == {f"{state.value}-{days:g}" for state in set(State) - FINAL for days in _AGES_DAYS} | {
        f"{state.value}-1" for state in FINAL
    }


def test_words_may_go_before_their_mail_and_leave_a_hash(clean: SqlBench, store: Store) -> None:
    number = put(clean, "order-1", State.ACCEPTED, NOW - timedelta(days=40))
    put(clean, "order-2", State.PENDING, NOW - timedelta(days=40))
    said = clean.row(number).raw
    list(purge(store, Periods.parse("words=30"), now=NOW))
    row = clean.row(number)
    assert (bytes(row.raw), row.parameters, row.content_hash) == (b"", None, hash_of(said))
    assert row.recipient == "ann@example.com"
    assert clean.row(number + 1).content_hash is None
    assert store.wordless([number, number + 1]) == [number]
    list(purge(store, Periods.parse("words=30"), now=NOW))
    assert clean.row(number).content_hash == hash_of(said), "a second time hashes no emptiness"


def test_whoever_saw_a_mail_before_its_words_went_does_not_put_it_back(clean: SqlBench, store: Store) -> None:
    """A requeue of thousands takes minutes: what was purged meanwhile would be sent without a word in it."""
    number = put(clean, "order-1", State.DEAD, NOW - timedelta(days=40))
    (seen,) = store.find(ids=(number,))
    list(purge(store, Periods.parse("words=30"), now=NOW))
    back = Decision(state=State.PENDING, reason="requeued by hand", next_attempt_at=NOW)
    assert not store.requeue(seen, back, now=NOW)
    assert clean.row(number).state is State.DEAD


def test_contents_of_attachments_live_as_long_as_a_mail_names_them(clean: SqlBench, store: Store) -> None:
    number = put(clean, "order-1", State.ACCEPTED, _LONG_AGO)
    with clean.begin() as connection:
        for digest in ("aa", "bb"):
            connection.execute(
                insert(email_attachment).values(digest=digest, content=b"x", octets=1, used_at=_LONG_AGO)
            )
        connection.execute(insert(email_attachment_use).values(email_id=number, digest="aa"))
    assert store.purge_attachments(before=NOW, limit=10) == 1
    list(purge(store, Periods.parse(""), now=NOW))
    with clean.begin() as connection:
        assert connection.execute(select(email_attachment.c.digest)).all() == []


def test_an_ordering_key_lives_as_long_as_something_waits_under_it(clean: SqlBench, store: Store) -> None:
    with clean.begin() as connection:
        connection.execute(delete(ordering_lane))
        for name in ("user-1", "user-2", "user-3"):
            at = NOW if name == "user-3" else _LONG_AGO
            connection.execute(insert(ordering_lane).values(ordering_key=name, enqueued_at=at))
    for name, state in (("user-1", State.PENDING), ("user-2", State.ACCEPTED)):
        number = put(clean, name, state, NOW)
        with clean.begin() as connection:
            mine = update(outgoing_email).where(outgoing_email.c.id == number)
            connection.execute(mine.values(ordering_key=name))
    assert store.purge_lanes(before=NOW, limit=10) == 1
    with clean.begin() as connection:
        left = set(connection.execute(select(ordering_lane.c.ordering_key)).scalars())
    assert left == {"user-1", "user-3"}


def test_events_that_are_done_with_and_old_looks_go(clean: SqlBench, store: Store) -> None:
    with clean.begin() as connection:
        for number, settled_at in enumerate((_LONG_AGO, NOW, None)):
            connection.execute(
                insert(webhook_event).values(
                    source="webhook",
                    event_id=f"e{number}",
                    raw=b"{}",
                    received_at=_LONG_AGO,
                    state="applied" if settled_at else "waiting",
                    looks=1,
                    settled_at=settled_at,
                )
            )
    store.note_access("anna", "trace", now=_LONG_AGO)
    store.note_access("bob", "trace", now=NOW)
    list(purge(store, Periods.parse(""), now=NOW, limit=1))
    with clean.begin() as connection:
        assert set(connection.execute(select(webhook_event.c.event_id)).scalars()) == {"e1", "e2"}
    assert [access.operator for access in store.accesses()] == ["bob"]
