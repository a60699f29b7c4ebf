"""One mail to several people: each has a fate of their own."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from scenarios import checks
from scenarios.mail import Mail
from scenarios.plugin import promises
from scenarios.stage import Stage


def to_three(stage: Stage) -> Mail:
    people = [stage.address(name) for name in ("ann", "bob", "cid")]
    return replace(stage.mail("order-1"), to=tuple(people))


@promises("recipients.one-refused")
def test_one_refused_recipient_does_not_touch_the_others(stage: Stage) -> None:
    """Ann and Cid get it once; Bob does not exist, is tried once, and that is told."""
    mail = to_three(stage)
    ann, bob, cid = mail.recipients
    stage.plan({"name": "no such mailbox", "fault": "refuse_recipients", "recipient": bob, "code": 550})

    stage.start()
    stage.enqueue(mail)
    stage.await_struck("no such mailbox")
    stage.calm(refused=[bob])

    stage.judge(
        refused=[bob],
        more=[
            partial(checks.given_up, recipients=[ann, cid]),
            partial(checks.not_said, recipients=[ann, cid]),
            partial(checks.tried_more_than, recipient=bob, times=1),
        ],
    )


@promises("recipients.one-later")
def test_one_recipient_refused_for_now_gets_it_later(stage: Stage) -> None:
    """Only Bob's part is tried again; Ann and Cid do not get a second copy for it."""
    mail = to_three(stage)
    _, bob, _ = mail.recipients
    stage.plan(
        {"name": "mailbox busy", "fault": "refuse_recipients", "recipient": bob, "first": 2}
        | {"code": 450, "enhanced": "4.2.1"}
    )

    stage.start()
    stage.enqueue(mail)
    stage.await_struck("mailbox busy", 2)
    stage.calm()

    stage.judge(arrive=[mail])
