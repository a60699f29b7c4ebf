"""Sin: the mail is marked as accepted when it is taken in hand, before it was sent.

Killed before the provider took it, the mail is lost, and called sent. As long as the worker lives to store
the outcome, nothing shows.
"""

from __future__ import annotations

import sys

from scenarios.senders.tiny import TinySender, run


class MarksBeforeSending(TinySender):
    def state_in_hand(self) -> str:
        return "accepted"


if __name__ == "__main__":
    sys.exit(run(MarksBeforeSending, sys.argv[1:]))
