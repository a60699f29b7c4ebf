"""Who has an account here, and what becomes of those who have none."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from simulator.provider.account import DEFAULT_ACCOUNT, Setup
from simulator.provider.answer import Reason, Refused

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


class Tenants:
    """Who is who: the accounts that were announced, and what becomes of everybody else."""

    def __init__(self, tenancy: Tenancy) -> None:
        self._unknown = tenancy.unknown
        self._tenants = dict(tenancy.tenants)
        self._owner = {credential: name for name, it in tenancy.tenants for credential in it.credentials}

    @property
    def names(self) -> tuple[str, ...]:
        """Return the accounts that were announced."""
        return tuple(self._tenants)

    def setup_of(self, name: str) -> Setup | None:
        """Return how an account was announced; None: it was not."""
        tenant = self._tenants.get(name)
        return None if tenant is None else tenant.setup

    def account_of(self, credential: str | None, accounts: Collection[str]) -> str:
        """Return the account behind a credential; `accounts` are those that there are."""
        if credential is None:
            return DEFAULT_ACCOUNT
        name = self._owner.get(credential, credential)
        if name in accounts:
            return name
        if self._unknown is Unknown.NEW and is_name(name) and len(accounts) < MOST_ACCOUNTS:
            return name
        return DEFAULT_ACCOUNT

    def turned_away(
        self, credential: str | None, secret: str | None, accounts: Collection[str]
    ) -> Refused | None:
        """Say why whoever comes with this credential is not let in; None: it is. `secret` None: none was asked for."""
        name = self.account_of(credential, accounts)
        if self._unknown is Unknown.REFUSE and name == DEFAULT_ACCOUNT:
            if credential is None:
                return Refused(reason=Reason.CREDENTIAL_MISSING, detail="authentication is required")
            return Refused(reason=Reason.CREDENTIAL_UNKNOWN, detail="these credentials are not known here")
        tenant = self._tenants.get(name)
        if secret is not None and tenant is not None and tenant.password not in (None, secret):
            return Refused(reason=Reason.CREDENTIAL_UNKNOWN, detail="these credentials are not known here")
        return None
