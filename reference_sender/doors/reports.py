"""What the doors for mail do with a mail: read it as a report, keep it, and say whether it is kept.

Must not hold: how a mail came (`lmtp`, `maildir`), how a report is read (`events.reports`).
"""

from __future__ import annotations

from reference_sender.clock import Clock
from reference_sender.doors import Keeper
from reference_sender.events.reports import items_in
from reference_sender.log import Log, cause_of, quiet

SOURCE = "mail"


class Letterbox:
    """Takes reports, as bytes. Synchronous: a caller in a loop goes through `asyncio.to_thread`."""

    def __init__(
        self,
        *,
        keeper: Keeper,
        clock: Clock,
        log: Log = quiet,
    ) -> None:
        self._keeper = keeper
        self._clock = clock
        self._log = log

    def put(self, raw: bytes) -> bool:
        """Keep what a mail reports. False: it is not kept, whoever brought it must bring it again."""
        now = self._clock.now()
        items = [(each.event_id, each.raw) for each in items_in(raw, now=now)]
        try:
            new = self._keeper.receive(items, source=SOURCE, now=now)
        except Exception as error:
            self._log("report_not_kept", error=type(error).__name__, cause=cause_of(error))
            return False
        self._log("report", events=len(items), new=new)
        return True
