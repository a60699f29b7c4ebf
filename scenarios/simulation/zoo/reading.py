"""Senders that misread what the provider says, or does not say."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

from reference_sender.life import Docket, Parcel, State
from reference_sender.outbox.store import Store
from reference_sender.policy.classify import classify
from reference_sender.policy.decision import Decision
from reference_sender.policy.evidence import Accepted, Evidence, Outcome, Phase, Refused, TryLater, Unknown
from reference_sender.worker import Transport
from scenarios.simulation.zoo.keeper import BadSender, where

YES = Accepted(reason="accepted", provider_id="?")
NO = Refused(reason="failed")
LATER = TryLater(reason="not taken")


def reading(outcome: Outcome, when: Callable[[Evidence, Outcome], object]) -> dict[str, Any]:
    """Parts of a sender that reads everything right, and one thing as `outcome`."""

    def read(evidence: Evidence) -> Outcome:
        right = classify(evidence)
        return outcome if when(evidence, right) else right

    return {"classify": read}


def _silent(evidence: Evidence) -> bool:
    return evidence.code is None and evidence.phase is Phase.SENT


class AsksQuit:
    """Says goodbye after every mail, and takes a bad goodbye for a bad end of the mail."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def send(
        self, parcel: Parcel, *, key: str, point_of_no_return: Callable[[], Awaitable[bool]]
    ) -> Evidence:
        evidence: Evidence = await self._inner.send(parcel, key=key, point_of_no_return=point_of_no_return)
        while self._inner._idle:
            talk = self._inner._idle.pop()
            try:
                goodbye = await talk._say(Phase.MAIL, "QUIT")
            except Exception:
                evidence = replace(evidence, code=None, phase=Phase.MAIL, trouble="eof")
            else:
                evidence = evidence if goodbye.code == 221 else goodbye
            talk.abort()
        return evidence


class BelievesTheLastAnswer(Store):
    """A refusal is a refusal, whatever became of the attempts before it."""

    def settle(self, docket: Docket, decision: Decision, *, now: datetime, **more: Any) -> bool:
        if decision.state is State.UNKNOWN and decision.if_not_sent is State.FAILED:
            decision = replace(decision, state=State.FAILED, if_not_sent=None)
        return super().settle(docket, decision, now=now, **more)


def quitting(inner: Transport) -> Transport:
    """Wrap an SMTP transport."""
    return AsksQuit(inner)


SENDERS: tuple[BadSender, ...] = (
    BadSender(
        name="timeout is failure",
        sin="No answer in time is taken for a refusal.",
        like="accepted, but no response",
        kind="misreported",
        promises=("lost-answer.timeout",),
        parts=reading(NO, lambda evidence, right: evidence.trouble == "timeout"),
        blocks=(where("http-keys", "taken, hangs"), where("smtp-at-most-once", "taken, hangs")),
    ),
    BadSender(
        name="broken line is failure",
        sin="A line that breaks after the mail is taken for a refusal.",
        like="connection reset after the request was read",
        kind="misreported",
        promises=("lost-answer.fin", "lost-answer.rst"),
        parts=reading(NO, lambda evidence, right: _silent(evidence) and evidence.trouble in ("eof", "reset")),
        blocks=(where("smtp-at-most-once", "taken, closed"), where("smtp-at-most-once", "taken, reset")),
    ),
    BadSender(
        name="no line is failure",
        sin="A server that does not let us in is taken for a refusal of the mail.",
        like="failure before the first byte",
        kind="lost",
        promises=("pace.outage",),
        parts=reading(NO, lambda evidence, right: evidence.phase in (Phase.CONNECT, Phase.GREETING)),
        blocks=(where("smtp-at-most-once", "greeting closed"),),
    ),
    BadSender(
        name="hang-up is a yes",
        sin="The server has the whole mail and hangs up: it will have taken it.",
        like="end of the stream read as success",
        kind="misreported",
        promises=("crash.after-claim",),
        parts=reading(YES, lambda evidence, right: _silent(evidence) and evidence.trouble == "eof"),
        blocks=(where("smtp-at-most-once", "dot closed"),),
    ),
    BadSender(
        name="silence is a no",
        sin="Without an answer the mail was not taken, so it is sent again.",
        like="no reply to the final dot, mail accepted",
        kind="duplicated",
        promises=("lost-answer.timeout", "lost-answer.fin", "lost-answer.rst", "lost-answer.truncated"),
        parts=reading(LATER, lambda evidence, right: _silent(evidence)),
        blocks=(where("smtp-at-most-once", "taken, hangs"),),
    ),
    BadSender(
        name="503 is final",
        sin="Every 5xx of HTTP ends the mail, as a 5yz of SMTP does.",
        like="4xx and 5xx mixed up with 4yz and 5yz",
        kind="lost",
        promises=("temporary.then-success", "pace.outage"),
        parts=reading(NO, lambda evidence, right: (evidence.code or 0) // 100 == 5),
        blocks=(where("http-keys", "503"),),
    ),
    BadSender(
        name="4yz is final",
        sin="A temporary refusal ends the mail.",
        like="temporary refusal of the recipient, greylisting",
        kind="lost",
        promises=("temporary.then-success", "recipients.one-later"),
        parts=reading(NO, lambda evidence, right: (evidence.code or 0) // 100 == 4),
        blocks=(where("smtp-at-most-once", "RCPT 450"),),
    ),
    BadSender(
        name="421 ends the mail",
        sin="A server that closes the channel is taken for one that refuses the mail.",
        like="421 in the banner or inside the transaction",
        kind="lost",
        promises=("pace.outage",),
        parts=reading(NO, lambda evidence, right: evidence.code == 421),
        blocks=(where("smtp-at-most-once", "greeting 421"),),
    ),
    BadSender(
        name="429 is final",
        sin="Too many requests, so this one is failed.",
        like="throttling read as permanent",
        kind="lost",
        promises=("pace.retry-after-seconds", "pace.retry-after-date"),
        parts=reading(NO, lambda evidence, right: evidence.code == 429),
        blocks=(where("http-keys", "429 with retry-after"),),
    ),
    BadSender(
        name="401 ends the mail",
        sin="A wrong password fails every mail that meets it.",
        like="account trouble, not message trouble",
        kind="lost",
        promises=("pace.outage",),
        parts=reading(NO, lambda evidence, right: evidence.code == 401),
        blocks=(where("http-keys", "401"),),
    ),
    BadSender(
        name="5yz is tried again",
        sin="A refusal for good is treated like one for now.",
        like="permanent refusal retried",
        kind="tried again",
        promises=("refused.recipient", "refused.content"),
        parts=reading(
            LATER, lambda evidence, right: (evidence.code or 0) // 100 == 5 and isinstance(right, Refused)
        ),
        blocks=(where("smtp-at-most-once", "RCPT 550"), where("smtp-at-most-once", "dot 554")),
    ),
    BadSender(
        name="400 is tried again",
        sin="A request that is wrong is sent again, unchanged.",
        like="permanent 400 or 422 retried",
        kind="tried again",
        promises=("refused.400", "refused.422"),
        parts=reading(LATER, lambda evidence, right: evidence.code in (400, 422)),
        blocks=(where("http-keys", "400"), where("http-keys", "422")),
    ),
    BadSender(
        name="500 is a no",
        sin="A server error means that the mail was not taken, so without a key it is simply sent again.",
        like="gateway answers 502 after the upstream accepted",
        kind="duplicated",
        promises=("lost-answer.server-error",),
        parts=reading(LATER, lambda evidence, right: evidence.code in (500, 502)),
        blocks=(where("http-lookup-lagging", "taken, 500"), where("http-lookup-lagging", "taken, 502")),
    ),
    BadSender(
        name="any 2xx is a yes",
        sin="The status is 200, so nobody looks whether the body says that a mail was taken.",
        like="2xx whose body is no acceptance",
        kind="misreported",
        promises=("lost-answer.malformed",),
        parts=reading(YES, lambda evidence, right: (evidence.code or 0) // 100 == 2),
        blocks=(where("http-keys", "garbage, not taken"),),
    ),
    BadSender(
        name="a broken 2xx is a failure",
        sin="The body cannot be read, so the mail has failed.",
        like="2xx with an empty, truncated or HTML body",
        kind="misreported",
        promises=("lost-answer.malformed", "lost-answer.truncated"),
        parts=reading(NO, lambda evidence, right: evidence.code == 200 and isinstance(right, Unknown)),
        blocks=(where("http-keys", "taken, garbage"),),
    ),
    BadSender(
        name="redirect is a yes",
        sin="The page behind a redirect answers 200, so the mail was sent.",
        like="redirect turns the POST into a GET",
        kind="misreported",
        parts=reading(YES, lambda evidence, right: evidence.code == 302),
        blocks=(where("http-keys", "302"),),
    ),
    BadSender(
        name="garbage is a yes",
        sin="The server said something after the dot, and it was not an error.",
        like="malformed reply read generously",
        kind="misreported",
        promises=("lost-answer.malformed",),
        parts=reading(YES, lambda evidence, right: _silent(evidence) and evidence.trouble == "garbled"),
        blocks=(where("smtp-at-most-once", "dot garbage"),),
    ),
    BadSender(
        name="garbage is a no",
        sin="The reply cannot be read, so the mail is sent again.",
        like="malformed reply after acceptance",
        kind="duplicated",
        promises=("lost-answer.malformed",),
        parts=reading(LATER, lambda evidence, right: _silent(evidence) and evidence.trouble == "garbled"),
        blocks=(where("smtp-at-most-once", "taken, garbage"),),
    ),
    BadSender(
        name="QUIT decides",
        sin="The mail was accepted, QUIT went wrong, and so the mail is sent again.",
        like="QUIT goes wrong after 250",
        kind="duplicated",
        parts={"around_transport": quitting},
        blocks=(where("smtp-at-most-once", "QUIT reset"), where("smtp-at-most-once", "QUIT garbage")),
    ),
    BadSender(
        name="the last answer counts",
        sin="A refusal after a lost answer is believed, and the mail is called failed.",
        like="rejection after doubt",
        kind="misreported",
        promises=("lost-answer.then-refused",),
        parts={"open_store": BelievesTheLastAnswer},
        blocks=(
            where("http-keys", "taken, closed", "422"),
            where("smtp-at-least-once", "taken, closed", "dot 554"),
        ),
    ),
)
