"""A plan, and over which wire its rules stand."""

from __future__ import annotations

from simulator.provider.plan import wire_of


def test_every_dialect_but_smtp_is_spoken_over_http() -> None:
    assert wire_of("smtp") == "smtp"
    assert wire_of("native") == wire_of("anything") == "http"
