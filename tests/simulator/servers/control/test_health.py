"""Is it well, and starting anew."""

from __future__ import annotations

from simulator.client import ControlClient
from tests.simulator.running import Running, ask, mail, request


def test_health_names_version_and_seed(control: ControlClient) -> None:
    """What a harness asks first."""
    health = control.health()

    assert (health["status"], health["seed"], health["trouble"]) == ("ok", 7, None)
    assert health["version"]


def test_a_reset_forgets_everything_of_one_account(simulator: Running, control: ControlClient) -> None:
    """Ledger, attempts, obligations, keys and plan; another account keeps its own."""
    with simulator.control("shop") as shop:
        shop.reset()
        for account in ("shop", "nobody"):
            ask(simulator, request(mail(), key="k", headers={"Authorization": f"Bearer {account}"}))
        control.owe([{"ref": "r", "recipient": "ada@example.com"}])
        control.set_plan({"rules": [{"fault": "slow", "delay_s": 0}]})

        control.reset()

        assert (control.messages(), control.attempts(), control.obligations()) == ([], [], [])
        assert control.plan()["rules"] == []
        again = ask(simulator, request(mail(), key="k"))
        assert "idempotency-replayed" not in again.headers
        assert len(shop.messages()) == 1
