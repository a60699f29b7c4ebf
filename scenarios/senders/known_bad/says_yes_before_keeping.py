"""Sin: a webhook is acknowledged when it is read, and written down a moment later.

The 2xx ends the telling for ever. As long as nobody dies nothing is missing for long; killed in that moment, the intake
has lost what it said yes to, and addresses that bounce are written to for ever.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence

from scenarios.senders.tiny import TinySender, run

LATER_S = 1.2


class SaysYesBeforeKeeping(TinySender):
    def keep(self, rows: Sequence[tuple[str, str, str]]) -> None:
        threading.Timer(LATER_S, write, [rows]).start()


def write(rows: Sequence[tuple[str, str, str]]) -> None:
    """Keep them after all, by a connection of its own: SQLite's belong to a thread."""
    TinySender().keep(rows)


if __name__ == "__main__":
    sys.exit(run(SaysYesBeforeKeeping, sys.argv[1:]))
