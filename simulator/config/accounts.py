"""Whole configurations: a plan for everybody, accounts with plans of their own, and whom nobody knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from simulator.config.forms import read_choice, read_text
from simulator.config.place import Place, refuse_unknown, shown
from simulator.config.plan import PLAN_KEYS, WHOLE_PROVIDER, read_setup
from simulator.config.retention import read_retention
from simulator.config.shipped import load_named
from simulator.provider.account import DEFAULT_ACCOUNT, Setup
from simulator.provider.retention import FOR_EVER, Retention
from simulator.provider.tenancy import MAX_NAME_CHARS, Tenancy, Tenant, Unknown, is_name

ACCOUNT_KEYS = ("credentials", "password")
ACCESS_KEYS = ("unknown",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What a provider begins with."""

    setup: Setup = Setup()
    tenancy: Tenancy = Tenancy()
    retention: Retention = FOR_EVER

    def seeded(self, seed: int) -> Configuration:
        """Return it with the seed of a run, also for those accounts that did not choose one of their own."""
        tenants = tuple(
            (name, replace(it, setup=_seeded(it.setup, seed)))
            if it.setup.plan.seed == self.setup.plan.seed
            else (name, it)
            for name, it in self.tenancy.tenants
        )
        return replace(self, setup=_seeded(self.setup, seed), tenancy=replace(self.tenancy, tenants=tenants))


def _seeded(setup: Setup, seed: int) -> Setup:
    return replace(setup, plan=replace(setup.plan, seed=seed))


def read_configuration_file(plan: str | Path) -> Configuration:
    """Read a configuration from a TOML file (JSON if it is named so), or a plan by its name. Raise `PlanError`."""
    data, source = load_named(plan)
    return read_configuration(data, source)


def read_configuration(data: Mapping[str, Any], source: str) -> Configuration:
    """Read a plan that may also have `[accounts.NAME]`, `[access]` and `[retention]`. Raise `PlanError`."""
    place = Place(source)
    if not isinstance(data, Mapping):
        raise place.wrong(f"a plan is an object with the keys {', '.join(PLAN_KEYS)}, not {shown(data)}")
    plan = {key: value for key, value in data.items() if key not in WHOLE_PROVIDER}
    setup = read_setup(plan, place, known=WHOLE_PROVIDER)
    return Configuration(
        setup=setup,
        tenancy=Tenancy(
            tenants=_read_accounts(data.get("accounts", {}), setup, place),
            unknown=_read_access(data.get("access", {}), place.at("[access]")),
        ),
        retention=read_retention(data.get("retention", {}), place.at("[retention]")),
    )


def _read_access(data: object, place: Place) -> Unknown:
    if not isinstance(data, Mapping):
        raise place.wrong(f"this must be a table of settings, not {shown(data)}")
    refuse_unknown(place, data, ACCESS_KEYS)
    given = data.get("unknown", Unknown.DEFAULT.value)
    return Unknown(read_choice(place, "unknown", given, [each.value for each in Unknown]))


def _read_accounts(data: object, everybody: Setup, source: Place) -> tuple[tuple[str, Tenant], ...]:
    if not isinstance(data, Mapping):
        raise source.at("[accounts]").wrong(
            f"this must be a table of accounts ([accounts.NAME]), not {shown(data)}"
        )
    owners: dict[str, str] = {name: name for name in data}
    found: list[tuple[str, Tenant]] = []
    for name, keys in data.items():
        place = source.inside(f"[accounts.{name}]")
        if not is_name(name):
            raise place.wrong(f"an account name has 1 to {MAX_NAME_CHARS} printable characters")
        if not isinstance(keys, Mapping):
            raise place.wrong(f"this must be a table of settings, not {shown(keys)}")
        tenant = _read_account(keys, everybody, place)
        for credential in tenant.credentials:
            if owners.setdefault(credential, name) != name:
                raise place.wrong(
                    f"the credential {shown(credential)} belongs to {shown(owners[credential])} already"
                )
        found.append((name, tenant))
    return tuple(found)


def _read_account(data: Mapping[str, Any], everybody: Setup, place: Place) -> Tenant:
    given = data.get("credentials", [])
    if not isinstance(given, list) or not all(isinstance(each, str) and is_name(each) for each in given):
        raise place.wrong(f'"credentials" is {shown(given)}; it must be a list of API keys and SMTP users')
    if DEFAULT_ACCOUNT in given:
        raise place.wrong(
            f'"{DEFAULT_ACCOUNT}" is the account of everybody without a credential and cannot be one'
        )
    password = data.get("password")
    plan = {key: value for key, value in data.items() if key not in ACCOUNT_KEYS}
    return Tenant(
        setup=read_setup(plan, place, known=ACCOUNT_KEYS, base=everybody),
        credentials=tuple(given),
        password=None if password is None else read_text(place, "password", password),
    )
