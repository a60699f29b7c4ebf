"""The options of the gate in front of a provider: breaker, rates, what may be under way, who goes first.

Every limit is an option, and its help says the default. Must not hold: what the numbers do (`policy.gate`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from reference_sender.option import Option
from reference_sender.policy.breaker import BreakerRules
from reference_sender.policy.bucket import Rate
from reference_sender.policy.domains import ANY
from reference_sender.policy.gate import GateRules
from reference_sender.policy.pace import PaceRules
from reference_sender.policy.routes import Route
from reference_sender.policy.settings import MOST, InvalidSettings, Settings


def _number(name: str, text: str, default: float | None) -> Option:
    return Option(name=name, envvar=f"OUTBOX_{name.upper()}", help=text, kind=float, default=default)


def _count(name: str, text: str, default: int | None) -> Option:
    return Option(name=name, envvar=f"OUTBOX_{name.upper()}", help=text, kind=int, default=default)


GATE_OPTIONS: tuple[Option, ...] = (
    Option(
        name="provider",
        envvar="OUTBOX_PROVIDER",
        help="What the provider is called in the outbox; mails in doubt stay with that name.",
        default="main",
    ),
    _count("breaker_failures", "Failures in a row that open the breaker; 0: there is none.", 5),
    _number("breaker_rate", "Or this share of failures among the attempts within the window.", 0.5),
    _count("breaker_least", "… if there are at least so many attempts in it.", 20),
    _number("breaker_window_s", "How far the window of the share reaches back.", 60.0),
    _number("breaker_pause_s", "The first pause of an open breaker; each in a row is twice as long.", 5.0),
    _number("breaker_pause_cap_s", "The longest pause of an open breaker.", 300.0),
    _count("breaker_probes", "Mails that probe at a time after a pause, and must go well to close it.", 1),
    _number(
        "throttle_pause_s", "The first pause when the provider calls us too fast and names no time.", 1.0
    ),
    _number("throttle_cap_s", "The longest pause for being too fast.", 300.0),
    _number("rate_per_s", "Mails a second to this provider, of all workers together [no limit].", None),
    _count("rate_burst", "So many may go at once.", 10),
    Option(
        name="account",
        envvar="OUTBOX_ACCOUNT",
        help="The account at the provider, where several providers of ours share one and its rate.",
    ),
    _number("account_rate_per_s", "Mails a second of the account [no limit].", None),
    _count("account_rate_burst", "So many may go at once.", 10),
    _number("rate_reserve", "Share of each burst that is kept for urgent mail.", 0.2),
    _count("most_in_flight", "Mails under way at this provider, of all workers together [no limit].", None),
    Option(
        name="domain_in_flight",
        envvar="OUTBOX_DOMAIN_IN_FLIGHT",
        help="Mails under way to a recipient domain, of all workers: 'slow.example=2, *=20' [no limit].",
    ),
    _count("reserved_slots", "Of the concurrency, for urgent mail only [an eighth of it].", None),
    _count("urgent_from", "Mail of this priority or higher is urgent: codes and alarms, as shipped.", 50),
    _count(
        "patient_to", "Mail of this priority or lower waits after an outage: newsletters, as shipped.", -100
    ),
    _number("patient_s", "… until the provider has been well for so long.", 60.0),
    _number("fallback_from_s", "Others stand in for a provider that wants a longer pause than that.", 60.0),
    _number(
        "latency_tolerance",
        "Fewer mails are under way when the p95 of answers is so many times what is usual; 0: never.",
        2.0,
    ),
    _number("latency_floor_s", "… and more than this.", 0.5),
)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,40}\Z")
_COUNTS = ("breaker_least", "breaker_probes", "rate_burst", "account_rate_burst", "most_in_flight")
_ABOVE_ZERO = (
    *("breaker_window_s", "breaker_pause_s", "breaker_pause_cap_s", "throttle_pause_s", "throttle_cap_s"),
    *("rate_per_s", "account_rate_per_s"),
)
_NOT_BELOW_ZERO = (
    *("breaker_failures", "reserved_slots", "patient_s", "fallback_from_s"),
    *("latency_tolerance", "latency_floor_s"),
)
_SHARES = ("breaker_rate", "rate_reserve")
_ENVVARS = {option.name: option.envvar for option in GATE_OPTIONS}


def gate_rules(
    told: Mapping[str, Any],
    settings: Settings,
    *,
    providers: tuple[str, ...] = (),
    routes: tuple[Route, ...] = (),
) -> GateRules:
    """The rules of the gate. Raises InvalidSettings with one sentence."""
    _check(told, settings)
    provider = told["provider"]
    reserved = told["reserved_slots"]
    return GateRules(
        provider=provider,
        providers=providers or (provider,),
        routes=routes,
        breaker=BreakerRules(
            failures=told["breaker_failures"],
            rate=told["breaker_rate"],
            least=told["breaker_least"],
            window_s=told["breaker_window_s"],
            pause_s=told["breaker_pause_s"],
            pause_cap_s=told["breaker_pause_cap_s"],
            probes=told["breaker_probes"],
            probe_s=settings.lease_s,
        ),
        rates=_rates(told),
        in_flight=told["most_in_flight"],
        domains=_domains(told["domain_in_flight"]),
        urgent_from=told["urgent_from"],
        reserved=settings.concurrency // 8 if reserved is None else reserved,
        patient_to=told["patient_to"],
        patient_s=told["patient_s"],
        fallback_from_s=told["fallback_from_s"],
        throttle_pause_s=told["throttle_pause_s"],
        throttle_cap_s=told["throttle_cap_s"],
        retry_after_max_s=settings.retry_after_max_s,
    )


def pace_rules(told: Mapping[str, Any], settings: Settings) -> PaceRules:
    """The rules of the pace; the concurrency is its most."""
    return PaceRules(
        most=settings.concurrency,
        tolerance=told["latency_tolerance"],
        floor_s=told["latency_floor_s"],
    )


def _rates(told: Mapping[str, Any]) -> tuple[tuple[str, Rate], ...]:
    rates = []
    for kind, name, prefix in (("provider", told["provider"], ""), ("account", told["account"], "account_")):
        per_s, burst = told[f"{prefix}rate_per_s"], told[f"{prefix}rate_burst"]
        if per_s is not None:
            rate = Rate(per_s=per_s, burst=burst, reserve=float(int(burst * told["rate_reserve"])))
            rates.append((f"{kind}:{name}", rate))
    return tuple(rates)


def _domains(text: str | None) -> dict[str, int]:
    limits = {}
    for part in filter(None, (each.strip() for each in (text or "").split(","))):
        domain, equals, count = (each.strip().lower() for each in part.partition("="))
        if not equals or not (domain == ANY or "." in domain) or not count.isdecimal() or not int(count):
            raise InvalidSettings(
                f"OUTBOX_DOMAIN_IN_FLIGHT holds {part!r}; write it like slow.example=2, *=20, with numbers from 1"
            )
        limits[domain] = int(count)
    return limits


def _check(told: Mapping[str, Any], settings: Settings) -> None:
    for name in ("provider", "account"):
        if told[name] is not None and not _NAME.match(told[name]):
            raise InvalidSettings(
                f"{_ENVVARS[name]} is {told[name]!r}; it must be a short name of letters, digits, ., _ and -"
            )
    if told["account_rate_per_s"] is not None and not told["account"]:
        raise InvalidSettings(
            "OUTBOX_ACCOUNT_RATE_PER_S is set and OUTBOX_ACCOUNT is not; say whose rate it is"
        )
    bounds = (
        (_COUNTS, 1, MOST, "at least 1"),
        (_ABOVE_ZERO, 1e-9, MOST, "greater than zero"),
        (_NOT_BELOW_ZERO, 0, MOST, "zero or greater"),
        (_SHARES, 0, 1, "between 0 and 1"),
    )
    for names, least, most, words in bounds:
        for name in names:
            # Written so that NaN fails it, too.
            if told[name] is not None and not least <= told[name] <= most:
                raise InvalidSettings(f"{_ENVVARS[name]} is {told[name]}; it must be {words}")
    if (told["reserved_slots"] or 0) >= settings.concurrency:
        raise InvalidSettings(
            f"OUTBOX_RESERVED_SLOTS ({told['reserved_slots']}) must be smaller than OUTBOX_CONCURRENCY "
            f"({settings.concurrency}), or mail that is not urgent never goes"
        )
    for first, cap in (("breaker_pause_s", "breaker_pause_cap_s"), ("throttle_pause_s", "throttle_cap_s")):
        if told[first] > told[cap]:
            raise InvalidSettings(
                f"{_ENVVARS[first]} ({told[first]:g}) must not be greater than {_ENVVARS[cap]} ({told[cap]:g})"
            )
