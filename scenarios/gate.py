"""What a history says of the gate in front of a provider: pace, pauses, probes, what goes first and what goes no more.

Small questions like those of `checks`, each giving a list of findings. The numbers a sender is held to are arguments:
they come from its own file (`[limits]`). Must not hold: clocks, sockets, how a scenario is staged.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from scenarios.checks import ON_THE_WAY_S, Finding, pressed
from scenarios.history import History, Try
from simulator.provider.obligations import ENDED_UNSENT

#: The kinds of finding that are asked of gates only, and what they say.
KINDS: dict[str, str] = {"overdue": "sent, or still tried, although its time was over"}

#: A mail that was let go may take so long to the provider, in seconds: others seem to come faster by that.
SLACK_S = 1.0


def too_fast(history: History, *, rate_per_s: float, burst: int, slack_s: float = SLACK_S) -> list[Finding]:
    """More mails came within some time than the rate allows for it, by all workers together."""
    tries = _of_mails(history)
    worst: tuple[float, int, int] | None = None
    for first, begin in enumerate(tries):
        for last in range(first + 1, len(tries)):
            took_s = (tries[last].opened_at - begin.opened_at) / timedelta(seconds=1)
            allowed = burst + rate_per_s * (took_s + slack_s)
            beyond = last - first + 1 - allowed
            if beyond > 0 and (worst is None or beyond > worst[0]):
                worst = (beyond, first, last)
    if worst is None:
        return []
    _, first, last = worst
    took_s = (tries[last].opened_at - tries[first].opened_at) / timedelta(seconds=1)
    return [
        Finding(
            kind="too fast",
            recipient=tries[first].recipients[0],
            sentence=(
                f"{last - first + 1} attempts within {took_s:.2f} s; {rate_per_s:g} a second and {burst} at once were the limit"
            ),
            attempts=tuple(each.id for each in tries[first : last + 1]),
        )
    ]


def came_all_the_same(history: History, *, wait_s: float) -> list[Finding]:
    """Other mail came although a 429 had told everybody to wait so long."""
    told = tuple(
        replace(each, retry_after_s=wait_s) if each.code == 429 else each for each in history.attempts
    )
    return pressed(replace(history, attempts=told))


def stormed(history: History, rule: str, *, most: int) -> list[Finding]:
    """A provider that was down (a rule of the plan) was asked more than so often."""
    met = [each for each in history.attempts if rule in each.rules]
    if len(met) <= most:
        return []
    lasted_s = (met[-1].opened_at - met[0].opened_at) / timedelta(seconds=1)
    return [
        Finding(
            kind="flooded",
            recipient=met[most].recipients[0] if met[most].recipients else "",
            sentence=f"{len(met)} attempts within {lasted_s:.1f} s at a provider that was down, {most} at most are right",
            attempts=tuple(each.id for each in met),
        )
    ]


def late(
    history: History, recipient: str, *, since: datetime, within_s: float, behind: str, for_s: float
) -> list[Finding]:
    """An urgent mail was not taken within so many seconds of its commit, and not before a place came free either.

    `behind`: the rule of the plan that keeps other mail under way, until the sender gives it up after `for_s` seconds.
    Whoever took the urgent one before that had a place for it, however slow the machine.
    """
    taken = min((each.accepted_at for each in history.copies_for(recipient)), default=None)
    took_s = None if taken is None else (taken - since) / timedelta(seconds=1)
    if taken is not None and took_s is not None:
        ends = [
            min(each.opened_at + timedelta(seconds=for_s), each.closed_at or datetime.max.replace(tzinfo=UTC))
            for each in history.attempts
            if behind in each.rules and each.opened_at <= since
        ]
        if took_s <= within_s or (ends and taken < min(ends)):
            return []
    when = "never taken" if took_s is None else f"taken {took_s:.2f} s after its commit, behind other mail"
    return [
        Finding(
            kind="late",
            recipient=recipient,
            sentence=f"{when}; {within_s:g} s are right while mail that can wait has every other place",
            attempts=tuple(each.id for each in history.tries_for(recipient)),
        )
    ]


def overdue(history: History, recipient: str, *, ends_at: datetime) -> list[Finding]:
    """Accepted after its time was over, or tried again when everybody could know that it was."""
    accepted = [each for each in history.copies_for(recipient) if each.accepted_at > ends_at]
    known = ends_at + timedelta(seconds=ON_THE_WAY_S)
    tried = [each for each in history.tries_for(recipient) if each.opened_at > known]
    if not accepted and not tried:
        return []
    said = [f"accepted {_after(each.accepted_at, ends_at)}" for each in accepted]
    said += [f"tried {_after(each.opened_at, ends_at)}" for each in tried]
    return [
        Finding(
            kind="overdue",
            recipient=recipient,
            sentence=f"{', '.join(said[:4])} its time was over",
            ids=tuple(each.id for each in accepted),
            attempts=tuple(each.id for each in tried),
        )
    ]


def not_ended(history: History, recipient: str) -> list[Finding]:
    """Its time was over and it was not sent, and the sender does not say so."""
    state = history.state_of(recipient)
    if history.copies_for(recipient) or state in ENDED_UNSENT:
        return []
    return [
        Finding(
            kind="misreported",
            recipient=recipient,
            sentence=f"its time is over, but it is reported as {state.value if state else 'nothing'}",
        )
    ]


def _of_mails(history: History) -> list[Try]:
    """Attempts that named somebody: who only came to look has handed over nothing."""
    return sorted((each for each in history.attempts if each.recipients), key=lambda each: each.opened_at)


def _after(at: datetime, ends_at: datetime) -> str:
    return f"{(at - ends_at) / timedelta(seconds=1):.2f} s after"
