"""What a judge may know of a world, and what tells two worlds apart from outside."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import datetime, timedelta

from scenarios.history import History, Mark, Said, Try
from scenarios.simulation.behaviours import LOOK_UP
from scenarios.simulation.world import BEGIN, World
from simulator.provider.account import Account
from simulator.provider.ledger import Attempt, Sent, ToldBy
from simulator.provider.obligations import Obligation
from simulator.provider.provider import DEFAULT_ACCOUNT


def history_of(
    world: World,
    said: tuple[Said, ...],
    marks: Iterable[Mark] = (),
    *,
    promised: Iterable[tuple[str, str]] | None = None,
    moving: bool = False,
    frozen: int = 0,
) -> History:
    """Put together what a judge may know of a world just now.

    `promised` (ref, recipient): by default what is said. `frozen`: workers that were stopped past their lease; each
    may have heard an answer too late to store it, as if it had died.
    """
    assert world.service is not None
    account = world.service.provider.account(DEFAULT_ACCOUNT, world.clock.now())
    deaths = (
        Mark(at=BEGIN + timedelta(seconds=at), actor="harness", text=f"{name} dies: {cause}")
        for at, name, cause in world.deaths
    )
    states = {(each.key, each.recipient): each.state for each in said}
    return History(
        obligations=tuple(
            Obligation(
                account=DEFAULT_ACCOUNT, ref=ref, recipient=recipient, state=states.get((ref, recipient))
            )
            for ref, recipient in (states if promised is None else promised)
        ),
        acceptances=tuple(account.ledger.acceptances),
        attempts=tries_of(world),
        said=said,
        marks=(*marks, *deaths),
        knows_states=True,
        crashes=sum(1 for _, name, _ in world.deaths if name.startswith("worker")) + frozen,
        moving=moving,
    )


def tries_of(world: World) -> tuple[Try, ...]:
    """Return what the provider has seen and said, in all its incarnations.

    What one said before it died it has said, even if its note of that was lost with it.
    """
    found: dict[tuple[str, datetime], Try] = {}
    for service in world.services:
        for each in world.attempts_of(service):
            known = found.get((each.id, each.opened_at))
            if known is not None and known.sent == Sent.COMPLETE.value:
                continue
            found[each.id, each.opened_at] = try_of(each)
    return tuple(found.values())


def fired_in(world: World) -> tuple[str, ...]:
    """Return the names of the rules that struck, each once: in attempts, and in look-ups, which are none."""
    assert world.service is not None
    account = world.service.provider.account(DEFAULT_ACCOUNT, world.clock.now())
    return struck((rule for each in tries_of(world) for rule in each.rules), account)


def struck(in_attempts: Iterable[str], account: Account) -> tuple[str, ...]:
    """Return names of rules, each once: those that struck in attempts, and those that the look-ups of an account met."""
    asked = (rule for decision in account.decisions if decision.stage == LOOK_UP for rule in decision.rules)
    return tuple(dict.fromkeys((*in_attempts, *asked)))


def try_of(attempt: Attempt) -> Try:
    """Return what the judge may know of an attempt."""
    return Try(
        id=attempt.id,
        opened_at=attempt.opened_at,
        closed_at=attempt.closed_at,
        dialect=attempt.dialect,
        stage=attempt.stage,
        recipients=attempt.recipients,
        message_id=attempt.message_id,
        key=attempt.key,
        accepted=attempt.accepted,
        answer=attempt.answer,
        sent=attempt.sent.value,
        rules=attempt.rules,
        retry_after_s=_retry_after_s(attempt),
    )


def _retry_after_s(attempt: Attempt) -> float | None:
    """Return how long the sender was told to wait, if it has heard so where a program reads it, in seconds.

    The words of an SMTP reply are for people.
    """
    told = [advice.wait_s for advice in attempt.advice if advice.by is not ToldBy.TEXT]
    return max(told) if told else None


def future_of(world: World, history: History) -> str:
    """Return the hex SHA-256 of all that came after the last worker died, and of how it ended."""
    death = max((at for at, name, _ in world.deaths if name.startswith("worker")), default=-1.0)
    wired = [
        (each.at, each.connection, each.what, each.data) for each in world.network.seen if each.at > death
    ]
    first = min((number for _, number, _, _ in wired), default=0)
    said = [(each.key, each.recipient, each.state, each.attempts, each.provider_id) for each in history.said]
    taken = [(each.id, each.accepted_at, each.recipients) for each in history.acceptances]
    told = [(at, number - first, what, data) for at, number, what, data in wired]
    return hashlib.sha256(repr((told, said, taken)).encode()).hexdigest()


def trace_of(world: World) -> str:
    """Return the hex SHA-256 of all that was on the wire and of who died when."""
    digest = hashlib.sha256()
    for wired in world.network.seen:
        digest.update(
            f"{wired.at!r} {wired.connection} {wired.source} {wired.what} ".encode() + wired.data + b"\n"
        )
    for at, name, _ in world.deaths:
        digest.update(f"{at!r} {name}\n".encode())
    return digest.hexdigest()
