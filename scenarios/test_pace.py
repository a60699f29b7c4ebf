"""Pace: Retry-After is obeyed, and an outage is sat out."""

from __future__ import annotations

from functools import partial

from scenarios import checks
from scenarios.plugin import promises
from scenarios.promises import Promise
from scenarios.stage import Stage


@promises("pace.retry-after-seconds", "pace.retry-after-date")
def test_retry_after_is_obeyed(stage: Stage, promised: Promise) -> None:
    """The provider names a time, well beyond the sender's own longest pause; the mail comes back after it."""
    mail = stage.mail("order-1")
    wait_s = max(2, int(2 * stage.timing.retry_cap_s) + 1)
    told: object = f"date:{wait_s}" if promised.name.endswith("date") else wait_s
    stage.plan(
        {"name": "later", "recipient": mail.recipient, "first": 1}
        | {"fault": "reply", "code": 429, "retry_after": told}
    )

    stage.start()
    stage.enqueue(mail)
    stage.await_struck("later")
    stage.await_attempts(mail, 2)
    stage.calm()

    stage.judge(arrive=[mail], more=[partial(checks.too_early, recipient=mail.recipient, wait_s=wait_s)])


@promises("pace.outage")
def test_an_outage_is_sat_out(stage: Stage) -> None:
    """The provider is away for longer than the longest pause between two attempts; then everything arrives."""
    mails = [stage.mail(f"order-{n}") for n in range(1, 4)]
    outage = {"fault": "reply", "code": 503} if stage.profile == "http" else {"fault": "reply", "stage": "rcpt", "code": 421}  # fmt: skip
    stage.plan({"name": "outage", "recipient": "order-*"} | outage)

    stage.start()
    for mail in mails:
        stage.enqueue(mail)
    stage.await_outage(mails[0], longer_than_s=2 * stage.timing.retry_cap_s)
    stage.calm()

    stage.judge(arrive=mails)
