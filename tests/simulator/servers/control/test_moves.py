"""Waking whoever waits."""

from __future__ import annotations

import asyncio

from simulator.servers.control.moves import Moves


def test_a_waiter_looks_again_at_every_move() -> None:
    """And ends at the first look that finds enough."""

    async def scene() -> tuple[tuple[int, bool], int]:
        moves, looks = Moves(), 0

        def look() -> tuple[int, bool]:
            nonlocal looks
            looks += 1
            return looks, looks == 3

        waiting = asyncio.ensure_future(moves.until(look, 60.0))
        for _ in range(2):
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            moves.moved()
        return await waiting, looks

    assert asyncio.run(scene()) == ((3, True), 3)


def test_time_is_up_with_what_there_is() -> None:
    """The last look counts, even if nothing moved."""
    assert asyncio.run(Moves().until(lambda: ("little", False), 0.0)) == ("little", False)


def test_nobody_waits_for_a_service_that_stops() -> None:
    """Neither those who wait already nor those who come."""

    async def scene() -> list[tuple[str, bool]]:
        moves = Moves()
        waiting = asyncio.ensure_future(moves.until(lambda: ("early", False), 60.0))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        moves.end()
        return [await waiting, await moves.until(lambda: ("late", False), 60.0)]

    assert asyncio.run(scene()) == [("early", False), ("late", False)]
