"""Sin: the mail is read, sent, and only then marked; nothing says that somebody has it in hand.

Killed between the provider's yes and the mark it sends again, and two workers send the same mails. An
answer that is merely lost is still handled well: that is told to the worker, which lives and parks the mail.
"""

from __future__ import annotations

import sys

from scenarios.clock import now
from scenarios.senders.tiny import Row, TinySender, run


class CommitAfterSend(TinySender):
    def claim(self) -> Row | None:
        return self.due(now().timestamp())

    def mark_doubt(self, row: Row, doubt: bool) -> None:
        """There is one transaction, and it comes after the send."""


if __name__ == "__main__":
    sys.exit(run(CommitAfterSend, sys.argv[1:]))
