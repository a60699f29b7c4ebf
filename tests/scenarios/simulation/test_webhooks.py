"""Webhooks in the world: a provider that tells, a receiver that verifies, time that passes at once, and kills."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from scenarios.simulation.processes import CrashPoint, Process
from scenarios.simulation.world import HTTP_PORT, SMTP_PORT, World, silence
from simulator.config import read_plan
from simulator.provider.signing import Scheme, headers, read_secret
from simulator.provider.webhooks import STANDARD_SCHEDULE_S

RECEIVER = "10.0.0.7"
SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()
WEBHOOKS = {"url": "http://receiver:9000/hooks", "secret": SECRET}


@dataclass(slots=True)
class Receiver:
    """An intake: verifies, takes each event once, answers what it is told to."""

    world: World
    statuses: list[int] = field(default_factory=lambda: [200])
    got: list[tuple[float, str, str]] = field(default_factory=list)
    """When, which type, which id; one line per request that verifies."""
    refused: list[str] = field(default_factory=list)

    async def serve(self) -> None:
        await asyncio.start_server(self._hear, RECEIVER, 9000)

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not reader.at_eof():
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionError):
                break  # It has no more to tell.
            given = {
                name.lower(): value
                for name, _, value in (line.partition(": ") for line in head.decode().split("\r\n"))
            }
            body = await reader.readexactly(int(given["content-length"]))
            status = 401
            if self._verifies(given, body):
                status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
                self.got.append((self.world.loop.time(), json.loads(body)["type"], given["webhook-id"]))
            else:
                self.refused.append(given["webhook-id"])
            writer.write(f"HTTP/1.1 {status} x\r\nContent-Length: 0\r\n\r\n".encode())
        writer.close()

    def _verifies(self, given: dict[str, str], body: bytes) -> bool:
        timestamp = int(given["webhook-timestamp"])
        if abs(self.world.clock.now().timestamp() - timestamp) > 300:
            return False
        key = read_secret(SECRET, Scheme.STANDARD)
        right = headers(Scheme.STANDARD, [key], given["webhook-id"], timestamp, body)
        return right["webhook-signature"] in given["webhook-signature"].split(" ")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """The sessions of one world's dead may be buried while the next one goes on."""
    with silence():
        yield


async def send(number: int) -> bytes:
    """Hand in a mail; return the status line, empty if the line broke."""
    reader, writer = await asyncio.open_connection("provider", HTTP_PORT)
    body = json.dumps({"from": "a@example.org", "to": [f"b{number}@example.com"], "text": "x"}).encode()
    writer.write(b"POST /v1/emails HTTP/1.1\r\nHost: p\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    line = await reader.readline()
    writer.close()
    return line


def play(plan: dict[str, Any], *, mails: int = 1, last_s: float = 400_000.0, **receiver: Any) -> Receiver:
    """Tell what becomes of some mails; four days and more."""
    setup = read_plan({"webhooks": WEBHOOKS} | plan, "test")
    with World(seed=7, setup=setup) as world:
        world.network.names["receiver"] = RECEIVER
        heard = Receiver(world, **receiver)

        async def story() -> None:
            await world.start_provider()
            process = world.process("receiver")
            await process.spawn(heard.serve)
            for number in range(mails):
                assert (await send(number)).startswith(b"HTTP/1.1 200")
            await asyncio.sleep(last_s)

        world.run(story)
        assert world.complaints == []
    return heard


def test_days_of_retries_pass_at_once_and_keep_the_schedule() -> None:
    """Each delay is the recommended one, a tenth longer or shorter; the id stays."""
    failures = len(STANDARD_SCHEDULE_S)
    heard = play({"webhooks": WEBHOOKS | {"events": ["email.delivered"]}}, statuses=[500] * failures + [200])
    times = [at for at, _, _ in heard.got]
    delays = [after - before for before, after in itertools.pairwise(times)]

    assert len({id_ for _, _, id_ in heard.got}) == 1
    assert len(delays) == failures
    for delay, usual in zip(delays, STANDARD_SCHEDULE_S, strict=True):
        assert usual * 0.9 <= delay <= usual * 1.1


def test_the_same_seed_tells_the_same_story_to_the_instant() -> None:
    """Whatever goes wrong on the way."""
    plan = {
        "seed": 3,
        "rule": [
            {"fault": "fate", "fate": "clicked", "probability": 0.5},
            {"fault": "fate", "fate": "hard_bounce"},
            {"fault": "webhook_bad_signature", "probability": 0.3},
            {"fault": "webhook_stale", "probability": 0.2},
            {"fault": "webhook_duplicate", "probability": 0.3, "delay_s": 7},
            {"fault": "webhook_reorder", "probability": 0.3},
            {"fault": "webhook_late", "probability": 0.2, "delay_s": 3600},
        ],
    }
    first, second = (play(plan, mails=8, statuses=[200, 500, 200, 200, 503, 200]) for _ in range(2))

    assert first.got == second.got
    assert first.refused == second.refused
    assert first.refused
    assert len(first.got) > 16


def test_every_event_is_told_whatever_kills_the_provider() -> None:
    """At every commit of the ledger: each event of each mail it has accepted reaches the receiver at last."""
    points = 0
    for count in range(1, 12):
        for name in ("lost", "unreported"):
            heard, accepted, died = _killed(CrashPoint("ledger", name, count))
            points += died
            told = {id_ for _, _, id_ in heard.got}
            assert {kind for _, kind, _ in heard.got} >= {"email.accepted", "email.delivered"}
            assert len(told) == 2 * accepted, f"{accepted} mails, died at {name} #{count}: {heard.got}"
            assert heard.refused == []
    assert points > 12


def _killed(crash: CrashPoint) -> tuple[Receiver, int, bool]:
    setup = read_plan({"webhooks": WEBHOOKS}, "test")
    with World(seed=7, setup=setup) as world:
        world.network.names["receiver"] = RECEIVER
        heard = Receiver(world)

        async def story() -> bool:
            receiver = world.process("receiver")
            await receiver.spawn(heard.serve)
            provider: Process = await world.start_provider(crash=crash)
            for number in range(2):
                if not provider.dead:
                    await send(number)
            await asyncio.sleep(10)
            died = provider.dead
            if died:
                await world.start_provider()
                await send(9)
            await asyncio.sleep(100)
            return died

        died = world.run(story)
        assert world.service is not None
        accepted = len(world.service.provider.accounts["default"].ledger.acceptances)
        assert world.complaints == []
    return heard, accepted, died


def test_bounces_come_back_by_mail_in_the_world() -> None:
    """Over SMTP to the provider itself: the report stands in its ledger at the instant of the bounce."""
    plan = {
        "returns": {"smtp": f"provider:{SMTP_PORT}", "of": ["http"]},
        "rule": [{"fault": "fate", "fate": "hard_bounce", "after_s": 86_400, "recipient": "b0@*"}],
    }
    with World(seed=7, setup=read_plan(plan, "test")) as world:

        async def story() -> None:
            await world.start_provider()
            assert (await send(0)).startswith(b"HTTP/1.1 200")
            await asyncio.sleep(90_000)

        world.run(story)
        assert world.service is not None
        first, report = world.service.provider.accounts["default"].ledger.acceptances
        assert world.complaints == []

    assert (report.sender, report.recipients) == ("", ("a@example.org",))
    assert (report.accepted_at - first.accepted_at).total_seconds() == pytest.approx(86_400, abs=0.1)
