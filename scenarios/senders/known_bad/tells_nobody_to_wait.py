"""Sin: a Retry-After is kept for the mail that met it, and everybody else goes on.

The mail that was refused comes back in time, so nothing shows as long as there is only one.
"""

from __future__ import annotations

import sys

from scenarios.senders.tiny import run
from scenarios.senders.tiny_gate import GatedSender


class TellsNobodyToWait(GatedSender):
    def everybody_waits(self, until: float) -> None:
        """Its own mail waits; that is all."""


if __name__ == "__main__":
    sys.exit(run(TellsNobodyToWait, sys.argv[1:]))
