"""The process around a service: it lives until a signal, or until whoever started it is gone.

What is set here is so for the whole process; `Service` itself leaves that alone.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable

from simulator.clock import SystemClock
from simulator.servers.descriptors import raise_limit
from simulator.servers.options import Options, ServeError
from simulator.servers.service import Service

#: How long the thread that moves the ledger's log may keep the loop waiting for Python's lock, in seconds.
SWITCH_S = 0.0005
#: When rubbish is looked for (`gc.set_threshold`). Hardly any mail leaves a cycle behind, and the window of the newest
#: mails lives long: Python's 700 objects had a twentieth of all time spent on looking at it.
RUBBISH = (10_000, 10, 50)


async def _serve(options: Options, started: Callable[[Service], None]) -> None:
    service = Service(options, SystemClock())
    enough = asyncio.Event()
    loop = asyncio.get_running_loop()
    # Before anything is up: a stop that comes while we start must not leave a ready file behind.
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, enough.set)
    if options.until_eof:
        _at_eof(loop, enough.set)
    await service.start()
    try:
        started(service)
        await enough.wait()
    finally:
        await service.stop()


def _at_eof(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    """Call `stop` when the standard input ends. Raises `ServeError`."""
    source = sys.stdin.fileno() if sys.stdin is not None else -1

    def look() -> None:
        try:
            if os.read(source, 65_536):
                return
        except BlockingIOError:
            return
        except OSError:
            pass  # Nobody can be there any more.
        loop.remove_reader(source)
        stop()

    try:
        loop.add_reader(source, look)
    except (OSError, ValueError) as problem:
        # A file is always at its end or never, so the kernel will not wait for it.
        raise ServeError("--until-eof needs a pipe or a terminal as standard input") from problem


def serve(options: Options, started: Callable[[Service], None] = lambda service: None) -> None:
    """Serve until SIGTERM or SIGINT. `started` is called when everything is up. Raises `ServeError`."""
    # Each connection is a descriptor, and a shell's usual limit is a thousand.
    raise_limit()
    sys.setswitchinterval(SWITCH_S)
    gc.set_threshold(*RUBBISH)
    try:
        # The extra `speed`: the same, in half the time.
        import uvloop
    except ImportError:
        asyncio.run(_serve(options, started))
    else:
        uvloop.run(_serve(options, started))
