"""SMTP options: where the server is, how the line to it is protected, and how long it is waited for.

Must not hold: anything that connects.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from enum import StrEnum


class Tls(StrEnum):
    """How the line is protected."""

    AUTO = "auto"  # none to this machine itself, implicit on port 465, STARTTLS required everywhere else
    OFF = "off"
    STARTTLS = "starttls"
    IMPLICIT = "implicit"


@dataclass(frozen=True, slots=True, kw_only=True)
class SmtpOptions:
    """Where the server is and how to talk to it."""

    host: str
    port: int
    user: str | None = None
    password: str | None = None
    tls: Tls = Tls.AUTO
    connect_timeout_s: float = 30.0
    read_timeout_s: float = 600.0
    total_timeout_s: float = 660.0
    idle_s: float = 5.0
    """How long a connection is kept that no mail needs."""

    @property
    def tls_now(self) -> Tls:
        """The choice with AUTO resolved."""
        if self.tls is not Tls.AUTO:
            return self.tls
        if self.port == 465:
            return Tls.IMPLICIT
        return Tls.OFF if _is_loopback(self.host) else Tls.STARTTLS


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
