"""The gate in front of a provider: one pace for all workers, pauses for all, few probes, urgent mail first, no mail too late.

What a sender is held to stands in its file (`[limits]`); who declares none of it is asked nothing here.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial

from scenarios import checks, gate
from scenarios.clock import monotonic_s, now
from scenarios.mail import Mail
from scenarios.plugin import promises
from scenarios.stage import Stage

WORKERS = 2


def crowd(stage: Stage, name: str, count: int, *, mail_class: str | None = None) -> list[Mail]:
    """So many mails, each to somebody else."""
    return [replace(stage.mail(f"{name}-{n}"), mail_class=mail_class) for n in range(1, count + 1)]


@promises("gate.rate")
def test_workers_keep_one_rate_together(stage: Stage) -> None:
    """Four seconds' worth of mail waits when two workers start."""
    limits = stage.file.limits
    assert limits.rate_per_s is not None, "read_sender sees to it"
    mails = crowd(stage, "order", int(limits.burst + 4 * limits.rate_per_s))
    stage.plan()

    for mail in mails:
        stage.enqueue(mail)
    stage.start(WORKERS)
    stage.calm_after(mails)

    stage.judge(
        arrive=mails,
        more=[partial(gate.too_fast, rate_per_s=limits.rate_per_s, burst=limits.burst)],
    )


@promises("gate.retry-after")
def test_what_one_worker_is_told_all_keep(stage: Stage) -> None:
    """One mail meets 429 with Retry-After; nobody else comes before it is over."""
    first, others = stage.mail("first"), crowd(stage, "order", 10)
    wait_s = max(4, int(2 * stage.timing.retry_cap_s) + 1)
    stage.plan(
        {"name": "too fast", "recipient": first.recipient, "first": 1}
        | {"fault": "reply", "code": 429, "retry_after": wait_s}
    )

    stage.start(WORKERS)
    stage.enqueue(first, alone=True)
    stage.await_struck("too fast")
    # What is on its way by then is nobody's sin.
    stage.rage_for(1.2 * checks.ON_THE_WAY_S)
    for mail in others:
        stage.enqueue(mail)
    stage.calm_after([first, *others])

    stage.judge(
        arrive=[first, *others],
        more=[
            partial(gate.came_all_the_same, wait_s=wait_s),
            partial(checks.too_early, recipient=first.recipient, wait_s=wait_s),
        ],
    )


@promises("gate.breaker")
def test_a_provider_that_is_down_is_asked_by_few_and_not_forgotten(stage: Stage) -> None:
    """Sixty mails wait while nobody is answered; then everything arrives."""
    limits = stage.file.limits
    assert limits.breaker_pause_s is not None, "read_sender sees to it"
    mails = crowd(stage, "order", 60)
    outage = {"fault": "reply", "code": 503} if stage.profile == "http" else {"fault": "reply", "stage": "rcpt", "code": 421}  # fmt: skip
    stage.plan({"name": "outage", "recipient": "order-*"} | outage)

    for mail in mails:
        stage.enqueue(mail)
    began_s = monotonic_s()
    stage.start(WORKERS)
    at_least = limits.breaker_failures + 1
    stage.await_struck("outage", at_least)
    stage.rage_for(max(4 * limits.breaker_pause_s, 2 * stage.timing.retry_cap_s))
    lasted_s = monotonic_s() - began_s
    stage.calm()

    # What opens it, what was under way meanwhile, and then at most two probes for each pause.
    most = (
        limits.breaker_failures + WORKERS * limits.in_flight + 2 * int(lasted_s / limits.breaker_pause_s + 1)
    )
    stage.judge(arrive=mails, more=[partial(gate.stormed, rule="outage", most=most)])


@promises("gate.urgent")
def test_a_code_does_not_wait_behind_a_newsletter(stage: Stage) -> None:
    """Newsletters that nobody answers have every place they may have, and many more wait, when somebody asks for a code.

    They are answered when it is taken: how slow the machine is counts for neither.
    """
    bulk = crowd(stage, "news", 4 * stage.file.limits.in_flight, mail_class="newsletter")
    code = replace(stage.mail("code"), mail_class="code")
    stage.plan({"name": "held", "fault": "accept_then_hold", "recipient": "news-*"})

    for mail in bulk:
        stage.enqueue(mail, alone=True)
    stage.start()
    stage.await_struck("held")
    stage.rage_for(0.16 * stage.timing.timeout_s)
    stage.enqueue(code, alone=True)
    committed_at = now()
    stage.calm_after([code])

    within_s, for_s = stage.file.limits.urgent_s, stage.timing.timeout_s
    urgent = partial(gate.late, recipient=code.recipient, since=committed_at, within_s=within_s)
    stage.judge(arrive=[code, *bulk], more=[partial(urgent, behind="held", for_s=for_s)])


@promises("gate.expired")
def test_what_came_too_late_is_not_sent_any_more(stage: Stage) -> None:
    """The provider is away until the time of a mail is over; when it is back, that mail is not handed over."""
    mail = replace(stage.mail("code"), expires_in_s=2.0)
    away = {"fault": "reply", "code": 503 if stage.profile == "http" else 451}
    stage.plan({"name": "away", "recipient": mail.recipient} | away)

    stage.start()
    stage.enqueue(mail)
    ends_at = now() + timedelta(seconds=2.0)
    stage.await_struck("away")
    stage.rage_for(2.0 + stage.timing.retry_cap_s)
    stage.calm()

    stage.judge(
        more=[
            partial(gate.overdue, recipient=mail.recipient, ends_at=ends_at),
            partial(gate.not_ended, recipient=mail.recipient),
        ]
    )


@promises("gate.expired-last-moment")
def test_a_mail_whose_time_ends_on_the_way_is_not_handed_over(stage: Stage) -> None:
    """The provider takes its time before it wants to see the mail; by then it is not worth sending."""
    slow_s = 0.6 * stage.timing.timeout_s
    mail = replace(stage.mail("code"), expires_in_s=0.5 * slow_s)
    stage.plan(
        {"name": "slow", "fault": "slow", "stage": "rcpt", "recipient": mail.recipient, "delay_s": slow_s}
    )

    stage.start()
    stage.enqueue(mail)
    ends_at = now() + timedelta(seconds=0.5 * slow_s)
    stage.await_struck("slow")
    stage.calm()

    stage.judge(
        more=[
            partial(gate.overdue, recipient=mail.recipient, ends_at=ends_at),
            partial(gate.not_ended, recipient=mail.recipient),
        ]
    )
