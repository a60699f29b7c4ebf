"""Behind the provider's yes: mail that is accepted and then vanishes."""

from __future__ import annotations

from scenarios import checks
from scenarios.plugin import promises
from scenarios.stage import Stage


@promises("dropped.not-resent")
def test_dropped_mail_is_flagged_and_not_sent_again(stage: Stage) -> None:
    """The sender cannot see it and must not guess; the ledger says it."""
    mail = stage.mail("order-1")
    stage.plan({"name": "dropped", "fault": "accept_then_drop", "recipient": mail.recipient, "first": 1})

    stage.start()
    stage.enqueue(mail)
    stage.await_struck("dropped")
    history = stage.calm()

    stage.judge(arrive=[mail], more=[checks.again_after_acceptance])
    assert [mail.recipient] == [each.recipient for each in checks.judged(history).dropped]
