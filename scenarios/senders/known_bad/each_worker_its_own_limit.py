"""Sin: each worker keeps the whole limit by itself, so two of them hand over twice as many.

The provider counts per account: it answers 429, and in the end blocks the account. One worker alone shows nothing.
"""

from __future__ import annotations

import sys

from scenarios.senders.tiny import run
from scenarios.senders.tiny_gate import GatedSender


class EachItsOwnLimit(GatedSender):
    def __init__(self, main: GatedSender | None = None) -> None:
        self.own: dict[str, float] = {}
        super().__init__(main)

    def known(self, name: str) -> float:
        return self.own.get(name, 0.0) if name in ("spent", "tokens_at") else super().known(name)

    def know(self, name: str, value: float) -> None:
        if name in ("spent", "tokens_at"):
            self.own[name] = value
        else:
            super().know(name, value)


if __name__ == "__main__":
    sys.exit(run(EachItsOwnLimit, sys.argv[1:]))
