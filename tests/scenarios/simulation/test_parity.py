"""The world against the real one: the same exchange over 127.0.0.1 and in the world is seen alike on both sides.

The same simulator and the same transports of the reference sender take part in both; only loop and network differ.
Both runs have the same short time limits, real seconds here and virtual ones there.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from reference_sender.policy.classify import classify
from reference_sender.policy.evidence import Evidence
from reference_sender.transports.http import HttpOptions, HttpTransport
from reference_sender.transports.smtp import SmtpTransport
from reference_sender.transports.smtp_options import SmtpOptions, Tls
from scenarios.simulation.behaviours import BATCHES, BY_WIRE
from scenarios.simulation.world import HTTP_PORT, SMTP_PORT, World
from simulator.clock import SystemClock
from simulator.config import read_plan
from simulator.provider.ledger import AttemptState
from simulator.provider.provider import DEFAULT_ACCOUNT, Setup
from simulator.servers.options import Address, Options
from simulator.servers.service import Service
from tests.reference_sender.samples import parcel

pytestmark = pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning", "ignore:unclosed:ResourceWarning")

#: The sender's patience and the provider's slowness: far enough apart for a busy machine, in seconds.
READ_S, TOTAL_S, SLOW_S = 2.0, 4.0, 3.0
#: How long the provider may take to notice that somebody is gone.
CLOSED_WITHIN_S = 8.0
#: Exchanges at a time over real sockets: most of them only wait.
AT_ONCE = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One script: who does what."""

    wire: str
    name: str
    rule: tuple[tuple[str, Any], ...] = ()
    mails: int = 1
    size: int = 40
    released: bool = False
    """The answer is held back, and let go once it is."""
    listening: bool = True

    @property
    def setup(self) -> Setup:
        rules = [dict(self.rule) | {"dialect": self.wire}] if self.rule else []
        return read_plan({"seed": 1, "rule": rules}, self.name)

    def __str__(self) -> str:
        return f"{self.wire}: {self.name}"


def exchanges() -> list[Exchange]:
    """Every behaviour of the tables, and what they do not have: held answers, long mails, connections used again."""
    found = [
        Exchange(
            wire=wire,
            name=name,
            rule=tuple((key, SLOW_S if key == "delay_s" else value) for key, value in behaviour.rule.items()),
        )
        for wire in ("http", "smtp")
        for name, behaviour in BY_WIRE[wire].items()
        # What another wire does is played there; and here mails go one by one.
        if not (behaviour.on or behaviour.is_told) and behaviour.profiles != BATCHES
    ]
    for wire in ("http", "smtp"):
        hold = (("fault", "hold"), ("stage", "reply"))
        found += [
            Exchange(wire=wire, name="held, then released", rule=hold, released=True),
            Exchange(wire=wire, name="three on one connection", mails=3),
            Exchange(wire=wire, name="a long mail", size=400_000),
            Exchange(wire=wire, name="nobody listens", listening=False),
        ]
    return found


async def play(script: Exchange, service: Service | None, host: str, http: int, smtp: int) -> dict[str, Any]:
    """Hand the mails over; return what was seen on either side."""
    transport = (
        HttpTransport(
            HttpOptions(
                url=f"http://{host}:{http}",
                api_key="parity",
                connect_timeout_s=READ_S,
                read_timeout_s=READ_S,
                total_timeout_s=TOTAL_S,
            )
        )
        if script.wire == "http"
        else SmtpTransport(
            SmtpOptions(
                host=host,
                port=smtp,
                tls=Tls.OFF,
                connect_timeout_s=READ_S,
                read_timeout_s=READ_S,
                total_timeout_s=TOTAL_S,
            )
        )
    )
    seen: list[Any] = []
    for number in range(script.mails):
        raw = b"Message-ID: <%d@example.org>\r\nSubject: x\r\n\r\n" % number + b"hello 78\r\n" * (
            script.size // 10
        )
        mail = parcel(raw, message_id=f"<{number}@example.org>")
        sending = asyncio.ensure_future(transport.send(mail, key=f"key-{number}", point_of_no_return=_go_on))
        if script.released:
            assert service is not None
            await _until(lambda: AttemptState.HELD in _states(service))
            assert service.holds.release(DEFAULT_ACCOUNT) == 1
        seen.append(_as_seen(await sending))
    await transport.close()
    if service is None:
        return {"sender": seen}
    await _until(lambda: _states(service) <= {AttemptState.CLOSED})
    account = service.provider.account(DEFAULT_ACCOUNT, service.clock.now())
    return {
        "sender": seen,
        "attempts": [
            (each.stage, each.accepted, each.answer, each.sent.value, each.rules, each.key)
            for each in account.attempts.values()
        ],
        "ledger": [
            (each.recipients, each.message_id, each.sha256, each.fate.value)
            for each in account.ledger.acceptances
        ],
    }


async def _go_on() -> bool:
    return True


def _as_seen(evidence: Evidence) -> tuple[Any, ...]:
    outcome = type(classify(evidence)).__name__
    return (outcome, evidence.phase.value, evidence.code, evidence.trouble, evidence.provider_id)


def _states(service: Service) -> set[AttemptState]:
    account = service.provider.account(DEFAULT_ACCOUNT, service.clock.now())
    return {each.state for each in account.attempts.values()}


async def _until(true: Callable[[], bool]) -> None:
    """Look until it is so; the comparison tells if it never was."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + CLOSED_WITHIN_S
    while not true() and loop.time() < deadline:  # noqa: ASYNC110 - nobody tells an end that the provider sees
        await asyncio.sleep(0.02)


def in_the_world(script: Exchange) -> dict[str, Any]:
    """Play it in a world of its own."""
    with World(seed=1, setup=script.setup) as world:

        async def story() -> dict[str, Any]:
            if script.listening:
                await world.start_provider()
            worker = world.process("worker 1")
            played: dict[str, Any] = await worker.spawn(
                play, script, world.service, "provider", HTTP_PORT, SMTP_PORT
            )
            return played

        result: dict[str, Any] = world.run(story)
        return result


async def for_real(script: Exchange, turn: asyncio.Semaphore) -> dict[str, Any]:
    """Play it over 127.0.0.1, with a simulator of its own."""
    async with turn:
        free = Address(host="127.0.0.1", port=0)
        service = Service(
            Options(http=free, smtp=free, ledger="memory", seed=1, setup=script.setup), SystemClock()
        )
        await service.start()
        http, smtp = service.http_port, service.smtp_port
        if not script.listening:
            await service.stop()
            return await play(script, None, "127.0.0.1", http, smtp)
        try:
            return await play(script, service, "127.0.0.1", http, smtp)
        finally:
            with contextlib.suppress(asyncio.CancelledError):
                await service.stop()


def test_the_world_and_the_real_one_are_seen_alike() -> None:
    """What the sender makes of it, what the provider thinks it said, and the ledger."""
    scripts = exchanges()
    assert len(scripts) >= 48

    async def all_for_real() -> list[dict[str, Any]]:
        turn = asyncio.Semaphore(AT_ONCE)
        return await asyncio.gather(*(for_real(script, turn) for script in scripts))

    real = asyncio.run(all_for_real())

    different = {
        str(script): (in_world, seen)
        for script, seen in zip(scripts, real, strict=True)
        if (in_world := in_the_world(script)) != seen
    }
    assert different == {}
