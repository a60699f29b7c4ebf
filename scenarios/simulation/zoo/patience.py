"""Senders with too little patience, or too much: pace, giving up, look-ups, and what is left in doubt."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import update

from reference_sender.gatekeeper import Gatekeeper
from reference_sender.life import Docket, State
from reference_sender.outbox.schema import outgoing_email
from reference_sender.outbox.store import Store
from reference_sender.policy.backoff import backoff_s
from reference_sender.policy.decision import Decision
from reference_sender.policy.evidence import Evidence, Outcome
from reference_sender.policy.lookup import Found, LookedUp
from reference_sender.reconciler import Reconciler
from scenarios.simulation.zoo.keeper import BadSender, Ground, where


def no_retry_after(*, retry_after_s: float | None = None, **more: Any) -> float:
    """The own backoff, whatever the provider asks for."""
    return backoff_s(**more)


def retry_after_at_most(*, rng: random.Random, retry_after_s: float | None = None, **more: Any) -> float:
    """Some time before what the provider asks for."""
    return backoff_s(rng=rng, **more) if retry_after_s is None else rng.uniform(0.0, retry_after_s)


def no_backoff(**_: Any) -> float:
    """At once."""
    return 0.0


class Deaf(Gatekeeper):
    """Nobody tells the others what the provider said; each mail is on its own."""

    async def tell(self, outcome: Outcome | None, evidence: Evidence | None, **_: Any) -> bool:
        return False


class NoRefund(Store):
    """An outage counts against every mail that meets it."""

    def settle(self, docket: Docket, decision: Decision, *, now: datetime, **more: Any) -> bool:
        return super().settle(docket, replace(decision, refund=False), now=now, **more)


class ParksEverything(Store):
    """What did not work at once is for a person to look at."""

    def settle(self, docket: Docket, decision: Decision, *, now: datetime, **more: Any) -> bool:
        if decision.state is State.PENDING:
            decision = replace(decision, state=State.UNKNOWN, if_not_sent=State.DEAD)
        return super().settle(docket, decision, now=now, **more)


class ParksInSilence(Store):
    """A parked mail carries no reason."""

    def settle(self, docket: Docket, decision: Decision, *, now: datetime, **more: Any) -> bool:
        reason = "" if decision.state is State.UNKNOWN else decision.reason
        return super().settle(docket, replace(decision, reason=reason), now=now, **more)


class BuriesDoubt(Store):
    """What is in doubt is dead, and nobody asks the provider any more."""

    def settle(self, docket: Docket, decision: Decision, *, now: datetime, **more: Any) -> bool:
        if decision.state is State.UNKNOWN:
            decision = replace(decision, state=State.DEAD, if_not_sent=None)
        return super().settle(docket, decision, now=now, **more)


class OnceMore(Store):
    """A yes is good, two are better."""

    def settle(self, docket: Docket, decision: Decision, *, now: datetime, **more: Any) -> bool:
        held = super().settle(docket, decision, now=now, **more)
        if decision.state is State.ACCEPTED and self._once_more(docket):
            with self.engine.begin() as connection:
                connection.execute(
                    update(outgoing_email)
                    .where(outgoing_email.c.id == docket.id)
                    .values(state=State.PENDING, next_attempt_at=now)
                )
        return held

    def _once_more(self, docket: Docket) -> bool:
        return docket.token == 1


class OnceMoreAfterDoubt(OnceMore):
    """A doubt is answered with two copies."""

    def _once_more(self, docket: Docket) -> bool:
        return docket.doubted and docket.token == 2


class Asleep(Reconciler):
    """Nobody looks after what is in doubt."""

    async def run(self, stop: asyncio.Event) -> None:
        await stop.wait()


class Sweeps(Reconciler):
    """Clears doubt away: what is unknown for a while gets the same end, without evidence."""

    end = State.FAILED

    async def _judge(self, docket: Docket) -> Decision:
        return Decision(state=self.end, reason="swept")


class SweepsToAccepted(Sweeps):
    """The optimist."""

    end = State.ACCEPTED


class NotFoundIsFailure(Reconciler):
    """The provider does not know the mail, so it has failed."""

    async def _judge(self, docket: Docket) -> Decision:
        decision = await super()._judge(docket)
        if decision.state is State.PENDING:
            return replace(decision, state=State.FAILED, next_attempt_at=None)
        return decision


class _FindsAnything:
    async def find(self, docket: Docket) -> LookedUp:
        return Found(provider_id="?")

    async def close(self) -> None:
        """Nothing is open."""


class BelievesAnyAnswer(Reconciler):
    """The look-up answered 200; whose mail it speaks of is not looked at."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts | {"lookup": _FindsAnything()})


LOOKS_OFTEN = Ground(says="everybody looks every second", options={"poll_s": 1.0, "reconcile_s": 1.0})

SENDERS: tuple[BadSender, ...] = (
    BadSender(
        name="does not read Retry-After",
        sin="The provider names a time, and the sender comes back when it likes.",
        like="Retry-After in seconds",
        kind="too early",
        promises=("pace.retry-after-seconds", "pace.retry-after-date"),
        parts={"backoff": no_retry_after, "gatekeeper": Deaf},
        ground=LOOKS_OFTEN,
        blocks=(where("http-keys", "429 with retry-after"), where("http-keys", "503 with retry-after")),
    ),
    BadSender(
        name="Retry-After at most",
        sin="The time that the provider names is taken for the longest wait, not for the shortest.",
        like="jitter in the wrong direction",
        kind="too early",
        promises=("pace.retry-after-seconds", "pace.retry-after-date"),
        parts={"backoff": retry_after_at_most, "gatekeeper": Deaf},
        ground=LOOKS_OFTEN,
        blocks=(where("http-keys", "429 with retry-after"), where("http-keys", "503 with retry-after")),
    ),
    BadSender(
        name="no backoff",
        sin="After a refusal it tries again at once, and again.",
        like="hot loop against a provider in trouble",
        kind="too often",
        promises=("pace.outage",),
        parts={"backoff": no_backoff, "gatekeeper": Deaf},
        # What is due at once is seen at the next look.
        ground=Ground(says="everybody looks four times a second", options={"poll_s": 0.25}),
        blocks=(
            where("smtp-at-most-once", *["RCPT 450"] * 8),
            where("http-keys", *["503"] * 8),
        ),
    ),
    BadSender(
        name="gives up after one",
        sin="One temporary refusal, and the mail is dead.",
        like="no retry at all",
        kind="given up",
        promises=("temporary.then-success", "recipients.one-later"),
        options={"max_attempts": 1},
        blocks=(where("smtp-at-most-once", "RCPT 450"),),
    ),
    BadSender(
        name="an outage burns attempts",
        sin="A provider that lets nobody in uses up the attempts of every mail.",
        like="outage longer than the attempt budget",
        kind="given up",
        promises=("pace.outage",),
        parts={"open_store": NoRefund},
        ground=Ground(says="three attempts are allowed", options={"max_attempts": 3}),
        blocks=(where("smtp-at-most-once", *["greeting 421"] * 4),),
    ),
    BadSender(
        name="parks everything",
        sin="Whatever did not work at once is left to a person.",
        like="quarantine as a way out",
        kind="given up",
        promises=("temporary.then-success",),
        parts={"open_store": ParksEverything},
        blocks=(where("smtp-at-most-once", "RCPT 450"),),
    ),
    BadSender(
        name="parks in silence",
        sin="A parked mail carries no word for the person who is to look after it.",
        like="parked without owner",
        kind="parked without owner",
        parts={"open_store": ParksInSilence},
        blocks=(where("smtp-at-most-once", "taken, closed"),),
    ),
    BadSender(
        name="buries doubt",
        sin="A mail in doubt is dead, although the provider could be asked.",
        like="doubt in the dead letters",
        kind="parked",
        parts={"open_store": BuriesDoubt},
        blocks=(where("http-lookup-lagging", "taken, closed"),),
    ),
    BadSender(
        name="never looks",
        sin="Nobody asks the provider what became of the mails in doubt.",
        like="reconciler that does not run",
        kind="parked",
        promises=("crash.after-claim",),
        parts={"reconciler": Asleep},
        blocks=(where("http-lookup-lagging", "taken, closed"),),
    ),
    BadSender(
        name="looks too early",
        sin="A look-up that finds nothing is believed while the mail may still be on its way.",
        like="look-up that lags behind",
        kind="duplicated",
        options={"lookup_lag_s": 0.0, "in_flight_s": 0.0},
        ground=LOOKS_OFTEN,
        blocks=(where("http-lookup-lagging", "taken, closed"),),
    ),
    BadSender(
        name="not found is failure",
        sin="The provider does not know the mail, so it is called failed instead of being sent.",
        like="negative look-up as an end",
        kind="lost",
        promises=("crash.after-claim",),
        parts={"reconciler": NotFoundIsFailure},
        blocks=(where("http-lookup-lagging", "request closed"),),
    ),
    BadSender(
        name="believes any answer",
        sin="The look-up answered, so the mail is there; whose mail it speaks of is not looked at.",
        like="look-up that ignores its filter",
        kind="misreported",
        parts={"reconciler": BelievesAnyAnswer},
        blocks=(where("http-lookup-lagging", "request closed"),),
    ),
    BadSender(
        name="sweeps to failed",
        sin="What is unknown for a while is called failed.",
        like="clean-up job that guesses",
        kind="misreported",
        promises=("lost-answer.timeout", "lost-answer.fin"),
        parts={"reconciler": Sweeps},
        blocks=(where("smtp-at-most-once", "taken, closed"),),
    ),
    BadSender(
        name="sweeps to accepted",
        sin="What is unknown for a while is called accepted.",
        like="clean-up job that hopes",
        kind="lost",
        promises=("crash.after-claim",),
        parts={"reconciler": SweepsToAccepted},
        blocks=(where("smtp-at-most-once", "dot closed"),),
    ),
    BadSender(
        name="key for ever",
        sin="Repeats with the same key when the provider has long forgotten it.",
        like="retry after the provider forgot the key",
        kind="duplicated",
        options={"key_window_s": 1e9},
        blocks=(where("http-keys-forgotten", "taken, closed", *["503 with retry-after"] * 4),),
    ),
    BadSender(
        name="sends what is in doubt",
        sin="Promises at most one copy, and sends again when the answer is lost.",
        like="automatic resend without a key",
        kind="duplicated",
        promises=("lost-answer.fin", "lost-answer.rst", "lost-answer.truncated", "lost-answer.malformed"),
        options={"policy": "at-least-once"},
        blocks=(where("smtp-at-most-once", "taken, closed"),),
    ),
    BadSender(
        name="two for a doubt",
        sin="May send one copy for a doubt, and sends two.",
        like="unbounded copies",
        kind="duplicated",
        promises=("lost-answer.fin", "lost-answer.rst"),
        parts={"open_store": OnceMoreAfterDoubt},
        blocks=(where("smtp-at-least-once", "taken, closed"),),
    ),
    BadSender(
        name="once more to be sure",
        sin="Told that the mail is taken, it asks again.",
        like="no end after success",
        kind="tried again",
        promises=("dropped.not-resent",),
        parts={"open_store": OnceMore},
        blocks=(where("http-keys"),),
    ),
)
