"""Senders that put several mails into one request and take what is said of one for what is said of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from reference_sender.options import Options
from reference_sender.policy.batches import BatchEvidence
from reference_sender.transports.gathering import BatchTransport, GatheringTransport
from reference_sender.wires import ClosableTransport, transport_of
from scenarios.simulation.zoo.keeper import BadSender, where


class OneForAll:
    """What the first result says is said of all: one bad mail fails the batch, one good one accepts it."""

    def __init__(self, inner: BatchTransport) -> None:
        self._inner = inner
        self.most, self.most_octets = inner.most, inner.most_octets

    async def send_batch(self, parcels: Sequence[Any], *, keys: Sequence[str], **more: Any) -> BatchEvidence:
        seen = await self._inner.send_batch(parcels, keys=keys, **more)
        return BatchEvidence(items=(seen.items[0],) * len(parcels), whole=False)

    async def close(self) -> None:
        await self._inner.close()


class OneKeyForAll(OneForAll):
    """The key names the batch, so a repetition in other company is another key."""

    async def send_batch(self, parcels: Sequence[Any], *, keys: Sequence[str], **more: Any) -> BatchEvidence:
        names = "+".join(str(each.id) for each in parcels)
        return await self._inner.send_batch(
            parcels, keys=[f"{names}-{number}" for number in range(len(keys))], **more
        )


def gathers(inner: Callable[[BatchTransport], BatchTransport]) -> Callable[[Options], ClosableTransport]:
    """Return what makes the reference sender's transport with another one inside; alike where single mails are sent."""

    def transport(options: Options) -> ClosableTransport:
        made = transport_of(options)
        if isinstance(made, GatheringTransport):
            made._inner = inner(made._inner)
        return made

    return transport


def believes_the_whole(options: Options) -> ClosableTransport:
    """A refused request is taken to be about each of its mails, and nobody looks for the bad one."""
    made = transport_of(options)
    if isinstance(made, GatheringTransport):
        made._refuses = lambda _evidence: False
    return made


_THREE = "three recipients"

SENDERS: tuple[BadSender, ...] = (
    BadSender(
        name="first result for all",
        sin="Of the results of a batch the first one is read, and believed of all its mails.",
        like="partial failure of a batch overlooked",
        kind="misreported",
        parts={"transport": gathers(OneForAll)},
        blocks=(where("http-batches", "422", shape=_THREE),),
    ),
    BadSender(
        name="one key for a batch",
        sin="The idempotency key names the batch: who comes again in other company has another one.",
        like="key of the batch instead of the mail",
        kind="duplicated",
        promises=("temporary.same-identity",),
        parts={"transport": gathers(OneKeyForAll)},
        blocks=(where("http-batches", "one result missing", shape=_THREE),),
    ),
    BadSender(
        name="believes the whole",
        sin="A refusal of the whole request fails every mail in it, for one that was bad.",
        like="poison message takes its batch along",
        kind="lost",
        parts={"transport": believes_the_whole},
        blocks=(where("http-batches", "one refused, so all are", shape=_THREE),),
    ),
)
