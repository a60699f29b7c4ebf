"""The provider's suppression list: addresses it takes mail for and sends none to, because they bounced or complained.

Every real provider keeps one per account. A hard bounce or a complaint puts the address there when it happens; the
next mail to it is accepted like any other and then `suppressed`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

#: Where the list is remembered, see `simulator.provider.notes`.
TOPIC = "suppression"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppression:
    """One entry. `since` may lie ahead: a bounce that is decided already, and that nobody has heard of yet."""

    address: str
    reason: str
    since: datetime

    def facts(self) -> str:
        return json.dumps({"reason": self.reason, "since": self.since.isoformat()})


def suppression_from(address: str, facts: str) -> Suppression:
    """Read an entry that `facts` wrote."""
    data = json.loads(facts)
    return Suppression(address=address, reason=data["reason"], since=datetime.fromisoformat(data["since"]))


@dataclass(slots=True)
class Suppressions:
    """The list of one account. Addresses are the same whatever their case."""

    _entries: dict[str, Suppression] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Tell whether anybody is on it."""
        return bool(self._entries)

    def add(self, entry: Suppression) -> bool:
        """Enter an address. False: it is there already, from this moment or an earlier one."""
        name = entry.address.lower()
        known = self._entries.get(name)
        if known is not None and known.since <= entry.since:
            return False
        self._entries[name] = entry
        return True

    def lift(self, address: str) -> bool:
        """Take an address off the list. False: it was not there."""
        return self._entries.pop(address.lower(), None) is not None

    def reason(self, address: str, now: datetime) -> str | None:
        """Return why mail to this address is suppressed at `now`; None: it is not."""
        if not self._entries:
            return None
        entry = self._entries.get(address.lower())
        return entry.reason if entry is not None and entry.since <= now else None

    def addresses(self) -> list[str]:
        """Return all addresses, those among them whose moment is still to come."""
        return sorted(self._entries)

    def at(self, now: datetime) -> Iterator[Suppression]:
        """Yield the entries in force at `now`, in the order of their addresses."""
        for _, entry in sorted(self._entries.items()):
            if entry.since <= now:
                yield entry
