"""The same exchange on both levels: a transport, a provider with rules, and what each of them saw."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from reference_sender.life import Parcel, State
from reference_sender.message import Mail, idempotency_key_for, message_id_for, render, single
from reference_sender.policy.evidence import Evidence
from reference_sender.policy.lookup import LookedUp
from reference_sender.policy.settings import Policy, Settings
from reference_sender.transports.http import HttpLookup, HttpOptions, HttpTransport
from reference_sender.transports.smtp import SmtpTransport
from reference_sender.transports.smtp_options import SmtpOptions, Tls
from scenarios.simulation import world as wired
from scenarios.simulation.byteless import transports, world
from scenarios.simulation.byteless.outbox import Shelf
from scenarios.simulation.profiles import TIMES
from scenarios.simulation.world import BEGIN, HTTP_PORT, SMTP_PORT
from simulator.config import read_plan
from simulator.provider.acceptance import Acceptance
from simulator.provider.ledger import Attempt
from simulator.provider.provider import DEFAULT_ACCOUNT, Provider, Setup
from tests.reference_sender.samples import parcel

#: Longer than everything that a rule may delay, in virtual seconds.
LONG_S = 90.0
#: When held answers are let go, in virtual seconds.
RELEASE_S = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What one attempt came to, as the sender saw it."""

    evidence: Evidence
    begun: float
    passed: tuple[float, ...]
    """When it came to the point of no return."""
    ended: float
    answers: int
    """Pieces of answers read so far."""
    found: LookedUp | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What both sides saw."""

    sent: tuple[Sent, ...]
    attempts: tuple[Attempt, ...]
    accepted: tuple[Acceptance, ...]


def setup_of(*rules: dict[str, Any], **more: Any) -> Setup:
    return read_plan({"seed": 1, "rule": list(rules), **more}, "the test")


def mail_to(recipient: str, key: str = "order-1") -> Parcel:
    mail = Mail(
        sender="Shop <shop@example.org>",
        recipients=(recipient,),
        subject="Your order",
        text="Thank you!\n.\nA line that begins with a dot stands above.\n",
        headers={"X-Obligation": key},
    )
    idempotency_key = idempotency_key_for(key, recipient)
    message_id = message_id_for(idempotency_key, mail.sender)
    return parcel(
        raw=render(single(mail, recipient), message_id, BEGIN),
        state=State.SENDING,
        key=key,
        idempotency_key=idempotency_key,
        message_id=message_id,
        recipient=recipient,
        lease_until=None,
    )


def settings(*, keys: bool = True) -> Settings:
    policy = Policy.RESEND_SAME_KEY if keys else Policy.AT_MOST_ONCE
    return Settings(**{**TIMES, "policy": policy})


async def _exchange(
    place: Any,
    process: Any,
    transport: Any,
    lookup: Any,
    mails: Sequence[Parcel],
    marked: bool,
    apart_s: float,
) -> tuple[Sent, ...]:
    sent = []
    for number, mail in enumerate(mails):
        if number and apart_s:
            await place.clock.sleep(apart_s)
        passed: list[float] = []

        async def pass_it(passed: list[float] = passed) -> bool:
            passed.append(place.loop.time())
            return marked

        begun = place.loop.time()
        evidence = await transport.send(mail, key=mail.idempotency_key, point_of_no_return=pass_it)
        # The name of an exception is the library's: nothing decides by it.
        told = evidence if evidence.code is not None else replace(evidence, answer=None)
        ended = place.loop.time()
        found = await lookup.find(mail) if lookup is not None else None
        sent.append(
            Sent(
                evidence=told,
                begun=begun,
                passed=tuple(passed),
                ended=ended,
                answers=_answers(process),
                found=found,
            )
        )
    await transport.close()
    if lookup is not None:
        await lookup.close()
    return tuple(sent)


def _answers(process: Any) -> int:
    seen = getattr(process, "seen", None)
    return process.passed["reply", "whole"] if seen is None else len(seen.get(("reply", "whole"), ()))


def on_the_wire(
    wire: str,
    setup: Setup,
    mails: Sequence[Parcel],
    *,
    keys: bool = True,
    looks: bool = False,
    marked: bool = True,
    apart_s: float = 0.0,
) -> Seen:
    """Send these mails one after the other over the real bytes of both sides."""
    with wired.World(seed=1, setup=setup) as place:
        options = settings(keys=keys)
        times: dict[str, Any] = {
            "connect_timeout_s": options.connect_timeout_s,
            "read_timeout_s": options.read_timeout_s,
            "total_timeout_s": options.total_timeout_s,
        }

        async def story() -> tuple[Sent, ...]:
            await place.start_provider()
            process = place.process("worker 1")

            async def go() -> tuple[Sent, ...]:
                http = HttpOptions(
                    url=f"http://provider:{HTTP_PORT}", api_key="world", keep_alive=keys, **times
                )
                smtp = SmtpOptions(host="provider", port=SMTP_PORT, tls=Tls.OFF, **times)
                transport = HttpTransport(http) if wire == "http" else SmtpTransport(smtp)
                lookup = HttpLookup(http) if looks else None
                return await _exchange(place, process, transport, lookup, mails, marked, apart_s)

            done = process.spawn(go)
            await asyncio.sleep(RELEASE_S)
            assert place.service is not None
            place.service.holds.release(DEFAULT_ACCOUNT)
            await asyncio.sleep(LONG_S)
            sent: tuple[Sent, ...] = await done
            return sent

        sent = place.run(story)
        assert place.service is not None
        assert place.complaints == []
        return _seen(sent, place.service.provider)


def without_bytes(
    wire: str,
    setup: Setup,
    mails: Sequence[Parcel],
    *,
    keys: bool = True,
    looks: bool = False,
    marked: bool = True,
    apart_s: float = 0.0,
) -> Seen:
    """The same at the model level."""
    place = world.World(seed=1, setup=setup, shelf=Shelf())
    options = settings(keys=keys)
    with place.loop.current():
        process = place.process("worker 1", counts=True)

        async def go() -> tuple[Sent, ...]:
            over = transports.HttpTransport if wire == "http" else transports.SmtpTransport
            lookup = transports.HttpLookup(place, options) if looks else None
            return await _exchange(place, process, over(place, options), lookup, mails, marked, apart_s)

        done = process.spawn(go)
        place.loop.run_until(RELEASE_S)
        place.release()
        place.loop.run_until(RELEASE_S + LONG_S)
        assert place.complaints == []
        return _seen(done.result(), place.provider)


def _seen(sent: tuple[Sent, ...], provider: Provider) -> Seen:
    account = provider.accounts[DEFAULT_ACCOUNT]
    return Seen(
        sent=sent,
        # Whom the provider sees at the other end is an address, which there is not without a network.
        attempts=tuple(replace(each, peer="") for each in account.attempts.values()),
        accepted=tuple(account.ledger.acceptances),
    )


def differences(
    wire: str, setups: dict[str, Setup], mails: Sequence[Parcel], **how: Any
) -> dict[str, tuple[Seen, Seen]]:
    """By name, what the two levels do not agree in: (on the wire, without bytes)."""
    found = {}
    for name, setup in setups.items():
        pair = on_the_wire(wire, setup, mails, **how), without_bytes(wire, setup, mails, **how)
        if pair[0] != pair[1]:
            found[name] = pair
    return found
