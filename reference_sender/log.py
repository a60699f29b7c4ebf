"""One structured line per decision, for machines and people.

Facts only: ids, states, codes. No addresses, no bodies, no text that a provider wrote (it repeats addresses).
What is said of an error of ours goes through `cause_of`.
"""

from __future__ import annotations

import json
import re
from typing import Protocol, TextIO

from reference_sender.clock import Clock


class Log(Protocol):
    """Takes what happened and the facts that belong to it."""

    def __call__(self, event: str, /, **facts: object) -> None: ...


_ADDRESS = re.compile(r"[^\s<>\"'(),;=]+@[^\s<>\"'(),;]+")
_CAUSE_CHARS = 200


def cause_of(error: BaseException) -> str:
    """What went wrong at the root, in one line without addresses.

    Only the first line: in the lines below it, databases show the rows and statements they choked on.
    """
    root = error
    # SQLAlchemy keeps the driver's error in `orig`; everybody else names the cause.
    while (inner := getattr(root, "orig", None) or root.__cause__) is not None and inner is not root:
        root = inner
    lines = str(root).strip().splitlines()
    return _ADDRESS.sub("<address>", lines[0])[:_CAUSE_CHARS] if lines else type(root).__name__


def name_of(key: str) -> str:
    """An event key without addresses: a business may make its keys of them, and so does a campaign without other ones."""
    return _ADDRESS.sub("<address>", key) if "@" in key else key


def quiet(event: str, /, **facts: object) -> None:
    """A log that says nothing."""


class Both:
    """Tells everybody who wants to know, in this order."""

    def __init__(self, *logs: Log) -> None:
        self._logs = logs

    def __call__(self, event: str, /, **facts: object) -> None:
        for log in self._logs:
            log(event, **facts)


class JsonLog:
    """Writes each event as one JSON object on one line."""

    def __init__(self, stream: TextIO, clock: Clock) -> None:
        self._stream = stream
        self._clock = clock

    def __call__(self, event: str, /, **facts: object) -> None:
        told = {name: value for name, value in facts.items() if value is not None}
        line = json.dumps({"at": self._clock.now().isoformat(), "event": event} | told, default=str)
        try:
            self._stream.write(line + "\n")
            self._stream.flush()
        except OSError:
            # The disk is full, or nobody reads any more: mail goes on, and there is nobody to tell.
            return
