"""Accounts on the wire: strangers are turned away, and two test runs side by side never see each other."""

from __future__ import annotations

import base64
import contextlib
import smtplib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from simulator.client import ControlClient
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


# --- side by side -----------------------------------------------------------------------------------

ROUNDS = 40


class Run:
    """A test run of one account: its own plan and limits, its own senders on both wires."""

    def __init__(self, simulator: Running, name: str) -> None:
        self.name = name
        self._simulator = simulator
        self.told: list[int] = []
        self.failed: BaseException | None = None
        self._threads = [threading.Thread(target=self._guard(each)) for each in (self._http, self._smtp)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()
        if self.failed is not None:
            raise self.failed

    def _guard(self, work: Callable[[], None]) -> Callable[[], None]:
        def guarded() -> None:
            try:
                work()
            except BaseException as problem:
                self.failed = problem

        return guarded

    def _http(self) -> None:
        """Both runs use the same keys and the same recipients: nothing but the account tells them apart."""
        with Sender(self._simulator.http) as sender:
            for number in range(ROUNDS):
                headers = {"Authorization": f"Bearer {self.name}"}
                body = mail(to=[f"{number}@example.com"], subject=f"for {self.name}")
                seen = sender.say(request(body, key=f"key-{number}", headers=headers)).see()
                self.told.append(seen.status)

    def _smtp(self) -> None:
        with smtplib.SMTP(*self._simulator.smtp) as smtp:
            smtp.login(self.name, "x")
            for number in range(ROUNDS):
                with contextlib.suppress(smtplib.SMTPSenderRefused, smtplib.SMTPDataError):  # Its limit.
                    smtp.sendmail(
                        "shop@example.org",
                        [f"smtp-{number}@example.com"],
                        f"Subject: for {self.name}\r\n\r\n",
                    )


def test_two_runs_under_load_with_different_plans_do_not_leak() -> None:
    """Ledger, rule counts, keys, clock, limits, decisions, attempts: each run finds its own and nothing else."""
    with running() as simulator, simulator.control("red") as red, simulator.control("blue") as blue:
        red.set_plan(
            {
                "rules": [
                    {
                        "name": "red",
                        "fault": "reply",
                        "code": 503,
                        "every": 2,
                        "dialect": "native",
                        "stage": "accept",
                    }
                ]
            }
        )
        blue.set_plan(
            {"limits": {"rate_per_s": 1e-6, "burst": ROUNDS + ROUNDS // 2}, "idempotency": {"window_s": 5}}
        )
        blue.advance(3600)
        runs = [Run(simulator, "red"), Run(simulator, "blue")]
        for run in runs:
            run.start()
        for run in runs:
            run.join()

        _judge_red(red, runs[0])
        _judge_blue(blue, runs[1])
        with simulator.control() as default:
            assert (default.messages(), [each for each in default.attempts() if each["recipients"]]) == (
                [],
                [],
            )


def _judge_red(red: ControlClient, run: Run) -> None:
    assert run.told == [200, 503] * (ROUNDS // 2), "counted in its own account only"
    (rule,) = red.plan()["rules"]
    assert (rule["seen"], rule["fired"]) == (ROUNDS, ROUNDS // 2)
    messages = red.messages()
    assert len(messages) == ROUNDS // 2 + ROUNDS
    assert {each["subject"] for each in messages} == {"for red"}
    assert red.clock()["ahead_s"] == 0.0


def _judge_blue(blue: ControlClient, run: Run) -> None:
    messages = blue.messages()
    assert len(messages) == ROUNDS + ROUNDS // 2, "its limit, whatever the other one sent"
    assert {each["subject"] for each in messages} == {"for blue"}
    assert blue.plan()["rules"] == []
    assert {rule for each in blue.attempts() for rule in each["rules"]} == {"limit: account"}
    assert blue.clock()["ahead_s"] == 3600.0
