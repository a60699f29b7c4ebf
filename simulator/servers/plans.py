"""Plans that outlive the process: what was set over the control API is in force again after a restart, and rules go on counting.

A plan is remembered as it is written. Whoever starts with other plans than the last time (`serve --plan`) means those:
then what was set and counted before is forgotten.
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
from simulator.provider import counts
from simulator.provider.account import DEFAULT_ACCOUNT, Account, Setup
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
        is_other = former not in (None, digest)
        if _recall_plan(provider, name, account, now, is_other=is_other):
            found.append(name)
        _recall_counts(provider, name, account, is_other=is_other)
    return found


def used_up(provider: Provider, now: datetime) -> dict[str, int]:
    """Return how many rules of each account will not strike any more; accounts without such rules are left out."""
    over = {
        name: sum(each.over for each in account.plan.tally(account.clock.now(now)))
        for name, account in provider.accounts.items()
    }
    return {name: count for name, count in over.items() if count}


def _recall_plan(provider: Provider, name: str, account: Account, now: datetime, *, is_other: bool) -> bool:
    """Put the remembered plan of an account in force, if it has one. `is_other`: not with this start."""
    facts = account.aftermath.notes.get(TOPIC, "")
    if facts is None:
        return False
    if is_other:
        provider.remember([_note(name, TOPIC, None)])
        return False
    try:
        known = json.loads(facts)
        setup = read_plan(known["plan"], f"the plan of {name}")
        planted_at = [datetime.fromisoformat(each) for each in known["planted_at"]]
        # Not there in what a former version wrote.
        since = account.clock.now(now) if not known.get("since") else datetime.fromisoformat(known["since"])
    except (PlanError, ValueError, KeyError, TypeError) as problem:
        # Written by another version, whose words are not ours: better said than guessed.
        _log.warning("the plan that was set for account %r before is not understood: %s", name, problem)
        return False
    provider.take_up_setup(name, setup, since, now)
    account.plan.replant(planted_at)
    return True


def _recall_counts(provider: Provider, name: str, account: Account, *, is_other: bool) -> None:
    """Let the rules of an account count on from where they were."""
    notes = account.aftermath.notes
    known = notes.all(counts.TOPIC)
    # From here on the rules know, and nobody else need.
    notes.forget(counts.TOPIC)
    if not is_other:
        try:
            account.recall_counts(known)
        except (ValueError, TypeError) as problem:
            _log.warning("what the rules of account %r counted before is not understood: %s", name, problem)
    stale = set(known) - (set() if is_other else set(account.leave_counts()))
    provider.remember(
        [Noted(account=name, topic=counts.TOPIC, name=each, facts=None) for each in sorted(stale)]
    )


@lru_cache(maxsize=256)
def _digest(setups: tuple[Setup, ...]) -> str:
    # Without the seed, which may be another one each time.
    written = [setup_as_json(each) | {"seed": 0} for each in setups]
    return hashlib.sha256(json.dumps(written, sort_keys=True, default=str).encode()).hexdigest()


def _note(account: str, topic: str, facts: str | None) -> Noted:
    return Noted(account=account, topic=topic, name="", facts=facts)
