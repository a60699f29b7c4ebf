"""Sin: however often the provider answers nobody, each mail is tried again by its own pause.

Each mail backs off nicely, and a thousand of them are a flood all the same.
"""

from __future__ import annotations

import sys

from scenarios.senders.tiny import run
from scenarios.senders.tiny_gate import GatedSender


class PressesOn(GatedSender):
    def is_ill(self, at: float) -> None:
        """Nobody counts."""


if __name__ == "__main__":
    sys.exit(run(PressesOn, sys.argv[1:]))
