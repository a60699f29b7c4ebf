"""Mail about mail: delivery status notifications (RFC 3464) and complaint reports (RFC 5965), as bytes.

Whether a sender wants to be told, of what, and how much of its mail it wants back, is what it asked for with DSN
parameters (RFC 3461): NOTIFY, RET, ENVID, ORCPT. Who gave none is told of failures.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from email.utils import format_datetime
from enum import StrEnum
from typing import Any

from simulator.provider.acceptance import Acceptance
from simulator.provider.events import Event
from simulator.provider.fate import Happening
from simulator.provider.message import DsnRecipient, header

HOSTNAME = "mail.simulator.test"
#: Failed mails up to this size come back whole if the sender did not say; of larger ones only the headers do.
FULL_BYTES = 100_000
#: How long the provider would go on trying, as told in a notice of delay: RFC 5321, section 4.5.4.1, wants 4 to 5 days.
GIVES_UP_AFTER = timedelta(days=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnRules:
    """The settings of the table `[returns]`. Without `smtp` nothing comes back."""

    smtp: str | None = None
    """The mail server that takes it, as `HOST:PORT`."""
    of: tuple[str, ...] = ("smtp",)
    """Over which wires the mails came that it is about; whoever uses HTTP has webhooks."""
    hostname: str = HOSTNAME
    """What the provider calls itself."""
    delays: bool = False
    """True: who gave no NOTIFY hears of delays, too."""
    complaints_to: str | None = None
    """Who gets complaints; None: the sender of the mail."""
    timeout_s: float = 30.0
    schedule_s: tuple[float, ...] = (60.0, 300.0, 1_800.0, 7_200.0, 14_400.0)


class Report(StrEnum):
    """What is reported; a DSN's value is its `Action` (RFC 3464, section 2.3.3)."""

    FAILED = "failed"
    DELAYED = "delayed"
    DELIVERED = "delivered"
    ABUSE = "abuse"


_ABOUT: dict[str, Report] = {
    Happening.BOUNCED: Report.FAILED,
    Happening.SUPPRESSED: Report.FAILED,
    Happening.DEFERRED: Report.DELAYED,
    Happening.DELIVERED: Report.DELIVERED,
    Happening.COMPLAINED: Report.ABUSE,
}
_NOTIFY = {Report.FAILED: "FAILURE", Report.DELAYED: "DELAY", Report.DELIVERED: "SUCCESS"}


def report_of(event: Event, acceptance: Acceptance | None, rules: ReturnRules) -> Report | None:
    """Return what is to be reported of an event; None: nothing."""
    report = _ABOUT.get(event.type)
    if report is None or acceptance is None or event.recipient is None:
        return None
    if ("smtp" if acceptance.dialect == "smtp" else "http") not in rules.of:
        return None
    if report is Report.ABUSE:
        # A report about a report could go on for ever.
        automatic = (header(acceptance.headers, "Auto-Submitted") or "no").partition(";")[0].strip().lower()
        return report if automatic == "no" and _complaints_to(acceptance, rules) else None
    # RFC 5321, section 4.5.5: nobody is told of mail from the null sender.
    if not acceptance.sender:
        return None
    asked = _asked(acceptance, event.recipient)
    if asked is not None and asked.notify:
        return report if _NOTIFY[report] in asked.notify else None
    match report:
        case Report.FAILED:
            return report
        case Report.DELAYED:
            return report if rules.delays else None
        case _:
            return None


def _complaints_to(acceptance: Acceptance, rules: ReturnRules) -> str:
    return rules.complaints_to or acceptance.sender


def _asked(acceptance: Acceptance, recipient: str) -> DsnRecipient | None:
    if acceptance.dsn is None:
        return None
    return next(
        (each for each in acceptance.dsn.recipients if each.recipient.lower() == recipient.lower()), None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnMail:
    """A mail that comes back, ready to be handed to a mail server."""

    sender: str
    """The envelope sender; DSNs have the null sender."""
    recipient: str
    content: bytes
    """Lines end in CRLF."""


def compose(
    report: Report,
    event: Event,
    acceptance: Acceptance,
    raw: bytes | None,
    rules: ReturnRules,
    *,
    agent: str,
) -> ReturnMail:
    """Write the mail that reports an event. `raw`: the bytes of the mail it is about; None: they are not kept any more."""
    assert event.recipient is not None
    postmaster = f"postmaster@{rules.hostname}"
    complaint = report is Report.ABUSE
    recipient = _complaints_to(acceptance, rules) if complaint else acceptance.sender
    boundary = "=_" + hashlib.sha256(event.id.encode()).hexdigest()[:32]
    kind = "feedback-report" if complaint else "delivery-status"
    subject, text = _words(report, event, acceptance, rules)
    head = [
        ("From", f"Mail Delivery System <{postmaster}>"),
        ("To", f"<{recipient}>"),
        ("Subject", subject),
        ("Date", format_datetime(event.told_at or event.at)),
        ("Message-ID", f"<{event.id}@{rules.hostname}>"),
        *_threaded(acceptance),
        # RFC 3834, section 5.
        ("Auto-Submitted", "auto-replied" if not complaint else "auto-generated"),
        ("MIME-Version", "1.0"),
        ("Content-Type", f'multipart/report; report-type={kind}; boundary="{boundary}"'),
    ]
    facts = (
        _feedback(event, acceptance, rules, agent) if complaint else _status(report, event, acceptance, rules)
    )
    parts = [
        (b"text/plain; charset=utf-8", "8bit", text.encode()),
        (f"message/{kind}".encode(), "7bit", facts),
        _returned(report, acceptance, raw),
    ]
    content = _fields(head) + b"\r\n"
    for type_, encoding, data in parts:
        content += b"--" + boundary.encode() + b"\r\n"
        content += _fields([("Content-Type", type_.decode()), ("Content-Transfer-Encoding", encoding)])
        content += b"\r\n" + data.rstrip(b"\r\n") + b"\r\n\r\n"
    content += b"--" + boundary.encode() + b"--\r\n"
    return ReturnMail(sender=postmaster if complaint else "", recipient=recipient, content=content)


# --- parts ------------------------------------------------------------------------------------------


def _words(report: Report, event: Event, acceptance: Acceptance, rules: ReturnRules) -> tuple[str, str]:
    recipient, said = event.recipient, _diagnosis(event.data())
    lines = {
        Report.FAILED: (
            "Undelivered Mail Returned to Sender",
            f"Your mail could not be delivered to\r\n\r\n    {recipient}\r\n\r\n    {said}\r\n",
        ),
        Report.DELAYED: (
            "Delayed Mail (still being retried)",
            f"Your mail has not been delivered yet to\r\n\r\n    {recipient}\r\n\r\n    {said}\r\n\r\n"
            "It is tried again; you need not do anything.\r\n",
        ),
        Report.DELIVERED: (
            "Successful Mail Delivery Report",
            f"Your mail was delivered to\r\n\r\n    {recipient}\r\n\r\n    {said}\r\n",
        ),
        Report.ABUSE: (
            "Complaint about a mail of yours",
            f"This mail was reported as spam by\r\n\r\n    {recipient}\r\n",
        ),
    }
    subject, text = lines[report]
    return subject, f"This is the mail system at {rules.hostname}.\r\n\r\n{text}"


def _status(report: Report, event: Event, acceptance: Acceptance, rules: ReturnRules) -> bytes:
    """The fields of message/delivery-status (RFC 3464, section 2): about the mail, then about the recipient."""
    assert event.recipient is not None
    data, dsn = event.data(), acceptance.dsn
    asked = _asked(acceptance, event.recipient)
    about_mail: list[tuple[str, str]] = []
    if dsn is not None and dsn.envid is not None:
        about_mail.append(("Original-Envelope-Id", dsn.envid))
    about_mail += [
        ("Reporting-MTA", f"dns; {rules.hostname}"),
        ("Arrival-Date", format_datetime(acceptance.accepted_at)),
    ]
    about_recipient: list[tuple[str, str]] = []
    if asked is not None and asked.orcpt is not None:
        type_, _, address = asked.orcpt.partition(";")
        about_recipient.append(("Original-Recipient", _address(address, type_)))
    about_recipient += [
        ("Final-Recipient", _address(event.recipient)),
        ("Action", report.value),
        ("Status", _status_code(report, data)),
    ]
    reply = data.get("reply")
    if isinstance(reply, Mapping):
        about_recipient += [
            ("Remote-MTA", f"dns; mx.{event.recipient.rpartition('@')[2] or 'unknown'}"),
            ("Diagnostic-Code", f"smtp; {_diagnosis(data)}"),
        ]
    elif event.type == Happening.SUPPRESSED:
        about_recipient.append(("Diagnostic-Code", f"X-Provider; {_diagnosis(data)}"))
    about_recipient.append(("Last-Attempt-Date", format_datetime(event.at)))
    about_recipient.append(("Final-Log-ID", acceptance.id))
    if report is Report.DELAYED:
        about_recipient.append(("Will-Retry-Until", format_datetime(acceptance.accepted_at + GIVES_UP_AFTER)))
    return _fields(about_mail) + b"\r\n" + _fields(about_recipient)


def _feedback(event: Event, acceptance: Acceptance, rules: ReturnRules, agent: str) -> bytes:
    """The fields of message/feedback-report (RFC 5965, section 3)."""
    assert event.recipient is not None
    fields = [("Feedback-Type", "abuse"), ("User-Agent", agent), ("Version", "1")]
    if acceptance.dsn is not None and acceptance.dsn.envid is not None:
        fields.append(("Original-Envelope-Id", acceptance.dsn.envid))
    fields += [
        ("Original-Mail-From", f"<{acceptance.sender}>"),
        ("Original-Rcpt-To", f"<{event.recipient}>"),
        ("Arrival-Date", format_datetime(acceptance.accepted_at)),
        ("Reporting-MTA", f"dns; {rules.hostname}"),
    ]
    return _fields(fields)


def _returned(report: Report, acceptance: Acceptance, raw: bytes | None) -> tuple[bytes, str, bytes]:
    """The mail itself, or its headers: as the sender wanted it; without a failure never more than headers (RFC 3461)."""
    wanted = None if acceptance.dsn is None else acceptance.dsn.ret
    if raw is None:
        known = [("Subject", acceptance.subject), ("Message-ID", acceptance.message_id or "")]
        return b"text/rfc822-headers", "8bit", _fields([each for each in known if each[1]])
    raw = raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\n", b"\r\n")
    full = report is Report.ABUSE or (
        report is Report.FAILED and (wanted == "FULL" or (wanted is None and len(raw) <= FULL_BYTES))
    )
    data = raw if full else raw.partition(b"\r\n\r\n")[0] + b"\r\n"
    encoding = "7bit" if data.isascii() else "8bit"
    return (b"message/rfc822" if full else b"text/rfc822-headers"), encoding, data


def _threaded(acceptance: Acceptance) -> list[tuple[str, str]]:
    """RFC 3834, section 3.1.5: an automatic answer says what it answers."""
    message_id = acceptance.message_id
    if message_id is None or not message_id.isascii() or not message_id.isprintable():
        return []
    return [("In-Reply-To", message_id), ("References", message_id)]


def _status_code(report: Report, data: Mapping[str, Any]) -> str:
    """The `Status` (RFC 3463). Its class is that of the action: final failures are 5, delays 4, deliveries 2."""
    class_ = {Report.FAILED: "5", Report.DELAYED: "4", Report.DELIVERED: "2"}[report]
    reply = data.get("reply")
    enhanced = reply.get("enhanced") if isinstance(reply, Mapping) else None
    if not isinstance(enhanced, str):
        return f"{class_}.7.1" if report is Report.FAILED else f"{class_}.0.0"
    return class_ + enhanced[1:]


def _diagnosis(data: Mapping[str, Any]) -> str:
    """What the recipient's server said, or what the provider itself has to say, on one line."""
    reply = data.get("reply")
    if isinstance(reply, Mapping):
        said = f"{reply.get('code')} {reply.get('enhanced')} {reply.get('text')}"
    else:
        said = f"the address is on the suppression list ({data.get('reason') or 'unknown'})"
    return " ".join(said.split())


def _address(address: str, type_: str = "rfc822") -> str:
    """Write an address with its type; one with other characters than ASCII as RFC 6533, section 3, has it in 7 bits."""
    if address.isascii():
        return f"{type_}; {address}"
    written = "".join(char if char.isascii() else f"\\x{{{ord(char):X}}}" for char in address)
    return f"utf-8; {written}"


def _fields(fields: Iterable[tuple[str, str]]) -> bytes:
    """Write header fields, each on one line: what mails and plans bring must not begin another one."""
    return "".join(f"{name}: {' '.join(value.split())}\r\n" for name, value in fields).encode(
        "utf-8", "replace"
    )
