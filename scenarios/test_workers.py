"""Workers side by side, and workers asked to stop."""

from __future__ import annotations

from functools import partial

from scenarios import checks
from scenarios.plugin import promises
from scenarios.stage import Stage


@promises("workers.two")
def test_two_workers_share_one_outbox(stage: Stage) -> None:
    """Thirty mails, some slow, some refused at first: each arrives once."""
    mails = [stage.mail(f"order-{n}") for n in range(1, 31)]
    later = {"fault": "reply", "code": 503 if stage.profile == "http" else 451}
    stage.plan(
        # Slow answers keep mails in hand while the other worker looks for work.
        {"name": "slow", "fault": "slow", "recipient": "order-*", "every": 3, "delay_s": 0.15},
        {"name": "not now", "recipient": "order-*", "every": 7} | later,
    )

    for mail in mails:
        stage.enqueue(mail)
    stage.start(2)
    stage.calm_after(mails)

    stage.judge(arrive=mails, more=[checks.again_after_acceptance])


@promises("workers.sigterm")
def test_a_worker_asked_to_stop_finishes_what_it_began(stage: Stage) -> None:
    """The signal comes while the provider thinks; its answer is stored, the worker goes, nothing is sent twice."""
    mail = stage.mail("order-1")
    stage.plan({"name": "held", "fault": "accept_then_hold", "recipient": mail.recipient, "first": 1})

    stage.start()
    stage.enqueue(mail, alone=True)
    stage.await_held(mail)
    stage.ask_to_stop()
    stage.release_after_a_moment()
    stopped = stage.await_stop()
    stage.enqueue_bystander()
    stage.start()
    stage.calm()

    stage.judge(
        arrive=[mail],
        more=[
            lambda _: stage.not_stopped(stopped),
            partial(checks.abandoned, recipient=mail.recipient),
            checks.again_after_acceptance,
        ],
    )
