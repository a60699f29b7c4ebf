"""Plans that outlive the process: what was set over the control API is in force again after a restart.

A plan is remembered as it is written. Whoever starts with other plans than the last time (`serve --plan`) means those:
then what was set before is forgotten.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from datetime import datetime
from functools import lru_cache

from simulator.config import PlanError, read_plan
from simulator.config.written import setup_as_json
from simulator.provider.account import DEFAULT_ACCOUNT, Setup
from simulator.provider.notes import Noted
from simulator.provider.provider import Provider
from simulator.provider.tenancy import Tenancy

#: Under which topics plans are remembered, see `simulator.provider.notes`.
TOPIC = "plan"
BASE = "plan of serve"

_log = logging.getLogger("simulator.plans")


def remember(provider: Provider, name: str, now: datetime) -> None:
    """Remember the plan in force of an account, and since when each of its rules stands."""
    account = provider.account(name, now)
    setup = dataclasses.replace(account.setup, plan=account.plan.plan)
    facts = {
        "plan": setup_as_json(setup),
        "planted_at": [each.isoformat() for each in account.plan.planted()],
        "since": None if account.set_up_at is None else account.set_up_at.isoformat(),
    }
    provider.remember([_note(name, TOPIC, json.dumps(facts))])


def recall(provider: Provider, base: Setup, tenancy: Tenancy, now: datetime) -> list[str]:
    """Put the remembered plans in force; return the names of the accounts that have one."""
    digest = _digest((base, *(it.setup for _, it in tenancy.tenants)))
    former = provider.account(DEFAULT_ACCOUNT, now).aftermath.notes.get(BASE, "")
    if former != digest:
        provider.remember([_note(DEFAULT_ACCOUNT, BASE, digest)])
    found = []
    for name, account in list(provider.accounts.items()):
        facts = account.aftermath.notes.get(TOPIC, "")
        if facts is None:
            continue
        if former not in (None, digest):
            provider.remember([_note(name, TOPIC, None)])
            continue
        try:
            known = json.loads(facts)
            setup = read_plan(known["plan"], f"the plan of {name}")
            planted_at = [datetime.fromisoformat(each) for each in known["planted_at"]]
            # Not there in what a former version wrote.
            since = (
                account.clock.now(now) if not known.get("since") else datetime.fromisoformat(known["since"])
            )
        except (PlanError, ValueError, KeyError, TypeError) as problem:
            # Written by another version, whose words are not ours: better said than guessed.
            _log.warning("the plan that was set for account %r before is not understood: %s", name, problem)
            continue
        provider.take_up_setup(name, setup, since, now)
        account.plan.replant(planted_at)
        found.append(name)
    return found


@lru_cache(maxsize=256)
def _digest(setups: tuple[Setup, ...]) -> str:
    # Without the seed, which may be another one each time.
    written = [setup_as_json(each) | {"seed": 0} for each in setups]
    return hashlib.sha256(json.dumps(written, sort_keys=True, default=str).encode()).hexdigest()


def _note(account: str, topic: str, facts: str | None) -> Noted:
    return Noted(account=account, topic=topic, name="", facts=facts)
