"""Clients that others wrote hand over real mail, in the clear and under TLS, and hear what a rule makes them hear."""

from __future__ import annotations

from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from simulator.servers.tls import TlsOptions
from tests.simulator.clients.smtp_tools import CLIENTS, HOW_TO_GET, Client, Where
from tests.simulator.running import ANY_PORT, Running, running


@pytest.fixture(scope="module")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    tls = TlsOptions(starttls=True, folder=tmp_path_factory.mktemp("tls"))
    with running(smtps=ANY_PORT, tls=tls) as service:
        yield service


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> Client:
    send, is_there = CLIENTS[request.param]
    if not is_there():
        pytest.skip(f"{request.param} is not there: {HOW_TO_GET[request.param]}")
    return send


@pytest.fixture
def mail(tmp_path: Path) -> Path:
    """A mail with everything that is hard to hand over: dots, 8-bit text, a long line, an attachment."""
    made = EmailMessage()
    made["From"] = "Jürgen <shop@x.example>"
    made["To"] = "ann@y.example"
    made["Subject"] = "Grüße"
    made["Message-ID"] = "<one@x.example>"
    made.set_content("Hello\n.a line with a dot\n..\n.\nGrüße\n" + "long " * 150 + "\nend\n", cte="8bit")
    made.add_attachment(
        bytes(range(256)) * 40, maintype="application", subtype="octet-stream", filename="a.bin"
    )
    file = tmp_path / "mail.eml"
    file.write_bytes(made.as_bytes(policy=made.policy.clone(linesep="\r\n")))
    return file


def where(simulator: Running, tls: str = "off") -> Where:
    facts = simulator.service.ready
    host, port = facts["smtps" if tls == "first" else "smtp"].rsplit(":", 1)
    return Where(host=host, port=int(port), tls=tls, ca="" if tls == "off" else facts["ca"])


def accepted(simulator: Running) -> list[dict[str, Any]]:
    with simulator.control() as control:
        return control.messages()


def plan(simulator: Running, *rules: dict[str, Any]) -> None:
    """Begin anew under these rules."""
    with simulator.control() as control:
        control.reset()
        control.set_plan({"rules": list(rules)})


@pytest.mark.parametrize("tls", ["off", "starttls", "first"])
def test_a_mail_arrives_as_it_was_sent(client: Client, tls: str, simulator: Running, mail: Path) -> None:
    plan(simulator)
    told = client(mail, "ann@y.example", where(simulator, tls))

    assert told.sent, told.words
    (one,) = accepted(simulator)
    assert (one["sender"], one["recipients"]) == ("shop@x.example", ["ann@y.example"])
    assert (one["message_id"], one["subject"]) == ("<one@x.example>", "Grüße")
    with simulator.control() as control:
        # Some clients put a header of their own in front, or a line end behind.
        assert mail.read_bytes().split(b"\r\n\r\n", 1)[1].rstrip() in control.raw(one["id"])


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ({"fault": "reply", "stage": "rcpt", "code": 550, "text": "no such user"}, "550"),
        ({"fault": "throttle", "style": "permanent"}, "550"),
        ({"fault": "reply", "stage": "auth", "code": 535}, "535"),
    ],
    ids=["RCPT 550", "dot 550", "AUTH 535"],
)
def test_a_refusal_is_heard(
    client: Client, rule: dict[str, Any], code: str, simulator: Running, mail: Path
) -> None:
    plan(simulator, rule | {"dialect": "smtp"})
    told = client(mail, "ann@y.example", where(simulator))

    assert not told.sent
    assert code in told.words
    assert accepted(simulator) == []


def test_an_answer_that_is_lost_is_no_answer(client: Client, simulator: Running, mail: Path) -> None:
    """The client believes that it failed; the ledger knows better."""
    plan(simulator, {"fault": "accept_then_hang_up", "dialect": "smtp"})
    told = client(mail, "ann@y.example", where(simulator))

    assert not told.sent
    assert len(accepted(simulator)) == 1


@pytest.mark.parametrize(("tls", "fault"), [("starttls", "bad_certificate"), ("first", "break_handshake")])
def test_no_mail_goes_over_a_line_that_cannot_be_trusted(
    client: Client, tls: str, fault: str, simulator: Running, mail: Path
) -> None:
    plan(simulator, {"fault": fault})
    told = client(mail, "ann@y.example", where(simulator, tls))

    assert not told.sent
    assert accepted(simulator) == []


def test_a_server_without_ehlo_gets_its_mail_too(client: Client, simulator: Running, mail: Path) -> None:
    """Whoever insists on AUTH gives up; nobody thinks that it was sent."""
    plan(simulator, {"fault": "refuse_ehlo"})
    told = client(mail, "ann@y.example", where(simulator))

    assert told.sent == bool(accepted(simulator))
