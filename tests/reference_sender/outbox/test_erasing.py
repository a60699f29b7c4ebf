"""Erasing: afterwards the address and the words are nowhere in the database, and the proof still is."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import delete, insert, select, text, update

from reference_sender.life import Actor, State
from reference_sender.message import Attachment, Mail
from reference_sender.outbox.named import MOST
from reference_sender.outbox.purging import hash_of
from reference_sender.outbox.schema import (
    delivery_fact,
    email_attachment,
    email_attachment_use,
    email_attempt,
    event_address,
    metadata,
    outgoing_email,
    suppression,
    webhook_event,
)
from reference_sender.outbox.sealed import seal_with
from reference_sender.outbox.store import Store
from reference_sender.policy.addresses import digest_of
from reference_sender.policy.decision import Decision
from reference_sender.policy.evidence import Evidence, Phase, Wire
from reference_sender.policy.hearing import Fact, Fate, Settled
from reference_sender.retention import erase
from reference_sender.sealing import Vault, is_sealed
from tests.reference_sender.outbox.benches import SqlBench
from tests.reference_sender.samples import NOW

ANN = "ann@example.com"
SECRETS = (b"<ann@", b'"ann@', b"Dear Ann", b"a-parameter")


def mail_to(to: str = ANN) -> Mail:
    return Mail(
        sender="shop@example.org",
        recipients=(to,),
        subject="Dear Ann",
        text="Dear Ann",
    )


@pytest.fixture(autouse=True)
def _clean(outbox: SqlBench) -> None:
    with outbox.begin() as connection:
        for table in reversed(metadata.sorted_tables):
            if table.name != "outbox_schema":
                connection.execute(delete(table))


WITH_FILE = replace(
    mail_to(), attachments=(Attachment(filename="a.bin", content_type="image/png", content=bytes(9_000)),)
)


def put(
    outbox: SqlBench, key: str, to: str = ANN, *, now: datetime = NOW, mail: Mail | None = None, **more: Any
) -> int:
    with outbox.begin() as connection:
        made = outbox.enqueue(
            connection,
            mail or mail_to(to),
            key=key,
            now=now,
            template="order",
            parameters={"name": "a-parameter"},
            **more,
        )
    return made.ids[0]


def send(store: Store, state: State = State.ACCEPTED, **more: Any) -> None:
    (parcel,) = store.claim(now=NOW, limit=1, lease_s=60, dedupes=True)
    evidence = Evidence(wire=Wire.SMTP, phase=Phase.SENT, code=250, answer=f"2.1.5 <{ANN}> accepted")
    decision = Decision(state=state, reason="because", **more)
    assert store.settle(parcel, decision, now=NOW, evidence=evidence, started_at=NOW)


def told(outbox: SqlBench, email_id: int) -> None:
    """What the provider told afterwards, and the list that it led to."""
    with outbox.begin() as connection:
        for event_id, raw, of_mail, settled in (
            ("e1", f'{{"to": "{ANN.upper()}"}}'.encode(), None, NOW),
            ("e2", b'{"id": "m1"}', email_id, NOW),
            ("e3", b'{"to": "bob@example.com"}', None, NOW),
            ("e4", b'{"to": "joann@example.com"}', None, NOW),
        ):
            connection.execute(
                insert(webhook_event).values(
                    source="webhook",
                    event_id=event_id,
                    raw=raw,
                    received_at=NOW,
                    state="applied",
                    looks=1,
                    email_id=of_mail,
                    settled_at=settled,
                )
            )
        connection.execute(
            insert(delivery_fact).values(
                email_id=email_id,
                kind="bounced",
                happened_at=NOW,
                detail=f"550 <{ANN}> unknown",
                recorded_at=NOW,
            )
        )
        for address in (ANN, "bob@example.com"):
            connection.execute(
                insert(suppression).values(
                    address=address, kind="all", reason="bounced", source="e1", since=NOW
                )
            )


def everything(outbox: SqlBench) -> bytes:
    """All that is in all tables."""
    pieces = []
    with outbox.begin() as connection:
        for table in metadata.sorted_tables:
            for row in connection.execute(select(table)):
                for value in row:
                    pieces.append(
                        bytes(value) if isinstance(value, bytes | memoryview) else str(value).encode()
                    )
    return b"\n".join(pieces)


def test_afterwards_the_person_is_nowhere_and_the_proof_is_there(outbox: SqlBench, store: Store) -> None:
    number = put(outbox, "order-1")
    send(store, provider_id="m1")
    told(outbox, number)
    before = outbox.row(number)
    assert all(secret.lower() in everything(outbox).lower() for secret in (b"ann@", b"dear ann"))
    done = erase(store, ANN, now=NOW + timedelta(days=1), keep_suppression=False)
    assert (done.mails, done.events, done.suppressions, done.open) == (1, 2, 1, ())
    left = everything(outbox).lower()
    assert [secret for secret in SECRETS if secret.lower() in left] == []
    row = outbox.row(number)
    assert (row.dedupe_key, row.message_id, row.provider_id, row.state, row.accepted_at) == (
        "order-1",
        before.message_id,
        "m1",
        State.ACCEPTED,
        before.accepted_at,
    )
    assert (row.erased_at, row.content_hash) == (NOW + timedelta(days=1), hash_of(before.raw))
    assert b"bob@example.com" in left, "others are not touched"
    assert b"joann@example.com" in left, "nor is somebody whose address ends like hers"
    assert erase(store, ANN, now=NOW, keep_suppression=False).mails == 0


def test_content_that_somebody_else_got_too_stays_for_him(outbox: SqlBench, store: Store) -> None:
    first = put(outbox, "order-1")
    send(store, provider_id="m1")
    second = put(outbox, "order-2", "bob@example.com")
    with outbox.begin() as connection:
        for digest, mails in (("ours", (first, second)), ("hers", (first,))):
            connection.execute(
                insert(email_attachment).values(digest=digest, content=b"Dear Ann", octets=8, used_at=NOW)
            )
            for number in mails:
                connection.execute(insert(email_attachment_use).values(email_id=number, digest=digest))
    erase(store, ANN, now=NOW, keep_suppression=False)
    with outbox.begin() as connection:
        assert connection.execute(select(email_attachment.c.digest)).scalars().all() == ["ours"]
        connection.execute(
            update(outgoing_email)
            .where(outgoing_email.c.dedupe_key == "order-2")
            .values(state=State.ACCEPTED)
        )
    erase(store, "bob@example.com", now=NOW, keep_suppression=False)
    with outbox.begin() as connection:
        assert connection.execute(select(email_attachment.c.digest)).all() == []


def test_what_waits_is_withheld_and_never_sent(outbox: SqlBench, store: Store) -> None:
    number = put(outbox, "order-1")
    done = erase(store, ANN, now=NOW, keep_suppression=True)
    assert (done.mails, done.withheld, done.open) == (1, 1, ())
    assert outbox.row(number).state is State.SUPPRESSED
    assert store.claim(now=NOW + timedelta(days=1), limit=1, lease_s=60, dedupes=True) == []
    assert [attempt.reason for attempt in outbox.attempts()] == [
        "person: withheld: the recipient is being erased"
    ]


def test_what_is_under_way_or_in_doubt_is_left_whole_and_told(outbox: SqlBench, store: Store) -> None:
    unknown = put(outbox, "order-1")
    send(store, State.UNKNOWN, next_attempt_at=NOW + timedelta(days=1))
    sending = put(outbox, "order-2")
    store.claim(now=NOW, limit=1, lease_s=60, dedupes=True)
    before = [outbox.row(unknown), outbox.row(sending)]
    done = erase(store, ANN, now=NOW, keep_suppression=False)
    assert (done.mails, done.open) == (0, (unknown, sending))
    assert [outbox.row(unknown), outbox.row(sending)] == before


def test_names_that_were_made_from_the_address_lose_it(outbox: SqlBench, store: Store) -> None:
    number = put(outbox, f"welcome-{ANN}", ordering_key=f"user-{ANN}", slot=f"login {ANN}")
    send(store, provider_id="m1")
    erase(store, ANN, now=NOW, keep_suppression=False)
    row = outbox.row(number)
    assert row.dedupe_key.startswith("erased-")
    assert len({row.dedupe_key, row.idempotency_key, row.ordering_key, row.slot}) == 4
    assert b"ann" not in everything(outbox).lower()
    assert erase(store, ANN, now=NOW, keep_suppression=False).mails == 0


def test_capital_letters_are_the_same_person(outbox: SqlBench, store: Store) -> None:
    put(outbox, "order-1", "Ann@Example.COM")
    send(store, provider_id="m1")
    assert erase(store, ANN, now=NOW, keep_suppression=False).mails == 1


def test_an_attempt_of_somebody_else_keeps_its_answer(outbox: SqlBench, store: Store) -> None:
    put(outbox, "order-2", "bob@example.com")
    send(store, provider_id="m2")
    put(outbox, "order-1")
    send(store, provider_id="m1")
    erase(store, ANN, now=NOW, keep_suppression=False)
    with outbox.begin() as connection:
        answers = list(
            connection.execute(select(email_attempt.c.answer).order_by(email_attempt.c.id)).scalars()
        )
    assert [answer is None for answer in answers] == [False, True]


# --- what the provider told, found by an index ------------------------------------------------------------


def settle_event(store: Store, raw: bytes, name: str = "e1", *, docket: Any = None, fact: Any = None) -> int:
    """Have an event told and dealt with; its number."""
    assert store.receive([(name, raw)], source="webhook", now=NOW) == 1
    (told_event,) = store.due_events(now=NOW, limit=10)
    end = Settled(fate=Fate.APPLIED, reason="x", docket=docket, fact=fact)
    assert store.conclude(told_event, end, now=NOW)
    return told_event.id


def raws(outbox: SqlBench) -> dict[str, bytes]:
    with outbox.begin() as connection:
        return {row.event_id: bytes(row.raw) for row in connection.execute(select(webhook_event))}


def named(outbox: SqlBench) -> set[str]:
    with outbox.begin() as connection:
        return set(connection.execute(select(event_address.c.digest)).scalars())


def test_who_settles_an_event_notes_whom_it_names(outbox: SqlBench, store: Store) -> None:
    settle_event(store, b'{"data": {"recipient": "Ann@example.com", "said": "550 <bob@example.com>"}}')
    assert named(outbox) == {digest_of(ANN), digest_of("bob@example.com")}
    assert store.note_events(ANN, now=NOW, after=0, limit=10) == (0, None)
    assert erase(store, ANN, now=NOW, keep_suppression=False).events == 1
    assert (raws(outbox), named(outbox)) == ({"e1": b""}, set())
    assert erase(store, ANN, now=NOW, keep_suppression=False).events == 0


@pytest.fixture
def keys(store: Store) -> Iterator[Vault]:
    """An outbox that seals."""
    vault = Vault.parse("a:" + base64.b64encode(b"a" * 32).decode())
    seal_with(store.engine, vault)
    yield vault
    seal_with(store.engine, None)


def test_sealed_events_are_found_and_read_by_nobody(outbox: SqlBench, store: Store, keys: Vault) -> None:
    settle_event(store, b'{"recipient": "ann@example.com"}')
    with outbox.begin() as connection:
        (at_rest,) = connection.execute(text("SELECT raw FROM webhook_event")).scalars()
    assert (is_sealed(bytes(at_rest)), b"ann" in bytes(at_rest)) == (True, False)
    seal_with(store.engine, None)  # whoever erases needs no key for what was noted
    done = erase(store, ANN, now=NOW, keep_suppression=False)
    assert (done.events, done.events_left, raws(outbox)) == (1, 0, {"e1": b""})


def test_what_was_told_before_the_index_was_there_is_noted_by_the_first_erasure(
    outbox: SqlBench, store: Store
) -> None:
    for number in range(5):
        settle_event(store, b'{"to": "u%d@example.com"}' % number, f"e{number}")
    with outbox.begin() as connection:
        connection.execute(delete(event_address))
        connection.execute(update(webhook_event).values(named_at=None))
    done = erase(store, "u3@example.com", now=NOW, keep_suppression=False, limit=2)
    assert (done.events, raws(outbox)["e3"], raws(outbox)["e4"]) == (1, b"", b'{"to": "u4@example.com"}')
    assert named(outbox) == {digest_of(f"u{n}@example.com") for n in (0, 1, 2, 4)}


def test_what_nobody_has_dealt_with_is_left_and_told(outbox: SqlBench, store: Store, keys: Vault) -> None:
    store.receive([("waits", b'{"to": "ann@example.com"}'), ("hers", b"{}")], source="webhook", now=NOW)
    assert erase(store, ANN, now=NOW, keep_suppression=False).events_left == 1
    seal_with(store.engine, None)
    store.receive([("plain", b'{"to": "ann@example.com"}')], source="webhook", now=NOW)
    with outbox.begin() as connection:
        connection.execute(delete(event_address))
        connection.execute(update(webhook_event).values(named_at=None))
    done = erase(store, ANN, now=NOW, keep_suppression=False)
    assert (done.events, done.events_left) == (0, 3), "one that names her, and two that nobody can read"


def test_what_comes_after_its_mail_was_erased_is_erased_the_next_time(outbox: SqlBench, store: Store) -> None:
    number = put(outbox, "order-1")
    send(store, provider_id="m1")
    erase(store, ANN, now=NOW, keep_suppression=False)
    (docket,) = store.find(ids=[number])
    said = Fact(kind="complaint", happened_at=NOW, provider_id="m1", detail=f"<{ANN}> complained")
    settle_event(store, b'{"data": {"recipient": "ann@example.com"}}', docket=docket, fact=said)
    assert ANN.encode() in everything(outbox)
    done = erase(store, ANN, now=NOW, keep_suppression=False)
    assert (done.mails, done.events, ANN.encode() in everything(outbox)) == (0, 1, False)


def test_an_event_that_names_too_many_is_read_by_each_erasure(outbox: SqlBench, store: Store) -> None:
    crowd = json.dumps([f"u{n}@example.com" for n in range(MOST + 1)]).encode()
    settle_event(store, crowd)
    assert named(outbox) == set(), "whoever can mail the door fills no table"
    assert erase(store, ANN, now=NOW, keep_suppression=False).events == 0
    assert erase(store, "u7@example.com", now=NOW, keep_suppression=False).events == 1
    assert raws(outbox) == {"e1": b""}


def test_whoever_saw_a_mail_before_it_was_erased_does_not_put_it_back(outbox: SqlBench, store: Store) -> None:
    """It would be sent without a word in it, to nobody."""
    number = put(outbox, "order-1")
    send(store, State.DEAD)
    (seen,) = store.find(ids=(number,))
    assert erase(store, ANN, now=NOW, keep_suppression=False).mails == 1
    assert not store.requeue(seen, Decision(state=State.PENDING, reason="by hand"), now=NOW)
    assert outbox.row(number).state is State.DEAD


def test_what_a_person_puts_back_just_then_keeps_what_it_says(outbox: SqlBench, store: Store) -> None:
    """Erased is what is finished when its row is taken, not when it was looked for."""
    number = put(outbox, "order-1", mail=WITH_FILE)
    send(store, State.DEAD)
    (seen,) = store.find(ids=(number,))
    back = Decision(state=State.PENDING, reason="by hand", next_attempt_at=NOW)
    erasing = threading.Thread(target=lambda: store.erase_mails([number], address=ANN, now=NOW))
    if outbox.store.engine.dialect.name == "sqlite":
        assert store.requeue(seen, back, now=NOW)  # one writer at a time: nobody comes in between
        erasing.start()
    else:
        with outbox.begin() as connection:
            assert store._move(connection, seen, back, NOW, Actor.PERSON, {})
            erasing.start()
            erasing.join(0.5)
    erasing.join()
    (parcel,) = store.claim(now=NOW, limit=1, lease_s=60, dedupes=True)
    assert parcel.bar is None


def test_a_file_that_somebody_else_is_just_being_sent_stays(outbox: SqlBench, store: Store) -> None:
    """Who erases waits for the enqueue and sees what it names; on PostgreSQL the erasure failed."""
    number = put(outbox, "order-1", mail=WITH_FILE)
    send(store)
    one_at_a_time = store.engine.dialect.name == "sqlite"
    erased: list[int] = []
    erasing = threading.Thread(
        target=lambda: erased.append(store.erase_mails([number], address=ANN, now=NOW))
    )
    with outbox.begin() as connection:
        outbox.enqueue(
            connection, replace(WITH_FILE, recipients=("bob@example.com",)), key="order-2", now=NOW
        )
        if not one_at_a_time:
            erasing.start()
            erasing.join(0.5)
    if one_at_a_time:
        erasing.start()
    erasing.join()
    assert erased == [1]
    (parcel,) = store.claim(now=NOW, limit=1, lease_s=60, dedupes=True)
    assert parcel.bar is None
