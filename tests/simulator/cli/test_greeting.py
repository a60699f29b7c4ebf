"""What `simulator serve` says when everything is up."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import pytest

from simulator.cli.greeting import say_hello
from simulator.provider.tenancy import Tenancy, Unknown
from simulator.servers.options import Address
from simulator.servers.tls import TlsOptions
from tests.simulator.running import ANY_PORT, ask, mail, request, running


def test_every_address_is_said_and_whom_to_trust(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where each wire is, the file of the CA that was made just now, and what a yes survives."""
    tls = TlsOptions(starttls=True, folder=tmp_path / "tls")
    ledger = str(tmp_path / "ledger.db")
    with running(https=ANY_PORT, smtps=ANY_PORT, tls=tls, ledger=ledger) as simulator:
        say_hello(simulator.service)
        ready = simulator.service.ready

    said = dict(re.findall(r"^  (\w+) +(.+)$", click.unstyle(capsys.readouterr().err), re.MULTILINE))
    assert Path(said["CA"]).read_bytes().startswith(b"-----BEGIN CERTIFICATE-----")
    assert {name: said[name] for name in ("HTTP", "HTTPS", "SMTP", "SMTPS", "CA", "page", "control")} == {
        "HTTP": f"{ready['http']}/v1/emails",
        "HTTPS": f"{ready['https']}/v1/emails",
        "SMTP": f"{ready['smtp']} (STARTTLS)",
        "SMTPS": ready["smtps"],
        "CA": ready["ca"],
        "page": f"{ready['http']}/",
        "control": ready["control"],
    }
    assert said["ledger"].startswith(ledger)
    assert "kill -9" in said["ledger"]


def test_an_smtp_that_others_can_reach_is_mentioned(capsys: pytest.CaptureFixture[str]) -> None:
    """It knows no token: whoever reaches it can hand in mail. That is allowed, and said."""
    for host, said in (("0.0.0.0", True), ("127.0.0.1", False)):
        with running(smtp=Address(host=host, port=0)) as simulator:
            say_hello(simulator.service)
        assert ("SMTP can be reached from other machines" in capsys.readouterr().err) is said


def test_what_goes_on_from_before_is_said_without_anybodys_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A plan that was set and a rule that was used up do not stand in the plan of this start."""
    chosen = {"ledger": str(tmp_path / "ledger.db"), "tenancy": Tenancy(unknown=Unknown.NEW)}
    with running({"rules": ["503 once"]}, **chosen) as simulator:
        ask(simulator, request(mail(), headers={"Authorization": "Bearer sk_live_secret"}))
        with simulator.control() as control:
            control.set_plan({"rules": ["502 once"]})
        say_hello(simulator.service)
        assert "before this start" not in capsys.readouterr().err

    with running({"rules": ["503 once"]}, **chosen) as simulator:
        say_hello(simulator.service)
    said = capsys.readouterr().err
    assert "account default goes on with the plan that was set before this start" in said
    assert "1 rule of account #" in said
    assert "sk_live" not in said


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        ({}, "no faults: every mail is taken"),
        ({"rules": ["503 once"]}, "1 rule"),
        ({"limits": {"per_minute": 1}}, "0 rules"),
        (
            {
                "replay": [
                    {"wire": "http", "stage": "accept", "nth": 1, "strikes": [{"rule": "r", "fault": "hang"}]}
                ]
            },
            "0 rules",
        ),
    ],
    ids=repr,
)
def test_nobody_says_that_every_mail_is_taken_if_it_is_not(
    plan: dict[str, Any], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(plan) as simulator:
        say_hello(simulator.service)
    said = click.unstyle(capsys.readouterr().err)
    assert f"  plan     {says}\n" in said
