"""Sin: every attempt gets a new Message-ID, so nobody can tell that copies are copies.

With at-most-once no second copy is made, so nothing but the identity of the attempts shows it; for a sender
that sends again it would be the end of every reader's own deduplication.
"""

from __future__ import annotations

import sys

from scenarios.senders.tiny import Row, TinySender, run


class NewMessageIdPerTry(TinySender):
    def bytes_of(self, row: Row) -> bytes:
        return (
            super().bytes_of(row).replace(b"@shop.example.org>", b".%d@shop.example.org>" % row.attempts, 1)
        )


if __name__ == "__main__":
    sys.exit(run(NewMessageIdPerTry, sys.argv[1:]))
