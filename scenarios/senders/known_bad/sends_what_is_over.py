"""Sin: the end of a mail is written down and never looked at.

A login code that waited through an outage is delivered when nobody can use it any more.
"""

from __future__ import annotations

import sys

from scenarios.senders.tiny import Row, run
from scenarios.senders.tiny_gate import GatedSender


class SendsWhatIsOver(GatedSender):
    def end_overdue(self, at: float) -> None:
        """Nobody looks."""

    def still_wanted(self, row: Row) -> bool:
        return True


if __name__ == "__main__":
    sys.exit(run(SendsWhatIsOver, sys.argv[1:]))
