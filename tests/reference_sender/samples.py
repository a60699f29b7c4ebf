"""Sample values for the tests of the sender: a mail, a docket, settings – and a clock that a test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from reference_sender.life import Docket, Parcel, State
from reference_sender.message import Mail
from reference_sender.policy.settings import Policy, Settings

NOW = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)

MAIL = Mail(
    sender="Shop <shop@example.org>",
    recipients=("ann@example.com",),
    subject="Your order",
    text="Thank you.\n",
)


def docket(**changes: Any) -> Docket:
    """A row in its first attempt, unless told otherwise."""
    return replace(
        Docket(
            id=1,
            token=1,
            state=State.SENDING,
            key="order-1",
            idempotency_key="order-1.v1.aa",
            message_id="<aa.v1@example.org>",
            sender="shop@example.org",
            recipient="ann@example.com",
            attempts=1,
            tries=1,
            queued_at=NOW,
            first_attempt_at=NOW,
            lease_until=NOW + timedelta(seconds=120),
            expires_at=None,
            doubted_at=None,
            if_not_sent=None,
            provider_id=None,
            last_error=None,
            last_code=None,
        ),
        **changes,
    )


def parcel(raw: bytes = b"Subject: x\r\n\r\nhello\r\n", **changes: Any) -> Parcel:
    """The same with bytes."""
    facts = docket(**changes)
    return Parcel(**{name: getattr(facts, name) for name in Docket.__dataclass_fields__}, raw=raw)


def settings(policy: Policy = Policy.RESEND_SAME_KEY, **changes: Any) -> Settings:
    """Production settings with this policy."""
    return Settings(**({"policy": policy} | changes))


class ManualClock:
    """A clock that stands still until a test moves it; sleepers wake when their time has come."""

    def __init__(self, now: datetime = NOW) -> None:
        self._start = now
        self._passed_s = 0.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._passed_s)

    def monotonic(self) -> float:
        return self._passed_s

    async def sleep(self, seconds: float) -> None:
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._passed_s + seconds, sleeper))
        await sleeper

    def alarm(self, seconds: float, call: Callable[[], object]) -> asyncio.Task[None]:
        async def wait() -> None:
            await self.sleep(seconds)
            call()

        return asyncio.ensure_future(wait())

    def advance(self, seconds: float) -> None:
        """Let time pass and wake who waited for it."""
        self._passed_s += seconds
        for due_s, sleeper in self._sleepers:
            if due_s <= self._passed_s and not sleeper.done():
                sleeper.set_result(None)
        self._sleepers = [(due_s, s) for due_s, s in self._sleepers if not s.done()]
