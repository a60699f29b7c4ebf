"""What a failing test says: what was expected, what the provider really has, and what was tried."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulator.shapes import Attempt, Finding, Message, Verdict

#: So many lines of a list are shown; who needs more asks the provider.
MOST = 20

#: What a verdict lists, and what it means.
FINDINGS: Mapping[str, str] = {
    "duplicated": "accepted too often",
    "lost": "never accepted",
    "phantom": "accepted, but nobody promised it",
    "misdirected": "accepted for somebody else, or with other bytes",
    "misreported": "accepted, but the sender says it was not",
    "open": "not accepted yet",
}


def mail_line(mail: Message) -> str:
    """Return one accepted mail in a line."""
    facts = [
        f"at {mail['accepted_at'][11:23]}",
        f"to {', '.join(mail['recipients'])}",
        f"over {mail['dialect']}",
        f"subject {mail['subject']!r}",
        f"Message-ID {mail['message_id'] or '–'}",
        *([f"key {mail['key']}"] if mail["key"] is not None else []),
        *([f"fate {mail['fate']}"] if mail["fate"] != "delivered" else []),
        f"by {mail['attempt']}",
    ]
    return f"{mail['id']} {', '.join(facts)}"


def attempt_line(attempt: Attempt) -> str:
    """Return one attempt in a line: what it wanted, what struck it, what was said and what was booked."""
    struck = f", struck by {', '.join(map(repr, attempt['rules']))}" if attempt["rules"] else ""
    booked = f"booked for {', '.join(attempt['accepted'])}" if attempt["accepted"] else "nothing booked"
    said = (
        f"said {attempt['answer']} ({attempt['sent']})" if attempt["state"] == "closed" else attempt["state"]
    )
    to = ", ".join(attempt["recipients"]) or "nobody yet"
    return (
        f"{attempt['id']} at {attempt['opened_at'][11:23]} over {attempt['dialect']} to {to}:"
        f" reached {attempt['stage']}{struck}, {said}, {booked}"
    )


def listed(title: str, lines: Iterable[str]) -> str:
    """Return a title and its lines, the newest ones if there are many."""
    kept = list(lines)
    if not kept:
        return f"{title}: none"
    left_out = [f"  … {len(kept) - MOST} earlier ones"] if len(kept) > MOST else []
    return "\n".join([f"{title}:", *left_out, *(f"  {line}" for line in kept[-MOST:])])


def seen(mails: Sequence[Message], attempts: Sequence[Attempt]) -> str:
    """Return what the provider has seen."""
    return "\n".join(
        [
            listed("accepted", map(mail_line, mails)),
            listed("tried", map(attempt_line, attempts)),
        ]
    )


def not_once(recipient: str, mails: Sequence[Message], attempts: Sequence[Attempt]) -> str:
    """Say that somebody did not get exactly one mail."""
    return f"{recipient} got {counted(len(mails))}, exactly one was expected\n{seen(mails, attempts)}"


def not_valid(verdict: Verdict) -> str:
    """Say what is wrong with promises and ledger."""
    lines = [
        f"{_about(finding)} {meaning}"
        for name, meaning in FINDINGS.items()
        for finding in _findings(verdict, name)
    ]
    head = f"{verdict['accepted_once']} of {verdict['obligations']} obligations were accepted exactly once"
    return f"{head}\n{listed('wrong', lines)}"


def counted(mails: int) -> str:
    """Return a number of mails in words."""
    return {0: "no mail", 1: "one mail"}.get(mails, f"{mails} mails")


def _findings(verdict: Verdict, name: str) -> list[Finding]:
    findings: list[Finding] = verdict[name]  # type: ignore[literal-required] # a key of FINDINGS
    return findings


def _about(finding: Finding) -> str:
    ref = f" ({finding['ref']})" if finding["ref"] is not None else ""
    ids = f": {', '.join(finding['ids'])}" if finding["ids"] else ""
    return f"{finding['recipient']}{ref}, {finding['copies']} of {finding['expected']} copies{ids}:"
