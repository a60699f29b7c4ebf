"""Which provider a mail goes to: rules by class, sender and recipient's domain, each with providers in order.

The first provider of the first rule that fits is the mail's own; the others stand in while it is shut. A mail in doubt
has no choice any more: only the provider that may have taken it recognises its key, and only there can it be looked up.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One rule. What is empty fits everything."""

    to: tuple[str, ...]
    classes: tuple[str, ...] = ()
    senders: tuple[str, ...] = ()  # addresses, or `@example.org` for all of a domain; in lower case
    domains: tuple[str, ...] = ()  # of recipients; in lower case

    def fits(self, *, mail_class: str, sender: str, recipient: str) -> bool:
        """Whether the rule is about this mail."""
        return (
            (not self.classes or mail_class in self.classes)
            and (not self.senders or any(_is_of(sender.lower(), each) for each in self.senders))
            and (not self.domains or domain_of(recipient) in self.domains)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one provider takes just now: the rules in order, each with whether it is the one for it."""

    provider: str
    first: bool  # the first provider: mails of which nobody knows where they were are its own
    rules: tuple[tuple[Route, bool], ...] = ()
    rest: bool = True  # whether it takes what no rule is about

    def takes(
        self, *, mail_class: str, sender: str, recipient: str, provider: str | None, doubted: bool
    ) -> bool:
        """Whether this mail goes to this provider now. `provider`: where its last attempt went."""
        if doubted:
            return provider == self.provider or (provider is None and self.first)
        for route, mine in self.rules:
            if route.fits(mail_class=mail_class, sender=sender, recipient=recipient):
                return mine
        return self.rest


@dataclass(frozen=True, slots=True, kw_only=True)
class Mine:
    """Which doubts a provider's reconciler looks after."""

    provider: str
    providers: tuple[str, ...]  # all of them, in their order

    @property
    def first(self) -> bool:
        """Whether it is the first provider: doubts of which nobody knows where they were are its own."""
        return self.provider == self.providers[0]

    def is_mine(self, provider: str | None) -> bool:
        """Whether this provider is to be asked about a mail that was last at `provider`."""
        return provider == self.provider or (provider is None and self.first)

    def is_nobodys(self, provider: str | None) -> bool:
        """Whether a mail was last at a provider that is not configured any more: only a person can settle it."""
        return provider is not None and provider not in self.providers


def share(
    provider: str, providers: tuple[str, ...], routes: tuple[Route, ...], shut: Collection[str]
) -> Share:
    """What this provider takes while these are shut. What no rule is about goes to the providers in their order."""
    return Share(
        provider=provider,
        first=provider == providers[0],
        rules=tuple((route, _stands(route.to, shut) == provider) for route in routes),
        rest=_stands(providers[:1], shut) == provider,
    )


def _stands(to: tuple[str, ...], shut: Collection[str]) -> str:
    """The first that is not shut; if all are, the first: it is the one that will be asked when it may be well again."""
    return next((each for each in to if each not in shut), to[0])


def domain_of(address: str) -> str:
    """The domain of an address, in lower case."""
    return address.rpartition("@")[2].lower()


def _is_of(address: str, pattern: str) -> bool:
    return address.endswith(pattern) if pattern.startswith("@") else address == pattern
