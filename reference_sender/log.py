"""One structured line per decision, for machines and people.

Facts only: ids, states, codes. No addresses, no bodies, no text that a provider wrote (it repeats addresses).
"""

from __future__ import annotations

import json
from typing import Protocol, TextIO

from reference_sender.clock import Clock


class Log(Protocol):
    """Takes what happened and the facts that belong to it."""

    def __call__(self, event: str, /, **facts: object) -> None: ...


def quiet(event: str, /, **facts: object) -> None:
    """A log that says nothing."""


class JsonLog:
    """Writes each event as one JSON object on one line."""

    def __init__(self, stream: TextIO, clock: Clock) -> None:
        self._stream = stream
        self._clock = clock

    def __call__(self, event: str, /, **facts: object) -> None:
        told = {name: value for name, value in facts.items() if value is not None}
        line = json.dumps({"at": self._clock.now().isoformat(), "event": event} | told, default=str)
        self._stream.write(line + "\n")
        self._stream.flush()
