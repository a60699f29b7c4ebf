"""Reply codes: what is temporary is tried again, what is final is final."""

from __future__ import annotations

from functools import partial

from scenarios import checks
from scenarios.plugin import promises
from scenarios.promises import Promise
from scenarios.stage import Stage


def temporary(stage: Stage) -> dict[str, object]:
    """Return the refusal that says "later" on this wire; over SMTP after the dot, so that the mail was seen."""
    return {"fault": "reply", "code": 503 if stage.profile == "http" else 451}


@promises("temporary.then-success")
def test_a_temporary_refusal_is_tried_again(stage: Stage) -> None:
    """Twice "not now", then yes: one mail."""
    mail = stage.mail("order-1")
    stage.plan({"name": "not now", "recipient": mail.recipient, "first": 2} | temporary(stage))

    stage.start()
    stage.enqueue(mail)
    stage.await_attempts(mail, 3)
    stage.calm()

    stage.judge(arrive=[mail], more=[checks.again_after_acceptance])


@promises("temporary.same-identity")
def test_all_attempts_of_a_mail_have_one_identity(stage: Stage) -> None:
    """A retry is the same message (RFC 5322, section 3.6.4): same Message-ID, same key."""
    mail = stage.mail("order-1")
    stage.plan({"name": "not now", "recipient": mail.recipient, "first": 2} | temporary(stage))

    stage.start()
    stage.enqueue(mail)
    stage.await_attempts(mail, 3)
    stage.calm()

    keyed = stage.profile == "http" and "http-idempotency" in stage.file.abilities
    stage.judge(arrive=[mail], more=[partial(checks.changed_identity, recipient=mail.recipient, keyed=keyed)])


#: Promise -> the refusal that is final.
FINAL: dict[str, dict[str, object]] = {
    "refused.recipient": {"fault": "reply", "stage": "rcpt", "code": 550},
    "refused.content": {"fault": "reply", "stage": "message", "code": 554},
    "refused.400": {"fault": "reply", "stage": "validate", "code": 400},
    "refused.422": {"fault": "reply", "stage": "validate", "code": 422},
}


@promises(*FINAL)
def test_a_refusal_for_good_is_final(stage: Stage, promised: Promise) -> None:
    """One attempt, an honest `failed`, and no other try although the provider would take it by now."""
    mail = stage.mail("order-1")
    stage.plan({"name": "refused", "recipient": mail.recipient, "sticks": "mail"} | FINAL[promised.name])

    stage.start()
    stage.enqueue(mail)
    stage.await_struck("refused")
    stage.calm()

    stage.judge(refused=[mail.recipient])
