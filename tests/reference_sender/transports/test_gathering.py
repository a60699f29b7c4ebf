"""Mails that go together: each hears its own answer, and the bad one is found."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from reference_sender.life import Parcel
from reference_sender.policy.batches import BatchEvidence
from reference_sender.policy.evidence import Evidence, Phase, Wire
from reference_sender.transports.gathering import GatheringTransport
from tests.reference_sender.samples import NOW, parcel
from tests.reference_sender.transports.wires import go_on, withdraw

NO = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=422)


def yes(each: Parcel) -> Evidence:
    return Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=200, provider_id=f"msg_{each.id}")


class FakeWire:
    """A wire that refuses every request with one of these mails in it, as a whole, and remembers who went together."""

    def __init__(
        self, *bad: int, most: int = 100, most_octets: int = 1_000_000, names_it: bool = False
    ) -> None:
        self.bad, self.most, self.most_octets, self.names_it = bad, most, most_octets, names_it
        self.requests: list[list[int]] = []
        self.closed = False

    async def send_batch(
        self,
        parcels: Sequence[Parcel],
        *,
        keys: Sequence[str],
        point_of_no_return: Callable[[], Awaitable[bool]],
    ) -> BatchEvidence:
        assert keys == [f"key {each.id}" for each in parcels]
        if not await point_of_no_return():
            gone = Evidence(wire=Wire.HTTP, phase=Phase.BODY, trouble="withdrawn")
            return BatchEvidence(items=(gone,) * len(parcels), whole=True)
        self.requests.append([each.id for each in parcels])
        found = next((n for n, each in enumerate(parcels) if each.id in self.bad), None)
        if found is not None:
            return BatchEvidence(items=(NO,) * len(parcels), whole=True, bad=found if self.names_it else None)
        return BatchEvidence(items=tuple(yes(each) for each in parcels), whole=False)

    async def close(self) -> None:
        self.closed = True


def hand_over(
    wire: FakeWire, parcels: Sequence[Parcel], stopped: Sequence[int] = (), patience_s: float = 60.0
) -> list[Evidence]:
    async def run() -> list[Evidence]:
        transport = GatheringTransport(wire, refuses=lambda each: each.code == 422, patience_s=patience_s)
        try:
            return await asyncio.gather(
                *(
                    transport.send(
                        each,
                        key=f"key {each.id}",
                        point_of_no_return=withdraw if each.id in stopped else go_on,
                    )
                    for each in parcels
                )
            )
        finally:
            await transport.close()

    return asyncio.run(run())


def parcels(count: int, **more: Any) -> list[Parcel]:
    return [parcel(id=n, **more) for n in range(count)]


def codes(seen: Sequence[Evidence]) -> list[int | None]:
    return [each.code for each in seen]


def test_what_is_handed_over_at_one_moment_goes_together() -> None:
    wire = FakeWire()
    seen = hand_over(wire, parcels(3))
    assert wire.requests == [[0, 1, 2]]
    assert [each.provider_id for each in seen] == ["msg_0", "msg_1", "msg_2"]
    assert wire.closed


def test_a_request_holds_no_more_than_it_may_and_one_class() -> None:
    wire = FakeWire(most=2)
    hand_over(wire, [*parcels(3), parcel(id=3, mail_class="code"), parcel(id=4, doubted_at=NOW)])
    assert sorted(wire.requests) == [[0, 1], [2], [3], [4]]


def test_a_request_holds_no_more_octets_than_it_may() -> None:
    wire = FakeWire(most_octets=250)
    hand_over(wire, parcels(5, raw=b"x" * 100))
    assert wire.requests == [[0, 1], [2, 3], [4]]


def test_the_bad_one_is_found_and_the_others_are_sent_once() -> None:
    wire = FakeWire(5)
    seen = hand_over(wire, parcels(8))
    assert codes(seen) == [200] * 5 + [422] + [200] * 2
    taken = [number for request in wire.requests if 5 not in request for number in request]
    assert sorted(taken) == [0, 1, 2, 3, 4, 6, 7]


def test_the_one_that_was_named_is_found_at_once() -> None:
    wire = FakeWire(1, names_it=True)
    assert codes(hand_over(wire, parcels(4))) == [200, 422, 200, 200]
    assert wire.requests == [[0, 1, 2, 3], [0, 2, 3], [1]]


def test_who_lost_his_row_stays_behind_and_the_others_go() -> None:
    wire = FakeWire()
    seen = hand_over(wire, parcels(3), stopped=[1])
    assert wire.requests == [[0, 2]]
    assert [each.trouble for each in seen] == [None, "withdrawn", None]


def test_who_has_no_time_left_is_not_sent() -> None:
    wire = FakeWire(0)
    seen = hand_over(wire, parcels(4), patience_s=-1.0)
    assert wire.requests == []
    assert {(each.phase, each.code) for each in seen} == {(Phase.BODY, None)}


def test_a_mistake_of_ours_reaches_everybody_who_waits() -> None:
    class Broken(FakeWire):
        async def send_batch(self, *_: Any, **__: Any) -> BatchEvidence:
            raise RuntimeError("a bug")

    async def run() -> list[Any]:
        transport = GatheringTransport(Broken(), refuses=lambda _: False, patience_s=1.0)
        sends = (transport.send(each, key=f"key {each.id}", point_of_no_return=go_on) for each in parcels(2))
        return await asyncio.gather(*sends, return_exceptions=True)

    assert [str(each) for each in asyncio.run(run())] == ["a bug", "a bug"]


def test_who_is_called_off_before_the_request_is_not_in_it() -> None:
    wire = FakeWire()

    async def run() -> None:
        transport = GatheringTransport(wire, refuses=lambda _: False, patience_s=1.0)
        sends = [
            asyncio.create_task(transport.send(each, key=f"key {each.id}", point_of_no_return=go_on))
            for each in parcels(2)
        ]
        await asyncio.sleep(0)
        sends[0].cancel()
        await sends[1]

    asyncio.run(run())
    assert wire.requests == [[1]]


def test_a_row_that_was_taken_up_again_meanwhile_leaves_nobody_waiting() -> None:
    """Its worker was stopped past the lease with the mail in its hands: who handed it over first waited for ever."""
    for wire in (FakeWire(), FakeWire(1)):
        heard = hand_over(wire, [parcel(id=1, token=1), parcel(id=1, token=2)])
        assert len(heard) == 2
