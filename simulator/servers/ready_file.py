"""The ready file: whoever has started a simulator reads there where it listens, once everything is up."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simulator.servers.options import ServeError

#: Names of what this process has open already, by the stream. Where that is redirected to a file the name looks like one,
#: which nobody may put another in the place of.
_STREAMS = {
    "-": "stdout",
    **dict.fromkeys(("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"), "stdout"),
    **dict.fromkeys(("/dev/stderr", "/dev/fd/2", "/proc/self/fd/2"), "stderr"),
}


def write(path: Path, facts: Mapping[str, Any]) -> None:
    """Write it; `-` is the standard output, as `/dev/stdout` is. Raises `ServeError`."""
    content = json.dumps(facts) + "\n"
    if str(path) in _STREAMS:
        stream = getattr(sys, _STREAMS[str(path)])
        try:
            stream.write(content)
            stream.flush()
        except OSError as problem:
            raise ServeError(f"--ready-file {path} cannot be written: {problem.strerror}") from problem
        return
    draft = path.parent / f".{path.name}.{os.getpid()}"
    try:
        if _is_no_file(path):
            path.write_text(content, encoding="utf-8")
            return
        # Whoever waits for the file must never read half of it: written beside, then renamed.
        draft.write_text(content, encoding="utf-8")
        draft.replace(path)
    except OSError as problem:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise ServeError(f"--ready-file {path} cannot be written: {problem.strerror}") from problem


def remove(path: Path, facts: Mapping[str, Any]) -> None:
    """Take our ready file away, not the one that a successor has put in its place; a stream keeps what it has."""
    if str(path) in _STREAMS:
        return
    try:
        if _is_no_file(path):
            return
        if json.loads(path.read_text(encoding="utf-8")) == facts:
            path.unlink()
    except (OSError, ValueError):
        pass  # Somebody else took it away: that is what we wanted.


def _is_no_file(path: Path) -> bool:
    """Tell whether there is a pipe or a device: it is written to, not replaced."""
    return path.exists() and not path.is_file() and not path.is_dir()
