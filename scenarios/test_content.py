"""Real mail: what a shop sends arrives as it was given."""

from __future__ import annotations

from functools import partial

from scenarios import checks
from scenarios.mail import large_mail, real_mail
from scenarios.plugin import promises
from scenarios.stage import Stage


@promises("content.real-mail")
def test_a_real_mail_arrives_as_it_was_given(stage: Stage) -> None:
    """Attachment, inline image, names and subject that are not ASCII, dots at line beginnings, long lines."""
    mail = real_mail("order-1", stage.address("order-1"), stage.rng)

    stage.start()
    stage.enqueue(mail)
    stage.calm()

    stage.judge(arrive=[mail], more=[lambda _: stage.content_of(mail)])


@promises("content.large")
def test_a_large_mail_arrives_whole(stage: Stage) -> None:
    """Ten megabytes of attachment, thirteen on the wire."""
    mail = large_mail("order-1", stage.address("order-1"), stage.rng)

    stage.start()
    stage.enqueue(mail)
    stage.calm()

    stage.judge(arrive=[mail], more=[lambda _: stage.content_of(mail)])


@promises("content.same-bytes")
def test_a_mail_that_is_sent_again_has_the_same_bytes(stage: Stage) -> None:
    """A retry built anew (another date, another boundary) is another message under the same name."""
    mail = real_mail("order-1", stage.address("order-1"), stage.rng)
    stage.plan(
        {
            "name": "the answer is lost",
            "fault": "accept_then_hang_up",
            "recipient": mail.recipient,
            "first": 1,
        }
    )

    stage.start()
    stage.enqueue(mail)
    stage.await_struck("the answer is lost")
    stage.calm()

    stage.judge(doubt=[mail], more=[partial(checks.changed_bytes, recipient=mail.recipient)])
