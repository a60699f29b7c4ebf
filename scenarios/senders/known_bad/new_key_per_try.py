"""Sin: every attempt carries a new idempotency key, so the provider cannot know that it is the same mail.

Every lost answer and every crash after acceptance becomes a second mail over HTTP, and the attempts of one
mail are not recognisable as such. Over SMTP the sin has no effect.
"""

from __future__ import annotations

import sys

from scenarios.senders.tiny import Row, TinySender, run


class NewKeyPerTry(TinySender):
    def key_of(self, row: Row) -> str:
        return f"{super().key_of(row)}/{row.attempts}"


if __name__ == "__main__":
    sys.exit(run(NewKeyPerTry, sys.argv[1:]))
