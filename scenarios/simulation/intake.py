"""The sender with its intake in a world: cells whose victim may be whoever hears what became of the mails.

The provider, the worker and the intake are the real ones; mails of every fate are sent, what became of them is told in
a storm (`scenarios.simulation.storms`), and in the end the judge (`scenarios.hearing`) compares what was told and
acknowledged with what the sender knows. Everything else that is asked of a cell is asked as well.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from reference_sender.doors import http as _loaded_before_any_world  # noqa: F401 # a start must not import it
from reference_sender.events.kinds import Kind, standing
from reference_sender.intake import IntakeParts, build_intake
from reference_sender.intake_options import intake_options_from
from scenarios import checks, hearing
from scenarios.checks import Finding
from scenarios.hearing import UNBELIEVABLE, Mind, Request, Telling, kind_of
from scenarios.history import History
from scenarios.simulation import guards
from scenarios.simulation.cell import FREEZE, UNSETTLED, Cell, Outcome
from scenarios.simulation.crashes import points
from scenarios.simulation.evidence import history_of, trace_of
from scenarios.simulation.loop import OWNER
from scenarios.simulation.processes import CrashPoint, Process
from scenarios.simulation.profiles import BY_ID, Profile
from scenarios.simulation.senders import Disk, ReferenceSender
from scenarios.simulation.shapes import EVERY_SHAPE
from scenarios.simulation.storms import INTAKE_HOST, INTAKE_PORT, SECRET, plan_of
from scenarios.simulation.world import World, WorldClock
from simulator.config import read_plan
from simulator.provider.ledger import AttemptState
from simulator.provider.notices import Spoilt
from simulator.provider.provider import DEFAULT_ACCOUNT

#: How long a storm may last until everything is told and dealt with, in virtual seconds.
STORM_S = 1_500.0
#: How often is looked whether it is over, in virtual seconds.
LOOK_S = 2.0
#: The intake's times in the world, in seconds.
TIMES: Mapping[str, Any] = {"look_s": 5.0, "patience_s": 60.0}


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

    def settled_by_events(self) -> int:
        """How often a mail was moved because of what the provider told."""
        ((number,),) = self.disk.rows("SELECT count(*) FROM email_attempt WHERE reason LIKE 'events: %'")
        return int(number)

    def undone(self) -> int:
        """Events that it has not come to an end with."""
        ((number,),) = self.disk.rows("SELECT count(*) FROM webhook_event WHERE next_look_at IS NOT NULL")
        return int(number)


@dataclass(slots=True, kw_only=True)
class Heard(Outcome):
    """What a cell of a sender that hears came to."""

    told: tuple[Telling, ...] = ()
    """Every event that the provider had to tell, with what it was answered."""


def play(
    cell: Cell,
    sender: ListeningSender,
    disk: Disk,
    watch: Callable[[World], None] = lambda world: None,
    *,
    moments: bool = False,
) -> Heard:
    """Play a cell to its end: its script are names of storms, its victim is the intake or the worker.

    `watch` and `moments` as in `cell.play`.
    """
    profile = BY_ID[cell.profile]
    if not disk.has("empty"):
        disk.wipe()
        sender.prepare()
        disk.keep("empty")
    disk.put_back("empty")
    with World(seed=cell.seed, setup=read_plan(plan_of(profile, cell.script), "the storm")) as world:
        watch(world)
        world.network.names["intake"] = INTAKE_HOST
        try:
            heard: Heard = world.run(lambda: _story(world, cell, profile, sender, moments))
        finally:
            disk.look_away()
        return heard


def sweep(
    cell: Cell, sender: ListeningSender, disk: Disk, kinds: Sequence[str], *, every: int = 1
) -> Iterator[Heard]:
    """Play a cell, then once more for every crash point of its victim of these kinds (or every n-th of them)."""
    dry = play(cell, sender, disk)
    yield dry
    for crash in points(dry, kinds)[::every]:
        yield play(replace(cell, crash=crash), sender, disk)


async def _story(world: World, cell: Cell, profile: Profile, sender: ListeningSender, moments: bool) -> Heard:
    for owed in EVERY_SHAPE[cell.shape].owed:
        world.process("application").run(sender.enqueue, world, owed)
    await world.start_provider()
    lives: Mapping[str, Callable[[World], Any]] = {"intake": sender.hear, "worker": sender.work}
    victims: list[Process] = []

    def start(who: str, crash: CrashPoint | None = None, *, watched: bool = False) -> Process:
        freezes = crash is not None and crash.kind == FREEZE
        process = world.process(who if who == "intake" else f"{who} 1", crash=None if freezes else crash)
        if crash is not None and freezes:
            process.freeze(after=crash.count, seconds=cell.frozen_s, at=crash.name)
        if watched and moments:
            process.tell_moments(guards.dice)
        process.spawn(lives[who], world)
        return process

    for who in lives:
        process = start(
            who, cell.crash if who == cell.victim else None, watched=who == cell.victim and cell.crash is None
        )
        if who == cell.victim:
            victims.append(process)
    settled = stopped = False
    deadline = world.loop.time() + STORM_S
    while not settled and world.loop.time() < deadline:
        await asyncio.sleep(LOOK_S)
        stopped = stopped or victims[0].frozen
        if victims[-1].dead:
            await asyncio.sleep(1.0)
            again = cell.again if len(victims) == 1 else None
            victims.append(start(cell.victim, again, watched=len(victims) == 1 and cell.crash is not None))
        settled = _is_over(world, profile, sender)
    return _judge(world, cell, profile, sender, victims, settled=settled, stopped=stopped)


def _judge(
    world: World,
    cell: Cell,
    profile: Profile,
    sender: ListeningSender,
    victims: list[Process],
    *,
    settled: bool,
    stopped: bool,
) -> Heard:
    told = tuple(tellings(world))
    frozen = int(stopped and cell.victim == "worker")
    history = history_of(world, sender.said(), promised=sender.promised(), moving=not settled, frozen=frozen)
    findings = hearing.judge(told, sender.mind()) + checks.thoroughly(history, profile.policy)
    findings += [Finding(kind="uncaught", recipient="", sentence=each) for each in world.complaints]
    first, second = victims[0], victims[1] if len(victims) > 1 else None
    struck = first.dead or stopped
    return Heard(
        cell=cell,
        findings=findings,
        told=told,
        reached=cell.crash is None or (struck if cell.again is None else second is not None and second.dead),
        steps=first.steps,
        passed=dict(first.passed),
        moments=first.moments or {},
        again_steps=second.steps if second is not None else 0,
        again_passed=dict(second.passed) if second is not None else {},
        again_moments=(second.moments or {}) if second is not None else {},
        fired=tuple(
            dict.fromkeys(
                (
                    *(rule for each in told_notices(world) for rule in each.rules),
                    *(rule for each in history.attempts for rule in each.rules),
                )
            )
        ),
        events=_events(told, history, sender),
        virtual_s=world.loop.time(),
        history=history,
        trace=trace_of(world),
    )


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


def _is_over(world: World, profile: Profile, sender: ListeningSender) -> bool:
    unsettled = UNSETTLED[profile.policy]
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


def _events(told: Sequence[Telling], history: History, sender: ListeningSender) -> frozenset[str]:
    """Say which of the things that must happen sometimes happened here."""
    requests = [request for each in told for request in each.requests]
    seen = {
        "an event was told again": any(len(each.requests) > 1 for each in told),
        "a request was not believed": any(
            request.flaws & UNBELIEVABLE and not request.acknowledged for request in requests
        ),
        "an event could not be read": any(not each.readable for each in told),
        "an event was of nobody's mail": any(
            each.recipient is not None and history.state_of(each.recipient) is None for each in told
        ),
        "a doubt was settled by an event": sender.settled_by_events() > 0,
        "an address was suppressed": bool(sender.mind().suppressed),
    }
    return frozenset(event for event, happened in seen.items() if happened)
