"""Who has an account here, and what becomes of those who have none."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from simulator.provider.account import Setup

#: So many accounts are made for senders that nobody announced; those after them belong to the default account.
MOST_ACCOUNTS = 10_000
MAX_NAME_CHARS = 200


class Unknown(StrEnum):
    """What becomes of a sender whose credential belongs to no account."""

    DEFAULT = "default"
    """It belongs to the default account, like everybody without a credential."""
    NEW = "new"
    """An account of this name is made for it."""
    REFUSE = "refuse"
    """It is refused, and so is everybody without a credential."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """An account that was announced."""

    setup: Setup = Setup()
    credentials: tuple[str, ...] = ()
    """API keys and SMTP users that belong to it, besides its name."""
    password: str | None = None
    """What SMTP senders have to give; None: anything will do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenancy:
    """Every account that was announced."""

    tenants: tuple[tuple[str, Tenant], ...] = ()
    unknown: Unknown = Unknown.DEFAULT


def is_name(name: str) -> bool:
    """Tell whether an account can be called so."""
    return 0 < len(name) <= MAX_NAME_CHARS and name.isprintable()
