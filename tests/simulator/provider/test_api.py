"""Every path at which mail is handed in has its key header."""

from __future__ import annotations

from simulator.provider.api import PATHS, ApiRules


def test_the_shipped_paths_are_known_to_everybody() -> None:
    assert {path: ApiRules().key_header(path) for path in PATHS} == PATHS


def test_an_account_may_have_more() -> None:
    rules = ApiRules(aliases=(("/mail/send", "X-Key"),))

    assert rules.key_header("/mail/send") == "X-Key"
    assert rules.key_header("/v1/emails") == "Idempotency-Key"
    assert ApiRules().key_header("/mail/send") is None
