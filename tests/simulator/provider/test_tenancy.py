"""Who belongs to which account, and who is turned away."""

from __future__ import annotations

import pytest

from simulator.provider import tenancy as room
from simulator.provider.account import Setup
from simulator.provider.answer import Reason, Refused
from simulator.provider.limits import Limits
from simulator.provider.provider import Detail, Provider
from simulator.provider.tenancy import MAX_NAME_CHARS, Tenancy, Tenant, Unknown, is_name
from tests.simulator.provider.mails import NOW, mail, send

SHOP = Tenant(setup=Setup(limits=Limits(per_day=1)), credentials=("sk_1", "sk_2"), password="secret")


def provider(unknown: Unknown = Unknown.DEFAULT) -> Provider:
    tenancy = Tenancy(tenants=(("shop", SHOP), ("billing", Tenant())), unknown=unknown)
    return Provider(tenancy=tenancy, now=NOW)


def reason(refused: object) -> Reason | None:
    assert refused is None or isinstance(refused, Refused)
    return None if refused is None else refused.reason


def test_announced_accounts_are_there_with_their_own_setup() -> None:
    it = provider()

    assert sorted(it.accounts) == ["billing", "default", "shop"]
    assert it.account("shop", NOW).setup is SHOP.setup
    it.set_up("shop", Setup(), NOW)
    it.reset("shop", NOW)
    assert it.account("shop", NOW).setup is SHOP.setup


@pytest.mark.parametrize(
    ("credential", "account"),
    [
        ("shop", "shop"),
        ("sk_1", "shop"),
        ("sk_2", "shop"),
        ("billing", "billing"),
        ("x", "default"),
        (None, "default"),
    ],
)
def test_a_credential_leads_to_its_account(credential: str | None, account: str) -> None:
    assert provider().account_of(credential) == account


def test_an_unknown_sender_may_get_an_account_of_its_own() -> None:
    it = provider(Unknown.NEW)
    attempt = it.open("native", "p", NOW)
    it.step(attempt, "request", Detail(credential="newcomer"), NOW)

    assert attempt.account == "newcomer"
    assert "newcomer" in it.accounts
    assert it.account_of("x" * (MAX_NAME_CHARS + 1)) == "default"
    assert it.account_of("a\nb") == "default"


def test_not_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MOST_ACCOUNTS", 4)
    it = provider(Unknown.NEW)
    it.account(it.account_of("fourth"), NOW)

    assert it.account_of("fifth") == "default"
    assert it.account_of("fourth") == "fourth"


@pytest.mark.parametrize(
    ("credential", "expected"),
    [
        ("x", Reason.CREDENTIAL_UNKNOWN),
        ("default", Reason.CREDENTIAL_UNKNOWN),
        (None, Reason.CREDENTIAL_MISSING),
        ("sk_1", None),
    ],
)
def test_a_strict_provider_refuses_whom_it_does_not_know_on_http(
    credential: str | None, expected: Reason | None
) -> None:
    it = provider(Unknown.REFUSE)
    attempt = it.open("native", "p", NOW)

    assert reason(it.step(attempt, "request", Detail(credential=credential), NOW)) is expected
    assert it.turned_away("x") is not None


def test_a_strict_provider_refuses_whom_it_does_not_know_on_smtp() -> None:
    it = provider(Unknown.REFUSE)
    stranger = it.open("smtp", "p", NOW)
    assert it.step(stranger, "connect", Detail(), NOW) is None
    assert reason(it.step(stranger, "mail", Detail(sender="a@x"), NOW)) is Reason.CREDENTIAL_MISSING
    assert (
        reason(it.step(stranger, "auth", Detail(credential="x", secret="y"), NOW))
        is Reason.CREDENTIAL_UNKNOWN
    )
    assert it.step(stranger, "auth", Detail(credential="billing", secret="y"), NOW) is None
    assert it.step(stranger, "mail", Detail(sender="a@x"), NOW) is None


def test_a_password_counts_where_one_is_given() -> None:
    it = provider()
    attempt = it.open("smtp", "p", NOW)

    assert (
        reason(it.step(attempt, "auth", Detail(credential="shop", secret="guess"), NOW))
        is Reason.CREDENTIAL_UNKNOWN
    )
    assert attempt.account == "default", "who guesses must not be counted among its attempts"
    assert it.step(attempt, "auth", Detail(credential="shop", secret="secret"), NOW) is None
    assert attempt.account == "shop"
    assert it.turned_away("sk_1") is None, "an API key is its own secret"


def test_without_strictness_nobody_is_turned_away() -> None:
    it = provider()
    _, verdict = send(it, mail())

    assert verdict is not None
    assert verdict.accepted
    assert it.turned_away(None) is it.turned_away("x") is None


@pytest.mark.parametrize(
    ("name", "good"), [("a", True), ("ü b", True), ("", False), ("a\0", False), ("a" * 201, False)]
)
def test_names(name: str, good: bool) -> None:
    assert is_name(name) is good
