"""Every limit is an option, and a number that could not work is one sentence."""

from __future__ import annotations

import pytest

from reference_sender.gate_options import GATE_OPTIONS
from reference_sender.policy.bucket import Rate
from reference_sender.policy.settings import InvalidSettings
from reference_sender.wiring import options_from

URL = {"provider_url": "http://127.0.0.1:1"}


def test_without_a_word_there_is_a_breaker_and_no_limit() -> None:
    rules = options_from(URL).gate
    assert (rules.provider, rules.providers, rules.routes) == ("main", ("main",), ())
    assert rules.breaker.on
    assert (rules.rates, rules.in_flight, dict(rules.domains), rules.reserved) == ((), None, {}, 1)


def test_limits_are_what_was_said() -> None:
    options = options_from(
        URL
        | {"provider": "acme", "rate_per_s": 5.0, "rate_burst": 20, "rate_reserve": 0.25}
        | {"account": "team", "account_rate_per_s": 9.0, "most_in_flight": 40, "concurrency": 16}
        | {"domain_in_flight": "Slow.example=2, *=20", "lease_s": 90.0, "latency_tolerance": 0.0}
    )
    assert options.gate.rates == (
        ("provider:acme", Rate(per_s=5.0, burst=20, reserve=5.0)),
        ("account:team", Rate(per_s=9.0, burst=10, reserve=2.0)),
    )
    assert (options.gate.in_flight, options.gate.domains) == (40, {"slow.example": 2, "*": 20})
    assert (options.gate.reserved, options.gate.breaker.probe_s) == (2, 90.0)
    assert (options.pace.most, options.pace.on) == (16, False)


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"rate_per_s": 0.0}, "OUTBOX_RATE_PER_S is 0.0; it must be greater than zero"),
        ({"rate_per_s": float("nan")}, "OUTBOX_RATE_PER_S is nan"),
        ({"rate_burst": 0}, "OUTBOX_RATE_BURST is 0; it must be at least 1"),
        ({"rate_reserve": 1.5}, "OUTBOX_RATE_RESERVE is 1.5; it must be between 0 and 1"),
        ({"breaker_failures": -1}, "OUTBOX_BREAKER_FAILURES is -1; it must be zero or greater"),
        ({"breaker_probes": 0}, "OUTBOX_BREAKER_PROBES is 0"),
        (
            {"breaker_pause_s": 400.0},
            "OUTBOX_BREAKER_PAUSE_S .* must not be greater than OUTBOX_BREAKER_PAUSE_CAP_S",
        ),
        ({"reserved_slots": 8}, "must be smaller than OUTBOX_CONCURRENCY"),
        ({"provider": "a b"}, "OUTBOX_PROVIDER is 'a b'"),
        ({"account_rate_per_s": 1.0}, "OUTBOX_ACCOUNT is not"),
        ({"domain_in_flight": "slow.example"}, "OUTBOX_DOMAIN_IN_FLIGHT holds 'slow.example'"),
        ({"domain_in_flight": "slow.example=0"}, "with numbers from 1"),
        ({"domain_in_flight": "nodot=3"}, "OUTBOX_DOMAIN_IN_FLIGHT holds"),
    ],
)
def test_what_could_not_work_is_refused(values: dict[str, object], word: str) -> None:
    with pytest.raises(InvalidSettings, match=word):
        options_from(URL | values)


def test_every_option_says_its_default() -> None:
    for option in GATE_OPTIONS:
        assert option.envvar.startswith("OUTBOX_")
        assert ("[" in option.help) == (option.default is None and option.name != "account")


def test_the_gate_keeps_a_named_wait_for_as_long_as_the_mails_do() -> None:
    """One option: the gate and the row must not mean two times by one header."""
    for told, most_s in (({}, 86_400.0), ({"retry_after_max_s": 3_600.0}, 3_600.0)):
        options = options_from(URL | told)
        assert (options.settings.retry_after_max_s, options.gate.retry_after_max_s) == (most_s, most_s)
