"""What each fault cannot do without, as fields and as keys of a plan: the tests of several rooms need one of each."""

from __future__ import annotations

from typing import Any

from simulator.provider.dress import Listing, Shape
from simulator.provider.fate import Fate
from simulator.provider.faults import FAULTS, Fault

NEEDED: dict[str, dict[str, Any]] = {
    "cut_body": {"after_bytes": 100},
    "tarpit": {"delay_s": 1},
    "reply": {"code": 451},
    "slow": {"delay_s": 1},
    "fate": {"fate": Fate.OPENED},
    "webhook_late": {"delay_s": 60},
    "lookup_stale": {"age_s": 5},
    "odd_body": {"shape": Shape.NO_ID},
    "odd_results": {"listing": Listing.FEWER},
}


def sample(name: str) -> Fault:
    """Return the fault of this name with as little said as it allows."""
    fault: Fault = FAULTS[name](**NEEDED.get(name, {}))
    return fault
