"""Look-ups."""

from __future__ import annotations

from simulator.provider.idempotency import KeyRules
from simulator.provider.lookup import Query
from tests.simulator.provider.mails import KEYED, NOW, after, planned, provider, send


def test_a_look_up_may_lag() -> None:
    it = provider(planned(keys=KeyRules(lookup_lag_s=5)))
    send(it, KEYED)
    found = it.account("default", NOW).ledger.with_key("k")

    assert it.look_up(Query(key="k"), "default", after(4.9)) == []
    assert it.look_up(Query(key="k"), "default", after(5)) == found
