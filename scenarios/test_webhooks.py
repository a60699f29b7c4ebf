"""What the provider tells afterwards: believed if it is genuine, kept before it is acknowledged, never made better."""

from __future__ import annotations

from typing import Any

from scenarios import hearing
from scenarios.checks import Finding
from scenarios.history import History
from scenarios.mail import Mail
from scenarios.plugin import promises
from scenarios.stage import More, Stage

BOUNCED, DELIVERED = "email.bounced", "email.delivered"


def bounces(mail: Mail) -> dict[str, Any]:
    """A rule: the address does not exist, and the provider says so soon."""
    return {
        "name": "it bounces",
        "fault": "fate",
        "fate": "hard_bounce",
        "after_s": 0.3,
        "recipient": mail.recipient,
    }


def story(
    stage: Stage, mail: Mail, *rules: dict[str, Any], told: str = BOUNCED, **settings: Any
) -> list[More]:
    """Send a mail that bounces, and tell of it while this goes wrong; the questions to be asked in the end."""
    stage.plan(bounces(mail), *({"recipient": mail.recipient} | rule for rule in rules))
    stage.start()
    stage.hear(**settings)
    stage.enqueue(mail)
    stage.await_told(told, mail)
    return [stands(mail, "hard_bounce")]


def stands(mail: Mail, wanted: str, kind: str = "event lost") -> More:
    """The question where a mail stands."""
    return lambda history: hearing.stands(history, mail.recipient, wanted, kind=kind)


def answers(stage: Stage) -> More:
    """The question what requests were answered."""
    told = hearing.tellings_from(stage.service.control.deliveries())

    def question(_history: History) -> list[Finding]:
        return list(hearing.answers(told))

    return question


@promises("webhooks.genuine")
def test_what_is_not_genuine_is_not_acknowledged_and_what_is_is_heard(stage: Stage) -> None:
    """Each event comes with a wrong signature first, or as a replay of an hour ago; then as it should."""
    mail = stage.mail("order-1")
    more = story(
        stage,
        mail,
        {"name": "forged", "fault": "webhook_bad_signature", "event": BOUNCED},
        {"name": "replayed", "fault": "webhook_stale", "event": "email.accepted"},
    )
    stage.calm()

    stage.judge(arrive=[mail], more=[*more, answers(stage)])


@promises("webhooks.kept")
def test_what_was_acknowledged_survives_a_kill(stage: Stage) -> None:
    """The 2xx ends the telling for ever: whoever dies behind it must know what it was."""
    mail = stage.mail("order-1")
    more = story(stage, mail)
    stage.kill_hearing()
    stage.hear()
    stage.calm()

    stage.judge(arrive=[mail], more=more)


@promises("webhooks.worse-news")
def test_worse_news_is_not_made_undone_by_what_comes_behind_it(stage: Stage) -> None:
    """A bounce, and at the same moment, later, an event that says delivered."""
    mail = stage.mail("order-1")
    story(
        stage,
        mail,
        {"name": "contradicted", "fault": "webhook_conflict", "event": BOUNCED},
        told=DELIVERED,
    )
    stage.calm()

    stage.judge(arrive=[mail], more=[stands(mail, "hard_bounce", "news erased")])


@promises("webhooks.neighbours")
def test_an_item_that_nobody_can_read_costs_itself_and_not_its_neighbours(stage: Stage) -> None:
    """In one request with it, signed well."""
    mail = stage.mail("order-1")
    more = story(
        stage,
        mail,
        {"name": "nonsense", "fault": "webhook_malformed", "event": BOUNCED, "damage": "null"},
        batch=10,
        batch_wait_s=0.2,
    )
    stage.calm()

    stage.judge(arrive=[mail], more=[*more, answers(stage)])


@promises("webhooks.unknown-mail")
def test_events_of_mails_that_nobody_sent_are_acknowledged(stage: Stage) -> None:
    """Of another environment on the same account: a refusal gets the endpoint switched off for all."""
    mail = stage.mail("order-1")
    more = story(stage, mail, {"name": "of nobody", "fault": "webhook_unknown", "event": BOUNCED})
    stage.calm()

    stage.judge(arrive=[mail], more=[*more, answers(stage)])


@promises("webhooks.early")
def test_an_event_that_comes_before_the_answer_is_not_lost(stage: Stage) -> None:
    """The provider tells of the acceptance while the sender still waits for the answer; nothing else is told."""
    mail = stage.mail("order-1")
    stage.plan(
        {"name": "early", "fault": "webhook_early", "recipient": mail.recipient},
        {"name": "nothing more", "fault": "fate", "fate": "dropped", "recipient": mail.recipient},
    )
    stage.start()
    stage.hear()
    stage.enqueue(mail)
    stage.await_told("email.accepted", mail)
    stage.calm()

    stage.judge(arrive=[mail], more=[stands(mail, "queued"), answers(stage)])


@promises("webhooks.settles-doubt")
def test_an_event_settles_a_mail_in_doubt(stage: Stage) -> None:
    """Over SMTP nobody can be asked; but what the provider tells of a mail proves that it took it."""
    mail = stage.mail("order-1")
    stage.plan({"name": "no answer", "fault": "accept_then_hang_up", "recipient": mail.recipient, "first": 1})
    stage.start()
    stage.hear()
    stage.enqueue(mail)
    stage.await_told(DELIVERED, mail)
    stage.calm()

    stage.judge(arrive=[mail], more=[stands(mail, "delivered")])
