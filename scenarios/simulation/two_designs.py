"""One outage, two designs: a shop that mails from within the request, without a key, and one with the outbox.

    python -m scenarios outage

Both take the same orders and meet the same weather: for four minutes the provider is slow, answers 503 now and then, and
takes mails without saying so (`--minutes`: longer). What came of it is counted in the provider's ledger. Real bytes in virtual time, so ten
minutes of business are the same to the instant each time.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import click
from prometheus_client.parser import text_string_to_metric_families

from reference_sender.alarms import alarm_of
from reference_sender.log import quiet
from reference_sender.outbox.store import Store
from reference_sender.policy.breaker import BreakerRules
from reference_sender.policy.settings import Policy, Settings
from reference_sender.watch import Watch
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.senders import Disk, Owed, ReferenceSender, quick_disk
from scenarios.simulation.world import BEGIN, HTTP_PORT, World, silence
from simulator.config import read_plan
from simulator.provider.ledger import Sent
from simulator.provider.obligations import Obligation, Reported, judge
from simulator.provider.provider import DEFAULT_ACCOUNT

ORDERS = 1_000
EVERY_S = 0.6
"""100 orders a minute, for ten minutes."""
MINUTES = 4
"""So long the provider is not well, from the third minute on."""
#: A lost answer is one that never comes, although the mail was taken.
WEATHER = ("lose answers by hang 33%", "503 25%", "slow 2 s")
TRIES = 3
TIMEOUT_S = 10.0
"""What one try may take, in both designs."""
TOO_LONG_S = 60.0
"""The alarm of the queue rings while mail has been due for longer than this; the one that is shipped has five minutes."""
_LOOK_S = 5.0
_PATIENCE_S = 3_600.0


@dataclass(kw_only=True)
class Ending:
    """What came of a design, by the ledger of the provider. Times in seconds from the first order."""

    design: str
    unanswered: int = 0
    """Mails that were taken without a complete answer."""
    twice: int = 0
    """Orders with more than one confirmation."""
    lost: int = 0
    """Orders without any."""
    errors: int = 0
    """Customers who saw an error instead of a thank-you."""
    longest_wait_s: float = 0.0
    """Of a customer, for the page behind the order."""
    most_waiting: int = 0
    """Mails in the queue."""
    latest_s: float = 0.0
    """From an order to its first confirmation, at worst."""
    overdue: list[tuple[float, float]] = field(default_factory=list)
    """What the metric of overdue mail (`outbox_overdue_seconds`) said, and when."""
    alarms: list[tuple[float, str]] = field(default_factory=list)


def owed(number: int) -> Owed:
    """The confirmation of an order."""
    return Owed(ref=f"order-{number}", recipients=(f"customer-{number}@example.com",))


class _Shop:
    """A shop whose orders come at the same instants in both designs."""

    def __init__(self, world: World, ending: Ending, orders: int) -> None:
        self.world, self.ending, self.orders = world, ending, orders

    async def open(self, order: Callable[[int], Coroutine[Any, Any, bool]]) -> None:
        """Take all orders; `order` says whether its customer was thanked."""
        async with asyncio.TaskGroup() as group:
            for number in range(self.orders):
                group.create_task(self._visit(number, order))

    async def _visit(self, number: int, order: Callable[[int], Coroutine[Any, Any, bool]]) -> None:
        await asyncio.sleep(number * EVERY_S)
        began = self.world.loop.time()
        thanked = await order(number)
        self.ending.errors += not thanked
        self.ending.longest_wait_s = max(self.ending.longest_wait_s, self.world.loop.time() - began)


async def _naive(shop: _Shop) -> None:
    """The request calls the API, without a key, and tries again at once."""

    async def doors() -> None:
        timeout, connector = aiohttp.ClientTimeout(total=TIMEOUT_S), aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:

            async def order(number: int) -> bool:
                mail = owed(number).mail
                body = {"from": mail.sender, "to": [*mail.recipients], "subject": mail.subject}
                body["text"] = mail.text or ""
                for _ in range(TRIES):
                    try:
                        async with session.post(
                            f"http://provider:{HTTP_PORT}/v1/emails", json=body
                        ) as response:
                            if response.status == 200:
                                return True
                    except (aiohttp.ClientError, TimeoutError):
                        continue
                return False

            await shop.open(order)

    await shop.world.process("shop").spawn(doors)


async def _outbox(shop: _Shop, disk: Disk) -> None:
    """The request commits order and mail together; two workers with their usual settings do the rest."""
    world, ending = shop.world, shop.ending

    told: list[str] = []

    def log(event: str, /, **facts: object) -> None:
        alarm = alarm_of(event, facts)
        # Shut again after a probe is the same news.
        if alarm is not None and told[-1:] != [alarm.about]:
            told.append(alarm.about)
            ending.alarms.append((world.loop.time(), alarm.text))

    sender = ReferenceSender(disk=disk, profile=BY_ID["http-keys"], parts={"log": log}, options=_usual())
    disk.wipe()
    sender.prepare()
    application, store = world.process("shop"), Store(sender._engine())
    watch = _watch(world, store)

    async def order(number: int) -> bool:
        sender.enqueue(world, owed(number))
        return True

    workers = [world.process(f"worker {number}") for number in (1, 2)]
    working = [worker.spawn(sender.work, world) for worker in workers]
    opened = application.spawn(shop.open, order)
    is_ringing = False
    while not opened.done() or _waiting(sender):
        assert world.loop.time() < _PATIENCE_S, "an hour was not enough"
        await asyncio.sleep(_LOOK_S)
        waiting = _waiting(sender)
        ending.most_waiting = max(ending.most_waiting, len(waiting))
        overdue_s = _overdue_s(watch.metrics.text())
        ending.overdue.append((world.loop.time(), overdue_s))
        if (overdue_s > TOO_LONG_S) != is_ringing:
            is_ringing = not is_ringing
            text = "mail waits too long" if is_ringing else "no mail waits too long any more"
            ending.alarms.append((world.loop.time(), text))
    await opened
    for worker in workers:
        worker.terminate()
    await asyncio.gather(*working)
    store.engine.dispose()
    disk.look_away()


def _waiting(sender: ReferenceSender) -> list[int]:
    """Orders whose confirmation is not out, as far as the outbox knows."""
    return [
        int(said.key.removeprefix("order-")) for said in sender.said() if said.state is not Reported.ACCEPTED
    ]


def _watch(world: World, store: Store) -> Watch:
    """What `work --metrics` would tell of this outbox; nothing listens here."""
    return Watch(
        place=("127.0.0.1", 0),
        store=store,
        providers=["main"],
        patience_s=60.0,
        clock=world.clock,
        log=quiet,
    )


def _overdue_s(text: bytes) -> float:
    families = text_string_to_metric_families(text.decode())
    return max(
        (
            sample.value
            for each in families
            for sample in each.samples
            if each.name == "outbox_overdue_seconds"
        ),
        default=0.0,
    )


def _usual() -> dict[str, Any]:
    """The sender's own defaults, where cells of the matrix have others; and the deadline of the other design."""
    plain, breaker = Settings(policy=Policy.RESEND_SAME_KEY), BreakerRules()
    return {
        "concurrency": plain.concurrency,
        "backoff_base_s": plain.backoff_base_s,
        "backoff_cap_s": plain.backoff_cap_s,
        "poll_s": plain.poll_s,
        "reconcile_s": plain.reconcile_s,
        "breaker_failures": breaker.failures,
        "breaker_pause_s": breaker.pause_s,
        "breaker_pause_cap_s": breaker.pause_cap_s,
        "read_timeout_s": TIMEOUT_S,
        "total_timeout_s": TIMEOUT_S,
    }


def play(design: str, *, orders: int = ORDERS, minutes: int = MINUTES, seed: int = 1) -> Ending:
    """Play a design, `naive` or `outbox`, to its end, with an outage of so many minutes."""
    ending = Ending(design=design)
    weather = [f"{what} after 2 minutes until {2 + minutes} minutes" for what in WEATHER]
    with (
        silence(),
        World(seed=seed, setup=read_plan({"rules": weather}, "the weather")) as world,
        tempfile.TemporaryDirectory(dir=quick_disk()) as folder,
    ):
        shop = _Shop(world, ending, orders)

        async def story() -> None:
            await world.start_provider()
            await (_naive(shop) if design == "naive" else _outbox(shop, Disk(Path(folder))))

        world.run(story)
        assert world.complaints == [], world.complaints
        _count(world, ending, orders)
    return ending


def _count(world: World, ending: Ending, orders: int) -> None:
    """Ask the ledger."""
    assert world.service is not None
    acceptances = world.service.provider.account(DEFAULT_ACCOUNT, world.clock.now()).ledger.acceptances
    promised = [
        Obligation(account=DEFAULT_ACCOUNT, ref=owed(number).ref, recipient=owed(number).recipients[0])
        for number in range(orders)
    ]
    judgement = judge(promised, acceptances, final=True)
    ending.twice, ending.lost = len(judgement.duplicated), len(judgement.lost)
    ending.unanswered = sum(
        bool(each.accepted) and each.sent is not Sent.COMPLETE for each in world.attempts_of(world.service)
    )
    ordered_at = {promise.recipient: number * EVERY_S for number, promise in enumerate(promised)}
    # The ledger is in order: of copies the last one that is looked at is the first that came.
    first = {each.recipients[0]: each.accepted_at for each in reversed(acceptances)}
    ending.latest_s = max((at - BEGIN).total_seconds() - ordered_at[to] for to, at in first.items())


def shown(naive: Ending, outbox: Ending) -> str:
    """The table, and when alarms rang."""
    lines = [f"{'':44}{'naive':>8}{'outbox':>8}"]
    for words, of in _LINES:
        lines.append(f"{words:44}{of(naive):>8}{of(outbox):>8}")
    lines += ["", "the outbox rang:"]
    lines += [f"  {int(at_s) // 60:2}:{int(at_s) % 60:02}  {text}" for at_s, text in outbox.alarms]
    return "\n".join(lines) + "\n"


_LINES: tuple[tuple[str, Callable[[Ending], str]], ...] = (
    ("mails taken whose answer got lost", lambda ending: f"{ending.unanswered:,}"),
    ("orders with more than one confirmation", lambda ending: f"{ending.twice:,}"),
    ("orders without any", lambda ending: f"{ending.lost:,}"),
    ("customers who saw an error", lambda ending: f"{ending.errors:,}"),
    ("longest wait of a customer", lambda ending: f"{ending.longest_wait_s:.0f} s"),
    ("most mails in the queue", lambda ending: f"{ending.most_waiting:,}" if ending.most_waiting else "–"),
    (
        "longest that mail was due and not taken",
        lambda ending: f"{max(s for _, s in ending.overdue):.0f} s" if ending.overdue else "–",
    ),
    ("latest confirmation after its order", lambda ending: f"{ending.latest_s:.0f} s"),
)


@click.command()
@click.option(
    "--minutes",
    type=click.IntRange(1, 30),
    default=MINUTES,
    show_default=True,
    help="How long the outage is.",
)
def outage(minutes: int) -> None:
    """One outage, two designs: mail from within the request and mail through the outbox, counted at the provider."""
    click.echo(shown(play("naive", minutes=minutes), play("outbox", minutes=minutes)), nl=False)
