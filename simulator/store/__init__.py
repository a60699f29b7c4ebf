"""Where the ledger is kept: in memory, or in a SQLite file that survives `kill -9` of the simulator."""

from __future__ import annotations
