"""Whole configurations: accounts begin as everybody, change what they say, and no mistake goes unnamed."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from simulator.config import PlanError, read_configuration, read_configuration_file, read_plan, warnings
from simulator.config.accounts import ACCESS_KEYS, ACCOUNT_KEYS, Configuration
from simulator.provider.limits import Limits
from simulator.provider.tenancy import Tenancy, Tenant, Unknown
from tests.simulator.config.plans import sentence

PAGE = Path(__file__).resolve().parents[3] / "docs" / "plans.md"


def said(data: object) -> str:
    with pytest.raises(PlanError) as caught:
        read_configuration(data, "plan.toml")  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_plan_is_a_configuration_without_accounts() -> None:
    plan = {"seed": 3, "rule": [{"fault": "hang"}]}

    assert read_configuration(plan, "p") == Configuration(setup=read_plan(plan, "p"))


def test_an_account_is_as_everybody_except_in_what_it_says() -> None:
    read = read_configuration(
        {
            "seed": 3,
            "rule": [{"fault": "hang"}],
            "limits": {"per_day": 5},
            "accounts": {
                "a": {},
                "b": {"rules": [], "seed": 4},
                "c": {"limits": {"burst": 2}, "credentials": ["k1"], "password": "x"},
            },
            "access": {"unknown": "refuse"},
        },
        "p",
    )
    a, b, c = (tenant for _, tenant in read.tenancy.tenants)

    assert a == Tenant(setup=read.setup)
    assert (b.setup.plan.rules, b.setup.plan.seed, b.setup.limits.per_day) == ((), 4, 5)
    assert (c.setup.plan, c.setup.limits) == (read.setup.plan, Limits(burst=2))
    assert (c.credentials, c.password) == (("k1",), "x")
    assert read.tenancy.unknown is Unknown.REFUSE


def test_the_seed_of_a_run_is_everybodys_who_chose_none() -> None:
    read = read_configuration({"accounts": {"a": {}, "b": {"seed": 4}}}, "p").seeded(9)

    assert read.setup.plan.seed == 9
    assert [tenant.setup.plan.seed for _, tenant in read.tenancy.tenants] == [9, 4]
    assert Configuration().seeded(1).tenancy == Tenancy()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ([], "plan.toml: a plan is an object"),
        ({"acounts": {}}, 'there is no key "acounts"; did you mean "accounts"?'),
        ({"accounts": []}, "[accounts]: this must be a table of accounts ([accounts.NAME]), not []"),
        ({"accounts": {"a": 1}}, "[accounts.a]: this must be a table of settings, not 1"),
        ({"accounts": {"": {}}}, "an account name has 1 to 200 printable characters"),
        ({"accounts": {"a": {"credential": []}}}, '[accounts.a]: there is no key "credential"; did you mean "credentials"?'),
        ({"accounts": {"a": {"credentials": "k"}}}, '"credentials" is "k"; it must be a list'),
        ({"accounts": {"a": {"credentials": ["default"]}}}, '"default" is the account of everybody without a credential'),
        ({"accounts": {"a": {"credentials": ["b"]}, "b": {}}}, 'the credential "b" belongs to "b" already'),
        ({"accounts": {"a": {"credentials": ["k"]}, "b": {"credentials": ["k"]}}}, 'the credential "k" belongs to "a" already'),
        ({"accounts": {"a": {"password": 5}}}, '"password" is 5; it must be a text'),
        ({"accounts": {"a": {"rule": [{"fault": "hung"}]}}}, "plan.toml: [accounts.a]: rule 1: "),
        ({"accounts": {"a": {"limits": {"rate": 1}}}}, "plan.toml: [accounts.a]: [limits]: there is no key"),
        ({"access": {"unknown": "forbid"}}, '[access]: "unknown" is "forbid"; known are default, new, refuse'),
        ({"access": {"strict": True}}, '[access]: there is no key "strict"; known are unknown'),
        ({"access": 1}, "[access]: this must be a table of settings, not 1"),
    ],
    ids=str,
)  # fmt: skip
def test_a_mistake_is_named_with_its_cure(data: Any, says: str) -> None:
    assert says in said(data)


@pytest.mark.parametrize("key", ["accounts", "access"])
def test_what_is_about_the_whole_provider_is_no_part_of_an_accounts_plan(key: str) -> None:
    assert f'"{key}" is about the whole provider; give it in the file of serve --plan' in sentence({key: {}})


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text("[accounts.a]\nseed = 5\n")

    assert [name for name, _ in read_configuration_file(path).tenancy.tenants] == ["a"]


def test_the_plans_of_the_documentation_are_good_ones() -> None:
    """The examples in docs/plans.md are read without an error or a warning, and every key is among them."""
    text = PAGE.read_text(encoding="utf-8")
    blocks = [part.split("```")[0] for part in text.split("```toml\n")[1:]]

    assert blocks
    for block in blocks:
        read = read_configuration(tomllib.loads(block), "docs/plans.md")
        for setup in (read.setup, *(tenant.setup for _, tenant in read.tenancy.tenants)):
            assert warnings(setup) == []
    for key in (*ACCOUNT_KEYS, *ACCESS_KEYS):
        assert f"{key} = " in text
    for unknown in Unknown:
        assert f"| `{unknown}` |" in text
