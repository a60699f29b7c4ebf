"""Sealed columns: nobody reads the words in the database, the worker reads them, and one lost key stops one mail."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import timedelta

import pytest
from sqlalchemy import delete, select, text

from reference_sender.life import Bar, State
from reference_sender.message import Attachment, Mail, render
from reference_sender.outbox.purging import hash_of
from reference_sender.outbox.schema import (
    email_attachment,
    email_attachment_use,
    outgoing_email,
    webhook_event,
)
from reference_sender.outbox.sealed import seal_with, vault_behind
from reference_sender.outbox.store import Store
from reference_sender.sealing import Vault, is_sealed
from tests.reference_sender.outbox.benches import SqlBench
from tests.reference_sender.samples import NOW

OLD = "old:" + base64.b64encode(b"o" * 32).decode()
NEW = "new:" + base64.b64encode(b"n" * 32).decode()
MAIL = Mail(
    sender="shop@example.org",
    recipients=("ann@example.com",),
    subject="hello",
    text="Dear Ann",
    attachments=(Attachment(filename="a.bin", content_type="application/x", content=b"Invoice " * 1000),),
)


@pytest.fixture
def sealed(outbox: SqlBench, store: Store) -> Iterator[SqlBench]:
    """An outbox that seals with the old key."""
    with outbox.begin() as connection:
        connection.execute(delete(email_attachment_use))
        connection.execute(delete(email_attachment))
    seal_with(store.engine, Vault.parse(OLD))
    yield outbox
    seal_with(store.engine, None)


def put(outbox: SqlBench, key: str, mail: Mail = MAIL) -> int:
    with outbox.begin() as connection:
        made = outbox.enqueue(
            connection, mail, key=key, now=NOW, template="t", parameters={"name": "Dear Ann"}
        )
    return made.ids[0]


def stored(outbox: SqlBench) -> bytes:
    """What somebody reads who has the database and no key."""
    found = []
    with outbox.begin() as connection:
        for query in (
            "SELECT raw, parameters FROM outgoing_email ORDER BY id",
            "SELECT content FROM email_attachment",
        ):
            for row in connection.execute(text(query)):
                found += [value.encode() if isinstance(value, str) else bytes(value or b"") for value in row]
    return b"".join(found)


def test_the_words_are_nowhere_and_go_out_whole(sealed: SqlBench, store: Store) -> None:
    put(sealed, "order-1")
    at_rest = stored(sealed)
    for words in (b"Dear Ann", b"Subject", b"Invoice", base64.b64encode(b"Dear Ann")[:10]):
        assert words not in at_rest
    seal_with(store.engine, None)
    put(sealed, "order-2")
    seal_with(store.engine, Vault.parse(OLD))
    first, second = store.claim(now=NOW, limit=9, lease_s=60, dedupes=True)
    assert (first.bar, second.bar) == (None, None)
    for parcel in (first, second):
        assert parcel.raw == render(MAIL, parcel.message_id, NOW)


def test_a_mail_whose_key_is_gone_waits_and_the_others_flow(sealed: SqlBench, store: Store) -> None:
    shut = put(sealed, "order-1")
    seal_with(store.engine, Vault.parse(NEW))
    plain = put(
        sealed, "order-2", Mail(sender="s@example.org", recipients=("b@example.com",), subject="x", text="y")
    )
    parcels = {parcel.id: parcel for parcel in store.claim(now=NOW, limit=9, lease_s=60, dedupes=False)}
    assert (parcels[shut].bar, parcels[plain].bar) == (Bar.SEALED, None)
    seal_with(store.engine, Vault.parse(f"{NEW},{OLD}"))
    (again,) = [
        p
        for p in store.claim(now=NOW + timedelta(hours=1), limit=9, lease_s=60, dedupes=False)
        if p.id == shut
    ]
    assert (again.bar, b"Dear Ann" in again.raw) == (None, True)


def test_an_attachment_whose_key_is_gone_is_never_sent_as_it_is(sealed: SqlBench, store: Store) -> None:
    """Its content was stored by an older mail, so this mail opens and the content does not."""
    put(sealed, "order-1")
    seal_with(store.engine, Vault.parse(NEW))
    later = put(sealed, "order-2")
    (parcel,) = [p for p in store.claim(now=NOW, limit=9, lease_s=60, dedupes=False) if p.id == later]
    assert parcel.bar is Bar.SEALED


def test_what_an_older_key_or_none_sealed_is_sealed_anew_in_small_steps(
    sealed: SqlBench, store: Store
) -> None:
    put(sealed, "order-1")
    seal_with(store.engine, None)
    put(sealed, "order-2")
    seal_with(store.engine, Vault.parse(f"{NEW},{OLD}"))
    assert vault_behind(store.engine) is not None
    put(sealed, "order-3")
    done, after = 0, 0
    while True:
        some, shut, further = store.reseal_mails(after=after, limit=1)
        assert shut == []
        done += some
        if further is None:
            break
        after = further
    assert done == 2
    assert store.reseal_attachments(after="", limit=10) == (1, [], None)
    assert store.reseal_mails(after=0, limit=10) == (0, [], None)
    seal_with(store.engine, Vault.parse(NEW))
    bars = [parcel.bar for parcel in store.claim(now=NOW, limit=9, lease_s=60, dedupes=True)]
    assert bars == [None, None, None]


def test_what_cannot_be_opened_is_told_and_left(sealed: SqlBench, store: Store) -> None:
    number = put(sealed, "order-1")
    before = stored(sealed)
    seal_with(store.engine, Vault.parse(NEW))
    done, shut, _ = store.reseal_mails(after=0, limit=10)
    assert (done, shut) == (0, [number])
    assert len(store.reseal_attachments(after="", limit=10)[1]) == 1
    assert stored(sealed) == before


def test_the_hash_that_stays_is_the_one_of_the_words(sealed: SqlBench, store: Store) -> None:
    number = put(sealed, "order-1")
    words = bytes(sealed.row(number).raw)
    with sealed.begin() as connection:
        connection.execute(outgoing_email.update().values(state=State.ACCEPTED))
    store.purge_words(before=NOW + timedelta(days=1), after=0, limit=9)
    assert sealed.row(number).content_hash == hash_of(words)
    assert b"Dear Ann" in words
    with sealed.begin() as connection:
        assert connection.execute(select(outgoing_email.c.raw)).scalar() in (b"", None)


def test_what_the_provider_told_is_sealed_and_read_as_it_came(sealed: SqlBench, store: Store) -> None:
    """Also where two are told at once, and where somebody tells what looks sealed."""
    items = [("e1", b'{"to": "ann@example.com"}'), ("e2", b"\x00\xff"), ("e3", b"\x00sealed:1:x\x00")]
    assert store.receive(items, source="webhook", now=NOW) == 3
    with sealed.begin() as connection:
        at_rest = [bytes(raw) for raw in connection.execute(text("SELECT raw FROM webhook_event")).scalars()]
    assert [is_sealed(raw) for raw in at_rest] == [True, True, True]
    assert not any(b"ann" in raw for raw in at_rest)
    assert [(each.event_id, each.raw) for each in store.due_events(now=NOW, limit=9)] == items


def test_events_are_sealed_anew_in_small_steps(sealed: SqlBench, store: Store) -> None:
    with sealed.begin() as connection:
        connection.execute(delete(webhook_event))
    store.receive([("old", b"1"), ("gone", b"")], source="webhook", now=NOW)
    seal_with(store.engine, None)
    store.receive([("plain", b"2")], source="webhook", now=NOW)
    seal_with(store.engine, Vault.parse(f"{NEW},{OLD}"))
    done, after = 0, 0
    while True:
        some, shut, further = store.reseal_events(after=after, limit=1)
        done, after = done + some, further or 0
        assert shut == []
        if further is None:
            break
    assert (done, store.reseal_events(after=0, limit=9)) == (2, (0, [], None))
    seal_with(store.engine, Vault.parse(NEW))
    assert [each.raw for each in store.due_events(now=NOW, limit=9)] == [b"1", b"", b"2"]
    seal_with(store.engine, Vault.parse(OLD))
    _, shut, _ = store.reseal_events(after=0, limit=9)
    assert len(shut) == 2
