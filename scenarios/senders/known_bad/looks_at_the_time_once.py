"""Sin: the end of a mail is looked at when it is taken in hand, and not again.

What ends while it waits is not sent. What ends while the provider takes its time before it wants to see it, is.
"""

from __future__ import annotations

import sys

from scenarios.senders.tiny import Row, run
from scenarios.senders.tiny_gate import GatedSender


class LooksOnce(GatedSender):
    def still_wanted(self, row: Row) -> bool:
        return True


if __name__ == "__main__":
    sys.exit(run(LooksOnce, sys.argv[1:]))
