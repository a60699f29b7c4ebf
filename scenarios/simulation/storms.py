"""Webhook storms: everything that can go wrong on the way of an event, and an intake that is killed anywhere meanwhile.

A column of its own beside the matrix: a storm × every crash point of the intake. The provider, the worker and the intake
are the real ones; mails of every fate are sent, what became of them is told in this storm, and in the end the judge
(`scenarios.hearing`) compares what was told and acknowledged with what the sender knows.
"""

from __future__ import annotations

import asyncio
import base64
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from reference_sender.doors import http as _loaded_before_any_world  # noqa: F401 # a start must not import it
from reference_sender.events.kinds import Kind, standing
from reference_sender.intake import IntakeParts, build_intake
from reference_sender.intake_options import intake_options_from
from scenarios import hearing
from scenarios.checks import Finding
from scenarios.hearing import Mind, Request, Telling, kind_of
from scenarios.simulation.cell import UNSETTLED, trace_of
from scenarios.simulation.loop import OWNER
from scenarios.simulation.processes import CrashPoint, Process
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.senders import Disk, Owed, ReferenceSender
from scenarios.simulation.world import World, WorldClock
from simulator.config import read_plan
from simulator.provider.ledger import AttemptState
from simulator.provider.notices import Spoilt
from simulator.provider.provider import DEFAULT_ACCOUNT

INTAKE_HOST = "10.0.0.7"
INTAKE_PORT = 8030
SECRET = "whsec_" + base64.b64encode(b"of the intake in the world, long").decode()

#: Each mail has a fate of its own; fulfilled soon, so that a storm is over within minutes.
FATES: Mapping[str, tuple[str, float]] = {
    "ada": ("clicked", 6.0),
    "bob": ("hard_bounce", 3.0),
    "cyd": ("soft_bounce", 8.0),
    "eve": ("complaint", 9.0),
}
#: How long a storm may last until everything is told and dealt with, in virtual seconds.
STORM_S = 1_500.0
#: The intake's times in the world, in seconds.
TIMES: Mapping[str, Any] = {"look_s": 5.0, "patience_s": 60.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm:
    """What goes wrong on the way."""

    name: str
    rules: tuple[Mapping[str, Any], ...] = ()
    """Keys of rules in the plan language, besides those of the fates."""
    webhooks: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the table [webhooks]."""
    profile: str = "http-keys"


def _storm(name: str, fault: str, *, webhooks: Mapping[str, Any] | None = None, **more: Any) -> Storm:
    return Storm(name=name, rules=({"fault": fault, **more},), webhooks=webhooks or {})


_BATCH = {"batch": 10, "batch_wait_s": 2.0}

STORMS: tuple[Storm, ...] = (
    Storm(name="nothing wrong"),
    Storm(name="in batches", webhooks=_BATCH),
    _storm("twice", "webhook_duplicate", delay_s=2.0),
    _storm("twice under another id", "webhook_duplicate_new_id", delay_s=2.0),
    _storm("late", "webhook_late", delay_s=60.0),
    _storm("out of order", "webhook_reorder"),
    _storm("before the answer", "webhook_early"),
    _storm("another secret", "webhook_bad_signature", forgery="wrong_secret"),
    _storm("changed on the way", "webhook_bad_signature", forgery="tampered"),
    _storm("not signed", "webhook_bad_signature", forgery="missing"),
    _storm("a signature that is none", "webhook_bad_signature", forgery="garbage"),
    _storm("replayed an hour later", "webhook_stale", age_s=3_600.0),
    _storm("nonsense beside it", "webhook_malformed"),
    _storm("nonsense in the batch", "webhook_malformed", webhooks=_BATCH, damage="wrong_types"),
    _storm("contradicted", "webhook_conflict"),
    _storm("of mails that nobody sent", "webhook_unknown"),
    _storm("half of it lost", "webhook_lose", every=2),
    Storm(
        name="the answer is lost and the event is not",
        rules=({"fault": "hang", "stage": "reply"},),
        profile="smtp-at-most-once",
    ),
    Storm(
        name="everything",
        rules=(
            {"fault": "webhook_duplicate_new_id", "event": "email.bounced", "delay_s": 1.0},
            {"fault": "webhook_conflict", "event": "email.delivered"},
            {"fault": "webhook_bad_signature", "event": "email.complained"},
            {"fault": "webhook_stale", "event": "email.opened"},
            {"fault": "webhook_unknown", "event": "email.accepted"},
            {"fault": "webhook_malformed", "event": "email.deferred", "damage": "null"},
            {"fault": "webhook_late", "event": "email.delivered", "delay_s": 20.0},
        ),
        webhooks=_BATCH,
    ),
)

BY_NAME: Mapping[str, Storm] = {storm.name: storm for storm in STORMS}


def plan_of(storm: Storm) -> dict[str, Any]:
    """Return the plan of a storm (its JSON form)."""
    profile = BY_ID[storm.profile]
    rules: list[dict[str, Any]] = [
        {
            "name": f"{who} is {fate}",
            "fault": "fate",
            "fate": fate,
            "after_s": after_s,
            "recipient": f"{who}.*",
        }
        for who, (fate, after_s) in FATES.items()
    ]
    rules += [{"name": f"{n}: {storm.name}", **rule} for n, rule in enumerate(storm.rules, 1)]
    return {"seed": 1, "rule": rules, "webhooks": webhooks_of(storm), **profile.provider}


def webhooks_of(storm: Storm) -> dict[str, Any]:
    """Return the table [webhooks] of a storm."""
    return {
        "url": f"http://intake:{INTAKE_PORT}/webhooks",
        "secret": SECRET,
        "timeout_s": 5.0,
        "schedule_s": [5, 10, 20, 40, 80],
        "jitter": 0,
        **storm.webhooks,
    }


@dataclass(slots=True, kw_only=True)
class ListeningSender(ReferenceSender):
    """The reference sender with its intake, or with one that differs in a part."""

    intake_parts: Mapping[str, Any] = field(default_factory=dict)
    """Parts of `reference_sender.intake.IntakeParts` to replace."""
    intake_options: Mapping[str, Any] = field(default_factory=dict)

    async def hear(self, world: World) -> None:
        """The life of an intake; called in its process, ends by being killed or told to stop."""
        options = intake_options_from(
            {
                "database_url": self.disk.url,
                "listen": f"{INTAKE_HOST}:{INTAKE_PORT}",
                "webhook_secret": SECRET,
                **TIMES,
                **self.intake_options,
            }
        )
        parts = {
            "clock": WorldClock(world.loop, getattr(OWNER.get(), "skew_s", 0.0)),
            **self.intake_parts,
            "open_engine": lambda _url: self._engine(),
        }
        stop = asyncio.Event()
        world.loop.add_signal_handler(signal.SIGTERM, stop.set)
        await build_intake(options, IntakeParts(**parts)).run(stop)

    def mind(self) -> Mind:
        """What it knows just now: every committed row."""
        facts: dict[str, list[tuple[str, datetime]]] = {}
        for recipient, kind, at in self.disk.rows(
            "SELECT m.recipient, f.kind, f.happened_at FROM delivery_fact f"
            " JOIN outgoing_email m ON m.id = f.email_id ORDER BY f.id"
        ):
            facts.setdefault(recipient, []).append((kind, datetime.fromisoformat(at).replace(tzinfo=UTC)))
        return Mind(
            states={each.recipient: each.state for each in self.said()},
            facts=facts,
            standing={who: standing(Kind(kind) for kind, _ in told) for who, told in facts.items()},
            suppressed=frozenset(
                address for (address,) in self.disk.rows("SELECT address FROM suppression ORDER BY address")
            ),
        )

    def undone(self) -> int:
        """Events that it has not come to an end with."""
        ((number,),) = self.disk.rows("SELECT count(*) FROM webhook_event WHERE next_look_at IS NOT NULL")
        return int(number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What a storm came to."""

    storm: Storm
    crash: CrashPoint | None
    findings: tuple[Finding, ...]
    told: tuple[Telling, ...]
    fired: frozenset[str]
    reached: bool
    """False: the intake never came by its crash point."""
    steps: int
    passed: Mapping[tuple[str, str], int]
    trace: str

    def __str__(self) -> str:
        return f"{self.storm.name} · " + (f"the intake dies at {self.crash}" if self.crash else "nobody dies")


def play(storm: Storm, sender: ListeningSender, disk: Disk, *, crash: CrashPoint | None = None) -> Played:
    """Play a storm to its end; the intake dies at `crash`, and is started again a second later."""
    if not disk.has("empty"):
        for old in disk.path.parent.glob(disk.path.name + "*"):
            old.unlink()
        sender.prepare()
        disk.keep("empty")
    disk.put_back("empty")
    with World(seed=1, setup=read_plan(plan_of(storm), "the storm")) as world:
        world.network.names["intake"] = INTAKE_HOST
        try:
            played: Played = world.run(lambda: _story(world, storm, sender, crash))
        finally:
            disk.look_away()
        return played


async def _story(world: World, storm: Storm, sender: ListeningSender, crash: CrashPoint | None) -> Played:
    for number, who in enumerate(FATES, 1):
        owed = Owed(ref=f"order-{number}", recipients=(f"{who}.{number}@example.com",))
        world.process("application").run(sender.enqueue, world, owed)
    await world.start_provider()
    intake = _start_intake(world, sender, crash)
    world.process("worker 1").spawn(sender.work, world)
    settled = False
    deadline = world.loop.time() + STORM_S
    successor: Process | None = None
    while not settled and world.loop.time() < deadline:
        await asyncio.sleep(2.0)
        if intake.dead and successor is None:
            await asyncio.sleep(1.0)
            successor = _start_intake(world, sender, None)
        settled = _is_over(world, storm, sender)
    told = tuple(tellings(world))
    findings = hearing.judge(told, sender.mind())
    if not settled:
        sentence = "things still moved when the storm should have been over"
        findings.append(Finding(kind="not quiescent", recipient="", sentence=sentence))
    findings += [Finding(kind="uncaught", recipient="", sentence=each) for each in world.complaints]
    account = _account(world)
    return Played(
        storm=storm,
        crash=crash,
        findings=tuple(findings),
        told=told,
        fired=frozenset(rule for each in told_notices(world) for rule in each.rules)
        | {rule for attempt in account.attempts.values() for rule in attempt.rules},
        reached=crash is None or intake.dead,
        steps=intake.steps,
        passed=dict(intake.passed),
        trace=trace_of(world),
    )


def _start_intake(world: World, sender: ListeningSender, crash: CrashPoint | None) -> Process:
    process = world.process("intake", crash=crash)
    process.spawn(sender.hear, world)
    return process


def _account(world: World) -> Any:
    assert world.service is not None
    return world.service.provider.account(DEFAULT_ACCOUNT, world.clock.now())


def _courier(world: World) -> Any:
    assert world.service is not None
    return world.service.outgoing.couriers.of(DEFAULT_ACCOUNT, "webhook")


def is_told(world: World) -> bool:
    """Tell whether everything that happened, and will happen, is told to the end."""
    account, courier = _account(world), _courier(world)
    if courier is None:
        return account.aftermath.events.next_at() is None
    return (
        courier.deliveries.waiting == 0
        # What waits for company in a batch is no delivery yet.
        and courier.deliveries.next_at(courier.channel.terms(account).batching) is None
        and account.aftermath.events.next_at() is None
    )


def _is_over(world: World, storm: Storm, sender: ListeningSender) -> bool:
    unsettled = UNSETTLED[BY_ID[storm.profile].policy]
    return (
        _courier(world) is not None
        and is_told(world)
        and all(each.state is AttemptState.CLOSED for each in _account(world).attempts.values())
        and all(each.state not in unsettled for each in sender.said())
        and sender.undone() == 0
    )


def told_notices(world: World) -> Iterator[Any]:
    """Yield every notice that the provider had to tell."""
    for delivery in _courier(world).deliveries.all.values():
        yield from delivery.notices


def tellings(world: World) -> Iterator[Telling]:
    """Yield every event that the provider had to tell, with what it was answered."""
    courier = _courier(world)
    for delivery in () if courier is None else courier.deliveries.all.values():
        requests = tuple(Request(flaws=frozenset(each.flaws), status=each.status) for each in delivery.tries)
        for notice in delivery.notices:
            event, data = notice.event, notice.event.data()
            yield Telling(
                event_id=event.id,
                kind=kind_of(event.type, data),
                at=_in_milliseconds(event.told_at or event.at),
                recipient=data.get("recipient"),
                readable=not any(flaw.what is Spoilt.BODY for flaw in notice.flaws),
                requests=requests,
            )


def _in_milliseconds(at: datetime) -> datetime:
    """An instant as it is told."""
    return at.astimezone(UTC).replace(microsecond=at.microsecond // 1000 * 1000)


def points(played: Played, kinds: Iterable[str]) -> list[CrashPoint]:
    """List the crash points that the intake came by in a run in which nobody died."""
    found: list[CrashPoint] = []
    for kind in kinds:
        if kind == "step":
            found += [CrashPoint("step", "", n) for n in range(1, played.steps + 1)]
        else:
            found += [
                CrashPoint(kind, name, n)
                for (each, name), count in sorted(played.passed.items())
                if each == kind
                for n in range(1, count + 1)
            ]
    return found


def sweep(
    storm: Storm,
    sender: ListeningSender,
    disk: Disk,
    kinds: Sequence[str],
    *,
    every: int = 1,
    wanted: Callable[[Played], bool] = lambda played: True,
) -> Iterator[Played]:
    """Play a storm, then once more for every crash point of these kinds (or every n-th of them)."""
    dry = play(storm, sender, disk)
    yield dry
    if wanted(dry):
        for crash in points(dry, kinds)[::every]:
            yield play(storm, sender, disk, crash=crash)
