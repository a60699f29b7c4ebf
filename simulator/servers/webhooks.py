"""The channel of webhooks: which events an account wants told, to whom, and the signed request that tells them.

Settings come from the control API (`PUT webhook`), else from the plan's table `[webhooks]`; where that says nothing of
the URL or the secret, `serve` does.
"""

from __future__ import annotations

import dataclasses
import json

from simulator.clock import Clock
from simulator.provider import signing
from simulator.provider.deliveries import Batching, Delivery, Schedule, Try
from simulator.provider.events import Event
from simulator.provider.notes import Noted
from simulator.provider.notices import Notice, body, signed
from simulator.provider.provider import Account, Provider, Setup
from simulator.provider.signing import Scheme
from simulator.provider.webhooks import Reach, WebhookRules, check_target
from simulator.servers.courier import Terms
from simulator.servers.messenger import Messenger

#: Where what was set by hand is remembered, see `simulator.provider.notes`.
TOPIC = "webhook.rules"


class Webhooks:
    """The webhooks of all accounts. `usual`: of those for whom neither plan nor hand says where to."""

    name = "webhook"

    def __init__(
        self, provider: Provider, messenger: Messenger, clock: Clock, usual: WebhookRules = WebhookRules()
    ) -> None:
        self._provider = provider
        self._messenger = messenger
        self._clock = clock
        self._usual = usual
        self._read: dict[str, WebhookRules] = {}

    @property
    def reach(self) -> Reach:
        """How far webhooks may go."""
        return self._messenger.reach

    # --- settings -----------------------------------------------------------------------------------

    def rules(self, account: Account) -> WebhookRules:
        """Return the settings in force."""
        facts = account.aftermath.notes.get(TOPIC, "")
        if facts is not None:
            rules = self._read.get(facts)
            if rules is None:
                rules = self._read[facts] = rules_from(facts)
            return rules
        planned = account.setup.webhooks
        if self._usual.url is None:
            return planned
        return dataclasses.replace(
            planned,
            url=planned.url or self._usual.url,
            # An account's own secret wins, wherever its events are told.
            secrets=planned.secrets or self._usual.secrets,
        )

    def check(self, setup: Setup) -> None:
        """Raise `TargetError` if a plan wants events told where they may not go."""
        if setup.webhooks.url is not None:
            check_target(setup.webhooks.url, self.reach)

    def set(self, account: Account, rules: WebhookRules | None) -> None:
        """Set them by hand; None: what plan and `serve` say counts again."""
        facts = None if rules is None else rules_as_facts(rules)
        self._provider.remember([Noted(account=account.name, topic=TOPIC, name="", facts=facts)])

    def terms(self, account: Account) -> Terms | None:
        rules = self.rules(account)
        if rules.url is None:
            return None
        return Terms(
            target=rules.url,
            schedule=Schedule(
                delays_s=rules.schedule_s,
                jitter=rules.jitter,
                give_up_on=rules.give_up_on,
                seed=account.plan.plan.seed,
            ),
            batching=Batching(size=rules.batch, wait_s=rules.batch_wait_s),
            connections=rules.connections,
            disable_after_s=rules.disable_after_s,
        )

    # --- telling ------------------------------------------------------------------------------------

    def notices(self, event: Event, account: Account) -> list[Notice]:
        if not self.rules(account).wants(event.type):
            return []
        return self._provider.tell(event, self._clock.now())

    async def send(self, delivery: Delivery, account: Account) -> Try:
        rules, number = self.rules(account), len(delivery.tries) + 1
        at, began = account.clock.now(self._clock.now()), self._clock.monotonic()
        if rules.url is None:
            return Try(at=at, took_s=0.0, error="nobody is to be told any more")
        content = body(delivery.notices, batched=rules.batch is not None, number=number)
        headers = signed(
            delivery.notices,
            scheme=rules.scheme if rules.secrets else Scheme.NONE,
            keys=[signing.read_secret(secret, rules.scheme) for secret in rules.secrets],
            webhook_id=delivery.webhook_id,
            # Receivers compare it with their own clock, which nobody has moved.
            now=self._clock.now(),
            content=content,
            number=number,
        )
        flaws = delivery.flaws
        heard = await self._messenger.post(
            rules.url,
            content,
            dict(rules.headers) | headers,
            timeout_s=rules.timeout_s,
            verify_tls=rules.verify_tls,
        )
        return Try(
            at=at,
            took_s=round(self._clock.monotonic() - began, 6),
            status=heard.status,
            error=heard.error,
            flaws=flaws,
            retry_after_s=heard.retry_after_s,
            answer=heard.answer,
        )


def rules_as_facts(rules: WebhookRules) -> str:
    """Write settings down. Secrets stand in the ledger as they stand in a plan."""
    return json.dumps(dataclasses.asdict(rules))


def rules_from(facts: str) -> WebhookRules:
    """Read settings that `rules_as_facts` wrote."""
    read = json.loads(facts)
    for name in ("secrets", "events", "schedule_s", "give_up_on"):
        read[name] = tuple(read[name])
    read["headers"] = tuple((name, value) for name, value in read["headers"])
    return WebhookRules(**read | {"scheme": Scheme(read["scheme"])})
