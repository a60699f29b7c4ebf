"""Short ways to make mails, instants and providers for the tests of this folder."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from simulator.provider.acceptance import Acceptance
from simulator.provider.answer import Refused
from simulator.provider.fate import Fate
from simulator.provider.faults import Fault
from simulator.provider.idempotency import KeyRules
from simulator.provider.ledger import Attempt, Sent
from simulator.provider.limits import Limits
from simulator.provider.message import Submission, from_bytes
from simulator.provider.plan import Plan
from simulator.provider.provider import Detail, Provider, Setup, Verdict
from simulator.provider.rule import Rule, When, Who

NOW = datetime(2030, 1, 1, tzinfo=UTC)
BOB = "bob@example.org"
ANN = "ann@example.org"


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def mail(
    *recipients: str,
    dialect: str = "smtp",
    key: str | None = None,
    subject: str = "Hello",
    ref: str | None = None,
) -> Submission:
    mark = f"X-Obligation: {ref}\r\n" if ref is not None else ""
    raw = f"Subject: {subject}\r\nMessage-ID: <{subject}@example.org>\r\n{mark}\r\nbody\r\n".encode()
    return from_bytes(
        raw, dialect=dialect, sender="shop@example.org", recipients=recipients or (BOB,), key=key
    )


def acceptance(number: int = 1, recipients: Sequence[str] = (BOB,), **changes: object) -> Acceptance:
    facts: dict[str, object] = {
        "id": f"msg_{number}",
        "number": number,
        "account": "default",
        "attempt": f"att_{number}",
        "dialect": "native",
        "accepted_at": NOW,
        "sender": "shop@example.org",
        "recipients": tuple(recipients),
        "message_id": f"<{number}@example.org>",
        "key": f"key-{number}",
        "fingerprint": "f",
        "subject": "Hello",
        "size_bytes": 10,
        "sha256": "s",
        "fate": Fate.DELIVERED,
    }
    return Acceptance(**(facts | changes))  # type: ignore[arg-type]


def provider(setup: Setup | None = None, *, seed: int = 0) -> Provider:
    return Provider(seed=seed, setup=setup or Setup(), now=NOW)


def send(
    to: Provider, submission: Submission, now: datetime = NOW, *, account: str = "default", end: bool = True
) -> tuple[Attempt, Verdict | None]:
    """Walk one mail through the stages as a server does. No verdict: an answer before booking ended it."""
    attempt = to.open(submission.dialect, "127.0.0.1", now, account=account)
    if submission.dialect == "smtp":
        steps = [("mail", Detail(sender=submission.sender))]
        steps += [("rcpt", Detail(recipient=each)) for each in submission.recipients]
        last = "message"
    else:
        steps = []
        last = "validate"
    known = Detail(
        sender=submission.sender,
        recipients=submission.recipients,
        key=submission.key,
        message_id=submission.message_id,
        headers=submission.headers,
        fingerprint=submission.fingerprint,
    )
    steps.append((last, known))
    if submission.dialect != "smtp":
        steps.append(("accept", known))
    for stage, detail in steps:
        if to.step(attempt, stage, detail, now) is not None:
            to.told(attempt, Sent.NOTHING, now)
            to.close(attempt, now)
            return attempt, None
    verdict = to.submit(attempt, submission, now)
    if end:
        to.told(attempt, Sent.COMPLETE, now)
        to.close(attempt, now)
    return attempt, verdict


def planned(*rules: Rule, seed: int = 0, keys: KeyRules = KeyRules(), limits: Limits = Limits()) -> Setup:
    return Setup(plan=Plan(rules=rules, seed=seed), keys=keys, limits=limits)


def rule(
    fault: Fault, *stages: tuple[str, str], name: str = "r", who: Who = Who(), when: When = When()
) -> Rule:
    return Rule(name=name, fault=fault, stages=frozenset(stages), who=who, when=when)


def refusal(of: Provider, submission_count: int = 1, **mail_facts: object) -> Refused:
    answer: object = None
    for _ in range(submission_count):
        _, verdict = send(of, mail(**mail_facts))  # type: ignore[arg-type]
        assert verdict is not None
        answer = verdict.answer
    assert isinstance(answer, Refused)
    return answer


def booked(of: Provider, account: str = "default") -> int:
    return len(of.account(account, NOW).ledger.acceptances)


KEYED = mail(dialect="native", key="k")


def keyed(
    it: Provider, now_s: float = 0, *, key: str = "k", subject: str = "Hello", end: bool = True
) -> object:
    """Hand in a mail with a key; return what is said."""
    submission = mail(dialect="native", key=key, subject=subject)
    attempt = it.open("native", "peer", after(now_s))
    known = Detail(recipients=submission.recipients, key=key, fingerprint=submission.fingerprint)
    answer = it.step(attempt, "accept", known, after(now_s))
    if answer is None:
        answer = it.submit(attempt, submission, after(now_s)).answer
    if end:
        it.told(attempt, Sent.COMPLETE, after(now_s))
        it.close(attempt, after(now_s))
    return answer
