"""The business transaction is the promise: its rollback, its repetition, its twin."""

from __future__ import annotations

from scenarios.plugin import promises
from scenarios.stage import Stage


@promises("business.rollback")
def test_a_rollback_sends_nothing(stage: Stage) -> None:
    """What was not committed never happened."""
    mail = stage.mail("order-1")

    stage.start()
    stage.enqueue(mail, rollback=True)
    stage.calm()

    stage.judge()


@promises("business.same-event-twice")
def test_the_same_event_twice_is_one_mail(stage: Stage) -> None:
    """A repeated request of a nervous customer, before and after the mail has left."""
    mail = stage.mail("order-1")

    stage.start()
    stage.enqueue(mail)
    stage.enqueue(mail)
    stage.await_attempts(mail)
    stage.enqueue(mail)
    stage.calm()

    stage.judge(arrive=[mail])


@promises("business.equal-content")
def test_two_events_with_equal_content_are_two_mails(stage: Stage) -> None:
    """Two orders of the same thing on the same day: nobody may take the second for a copy of the first."""
    first = stage.mail("order-1")
    second = first.again("order-2")

    stage.start()
    stage.enqueue(first, copies=2)
    stage.enqueue(second, copies=2)
    stage.calm()

    stage.judge(arrive=[first])
