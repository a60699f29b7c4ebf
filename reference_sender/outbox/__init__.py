"""The outbox: mail as rows in the application's own database.

`enqueue` is all that business code needs; `Store` is what the worker and the reconciler use.
Must not hold: protocols of any provider, decisions about outcomes.
"""

from __future__ import annotations

from reference_sender.outbox.store import Enqueued, Store, enqueue

__all__ = ["Enqueued", "Store", "enqueue"]
