"""Who searches: several processes, each with the sender in its memory and areas handed to it one after the other.

Nothing here knows what an area is about.
"""

from __future__ import annotations

import gc
import multiprocessing
import signal
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import islice
from pathlib import Path

from scenarios.simulation.byteless.cell import Shelves
from scenarios.simulation.byteless.search import Area, Searched, search
from scenarios.simulation.byteless.sender import Sender, of
from scenarios.simulation.cast import cast
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.senders import Disk

#: So many areas wait for each process, so that none is ever idle; more would only be searched for nothing at the end.
WAITING = 3


class Searcher:
    """One process's senders, by profile: whatever is shared between worlds is shared between areas, too."""

    def __init__(self, sender: str, *, every: bool = False) -> None:
        self._sender = sender
        self._every = every
        self._made: dict[str, tuple[Sender, Shelves]] = {}

    def search(self, area: Area) -> Searched:
        """Search an area. Raises `CastError` or `OnlyOnTheWire`."""
        if area.profile not in self._made:
            # Nothing is ever written there: at this level there is no disk.
            sender = of(cast(self._sender, Disk(Path("nowhere")), BY_ID[area.profile]))
            self._made[area.profile] = sender, Shelves()
        sender, shelves = self._made[area.profile]
        return search(area, sender, every=self._every, shelves=shelves)


_here: Searcher | None = None


def _begin(sender: str, every: bool) -> None:
    global _here
    # Whoever began this ends it, also when both are told to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.collect()
    gc.freeze()
    _here = Searcher(sender, every=every)


def _work(area: Area) -> Searched:
    assert _here is not None
    return _here.search(area)


def run(
    todo: Iterable[Area],
    *,
    jobs: int,
    sender: str,
    every: bool = False,
    each: Callable[[Searched], None],
    enough: Callable[[], bool] = lambda: False,
) -> None:
    """Search areas in `jobs` processes (1: in this one) until there are none left, or it is `enough`.

    `each` is told of every area, in the order in which they are done. Raises `CastError` or `OnlyOnTheWire`.
    """
    left = iter(todo)
    if jobs == 1:
        searcher = Searcher(sender, every=every)
        for area in left:
            if enough():
                return
            each(searcher.search(area))
        return
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=(sender, every)) as pool:
        waiting: set[Future[Searched]] = set()
        try:
            while not enough():
                with warnings.catch_warnings():
                    # Python warns of forking beside threads; the children use nothing that a thread of ours may hold.
                    warnings.simplefilter("ignore", DeprecationWarning)
                    waiting |= {
                        pool.submit(_work, area) for area in islice(left, WAITING * jobs - len(waiting))
                    }
                if not waiting:
                    return
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    each(future.result())
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
