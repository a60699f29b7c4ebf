"""A receiver of webhooks on a real socket: keeps what it got, answers what it is told to."""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: How long a test waits for a webhook that must come, in seconds.
PATIENCE_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Got:
    """One request."""

    path: str
    headers: Mapping[str, str]
    """By name in lower case."""
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


@dataclass(slots=True)
class Answer:
    """What the receiver says to a request."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    before: Callable[[], object] = lambda: None
    """Called before it is said; may wait."""


class Receiver:
    """A server in threads of the test process. `answers` are said in their order, the last one for ever."""

    def __init__(self) -> None:
        self.got: list[Got] = []
        self.answers: list[Answer] = [Answer()]
        self._changed = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                answer = receiver._take(Got(path=self.path, headers=headers, body=body))
                answer.before()
                with contextlib.suppress(ConnectionError):
                    self.send_response(answer.status)
                    for name, value in answer.headers.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(answer.body)))
                    self.end_headers()
                    self.wfile.write(answer.body)

            def log_message(self, format: str, *args: Any) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, name="receiver"
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/hooks"

    def wrap(self, context: ssl.SSLContext) -> None:
        """Speak TLS from the next connection on."""
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )

    def wait(self, count: int) -> list[Got]:
        """Return what has come, as soon as that is `count` requests."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.got) >= count, PATIENCE_S), (
                f"only {len(self.got)} of {count} webhooks came"
            )
            return list(self.got)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(PATIENCE_S)

    def _take(self, got: Got) -> Answer:
        with self._changed:
            self.got.append(got)
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            self._changed.notify_all()
        return answer


@contextlib.contextmanager
def receiving(*answers: Answer) -> Iterator[Receiver]:
    """Run a receiver for the time of a `with` block."""
    receiver = Receiver()
    if answers:
        receiver.answers = list(answers)
    receiver.start()
    try:
        yield receiver
    finally:
        receiver.stop()
