"""The HTTP server: requests become attempts, and every fault hits the request it is meant for.

From the transport upwards: `connection` (uvicorn's protocol with a line and a door), `body` (a request is read),
`voice` (how HTTP says words), `api` (paths, handing in one mail), `lookup`, `server` (the listener). ASGI hides the
connection, so a small subclass of uvicorn's protocol hands a `HttpLine` to the application. What happens is decided
by the provider, worded by `simulator.dialects` and carried out by `simulator.servers.wire`.
"""

from __future__ import annotations

from simulator.servers.http.api import NativeApi
from simulator.servers.http.server import HttpServer

__all__ = ["HttpServer", "NativeApi"]
