"""Tests of mail about mail: who is told of what, and that every reader of RFC 3464 and RFC 5965 understands it."""

from __future__ import annotations

import email
import email.policy
from email.message import EmailMessage, MIMEPart
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.provider.acceptance import Acceptance
from simulator.provider.events import Event, events_of, pushed
from simulator.provider.fate import Destiny, Fate, Happening, suppressed
from simulator.provider.message import Dsn, DsnRecipient
from simulator.provider.returns import FULL_BYTES, Report, ReturnMail, ReturnRules, compose, report_of
from tests.simulator.provider.mails import ANN, BOB, NOW, acceptance, after

RAW = b"Subject: Hello\r\nMessage-ID: <1@example.org>\r\n\r\nDear Bob,\r\n..ing\r\n"
RULES = ReturnRules(smtp="127.0.0.1:25")


def took(fate: Fate, *, dsn: Dsn | None = None, to: str = BOB, **more: Any) -> Acceptance:
    facts: dict[str, Any] = {"dialect": "smtp", "destinies": ((to, Destiny(fate=fate)),), "dsn": dsn}
    return acceptance(1, [to], **(facts | more))


def asked(*notify: str, ret: str | None = None, envid: str | None = None, orcpt: str | None = None) -> Dsn:
    return Dsn(ret=ret, envid=envid, recipients=(DsnRecipient(recipient=BOB, notify=notify, orcpt=orcpt),))


def last(mail: Acceptance) -> Event:
    *_, event = events_of(mail)
    return event


def reports(mail: Acceptance, rules: ReturnRules = RULES) -> list[Report]:
    found = (report_of(event, mail, rules) for event in events_of(mail))
    return [each for each in found if each is not None]


# --- who is told of what ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fate", "notify", "expected"),
    [
        (Fate.HARD_BOUNCE, (), [Report.FAILED]),
        (Fate.HARD_BOUNCE, ("FAILURE",), [Report.FAILED]),
        (Fate.HARD_BOUNCE, ("SUCCESS", "DELAY"), []),
        (Fate.HARD_BOUNCE, ("NEVER",), []),
        (Fate.SOFT_BOUNCE, (), [Report.FAILED]),
        (Fate.SOFT_BOUNCE, ("DELAY", "FAILURE"), [Report.DELAYED, Report.DELAYED, Report.FAILED]),
        (Fate.SUPPRESSED, (), [Report.FAILED]),
        (Fate.DELIVERED, (), []),
        (Fate.DELIVERED, ("SUCCESS",), [Report.DELIVERED]),
        (Fate.DELIVERED, ("FAILURE",), []),
        (Fate.DEFERRED, (), []),
        (Fate.COMPLAINT, (), [Report.ABUSE]),
        (Fate.COMPLAINT, ("NEVER",), [Report.ABUSE]),
        (Fate.COMPLAINT, ("SUCCESS",), [Report.DELIVERED, Report.ABUSE]),
        (Fate.OPENED, (), []),
        (Fate.DROPPED, ("SUCCESS", "FAILURE", "DELAY"), []),
    ],
)
def test_a_sender_is_told_what_it_asked_for(
    fate: Fate, notify: tuple[str, ...], expected: list[Report]
) -> None:
    """RFC 3461, section 4.1; complaints are nobody's to ask for."""
    assert reports(took(fate, dsn=asked(*notify) if notify else None)) == expected


def test_delays_are_reported_unasked_if_the_provider_does_so() -> None:
    rules = ReturnRules(smtp="x:1", delays=True)

    assert reports(took(Fate.DEFERRED), rules) == [Report.DELAYED, Report.DELAYED]
    assert reports(took(Fate.DEFERRED, dsn=asked("FAILURE")), rules) == []


def test_nobody_is_told_of_mail_from_nobody_and_of_reports_no_reports_are_made() -> None:
    assert reports(took(Fate.HARD_BOUNCE, sender="")) == []
    assert reports(took(Fate.COMPLAINT, sender="")) == []
    automatic = (("Auto-Submitted", "auto-generated (a report)"),)
    assert reports(took(Fate.COMPLAINT, headers=automatic)) == []
    assert reports(took(Fate.COMPLAINT, headers=(("Auto-Submitted", "no"),))) == [Report.ABUSE]


def test_whose_mails_it_is_about_is_a_setting() -> None:
    by_http = took(Fate.HARD_BOUNCE, dialect="native")

    assert reports(by_http) == []
    assert reports(by_http, ReturnRules(smtp="x:1", of=("smtp", "http"))) == [Report.FAILED]
    assert reports(took(Fate.HARD_BOUNCE), ReturnRules(smtp="x:1", of=("http",))) == []


def test_an_event_about_no_mail_of_ours_is_reported_to_nobody() -> None:
    event = pushed(account="default", number=1, type="email.bounced", data={"recipient": BOB}, at=NOW)

    assert report_of(event, None, RULES) is None


# --- what comes back --------------------------------------------------------------------------------


def returned(
    mail: Acceptance, *, raw: bytes | None = RAW, rules: ReturnRules = RULES, event: Event | None = None
) -> ReturnMail:
    event = event or last(mail)
    report = report_of(event, mail, rules)
    assert report is not None
    return compose(report, event, mail, raw, rules, agent="test/1")


def parsed(mail: ReturnMail) -> EmailMessage:
    """Read it as a mail program does; a broken mail has defects."""
    message = email.message_from_bytes(mail.content, policy=email.policy.default)
    assert isinstance(message, EmailMessage)
    assert [part.defects for part in message.walk() if part.defects] == []
    assert b"\n" not in mail.content.replace(b"\r\n", b"")
    return message


def fields(part: MIMEPart) -> list[dict[str, str]]:
    """Return the groups of fields of a delivery-status or feedback-report part."""
    payload: Any = part.get_payload()
    groups = payload if isinstance(payload, list) else [email.message_from_string(str(payload))]
    return [dict(each.items()) for each in groups]


def test_a_bounce_is_a_report_of_three_parts_from_the_null_sender() -> None:
    """RFC 3464, section 2: words for people, facts for programs, the mail itself."""
    mail = took(Fate.HARD_BOUNCE, dsn=asked("FAILURE", envid="QQ314159", orcpt="rfc822;Bob@example.org"))
    back = returned(mail)
    message = parsed(back)
    words, status, original = message.iter_parts()

    assert (back.sender, back.recipient) == ("", "shop@example.org")
    assert message["To"] == "shop@example.org"
    assert message.get_content_type() == "multipart/report"
    assert message.get_param("report-type") == "delivery-status"
    assert (message["Auto-Submitted"], message["In-Reply-To"]) == ("auto-replied", "<1@example.org>")
    assert BOB in words.get_content()
    assert "550 5.1.1 no such user here" in words.get_content()
    about_mail, about_recipient = fields(status)
    assert about_mail == {
        "Original-Envelope-Id": "QQ314159",
        "Reporting-MTA": "dns; mail.simulator.test",
        "Arrival-Date": "Tue, 01 Jan 2030 00:00:00 +0000",
    }
    assert about_recipient["Original-Recipient"] == "rfc822; Bob@example.org"
    assert about_recipient["Final-Recipient"] == f"rfc822; {BOB}"
    assert (about_recipient["Action"], about_recipient["Status"]) == ("failed", "5.1.1")
    assert about_recipient["Diagnostic-Code"] == "smtp; 550 5.1.1 no such user here"
    assert about_recipient["Remote-MTA"] == "dns; mx.example.org"
    assert about_recipient["Final-Log-ID"] == "msg_1"
    assert original.get_content_type() == "message/rfc822"
    assert RAW.rstrip(b"\r\n") in back.content


@pytest.mark.parametrize(
    ("fate", "notify", "ret", "size", "type_"),
    [
        (Fate.HARD_BOUNCE, "FAILURE", "FULL", FULL_BYTES * 2, "message/rfc822"),
        (Fate.HARD_BOUNCE, "FAILURE", "HDRS", 10, "text/rfc822-headers"),
        (Fate.HARD_BOUNCE, "FAILURE", None, 10, "message/rfc822"),
        (Fate.HARD_BOUNCE, "FAILURE", None, FULL_BYTES * 2, "text/rfc822-headers"),
        (Fate.DELIVERED, "SUCCESS", "FULL", 10, "text/rfc822-headers"),
        (Fate.COMPLAINT, "NEVER", "HDRS", 10, "message/rfc822"),
    ],
)
def test_as_much_of_the_mail_comes_back_as_was_wanted(
    fate: Fate, notify: str, ret: str | None, size: int, type_: str
) -> None:
    """RFC 3461, section 4.3: RET is about failures; of a success never more than the headers."""
    raw = RAW + b"x" * size + b"\r\n"
    back = returned(took(fate, dsn=asked(notify, ret=ret)), raw=raw)
    *_, original = parsed(back).iter_parts()

    assert original.get_content_type() == type_
    assert (b"Dear Bob" in back.content) is (type_ == "message/rfc822")
    assert b"Subject: Hello" in back.content


def test_a_mail_that_is_not_kept_any_more_comes_back_as_what_is_known_of_it() -> None:
    back = returned(took(Fate.HARD_BOUNCE), raw=None)
    *_, original = parsed(back).iter_parts()

    assert original.get_content_type() == "text/rfc822-headers"
    assert b"Message-ID: <1@example.org>" in back.content


def test_a_delay_says_how_long_it_goes_on() -> None:
    mail = took(Fate.DEFERRED, dsn=asked("DELAY"))
    event = next(each for each in events_of(mail) if each.type == Happening.DEFERRED)
    _, status, _ = parsed(returned(mail, event=event)).iter_parts()
    _, about = fields(status)

    assert (about["Action"], about["Status"]) == ("delayed", "4.7.1")
    assert about["Will-Retry-Until"] == "Sun, 06 Jan 2030 00:00:00 +0000"


def test_a_success_is_of_class_2_and_a_suppressed_mail_failed() -> None:
    _, status, _ = parsed(returned(took(Fate.DELIVERED, dsn=asked("SUCCESS")))).iter_parts()
    assert (fields(status)[1]["Action"], fields(status)[1]["Status"]) == ("delivered", "2.0.0")

    listed = took(Fate.SUPPRESSED, destinies=((BOB, suppressed("complaint")),))
    _, status, _ = parsed(returned(listed)).iter_parts()
    about = fields(status)[1]
    assert (about["Action"], about["Status"]) == ("failed", "5.7.1")
    assert about["Diagnostic-Code"] == "X-Provider; the address is on the suppression list (complaint)"


def test_a_soft_bounce_has_failed_in_the_end() -> None:
    """The provider gave up: the action is failed, so the class of the status is 5 (RFC 3464, section 2.3.4)."""
    _, status, _ = parsed(returned(took(Fate.SOFT_BOUNCE))).iter_parts()

    assert fields(status)[1]["Status"] == "5.2.2"


def test_a_complaint_is_a_feedback_report() -> None:
    """RFC 5965, sections 2 and 3; to whom complaints go is a setting."""
    rules = ReturnRules(smtp="x:1", complaints_to="abuse@example.org")
    back = returned(took(Fate.COMPLAINT, dsn=asked("NEVER", envid="e1")), rules=rules)
    message = parsed(back)
    _, feedback, original = message.iter_parts()

    assert (back.sender, back.recipient) == ("postmaster@mail.simulator.test", "abuse@example.org")
    assert message.get_param("report-type") == "feedback-report"
    assert feedback.get_content_type() == "message/feedback-report"
    assert original.get_content_type() == "message/rfc822"
    text = feedback.as_string()
    for line in (
        "Feedback-Type: abuse",
        "User-Agent: test/1",
        "Version: 1",
        "Original-Envelope-Id: e1",
        "Original-Mail-From: <shop@example.org>",
        f"Original-Rcpt-To: <{BOB}>",
        "Arrival-Date: Tue, 01 Jan 2030 00:00:00 +0000",
    ):
        assert line in text
    assert returned(took(Fate.COMPLAINT)).recipient == "shop@example.org"


def test_addresses_beyond_ascii_are_written_in_7_bits() -> None:
    """RFC 6533, section 3."""
    mail = took(Fate.HARD_BOUNCE, to="grüße@exämple.org")
    _, status, _ = parsed(returned(mail)).iter_parts()

    assert fields(status)[1]["Final-Recipient"] == "utf-8; gr\\x{FC}\\x{DF}e@ex\\x{E4}mple.org"


@settings(max_examples=60, deadline=None)
@given(
    text=st.text(max_size=40),
    envid=st.text(max_size=20),
    message_id=st.text(max_size=20),
    raw=st.binary(max_size=200),
)
def test_nothing_a_mail_or_a_plan_brings_breaks_the_report(
    text: str, envid: str, message_id: str, raw: bytes
) -> None:
    """No line of its own, no other boundary; the structure stays."""
    destiny = Destiny(fate=Fate.HARD_BOUNCE, text=text)
    mail = took(
        Fate.HARD_BOUNCE,
        destinies=((BOB, destiny),),
        dsn=asked("FAILURE", envid=envid),
        message_id=message_id,
        subject=text,
    )
    for content in (raw, None):
        message = email.message_from_bytes(returned(mail, raw=content).content, policy=email.policy.compat32)
        parts: Any = message.get_payload()
        assert [part.get_content_type() for part in parts[:2]] == ["text/plain", "message/delivery-status"]
        assert len(parts) == 3
        groups: Any = parts[1].get_payload()
        assert groups[1]["Action"] == "failed"


def test_the_same_event_is_reported_in_the_same_bytes() -> None:
    mail = took(Fate.HARD_BOUNCE)

    assert returned(mail) == returned(mail)
    assert (
        returned(mail).content != returned(took(Fate.HARD_BOUNCE, id="msg_2", accepted_at=after(9))).content
    )
    assert ANN not in returned(mail).content.decode()
