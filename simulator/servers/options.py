"""What `simulator serve` is asked for: where to listen, where to keep the ledger, what goes wrong from the start."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from simulator.provider.account import Setup
from simulator.provider.retention import FOR_EVER, Retention
from simulator.provider.tenancy import Tenancy
from simulator.provider.webhooks import Reach
from simulator.servers.tls import TlsOptions
from simulator.store import Durability


class ServeError(Exception):
    """The service cannot start. The message is one sentence that says what would be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where to listen. Port 0: any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def read_address(text: str, option: str) -> Address:
    """Read `HOST:PORT`, `[IPV6]:PORT`, `:PORT` or `PORT`. Raises `ServeError`."""
    if "://" in text:
        raise ServeError(f"{option} is {text!r}; it must be HOST:PORT without a scheme, like 127.0.0.1:8025")
    host, colon, port = text.strip().rpartition(":")
    if not colon:
        host = ""
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ServeError(f"{option} is {text!r}; an IPv6 address needs brackets, like [::1]:8025")
    if not (port.isascii() and port.isdecimal() and int(port) <= 65_535):
        raise ServeError(f"{option} is {text!r}; it must be HOST:PORT with a port from 0 to 65535")
    # "localhost" is two addresses on many machines, and port 0 would then be two ports.
    return Address(host="127.0.0.1" if host in ("", "localhost") else host, port=int(port))


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What `simulator serve` was asked for."""

    http: Address = Address(host="127.0.0.1", port=8025)
    smtp: Address = Address(host="127.0.0.1", port=1025)
    https: Address | None = None
    """Where senders are served over HTTP under TLS; None: nowhere."""
    smtps: Address | None = None
    """Where SMTP listens under TLS from the first byte on; None: nowhere."""
    tls: TlsOptions = TlsOptions()
    ledger: str = "memory"
    """`memory`, the path of a SQLite file, or the URL of a PostgreSQL database."""
    durability: Durability = Durability.PROCESS
    retention: Retention = FOR_EVER
    setup: Setup = Setup()
    tenancy: Tenancy = Tenancy()
    seed: int = 0
    admin_token: str | None = None
    webhook_url: str | None = None
    """Where events are told if no plan says it."""
    webhook_secret: str | None = None
    """None: the one that the ledger has kept, else one that follows from the seed."""
    webhook_hosts: Reach = Reach.LOOPBACK
    ready_file: Path | None = None
    """`-`: the standard output."""
    until_eof: bool = False
    """Whether the end of the standard input means stop."""
