"""The door for reports in a Maildir: a mail server delivers into `new`, and what is kept moves to `cur`.

A mail moves only after it is kept. Killed in between, the next one reads it again, and the same report is the same
event. What cannot be kept now stays in `new`.
Must not hold: what a report says.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from reference_sender.clock import Clock
from reference_sender.doors.reports import Letterbox
from reference_sender.log import Log, cause_of, quiet

#: Larger ones are no reports that anybody should read whole.
MOST_BYTES = 33_554_432


class NoMaildir(Exception):
    """The folder is none; one sentence."""


class Maildir:
    """Looks into a Maildir now and then. Raises `NoMaildir` if it is none."""

    def __init__(
        self, folder: Path, letterbox: Letterbox, *, clock: Clock, poll_s: float = 1.0, log: Log = quiet
    ) -> None:
        self._new, self._cur = folder / "new", folder / "cur"
        if not (self._new.is_dir() and self._cur.is_dir()):
            raise NoMaildir(f"{str(folder)!r} is no Maildir; it must have the folders new and cur")
        self._letterbox = letterbox
        self._clock = clock
        self._poll_s = poll_s
        self._log = log

    async def run(self, stop: asyncio.Event) -> None:
        """Take in what comes, until `stop`."""
        stopping = asyncio.ensure_future(stop.wait())
        try:
            while not stop.is_set():
                try:
                    await asyncio.to_thread(self.take_in)
                except OSError as error:
                    # The folder is away: what comes meanwhile waits where it comes from, and so do we.
                    self._log("maildir_failed", error=type(error).__name__, cause=cause_of(error))
                pause: asyncio.Future[Any] = asyncio.ensure_future(self._clock.sleep(self._poll_s))
                await asyncio.wait({pause, stopping}, return_when=asyncio.FIRST_COMPLETED)
                pause.cancel()
        finally:
            stopping.cancel()

    def take_in(self) -> int:
        """One look; how many mails were taken in."""
        taken = 0
        for path in sorted(self._new.iterdir()):
            if path.name.startswith(".") or not path.is_file():
                continue
            try:
                if path.stat().st_size > MOST_BYTES:
                    self._log("report_too_large", file=path.name)
                elif not self._letterbox.put(path.read_bytes()):
                    return taken
                path.rename(self._cur / f"{path.name}:2,S")
                taken += 1
            except Exception as error:
                # Somebody else took it, or it may not be read, or nobody can make sense of it: the others do not wait.
                self._log("report_unreadable", file=path.name, cause=cause_of(error))
        return taken
