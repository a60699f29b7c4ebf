"""Sin: no answer in time is taken for a refusal.

The provider took the mail, the person gets it, and the business is told that it failed. Lines that are cut
off are still handled well: only silence is misread.
"""

from __future__ import annotations

import sys

from scenarios.senders.tiny import Outcome, TinySender, run


class TimeoutIsFailure(TinySender):
    def on_timeout(self) -> Outcome:
        return Outcome(kind="refused")


if __name__ == "__main__":
    sys.exit(run(TimeoutIsFailure, sys.argv[1:]))
