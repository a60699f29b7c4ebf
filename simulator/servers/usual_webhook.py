"""The webhook of accounts for which no plan has one: what `simulator serve` was asked for, and its secret.

A secret that was not given must not change with each start, or every receiver would have to be told anew: it is kept with
the ledger, as a note of the account `default`.
"""

from __future__ import annotations

import dataclasses
from enum import StrEnum

from simulator.provider.account import DEFAULT_ACCOUNT
from simulator.provider.notes import Noted
from simulator.provider.provider import Provider
from simulator.provider.signing import Scheme, SecretError, read_secret, secret_of
from simulator.provider.webhooks import WebhookRules
from simulator.servers.outgoing import OutgoingError

#: Where the secret is remembered, see `simulator.provider.notes`.
TOPIC = "webhook secret of serve"


class Origin(StrEnum):
    """Where the secret comes from, in words for people."""

    GIVEN = "of --webhook-secret"
    KEPT = "kept with the ledger"
    SEED = "of this seed; a ledger that is kept keeps it, or --webhook-secret"


class UsualWebhook:
    """The webhook that `serve` was asked for. Raises `OutgoingError` for a secret that is none."""

    def __init__(self, url: str | None, secret: str | None, seed: int) -> None:
        """`secret` None: one is made, which follows from the seed."""
        self.origin = Origin.SEED if secret is None else Origin.GIVEN
        secret = secret_of(seed) if secret is None else secret
        try:
            read_secret(secret, Scheme.STANDARD)
        except SecretError as problem:
            raise OutgoingError(f"--webhook-secret: {problem}") from problem
        self.rules = WebhookRules(url=url, secrets=(secret,))

    def take_up(self, provider: Provider) -> None:
        """The ledger is kept and has been read: go on with its secret, or let it keep ours.

        One that was given wins, and is not kept: whoever gives it keeps it.
        """
        if self.rules.url is None or self.origin is Origin.GIVEN:
            return
        kept = _kept(provider)
        if kept is not None:
            self.rules = dataclasses.replace(self.rules, secrets=(kept,))
        self.origin = Origin.KEPT
        self.stay(provider)

    def stay(self, provider: Provider) -> None:
        """See to it that the secret is kept: the account that holds it may have been reset."""
        (secret,) = self.rules.secrets
        if self.origin is Origin.KEPT and _kept(provider) != secret:
            provider.remember([Noted(account=DEFAULT_ACCOUNT, topic=TOPIC, name="", facts=secret)])


def _kept(provider: Provider) -> str | None:
    return provider.accounts[DEFAULT_ACCOUNT].aftermath.notes.get(TOPIC, "")
