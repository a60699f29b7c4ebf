"""Endpoints for webhooks in the world: one that takes everything, one that refuses, one that never answers.

Nobody listens at the fourth address of `behaviours.HOOKS`. What is told there concerns no sender of mail: these
endpoints are there for what their ways of taking it do to the provider, and by that to the answers it owes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from urllib.parse import urlsplit

from scenarios.simulation.behaviours import HOOKS, Behaviour
from scenarios.simulation.world import World

RECEIVER_HOST = "10.0.0.7"
#: What is answered; None: nothing.
ANSWERS: dict[str, int | None] = {"answers": 204, "refuses": 500, "hangs": None}


async def start_hooks(world: World, behaviours: Iterable[Behaviour]) -> None:
    """Start the endpoints that these behaviours tell something, if they are not there yet."""
    wanted = sorted({behaviour.hook for behaviour in behaviours if behaviour.hook})
    if not wanted or "receiver" in world.network.names:
        return
    world.network.names["receiver"] = RECEIVER_HOST
    await world.process("receiver").spawn(_listen)


async def _listen() -> None:
    for how, answer in ANSWERS.items():
        port = urlsplit(HOOKS[how]).port
        await asyncio.start_server(partial(_take, answer), RECEIVER_HOST, port)


async def _take(answer: int | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
            await reader.readexactly(int(length or 0))
            if answer is not None:
                writer.write(b"HTTP/1.1 %d -\r\nContent-Length: 0\r\n\r\n" % answer)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()  # It has no more to tell.
