"""Attachments by reference on every database: stored once, whole in every attempt, gone when nobody names them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from sqlalchemy import delete, func, select

from reference_sender.life import Bar
from reference_sender.message import Attachment, render, single
from reference_sender.outbox.schema import email_attachment, email_attachment_use
from tests.reference_sender.outbox.benches import SqlBench
from tests.reference_sender.samples import MAIL, NOW

TERMS = Attachment(filename="terms.pdf", content_type="application/pdf", content=bytes(range(256)) * 64)
INVOICE = Attachment(filename="invoice.pdf", content_type="application/pdf", content=b"%PDF-1" * 2_000)
WITH_TERMS = replace(MAIL, attachments=(TERMS,))
LATER = NOW + timedelta(days=1)


def contents(outbox: SqlBench) -> int:
    with outbox.store.engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(email_attachment)).scalar_one()


def test_a_content_is_stored_once_however_many_mails_name_it(outbox: SqlBench) -> None:
    both = ("ann@example.com", "bob@example.com")
    outbox.put("order-1", mail=replace(WITH_TERMS, recipients=both))
    outbox.put("order-2", mail=replace(MAIL, attachments=(TERMS, INVOICE, TERMS)))
    assert contents(outbox) == 2
    assert all(len(outbox.row(n).raw) < 4_000 for n in (1, 2, 3))


def test_every_attempt_has_the_same_whole_bytes(outbox: SqlBench) -> None:
    outbox.put(mail=WITH_TERMS)
    (first,) = outbox.claim()
    (second,) = outbox.claim(61)
    assert first.raw == second.raw
    expected = render(single(WITH_TERMS, "ann@example.com"), first.message_id, NOW)
    assert (first.raw, first.bar) == (expected, None)


def test_the_same_event_again_keeps_everything_as_it_is(outbox: SqlBench) -> None:
    outbox.put(mail=WITH_TERMS)
    with outbox.begin() as transaction:
        done = outbox.enqueue(transaction, WITH_TERMS, key="order-1", now=LATER)
        assert (done.created, done.differs) == (False, False)
    with outbox.begin() as transaction:
        other = replace(MAIL, attachments=(INVOICE,))
        assert outbox.enqueue(transaction, other, key="order-1", now=LATER).differs
    (parcel,) = outbox.claim()
    assert b"terms.pdf" in parcel.raw


def test_a_rollback_leaves_no_content(outbox: SqlBench) -> None:
    with outbox.store.engine.connect() as connection, connection.begin() as transaction:
        outbox.enqueue(connection, WITH_TERMS, key="order-1", now=NOW)
        transaction.rollback()
    assert contents(outbox) == 0


def test_a_mail_whose_content_is_gone_says_so_and_the_others_flow(outbox: SqlBench) -> None:
    outbox.put("order-1", mail=WITH_TERMS)
    outbox.put("order-2", mail=replace(MAIL, attachments=(INVOICE,)))
    outbox.put("order-3")
    with outbox.store.engine.begin() as connection:
        for digest in connection.execute(
            select(email_attachment_use.c.digest).where(email_attachment_use.c.email_id == 1)
        ).scalars():
            connection.execute(delete(email_attachment_use).where(email_attachment_use.c.digest == digest))
            connection.execute(delete(email_attachment).where(email_attachment.c.digest == digest))
    assert [(each.key, each.bar) for each in outbox.claim()] == [
        ("order-1", Bar.INCOMPLETE),
        ("order-2", None),
        ("order-3", None),
    ]
