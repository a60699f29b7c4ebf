"""From mail about mail to facts: the simulator's reports, one as Postfix writes it, and everything that is none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference_sender.events.kinds import Happened, Kind
from reference_sender.events.reading import read
from reference_sender.events.reports import MOST_KEPT, items_in
from simulator.provider.events import events_of
from simulator.provider.fate import Destiny, Fate
from simulator.provider.message import Dsn, DsnRecipient
from simulator.provider.returns import ReturnRules, compose, report_of
from tests.reference_sender.samples import NOW
from tests.simulator.provider.mails import ANN, BOB, acceptance

RAW = b"Subject: Hello\r\nMessage-ID: <1@example.org>\r\n\r\nDear Bob,\r\n..ing\r\n"
RULES = ReturnRules(smtp="127.0.0.1:25", delays=True)


def returned(fate: Fate, *, to: str = BOB, raw: bytes | None = RAW, ret: str | None = None) -> list[bytes]:
    """Every report of one mail's life, as the simulator writes it."""
    every = DsnRecipient(recipient=to, notify=("SUCCESS", "FAILURE", "DELAY"))
    dsn = Dsn(ret=ret, envid=None, recipients=(every,))
    mail = acceptance(1, [to], dialect="smtp", destinies=((to, Destiny(fate=fate)),), dsn=dsn)
    found = []
    for event in events_of(mail):
        if (report := report_of(event, mail, RULES)) is not None:
            found.append(compose(report, event, mail, raw, RULES, agent="test/1").content)
    return found


def heard(raw: bytes) -> list[Happened]:
    facts = [read(item.raw) for item in items_in(raw, now=NOW)]
    return [each for each in facts if isinstance(each, Happened)]


@pytest.mark.parametrize(
    ("fate", "kinds"),
    [
        (Fate.DELIVERED, [Kind.DELIVERED]),
        (Fate.DEFERRED, [Kind.DEFERRED, Kind.DEFERRED, Kind.DELIVERED]),
        (Fate.HARD_BOUNCE, [Kind.HARD_BOUNCE]),
        (Fate.SOFT_BOUNCE, [Kind.DEFERRED, Kind.DEFERRED, Kind.SOFT_BOUNCE]),
        (Fate.COMPLAINT, [Kind.DELIVERED, Kind.COMPLAINT]),
        (Fate.SUPPRESSED, [Kind.SOFT_BOUNCE]),
    ],
)
@pytest.mark.parametrize("ret", ["FULL", "HDRS"])
def test_what_the_simulator_reports_is_understood(fate: Fate, kinds: list[Kind], ret: str) -> None:
    facts = [fact for raw in returned(fate, ret=ret) for fact in heard(raw)]
    assert [each.kind for each in facts] == kinds
    assert {each.message_id for each in facts} == {"<1@example.org>"}
    assert {each.recipient for each in facts} == {BOB}
    assert len({each.at for each in facts}) == len(facts)


def test_an_address_beyond_ascii_comes_back_as_it_was() -> None:
    (raw,) = returned(Fate.HARD_BOUNCE, to="jörg@exämple.com")
    assert heard(raw)[0].recipient == "jörg@exämple.com"


def test_the_same_report_twice_is_the_same_event() -> None:
    (raw,) = returned(Fate.HARD_BOUNCE)
    assert items_in(raw, now=NOW) == items_in(b"Received: by another\r\n" + raw, now=NOW)
    assert items_in(raw, now=NOW) != items_in(returned(Fate.DELIVERED)[0], now=NOW)


POSTFIX = b"""Return-Path: <>
From: MAILER-DAEMON@mx.example.net (Mail Delivery System)
Subject: Undelivered Mail Returned to Sender
To: shop@example.org
Auto-Submitted: auto-replied
MIME-Version: 1.0
Content-Type: multipart/report; report-type=delivery-status;
\tboundary="9A1.1764/mx.example.net"
Message-Id: <20261129120001.9A1@mx.example.net>
Date: Sun, 29 Nov 2026 13:00:01 +0100 (CET)

This is a MIME-encapsulated message.

--9A1.1764/mx.example.net
Content-Description: Notification
Content-Type: text/plain; charset=us-ascii

I'm sorry to have to inform you that your message could not be delivered.

--9A1.1764/mx.example.net
Content-Description: Delivery report
Content-Type: message/delivery-status

Reporting-MTA: dns; mx.example.net
X-Postfix-Queue-ID: 9A1
X-Postfix-Sender: rfc822; shop@example.org
Arrival-Date: Sun, 29 Nov 2026 13:00:00 +0100 (CET)

Final-Recipient: rfc822; gone@example.com
Original-Recipient: rfc822;Gone@example.com
Action: failed
Status: 5.1.1
Remote-MTA: dns; mail.example.com
Diagnostic-Code: smtp; 550-5.1.1 The email account that you tried to reach does
    not exist.

Final-Recipient: rfc822; full@example.com
Action: failed
Status: 5.2.2
Diagnostic-Code: smtp; 552 5.2.2 over quota

Final-Recipient: rfc822; odd@example.com
Action: dances
Status: 2.0.0

--9A1.1764/mx.example.net
Content-Description: Undelivered Message Headers
Content-Type: text/rfc822-headers

Message-ID: <aa.v1@example.org>
Subject: Your order

--9A1.1764/mx.example.net--
"""


def test_a_report_about_several_recipients_is_several_events() -> None:
    hard, soft = heard(POSTFIX)
    assert (hard.kind, hard.recipient, hard.at) == (Kind.HARD_BOUNCE, "Gone@example.com", NOW)
    assert (soft.kind, soft.recipient) == (Kind.SOFT_BOUNCE, "full@example.com")
    assert hard.message_id == soft.message_id == "<aa.v1@example.org>"
    assert hard.detail is not None
    assert "does not exist" in hard.detail
    assert [item.event_id for item in items_in(POSTFIX, now=NOW)] == [
        "mail:<20261129120001.9A1@mx.example.net>/0",
        "mail:<20261129120001.9A1@mx.example.net>/1",
    ]


def test_a_complaint_without_a_recipient_is_about_its_mail() -> None:
    """Many providers take the recipient out (RFC 5965 section 3.2 makes the field optional)."""
    raw = returned(Fate.COMPLAINT)[-1]
    redacted = b"\r\n".join(line for line in raw.split(b"\r\n") if not line.startswith(b"Original-Rcpt-To"))
    (fact,) = heard(redacted)
    assert (fact.kind, fact.message_id, fact.recipient) == (Kind.COMPLAINT, "<1@example.org>", None)


@pytest.mark.parametrize("other", [b"not-spam", b"virus", b""])
def test_what_nobody_complains_about_is_no_complaint(other: bytes) -> None:
    raw = returned(Fate.COMPLAINT)[-1].replace(b"Feedback-Type: abuse", b"Feedback-Type: " + other)
    assert heard(raw) == []


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x00\xff",
        b"Subject: I am on holiday\r\n\r\nBack on Monday.\r\n",
        POSTFIX.replace(b"Action: failed", b"Action: "),
        POSTFIX.replace(b"Final-Recipient: rfc822;", b"Final-Recipient:").replace(
            b"Original-Recipient", b"X"
        ),
        POSTFIX[: len(POSTFIX) // 3],
    ],
)
def test_what_is_no_report_is_one_item_as_it_came(raw: bytes) -> None:
    (item,) = items_in(raw, now=NOW)
    assert item.raw == raw
    assert item.event_id.startswith("mail:")


@settings(max_examples=60)
@given(cut=st.integers(min_value=0, max_value=len(POSTFIX)), junk=st.binary(max_size=30))
def test_damaged_reports_never_break_it(cut: int, junk: bytes) -> None:
    items = items_in(POSTFIX[:cut] + junk + POSTFIX[cut:], now=NOW)
    assert items
    assert all(0 < len(item.event_id) <= 255 for item in items)


def test_without_any_time_the_moment_of_arrival_will_do() -> None:
    raw = b"\n".join(line for line in POSTFIX.split(b"\n") if not line.startswith((b"Arrival-Date", b"Date")))
    facts: list[Any] = [json.loads(item.raw) for item in items_in(raw, now=NOW)]
    assert {each["timestamp"] for each in facts} == {NOW.isoformat()}


def test_who_it_is_not_about_is_not_named() -> None:
    assert ANN not in {fact.recipient for raw in returned(Fate.HARD_BOUNCE) for fact in heard(raw)}


@pytest.mark.parametrize("odd", [b"\x00", b"\x01"])
def test_a_message_id_that_no_database_stores_still_makes_a_name(odd: bytes) -> None:
    """PostgreSQL takes no NUL: the report could never be kept, and in a Maildir all others would wait behind it."""
    items = items_in(POSTFIX.replace(b"Message-Id: <", b"Message-Id: <" + odd), now=NOW)
    assert len({each.event_id for each in items}) == 2
    assert all(each.event_id.isprintable() and each.event_id.startswith("mail:") for each in items)


@pytest.mark.parametrize("odd", [b"<\\\\@", b"<a?=@[", b"<,),[", b"<\\@[=?utf-8?q?"])
def test_a_message_id_that_no_parser_reads_still_makes_a_name(odd: bytes) -> None:
    """The standard library falls over each of them; a mail server heard 500, and the report was lost."""
    head, _, rest = POSTFIX.partition(b"Message-Id: ")
    items = items_in(head + b"Message-Id: " + odd + b"\n" + rest.partition(b"\n")[2], now=NOW)
    assert [json.loads(item.raw)["data"]["recipient"] for item in items] == [
        "Gone@example.com",
        "full@example.com",
    ]
    assert len({item.event_id for item in items}) == 2


def test_of_what_nobody_can_read_only_the_beginning_is_kept() -> None:
    """MariaDB takes 16 MB at once: a larger one could never be kept, and in a Maildir all others would wait behind it."""
    raw = b"Subject: a film\n\n" + b"x" * MOST_KEPT
    items = items_in(raw, now=NOW)
    assert [item.raw for item in items] == [raw[:MOST_KEPT]]
    assert items[0].event_id != items_in(raw + b"y", now=NOW)[0].event_id


@pytest.mark.parametrize(
    ("name", "place"), [("provider_id", b"5.1.1\n"), ("recipient", b"rfc822;Gone"), ("message_id", b"<aa.v1")]
)
def test_a_name_without_an_end_is_none(name: str, place: bytes) -> None:
    """It names nothing of ours, and kept it would be as large as it likes."""
    long = b"Final-Log-ID: " if name == "provider_id" else b""
    report = POSTFIX.replace(place, place + long + b"x" * 100_000 + (b"\n" if long else b""))
    items = items_in(report, now=NOW)
    assert [len(item.raw) < 2_000 for item in items] == [True, True]
    assert json.loads(items[0].raw)["data"][name] is None
