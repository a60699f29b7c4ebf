"""After a start: which keys former processes took mail with, so that nobody asks the ledger in vain for a new one.

A ledger of a million mails has as many keys. They are read behind everybody's back; until they are known, each key that
comes is looked up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from simulator.provider.provider import Provider
from simulator.provider.seen import Seen
from simulator.store import Store, StoreError

#: So many keys are read at once: the others wait for Python's lock no longer than for a mail or two.
AT_ONCE = 500

_log = logging.getLogger("simulator.store")


async def recall_keys(provider: Provider, store: Store, is_over: Callable[[], bool]) -> None:
    """Tell each account's ledger the keys of its former mails. Ends early when `is_over`."""
    for name, account in list(provider.accounts.items()):
        if account.ledger.has_former:
            seen, last = Seen(), ""
            try:
                while not is_over() and (found := await asyncio.to_thread(_read, store, name, last, seen)):
                    last = found
            except StoreError as problem:
                _log.warning("%s; keys are looked up one by one", problem)
                return
            if not is_over():
                account.ledger.remember(seen)


def _read(store: Store, account: str, after: str, seen: Seen) -> str | None:
    """Read some keys; return the last one, None if there is none."""
    keys = store.keys(account, after, AT_ONCE)
    seen.update(keys)
    return keys[-1] if keys else None
