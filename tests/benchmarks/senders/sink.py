"""The provider of the sender benchmarks: takes everything, remembers keys, counts; nothing else.

    python -m tests.benchmarks.senders.sink PORT_FILE

Stops with SIGTERM. `GET /stats` tells what came since the last `POST /reset`.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route


class Counts:
    """What came."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}
        self.requests = 0
        self.times: list[float] = []
        """When the first request of each key came, monotonic seconds."""

    def take(self, key: str) -> str:
        self.requests += 1
        known = self.ids.get(key)
        if known is None:
            self.times.append(time.monotonic())
            known = self.ids[key] = f"m{len(self.ids)}"
        return known


def application() -> Starlette:
    """The provider."""
    counts = Counts()

    async def take(request: Request) -> JSONResponse:
        await request.json()
        return JSONResponse({"id": counts.take(request.headers["idempotency-key"])})

    async def stats(_: Request) -> JSONResponse:
        times = counts.times
        return JSONResponse(
            {
                "keys": len(counts.ids),
                "requests": counts.requests,
                "first": times[0] if times else None,
                "last": times[-1] if times else None,
                "gap_s": max((b - a for a, b in itertools.pairwise(times)), default=0.0),
            }
        )

    async def reset(_: Request) -> JSONResponse:
        counts.__init__()  # type: ignore[misc] # a fresh one in the same place
        return JSONResponse({})

    return Starlette(
        routes=[
            Route("/v1/emails", take, methods=["POST"]),
            Route("/stats", stats),
            Route("/reset", reset, methods=["POST"]),
        ]
    )


class _Told(uvicorn.Server):
    """A server that writes down its port when it listens."""

    def __init__(self, config: uvicorn.Config, file: Path) -> None:
        super().__init__(config)
        self._file = file

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        port = self.servers[0].sockets[0].getsockname()[1]
        self._file.with_suffix(".new").write_text(json.dumps({"port": port}))
        self._file.with_suffix(".new").rename(self._file)


if __name__ == "__main__":
    _Told(
        uvicorn.Config(application(), port=0, log_level="warning", access_log=False), Path(sys.argv[1])
    ).run()
