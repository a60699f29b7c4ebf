"""The provider took the mail and its answer got lost: the case that makes senders send twice, or lie."""

from __future__ import annotations

from scenarios.plugin import promises
from scenarios.promises import Promise
from scenarios.stage import Stage

#: Promise -> what happens to the answer of the first attempt.
LOST_ANSWERS: dict[str, dict[str, object]] = {
    "lost-answer.timeout": {"fault": "accept_then_hang"},
    "lost-answer.fin": {"fault": "accept_then_hang_up"},
    "lost-answer.rst": {"fault": "accept_then_reset"},
    "lost-answer.truncated": {"fault": "accept_then_truncate"},
    "lost-answer.malformed": {"fault": "accept_then_garble"},
    "lost-answer.server-error": {"fault": "accept_then_reply", "code": 500},
}


@promises(*LOST_ANSWERS)
def test_a_lost_answer_makes_no_second_mail_and_no_lie(stage: Stage, promised: Promise) -> None:
    """Whatever the sender does about it, the person gets one mail and the business is told no falsehood."""
    mail = stage.mail("order-1")
    stage.plan(
        {"name": "the answer is lost", "recipient": mail.recipient, "first": 1} | LOST_ANSWERS[promised.name]
    )

    stage.start()
    stage.enqueue(mail)
    stage.await_struck("the answer is lost")
    stage.calm()

    stage.judge(doubt=[mail])


@promises("lost-answer.then-refused")
def test_a_refusal_after_a_lost_answer_is_no_failure(stage: Stage) -> None:
    """Accepted, answer lost, and from then on 400 (550) for ever: `failed` would be a lie about the first."""
    mail = stage.mail("order-1")
    refusal = (
        {"fault": "reply", "stage": "validate", "code": 400}
        if stage.profile == "http"
        else {"fault": "reply", "stage": "rcpt", "code": 550}
    )
    stage.plan(
        {
            "name": "the answer is lost",
            "recipient": mail.recipient,
            "first": 1,
            "fault": "accept_then_hang_up",
        },
        {"name": "refused from now on", "recipient": mail.recipient, "skip": 1} | refusal,
        # Who does not try again (parks it, or looks it up) never meets the refusal, and that is fine.
        optional=["refused from now on"],
    )

    stage.start()
    stage.enqueue(mail)
    stage.await_struck("the answer is lost")
    stage.await_struck("refused from now on", at_most_s=stage.timing.timeout_s + stage.timing.retry_cap_s)
    stage.calm()

    stage.judge(doubt=[mail])
