"""Sin: urgent mail goes first, and has no place of its own.

While newsletters are slow and fill every place, the first in line waits like everybody else.
"""

from __future__ import annotations

import sys

from scenarios.senders.tiny import run
from scenarios.senders.tiny_gate import GatedSender


class CodesStandInLine(GatedSender):
    reserves = False


if __name__ == "__main__":
    sys.exit(run(CodesStandInLine, sys.argv[1:]))
