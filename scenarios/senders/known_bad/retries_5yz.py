"""Sin: a refusal for good is treated like one for now.

Recipients that do not exist and content that is not wanted are tried for ever: that is how a sender's
reputation is lost.
"""

from __future__ import annotations

import sys

from scenarios.senders.tiny import Outcome, TinySender, run


class Retries5yz(TinySender):
    def read_smtp(self, code: int) -> Outcome:
        outcome = super().read_smtp(code)
        return Outcome(kind="later") if outcome.kind == "refused" else outcome


if __name__ == "__main__":
    sys.exit(run(Retries5yz, sys.argv[1:]))
