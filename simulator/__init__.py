"""A fake e-mail provider over SMTP and HTTP that lies on purpose and remembers what it really accepted.

`simulator.provider` decides (pure), `simulator.dialects` words it (pure), `simulator.servers` carries it out.
Tests use `simulator.start`, see `simulator.testing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulator.testing import MailProvider as MailProvider
    from simulator.testing import start as start

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # Only whoever asks for them pays for them: the command line's --help must not wait for an HTTP client.
    if name in ("start", "MailProvider"):
        from simulator import testing

        return getattr(testing, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
