"""Attachments by reference on every database: stored once, whole in every attempt, gone when nobody names them."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import delete, func, select, text

from reference_sender.life import Bar
from reference_sender.message import Attachment, InvalidMail, render, single
from reference_sender.outbox import attachments
from reference_sender.outbox.schema import email_attachment, email_attachment_use
from reference_sender.outbox.sealed import seal_with
from reference_sender.sealing import Vault
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


# --- where a statement takes only so much -----------------------------------------------------------------


@pytest.mark.parametrize("place", ["mysql"], indirect=True)
def test_a_file_of_nine_megabytes_is_kept_where_a_statement_takes_sixteen(outbox: SqlBench) -> None:
    """In hexadecimal it would be eighteen: MariaDB hangs up on that, unless it is told otherwise."""
    large = Attachment(filename="a.bin", content_type="application/x-a", content=bytes(range(256)) * 36_000)
    outbox.put(mail=replace(MAIL, attachments=(large,)))
    (parcel,) = outbox.claim()
    assert parcel.raw == render(
        single(replace(MAIL, attachments=(large,)), "ann@example.com"), parcel.message_id, NOW
    )


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attachments, "PIECE", 1_000)


@pytest.mark.usefixtures("small_pieces")
def test_what_is_written_in_pieces_is_whole_and_written_once(outbox: SqlBench) -> None:
    """Somebody who stores the same content a moment later finds it whole, and adds nothing to it."""
    outbox.put(mail=WITH_TERMS)
    with outbox.begin() as connection:
        (digest,) = connection.execute(select(email_attachment.c.digest)).scalars()
        _, *rest = attachments.pieces_of(connection, TERMS.content)
        attachments.append(connection, digest, rest)
    with outbox.begin() as connection:
        assert bytes(connection.execute(select(email_attachment.c.content)).scalar_one()) == TERMS.content


@pytest.mark.usefixtures("small_pieces")
def test_pieces_are_sealed_as_one_and_sealed_anew(outbox: SqlBench) -> None:
    keys = [f"{name}:" + base64.b64encode(name.encode() * 32).decode() for name in "ab"]
    seal_with(outbox.store.engine, Vault.parse(keys[0]))
    try:
        outbox.put(mail=WITH_TERMS)
        seal_with(outbox.store.engine, Vault.parse(",".join(reversed(keys))))
        assert outbox.store.reseal_attachments(after="", limit=9) == (1, [], None)
        outbox.store.reseal_mails(after=0, limit=9)
        seal_with(outbox.store.engine, Vault.parse(keys[1]))
        (parcel,) = outbox.claim()
        assert parcel.bar is None
        assert parcel.raw == render(single(WITH_TERMS, "ann@example.com"), parcel.message_id, NOW)
    finally:
        seal_with(outbox.store.engine, None)


@pytest.mark.usefixtures("small_pieces")
def test_what_the_database_does_not_take_is_one_sentence_and_leaves_nothing(
    outbox: SqlBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    with outbox.store.engine.connect() as connection:
        if connection.dialect.name != "mysql":
            assert attachments.pieces_of(connection, TERMS.content) == [TERMS.content], "it has no such limit"
            return
        most = connection.execute(text("SELECT @@max_allowed_packet")).scalar_one()
    monkeypatch.setattr(attachments, "_SPARE", most - 10_000)
    with pytest.raises(InvalidMail, match=r"has 16,384 octets, and this database takes 10,000 at most"):
        outbox.put(mail=WITH_TERMS)
    assert contents(outbox) == 0
