"""The outbox as the worker, the reconciler and the command line use it, put together from its parts.

Plain synchronous SQLAlchemy Core; an asyncio caller goes through `asyncio.to_thread`. Each method is one
transaction, and each write of an attempt is fenced by the row's token.
Must not hold: queries (they are with their noun), decisions about what an answer means.
"""

from __future__ import annotations

from reference_sender.outbox.accesses import Accesses
from reference_sender.outbox.campaigns import Campaigns
from reference_sender.outbox.claims import Claims
from reference_sender.outbox.depths import Depths
from reference_sender.outbox.doubts import Doubts
from reference_sender.outbox.enqueueing import Enqueued, enqueue, rows_of
from reference_sender.outbox.erasing import Erasing
from reference_sender.outbox.events import Events
from reference_sender.outbox.histories import Histories
from reference_sender.outbox.named import Named
from reference_sender.outbox.purging import Purging
from reference_sender.outbox.reading import Reading, Standing, Tally
from reference_sender.outbox.requeue import Requeueing
from reference_sender.outbox.resealing import Resealing
from reference_sender.outbox.settling import Settling
from reference_sender.outbox.suppression import Suppressions
from reference_sender.outbox.tables import Tables

__all__ = ["Enqueued", "Standing", "Store", "Tally", "enqueue", "rows_of"]


class Store(
    Tables,
    Claims,
    Settling,
    Doubts,
    Requeueing,
    Reading,
    Depths,
    Histories,
    Accesses,
    Purging,
    Named,
    Erasing,
    Resealing,
    Suppressions,
    Events,
    Campaigns,
):
    """An outbox in a database."""
