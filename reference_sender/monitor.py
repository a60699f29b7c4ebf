"""`/metrics` and `/health` over HTTP, from a thread of their own: they answer also while the event loop hangs.

Loaded only where `--metrics` is given. Must not hold: what is counted, what is healthy.
"""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from reference_sender.health import Health
from reference_sender.log import Log, cause_of
from reference_sender.policy.settings import InvalidSettings

#: As Prometheus wants it for its text format 0.0.4.
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

#: A client that says nothing for so long is hung up on.
PATIENCE_S = 10.0


class Monitor:
    """Answers until it is closed. Raises OSError if the address cannot be had."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        metrics: Callable[[], bytes],
        media_type: str,
        health: Callable[[], Health],
    ) -> None:
        pages = {
            "/metrics": lambda: (200, media_type, metrics()),
            "/health": lambda: _told(health()),
        }
        self._server = _Server((host, port), _handler(pages))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port = self._server.server_address[:2]
        name = host.decode() if isinstance(host, bytes) else host
        return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Counted(Protocol):
    """What is counted, in the words of Prometheus."""

    def text(self) -> bytes: ...


class Monitored(ABC):
    """A program that can be looked at while it runs: started before it, closed after it. Its parts say what is to be seen."""

    OPTION: str
    """Where an operator says the place, for the sentence if it cannot be had."""
    metrics: Counted

    def __init__(self, place: tuple[str, int], log: Log) -> None:
        self._place = place
        self._log = log
        self._monitor: Monitor | None = None

    @abstractmethod
    def health(self) -> Health:
        """The judgement of this moment."""

    def start(self) -> None:
        """Listen. Raises `InvalidSettings` if the place cannot be had."""
        host, port = self._place
        try:
            self._monitor = Monitor(
                host, port, metrics=self.metrics.text, media_type=MEDIA_TYPE, health=self.health
            )
        except OSError as error:
            raise InvalidSettings(
                f"{self.OPTION} is {host}:{port}, and nobody can listen there: {cause_of(error)}"
            ) from error
        self._log("monitoring", url=self._monitor.url)

    def close(self) -> None:
        """Stop listening."""
        if self._monitor is not None:
            self._monitor.close()
            self._monitor = None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # an idle scraper must not hold up the end of the program

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up in the middle is nobody's trouble."""


def _told(health: Health) -> tuple[int, str, bytes]:
    body = {"ok": health.ok, "silent_s": health.silent_s, "why": list(health.why)}
    return 200 if health.ok else 503, "application/json", json.dumps(body).encode() + b"\n"


def _handler(pages: dict[str, Callable[[], tuple[int, str, bytes]]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = PATIENCE_S
        server_version = "reference-sender"
        sys_version = ""

        def do_GET(self) -> None:
            page = pages.get(self.path.partition("?")[0])
            if page is None:
                status, media_type, body = 404, "text/plain", b"there are /metrics and /health\n"
            else:
                status, media_type, body = page()
            self.send_response(status)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            """Being asked is no news."""

    return Handler
