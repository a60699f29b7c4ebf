"""Who plays the blocks of the matrix: several processes, each with a disk of its own.

Nothing here knows what a block is about; the blocks are independent of each other.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import tempfile
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from scenarios.simulation.cast import REFERENCE, cast
from scenarios.simulation.matrix import Block
from scenarios.simulation.played import Played
from scenarios.simulation.playing import Library, play_block
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.senders import Disk, WorldSender, quick_disk
from scenarios.simulation.world import silence

_folder: Path | None = None


_quiet = contextlib.ExitStack()


def _begin_work(folder: str, sender: str, every: bool) -> None:
    global _folder, _sender, _every
    _sender, _every = sender, every
    # Whoever began this ends it, also when both are told to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # For the whole life of this process.
    _quiet.enter_context(silence())
    # Whatever is loaded by now stays; the garbage collector need not look at it again and again. It is called between
    # worlds (`playing.tidied`), and never comes by itself.
    gc.disable()
    gc.collect()
    gc.freeze()
    _folder = Path(folder) / str(os.getpid())
    _folder.mkdir()


def _work(block: Block) -> Played:
    assert _folder is not None
    folder = _folder / block.profile
    folder.mkdir(exist_ok=True)
    disk = _disks.setdefault(block.profile, Disk(folder))
    if block.profile not in _senders:
        _senders[block.profile] = cast(_sender, disk, BY_ID[block.profile])
    return play_block(block, _senders[block.profile], disk, every=_every, library=_library)


_disks: dict[str, Disk] = {}
_senders: dict[str, WorldSender] = {}
_library = Library()
_sender = REFERENCE
_every = False


def run(
    todo: Sequence[Block],
    *,
    jobs: int,
    each: Callable[[Played], None] = lambda played: None,
    sender: str = REFERENCE,
    every: bool = False,
) -> list[Played]:
    """Play blocks in `jobs` processes; `each` is called for every block that is done.

    `sender`: its name in the cast. `every`: play each crash point, also where several are one.
    """
    done: list[Played] = []
    context = multiprocessing.get_context("fork")
    others = set(multiprocessing.active_children())
    with (
        tempfile.TemporaryDirectory(
            prefix="mailproof-", dir=quick_disk(), ignore_cleanup_errors=True
        ) as folder,
        ProcessPoolExecutor(
            jobs, mp_context=context, initializer=_begin_work, initargs=(folder, sender, every)
        ) as pool,
    ):
        with warnings.catch_warnings():
            # Python warns of forking beside threads; the children use nothing that a thread of ours may hold.
            warnings.simplefilter("ignore", DeprecationWarning)
            waiting = [pool.submit(_work, block) for block in todo]
        try:
            for future in as_completed(waiting):
                done.append(future.result())
                each(done[-1])
        except BaseException:
            # The pool sees them die and waits for them as it ends: of two who wait for a child, one is told nothing.
            for child in set(multiprocessing.active_children()) - others:
                child.terminate()
            raise
    return done
