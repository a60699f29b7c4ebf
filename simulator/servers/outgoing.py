"""Everything that goes out of the provider by itself: built, begun and ended together.

`serve` holds one of these; it hands over what changes, and asks before a `webhook_early` answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence

from simulator.clock import Clock
from simulator.provider.acceptance import Acceptance
from simulator.provider.provider import Provider, Setup
from simulator.provider.webhooks import Reach, TargetError, WebhookRules, check_target
from simulator.servers.alarms import Alarms
from simulator.servers.couriers import Couriers
from simulator.servers.messenger import Messenger
from simulator.servers.returns import Returns, check_returns
from simulator.servers.webhooks import Webhooks
from simulator.store.committer import Committer


class OutgoingError(ValueError):
    """Nothing can go out like this. The message is one sentence that says what would be right."""


def check_targets(usual: WebhookRules, setups: Sequence[Setup], reach: Reach) -> None:
    """Raise `OutgoingError` if events would go where they may not."""
    try:
        for rules in (usual, *(setup.webhooks for setup in setups)):
            if rules.url is not None:
                check_target(rules.url, reach)
        for setup in setups:
            check_returns(setup.returns, reach)
    except TargetError as problem:
        raise OutgoingError(str(problem)) from problem


class Outgoing:
    """The ways out of one service."""

    def __init__(
        self,
        provider: Provider,
        committer: Committer,
        clock: Clock,
        alarms: Alarms,
        moved: Callable[[], None],
        body: Callable[[Acceptance], Awaitable[bytes | None]],
        *,
        usual: WebhookRules = WebhookRules(),
        reach: Reach = Reach.LOOPBACK,
    ) -> None:
        """`body` gives the bytes of an accepted mail."""
        self._messenger = Messenger(clock, reach)
        self.couriers = Couriers(provider, committer, clock, alarms, moved)
        self.webhooks = Webhooks(provider, self._messenger, clock, usual)
        self.returns = Returns(clock, reach, body)

    def open(self) -> None:
        """Mind what happens from here on. Call it before the first mail can come."""
        self.couriers.open(self.webhooks, self.returns)

    def begin(self) -> None:
        """Let it go out. Call it when everything is up: whoever is told something may ask us at once."""
        self.couriers.begin()

    async def close(self) -> None:
        """End; what is under way is made again by the next process."""
        await self.couriers.close()
        await self._messenger.close()

    async def tell(self, account: str, attempts: Collection[str]) -> None:
        """Tell an account's webhook what has happened to these attempts' mails; return when that was tried once."""
        self.couriers.stir()
        courier = self.couriers.of(account, self.webhooks.name)
        if courier is not None:
            await courier.told(
                lambda notice: notice.event.mail is not None and notice.event.mail.attempt in attempts
            )
