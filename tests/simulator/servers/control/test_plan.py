"""The plan at run time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from simulator.client import ControlClient, ControlError
from simulator.config import read_plan
from simulator.provider.tenancy import Tenancy, Tenant
from tests.simulator.running import Running, ask, mail, request, running


def test_a_plan_is_set_shown_appended_to_and_cleared(simulator: Running, control: ControlClient) -> None:
    """Clearing heals; only `all` also takes the treatment of keys and the limits back."""
    control.set_plan(
        {
            "seed": 3,
            "rule": [{"name": "a", "fault": "reply", "code": 503, "times": 1}],
            "limits": {"max_recipients": 5},
        }
    )
    assert ask(simulator, request(mail())).status == 503
    shown = control.add_rules({"fault": "reset", "times": 1}, {"name": "c", "fault": "hang_up"})

    assert [(rule["name"], rule["fired"]) for rule in shown["rules"]] == [("a", 1), ("rule 2", 0), ("c", 0)]
    assert shown["seed"] == 3
    assert control.heal()["limits"]["max_recipients"] == 5
    assert control.plan()["rules"] == []
    assert control.heal(all=True)["limits"]["max_recipients"] == 1000


def test_a_plan_says_in_words_what_is_set(control: ControlClient) -> None:
    shown = control.set_plan({"smtp": {"hide": ["STARTTLS"]}})

    assert shown["settings"] == ['[smtp]: hide = ["STARTTLS"].']
    assert control.heal()["settings"] == shown["settings"]
    assert control.heal(all=True)["settings"] == []


def test_an_account_goes_back_to_what_it_was_announced_with(tmp_path: Path) -> None:
    """Each to its own, and after a restart it is still so."""
    shop = read_plan({"rules": ["451"], "smtp": {"hide": ["AUTH"]}}, "shop")
    tenancy = Tenancy(tenants=(("shop", Tenant(setup=shop)),))
    plan, options = {"rules": ["503"]}, {"tenancy": tenancy, "ledger": f"{tmp_path}/simulator.db"}
    with running(plan, **options) as service:
        for account, rule in ("shop", "451"), ("blog", "503"):
            with service.control(account) as control:
                control.set_plan({"rules": ["hang"]})
                assert [each["name"] for each in control.reset_plan()["rules"]] == [rule]
    with running(plan, **options) as service, service.control("shop") as control:
        shown = control.plan()
        assert ([each["name"] for each in shown["rules"]], shown["smtp"]["hide"]) == (["451"], ["AUTH"])


def test_a_plan_is_explained_without_being_put_in_force(control: ControlClient) -> None:
    """A sentence per rule; what cannot be meant is doubted; what cannot be read is refused."""
    control.set_plan({"rules": ["451 first 2"]})

    checked = control.check_plan({"rules": ["503 first 2", "503"]})

    assert len(checked["explained"]) == 2
    assert "503" in checked["explained"][0]
    assert control.check_plan({"rules": ["503", "503 first 2"]})["doubts"]
    assert [rule["name"] for rule in control.plan()["rules"]] == ["451 first 2"]
    with pytest.raises(ControlError, match="frist"):
        control.check_plan({"rules": ["503 frist 2"]})


BAD_PLANS: dict[str, tuple[str, Any, str]] = {
    "unknown fault": ("PUT", {"rules": [{"fault": "explode"}]}, 'PUT plan: rule 1: "fault" is "explode"'),
    "impossible stage": ("PUT", {"rules": [{"fault": "hold", "stage": "tea"}]}, 'rule 1: "stage" is "tea"'),
    "no object": ("PUT", [], "PUT plan: a plan is an object"),
    "bad appended rule": ("POST", {"rules": [{"fault": "reply"}]}, 'needs the key "code"'),
    "appended limits": ("POST", {"limits": {}}, '"limits" can be changed with PUT plan'),
}


@pytest.mark.parametrize("name", BAD_PLANS)
def test_a_bad_plan_is_refused_whole_with_one_sentence(
    control: ControlClient, web: httpx.Client, name: str
) -> None:
    """422, and the former plan stays in force."""
    control.set_plan({"rules": [{"name": "kept", "fault": "reset"}]})
    method, plan, says = BAD_PLANS[name]

    answer = web.request(method, "plan", json=plan)

    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert says in answer.json()["detail"]
    assert "\n" not in answer.json()["detail"]
    assert [rule["name"] for rule in control.plan()["rules"]] == ["kept"]
