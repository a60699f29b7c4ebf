"""kill -9 at the moments that matter, seen from outside: the provider holds its answer, the process dies."""

from __future__ import annotations

import pytest

from scenarios.plugin import promises
from scenarios.promises import Promise
from scenarios.stage import CANNOT_BE_ASKED, Stage


@promises("crash.after-acceptance")
def test_a_crash_after_acceptance_makes_no_second_mail(stage: Stage) -> None:
    """The provider has it, the sender dies before it can know: after the restart there is still one mail."""
    mail = stage.mail("order-1")
    stage.plan({"name": "held", "fault": "accept_then_hold", "recipient": mail.recipient, "first": 1})

    stage.start()
    stage.enqueue(mail, alone=True)
    stage.await_held(mail)
    stage.kill()
    stage.release()
    stage.enqueue_bystander()
    stage.start()
    stage.calm()

    stage.judge(doubt=[mail])


@promises("crash.after-claim", "crash.before-the-body")
def test_a_crash_before_acceptance_loses_no_mail(stage: Stage, promised: Promise) -> None:
    """The sender had it in hand, the provider not yet: nobody may believe that it was sent."""
    mail = stage.mail("order-1")
    early = "accept" if stage.profile == "http" else "rcpt"
    stage.plan({"name": "stuck", "fault": "hang", "stage": early, "recipient": mail.recipient, "first": 1})

    stage.start()
    stage.enqueue(mail, alone=True)
    stage.await_struck("stuck")
    stage.kill()
    stage.enqueue_bystander()
    stage.start()
    stage.calm()

    # To park it is honest; not to have to is better.
    must_arrive = promised.name == "crash.before-the-body"
    stage.judge(arrive=[mail] if must_arrive else [], may_park=[] if must_arrive else [mail])
    if not must_arrive and stage.unseen(mail):
        pytest.skip(CANNOT_BE_ASKED)


@promises("crash.before-wake-up")
def test_a_mail_committed_while_nobody_listens_is_sent(stage: Stage) -> None:
    """The commit is the hand-over: no worker is alive to be woken, and the process that committed dies."""
    mail = stage.mail("order-1")
    stage.start()
    stage.kill()

    stage.enqueue(mail)
    stage.kill_application()
    stage.start()
    stage.calm()

    stage.judge(arrive=[mail])
