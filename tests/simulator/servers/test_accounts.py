"""Accounts on the wire: strangers are turned away, and an account meets its own plan on both of them."""

from __future__ import annotations

import base64
import smtplib
from collections.abc import Iterator
from typing import Any

import pytest

from simulator.config import read_configuration
from tests.simulator.running import Running, Sender, mail, request, running

STRICT = {
    "accounts": {"shop": {"credentials": ["sk_1"], "password": "secret"}, "billing": {}},
    "access": {"unknown": "refuse"},
}


@pytest.fixture(scope="module")
def strict() -> Iterator[Running]:
    with running(tenancy=read_configuration(STRICT, "the test's plan").tenancy) as service:
        yield service


def post(sender: Sender, account: str | None, **more: Any) -> Any:
    headers = {} if account is None else {"Authorization": f"Bearer {account}"}
    return sender.say(request(mail(), headers=headers, **more)).see()


def test_http_answers_a_stranger_with_401_and_how_to_authenticate(strict: Running) -> None:
    with Sender(strict.http) as sender:
        for account, code in ((None, "credential_missing"), ("nobody", "credential_unknown")):
            seen = post(sender, account)
            assert (seen.status, seen.json["code"]) == (401, code)
            assert seen.headers["www-authenticate"] == 'Bearer realm="mail"'
        assert post(sender, "sk_1").status == 200
        look_up = request(method="GET", path="/v1/emails?idempotency_key=k")
        assert sender.say(look_up).see().status == 401
    with strict.control("shop") as shop, strict.control() as default:
        assert len(shop.messages()) == 1
        assert default.messages() == []
        assert [each["answer"] for each in default.attempts()] == ["401", "401"]


def test_smtp_answers_a_stranger_with_535_and_530(strict: Running) -> None:
    with smtplib.SMTP(*strict.smtp) as smtp:
        smtp.ehlo()
        assert smtp.mail("a@example.org") == (530, b"5.7.0 authentication is required")
        for user, password in (("nobody", "x"), ("shop", "wrong")):
            with pytest.raises(smtplib.SMTPAuthenticationError) as caught:
                smtp.login(user, password)
            assert caught.value.smtp_code == 535
        smtp.login("shop", "secret")
        assert smtp.mail("a@example.org")[0] == 250


def test_an_outage_of_an_account_is_one_on_both_wires() -> None:
    """Who logs in has been greeted already, by a provider that did not know yet whose sender this is."""
    with running() as simulator, simulator.control("shop") as shop:
        assert shop.set_plan({"plan": "outage-4-minutes"})["doubts"] == []
        with Sender(simulator.http) as sender:
            assert [post(sender, account).status for account in ("shop", None)] == [503, 200]
        smtp = smtplib.SMTP(*simulator.smtp)
        smtp.ehlo()
        assert smtp.docmd("AUTH", "PLAIN " + base64.b64encode(b"\0shop\0any").decode())[0] == 421
        smtp.close()
        with smtplib.SMTP(*simulator.smtp) as smtp:
            smtp.sendmail("a@example.org", ["b@example.com"], "Subject: x\r\n\r\n")
        shop.advance(240)
        with smtplib.SMTP(*simulator.smtp) as smtp:
            smtp.login("shop", "any")
