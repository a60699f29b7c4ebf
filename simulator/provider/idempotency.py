"""Idempotency keys as a provider keeps them (draft-ietf-httpapi-idempotency-key-header-07, section 2).

A key is *in flight* from the request's acceptance check until its end, then *done* with the acceptance
it led to, until its window has passed. A provider that does not honour keys never looks here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from simulator.provider.answer import Reason
from simulator.provider.ledger import Acceptance


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRules:
    """How this provider treats keys."""

    honoured: bool = True
    required: bool = False
    window_s: float = 86_400.0
    """How long a key is remembered after its first use, in seconds."""
    lookup_lag_s: float = 0.0
    """How long after an acceptance a look-up by id, key or Message-ID does not show it yet, in seconds."""


@dataclass(frozen=True, slots=True)
class Fresh:
    """The key is new (or forgotten): go on."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The key is done with the same content: give the first answer again."""

    acceptance: Acceptance


@dataclass(frozen=True, slots=True)
class Conflict:
    """The key cannot be used for this request."""

    reason: Reason
    detail: str


@dataclass(slots=True)
class Keys:
    """The keys of one account."""

    _done: dict[str, Acceptance] = field(default_factory=dict)
    _in_flight: dict[str, tuple[str, str]] = field(default_factory=dict)

    def look_up(
        self, key: str, fingerprint: str, attempt: str, rules: KeyRules, now: datetime
    ) -> Fresh | Replay | Conflict:
        """Say what a request of `attempt` with this key is. Section 2.6 of the draft: 409 in flight, 422 reused."""
        done = self._done.get(key)
        if done is not None and now >= done.accepted_at + timedelta(seconds=rules.window_s):
            done = None  # Kept all the same: a longer window set later must find it, as after a restart.
        if done is not None:
            if done.fingerprint != fingerprint:
                return Conflict(
                    Reason.KEY_REUSED, "this idempotency key was used before with another request body"
                )
            return Replay(done)
        flight = self._in_flight.get(key)
        if flight is not None and flight[0] != attempt:
            return Conflict(
                Reason.KEY_IN_FLIGHT, "a request with this idempotency key is still being processed"
            )
        return Fresh()

    def begin(self, key: str, fingerprint: str, attempt: str) -> None:
        """Mark a key as in flight for this attempt."""
        self._in_flight.setdefault(key, (attempt, fingerprint))

    def finish(self, key: str, acceptance: Acceptance) -> None:
        """Bind a key to the acceptance it led to."""
        self._in_flight.pop(key, None)
        self._done[key] = acceptance

    def release(self, attempt: str) -> None:
        """Forget what this attempt had in flight: it ended without an acceptance."""
        for key in [key for key, (owner, _) in self._in_flight.items() if owner == attempt]:
            del self._in_flight[key]
