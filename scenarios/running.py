"""One process of a sender or of the provider: what it says, and how it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from scenarios.process_groups import GROUPS, RUN, descendants, kill_marked, kill_process

#: How much of a process's output is kept in its file; the end is always kept in memory.
OUTPUT_LIMIT_BYTES = 1_000_000
#: The longest line that is understood; the rest of a longer one is left out.
LINE_LIMIT_BYTES = 16_000_000
#: Characters of a line that are kept to be shown.
LINE_SHOWN = 2000
_PIECE_BYTES = 65_536


class Output:
    """What a process says: kept in a file of bounded size, its end in memory; lines can be waited for.

    `awaited`: a text that is looked for in everything that is said, however much that is. `answers`: whole lines
    are wanted, by `next_line`; else only their beginnings are kept.
    """

    def __init__(
        self, stream: IO[bytes], file: Path, *, awaited: str | None = None, answers: bool = False
    ) -> None:
        self._lines: deque[str] = deque(maxlen=500)
        self._answers = answers
        self._unread: deque[str] = deque(maxlen=10_000)
        self._awaited = awaited.encode() if awaited is not None else None
        self._said_it = awaited == ""
        self._changed = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._pump, args=(stream, file), daemon=True)
        self._thread.start()

    def _pump(self, stream: IO[bytes], file: Path) -> None:
        left = OUTPUT_LIMIT_BYTES
        try:
            with stream, file.open("ab") as kept:
                line, seen = bytearray(), b""
                longest = LINE_LIMIT_BYTES if self._answers else 4 * LINE_SHOWN
                while piece := os.read(stream.fileno(), _PIECE_BYTES):
                    kept.write(piece[:left])
                    kept.flush()
                    left = max(0, left - len(piece))
                    if self._awaited and not self._said_it:
                        seen += piece
                        self._said_it = self._awaited in seen
                        seen = seen[-len(self._awaited) :]
                    rest, *more = piece.split(b"\n")
                    line += rest[: longest - len(line)]
                    for part in more:
                        self._add(line)
                        line = bytearray(part[:longest])
                if line:
                    self._add(line)
        except (OSError, ValueError):
            pass  # The pipe broke or the work directory is gone: there is nothing more to keep.
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _add(self, raw: bytearray) -> None:
        line = raw.decode("utf-8", "replace").rstrip("\r")
        with self._changed:
            self._lines.append(line[:LINE_SHOWN])
            if self._answers:
                self._unread.append(line)
            self._changed.notify_all()

    def tail(self, count: int = 5) -> str:
        """Return the last lines, for an error sentence."""
        with self._changed:
            lines = [line for line in self._lines if line.strip()][-count:]
        return " / ".join(line.strip()[:300] for line in lines)

    @property
    def said_it(self) -> bool:
        """True once the text that is awaited was said."""
        return self._said_it

    def next_line(self, timeout_s: float) -> str | None:
        """Return the next line nobody read yet; None if there is none in time or the process is silent for good."""
        with self._changed:
            self._changed.wait_for(lambda: self._unread or self._ended, timeout_s)
            return self._unread.popleft() if self._unread else None

    def end(self) -> None:
        """Wait a moment for what is still in the pipe."""
        self._thread.join(timeout=1.0)


@dataclass(slots=True, kw_only=True)
class Running:
    """One process of the sender, leader of its own group."""

    what: str
    process: subprocess.Popen[bytes]
    out: Output
    err: Output
    mark: str = ""
    """Value of `RUN` in the environment of everything it starts; empty: what leaves its group may live on."""

    def __post_init__(self) -> None:
        self._note(True)

    def kill(self) -> None:
        """SIGKILL to the whole group, and to what left it: no handler, no `finally`, no goodbye."""
        below = descendants(self.process.pid) if self.mark else []
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # All of them are gone already.
        for each in below:
            kill_process(each)
        self.process.wait()
        if self.mark:
            kill_marked(RUN, self.mark)
        self._note(False)
        if self.process.stdin is not None:
            try:
                self.process.stdin.close()
            except OSError:
                pass  # Half a line was still to be written to a dead process.
        self.out.end()
        self.err.end()

    def _note(self, alive: bool) -> None:
        notes = os.environ.get(GROUPS)
        if notes is None:
            return
        note = Path(notes) / str(self.process.pid)
        try:
            note.touch() if alive else note.unlink(missing_ok=True)
        except OSError:
            pass  # Whoever wanted the notes has cleared up already.

    def last_words(self) -> str:
        """Return what it said last, for an error sentence."""
        self.err.end() if self.process.poll() is not None else None
        words = self.err.tail() or self.out.tail()
        return f"; its last lines: {words}" if words else "; it said nothing"
