"""Mail that comes back, end to end: one simulator sends, another one is the mail server that gets the reports."""

from __future__ import annotations

import email
import smtplib
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from simulator.client import ControlClient, ControlError
from simulator.provider.provider import Setup
from simulator.provider.returns import ReturnRules
from simulator.provider.webhooks import Reach, TargetError
from simulator.servers.returns import check_returns
from tests.simulator.running import Running, ask, mail, request, running

ADA = "ada@example.com"
MAIL = b"Subject: Your order\r\nMessage-ID: <order-1@example.org>\r\n\r\nThank you!\r\n"


@pytest.fixture(scope="module")
def mta() -> Iterator[Running]:
    with running() as service:
        yield service


@pytest.fixture
def inbox(mta: Running) -> Iterator[ControlClient]:
    with mta.control() as control:
        control.reset()
        yield control


def plan(mta: Running, fate: str, **returns: Any) -> dict[str, Any]:
    return {
        "returns": {"smtp": "{}:{}".format(*mta.smtp)} | returns,
        "rule": [{"fault": "fate", "fate": fate, "after_s": 60}],
    }


def send(
    simulator: Running,
    *,
    sender: str = "shop@example.org",
    mail_options: list[str] | None = None,
    rcpt_options: list[str] | None = None,
) -> None:
    with smtplib.SMTP(*simulator.smtp, timeout=10) as client:
        client.sendmail(sender, [ADA], MAIL, mail_options or (), rcpt_options or ())


def test_a_bounce_comes_back_when_it_happens(mta: Running, inbox: ControlClient) -> None:
    """From the null sender to the sender, with what it asked for."""
    with running(plan(mta, "hard_bounce")) as simulator, simulator.control() as control:
        send(
            simulator,
            mail_options=["RET=HDRS", "ENVID=QQ+2B1"],
            rcpt_options=["NOTIFY=SUCCESS,FAILURE", "ORCPT=rfc822;Ada@example.com"],
        )
        assert inbox.messages() == []
        control.advance(60)
        (report,) = inbox.wait_for_messages()
        raw = inbox.raw(report["id"])
        (delivery,) = control.wait_for_deliveries(channel="returns", state="delivered")

    assert (report["sender"], report["recipients"]) == ("", ["shop@example.org"])
    parts: Any = email.message_from_bytes(raw).get_payload()
    _, status, original = parts
    about_mail, about_recipient = status.get_payload()
    assert about_mail["Original-Envelope-Id"] == "QQ+1"
    assert about_recipient["Original-Recipient"] == "rfc822; Ada@example.com"
    assert (about_recipient["Action"], about_recipient["Status"]) == ("failed", "5.1.1")
    assert original.get_content_type() == "text/rfc822-headers"
    assert "order-1@example.org" in original.get_payload()
    assert "Thank you" not in raw.decode()
    assert delivery["tries"][0]["status"] == 250


def test_a_complaint_comes_back_whole(mta: Running, inbox: ControlClient) -> None:
    with running(plan(mta, "complaint", complaints_to="abuse@example.org")) as simulator:
        send(simulator)
        with simulator.control() as control:
            control.advance(60)
        (report,) = inbox.wait_for_messages()
        raw = inbox.raw(report["id"])

    assert (report["sender"], report["recipients"]) == (
        "postmaster@mail.simulator.test",
        ["abuse@example.org"],
    )
    assert b"Feedback-Type: abuse" in raw
    assert MAIL.rstrip() in raw


def test_of_http_mails_nothing_comes_back_unless_it_shall(mta: Running, inbox: ControlClient) -> None:
    with running(plan(mta, "hard_bounce")) as simulator, simulator.control() as control:
        ask(simulator, request(mail()))
        control.advance(60)
        control.set_plan(plan(mta, "hard_bounce", of=["http"]))
        ask(simulator, request(mail(to=["bob@example.com"])))
        control.advance(60)
        (report,) = inbox.wait_for_messages()

    assert b"bob@example.com" in inbox.raw(report["id"])


def test_a_server_that_puts_it_off_gets_it_later_and_one_that_refuses_does_not(
    mta: Running, inbox: ControlClient
) -> None:
    inbox.add_rules(
        {
            "fault": "reply",
            "stage": "rcpt",
            "dialect": "smtp",
            "code": 451,
            "recipient": "later@*",
            "times": 1,
        },
        {"fault": "reply", "stage": "rcpt", "dialect": "smtp", "code": 550, "recipient": "never@*"},
    )
    with (
        running(plan(mta, "hard_bounce", schedule_s=[600, 600])) as simulator,
        simulator.control() as control,
    ):
        send(simulator, sender="never@example.org")
        control.advance(60)
        (refused,) = control.wait_for_deliveries(channel="returns", state="failed")
        control.lift()
        send(simulator, sender="later@example.org")
        control.advance(60)
        (put_off,) = control.wait_for_deliveries(channel="returns", state="waiting", tries="1")
        control.advance(700)
        (report,) = inbox.wait_for_messages()

    assert refused["tries"][0]["status"] == 550
    assert "550" in refused["tries"][0]["error"]
    assert put_off["tries"][0]["status"] == 451
    assert report["recipients"] == ["later@example.org"]


def test_nobody_there_is_one_sentence_and_not_the_end(inbox: ControlClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    rules = {
        "returns": {"smtp": f"127.0.0.1:{port}"},
        "rule": [{"fault": "fate", "fate": "hard_bounce", "after_s": 0}],
    }
    with running(rules) as simulator, simulator.control() as control:
        send(simulator)
        (delivery,) = control.wait_for_deliveries(channel="returns", tries="1")

    assert delivery["tries"][0]["error"].startswith("the mail cannot be handed over: ")
    assert "\n" not in delivery["tries"][0]["error"]


def test_the_simulator_can_be_its_own_mail_server(inbox: ControlClient) -> None:
    """Reports go to the ledger like any mail, and of reports no reports are made: it comes to rest."""
    with running() as simulator, simulator.control() as control:
        control.set_plan(
            {
                "returns": {"smtp": "{}:{}".format(*simulator.smtp)},
                "rule": [
                    {"fault": "fate", "fate": "complaint", "after_s": 1, "recipient": "ada@*"},
                    {"fault": "fate", "fate": "complaint", "after_s": 1},
                ],
            }
        )
        send(simulator)
        control.advance(10)
        (_, report) = control.wait_for_messages(count=2)
        control.advance(1000)
        control.wait_for_deliveries(channel="returns", state="delivered")

        assert report["recipients"] == ["shop@example.org"]
        assert len(control.messages()) == 2
        assert len(control.deliveries(channel="returns")) == 1


@pytest.mark.parametrize(
    ("smtp", "reach", "right"),
    [
        (None, Reach.LOOPBACK, True),
        ("127.0.0.1:25", Reach.LOOPBACK, True),
        ("[::1]:25", Reach.LOOPBACK, True),
        ("mailpit:1025", Reach.LOOPBACK, True),  # where that leads is seen when it is looked up
        ("10.0.0.1:25", Reach.LOOPBACK, False),
        ("10.0.0.1:25", Reach.PRIVATE, True),
        ("8.8.8.8:25", Reach.PRIVATE, False),
    ],
)
def test_mail_comes_back_only_where_it_may(smtp: str | None, reach: Reach, right: bool) -> None:
    if right:
        check_returns(ReturnRules(smtp=smtp), reach)
    else:
        with pytest.raises(TargetError, match=r"mail may not be returned to .*--webhook-hosts"):
            check_returns(ReturnRules(smtp=smtp), reach)


def test_a_plan_that_wants_it_elsewhere_is_refused(mta: Running) -> None:
    with (
        mta.control() as control,
        pytest.raises(ControlError, match=r"mail may not be returned to 10\.0\.0\.1"),
    ):
        control.set_plan({"returns": {"smtp": "10.0.0.1:25"}})
    assert Setup().returns.smtp is None
