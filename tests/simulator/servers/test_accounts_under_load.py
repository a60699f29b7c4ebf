"""Two accounts under load on both wires: plans, limits, keys, webhooks and clocks that differ, and nothing leaks.

Both use the same keys and the same recipients: nothing but the account tells their mails apart. Over HTTP they share
their connections, on which requests of both stand in line at once; over SMTP each has several of its own.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import smtplib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from simulator.client import ControlClient
from tests.simulator.receiver import Got, Receiver, receiving
from tests.simulator.running import PATIENCE_S, Running, Seen, Sender, mail, request, running

pytestmark = pytest.mark.xdist_group("accounts under load")

HTTP_LINES, HTTP_ROUNDS = 4, 100
SMTP_LINES, SMTP_ROUNDS = 3, 66
#: Mails of each account on each wire; over HTTP each is sent twice.
BY_HTTP, BY_SMTP = HTTP_LINES * HTTP_ROUNDS, SMTP_LINES * SMTP_ROUNDS
#: So many mails blue may send, fewer than it tries to.
MAY = 450

RED_SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()
BLUE_SECRET = "blue's own"


def red_plan(url: str) -> dict[str, Any]:
    """Return one of refusals by number, keys that say 409, and webhooks in batches, each event twice."""
    return {
        "rules": [
            {"name": "red http", "fault": "reply", "code": 503, "stage": "accept", "dialect": "native", "every": 2},
            {"name": "red smtp", "fault": "reply", "code": 451, "stage": "message", "dialect": "smtp", "every": 3},
            {"name": "red twice", "fault": "webhook_duplicate"},
        ],
        "idempotency": {"finished": "conflict"},
        "webhooks": {
            "url": url,
            "secret": RED_SECRET,
            "events": ["email.accepted"],
            "batch": 50,
            "batch_wait_s": 0.05,
        },
    }  # fmt: skip


def blue_plan(url: str) -> dict[str, Any]:
    """Return one of a limit, slow answers, mails that bounce, replays without ids, and webhooks one by one."""
    return {
        "rules": [
            {"name": "blue slow", "fault": "slow", "delay_s": 0.001, "stage": "accept", "dialect": "native", "every": 3},
            {"name": "blue bounces", "fault": "fate", "fate": "hard_bounce"},
        ],
        "limits": {"rate_per_s": 1e-6, "burst": MAY},
        "idempotency": {"finished": "without_id"},
        "webhooks": {"url": url, "secret": BLUE_SECRET, "scheme": "hmac", "events": ["email.bounced"]},
    }  # fmt: skip


@dataclass(slots=True)
class Told:
    """What the senders of one account were told."""

    http: dict[str, list[Seen]] = field(default_factory=dict)
    """By key: the two answers."""
    smtp: list[int] = field(default_factory=list)
    """Of each mail: the code of the reply that decided."""

    def statuses(self) -> list[tuple[int, ...]]:
        return [tuple(seen.status for seen in each) for each in self.http.values()]


def post(account: str, number: int) -> bytes:
    body = mail(to=[f"{number}@example.com"], subject=f"for {account}")
    return request(body, key=f"key-{number}", headers={"Authorization": f"Bearer {account}"})


def over_http(simulator: Running, told: dict[str, Told], line: int) -> None:
    """Send mails of both accounts over one connection, four requests at a time."""
    with Sender(simulator.http) as sender:
        for number in range(line * HTTP_ROUNDS, (line + 1) * HTTP_ROUNDS):
            turns = ("red", "blue", "blue", "red") if number % 2 else ("blue", "red", "red", "blue")
            sender.say(b"".join(post(account, number) for account in turns))
            for account in turns:
                told[account].http.setdefault(f"key-{number}", []).append(sender.see())


def over_smtp(simulator: Running, told: Told, account: str, line: int) -> None:
    with smtplib.SMTP(*simulator.smtp, timeout=PATIENCE_S) as smtp:
        smtp.login(account, "x")
        for number in range(line * SMTP_ROUNDS, (line + 1) * SMTP_ROUNDS):
            code = smtp.mail("shop@example.org")[0]
            code = smtp.rcpt(f"smtp-{number}@example.com")[0] if code == 250 else code
            code = smtp.data(f"Subject: for {account}\r\n\r\n")[0] if code == 250 else code
            told.smtp.append(code)
            smtp.rset()


@dataclass(frozen=True, slots=True)
class After:
    """Everything after the load."""

    simulator: Running
    told: dict[str, Told]
    controls: dict[str, ControlClient]
    receivers: dict[str, Receiver]


@pytest.fixture(scope="module")
def after() -> Iterator[After]:
    told = {"red": Told(), "blue": Told()}
    with (
        running() as simulator,
        simulator.control("red") as red,
        simulator.control("blue") as blue,
        receiving() as at_red,
        receiving() as at_blue,
    ):
        red.set_plan(red_plan(at_red.url))
        blue.set_plan(blue_plan(at_blue.url))
        blue.advance(3600)
        work: list[Callable[[], None]] = [
            partial(over_http, simulator, told, line) for line in range(HTTP_LINES)
        ]
        work += [
            partial(over_smtp, simulator, told[account], account, line)
            for account in told
            for line in range(SMTP_LINES)
        ]
        with ThreadPoolExecutor(len(work)) as pool:
            for done in [pool.submit(each) for each in work]:
                done.result()
        yield After(simulator, told, {"red": red, "blue": blue}, {"red": at_red, "blue": at_blue})


def test_each_account_meets_its_own_rules_and_limits_only(after: After) -> None:
    """What the senders were told is what their own plan says, to the number."""
    red, blue = after.told["red"], after.told["blue"]

    assert {*red.statuses()} <= {(200, 409), (200, 503), (503, 200), (503, 503)}
    assert sum(each.count(503) for each in red.statuses()) == BY_HTTP
    assert {seen.json["code"] for both in red.http.values() for seen in both if seen.status == 409} == {
        "key_done"
    }
    assert Counter(red.smtp) == {250: BY_SMTP - BY_SMTP // 3, 451: BY_SMTP // 3}
    # Which wire uses up what blue may send is anybody's guess.
    assert {*blue.statuses()} <= {(200, 200), (429, 429)}
    assert blue.statuses().count((200, 200)) + blue.smtp.count(250) == MAY
    assert {*blue.smtp} <= {250, 451}
    for first, again in blue.http.values():
        if first.status == 200:
            assert ("id" in first.json, "id" in again.json) == (True, False)
            assert "idempotency-replayed" not in first.headers
            assert again.headers["idempotency-replayed"] == "true"


def test_each_ledger_holds_what_its_own_senders_were_told(after: After) -> None:
    for account, told in after.told.items():
        messages = after.controls[account].messages()
        by_http = sorted(key for key, both in told.http.items() if 200 in (seen.status for seen in both))

        assert {each["subject"] for each in messages} == {f"for {account}"}
        assert sorted(each["key"] for each in messages if each["key"] is not None) == by_http
        assert len(messages) == len(by_http) + told.smtp.count(250)
        named = {seen.json["id"] for both in told.http.values() for seen in both if "id" in seen.json}
        assert named == {each["id"] for each in messages if each["key"] is not None}
    with after.simulator.control() as default:
        assert default.messages() == []
        assert [each for each in default.attempts() if each["recipients"]] == []


def test_a_key_of_both_leads_each_to_its_own_mail(after: After) -> None:
    key = next(
        key
        for key, both in after.told["red"].http.items()
        if both[0].status == after.told["blue"].http[key][0].status == 200
    )
    with Sender(after.simulator.http) as sender:
        for account in ("red", "blue"):
            asked = request(
                method="GET",
                path=f"/v1/emails?idempotency_key={key}",
                headers={"Authorization": f"Bearer {account}"},
            )
            (found,) = sender.say(asked).see().json["data"]
            assert found["id"] == after.told[account].http[key][0].json["id"]


def test_rules_are_counted_and_logged_where_they_belong(after: After) -> None:
    red, blue = after.controls["red"], after.controls["blue"]
    counts = {each["name"]: (each["seen"], each["fired"]) for each in red.plan()["rules"]}

    assert counts["red http"] == (2 * BY_HTTP, BY_HTTP)
    assert counts["red smtp"] == (BY_SMTP, BY_SMTP // 3)
    for control, rules in ((red, {"red http", "red smtp"}), (blue, {"blue slow", "limit: account"})):
        struck = {rule for each in control.attempts() for rule in each["rules"]}
        assert rules <= struck
        assert all(rule.startswith((control.account, "limit")) for rule in struck)
        logged = {rule for each in control.decisions() for rule in each["rules"]}
        assert rules <= logged
        assert all(rule.startswith((control.account, "limit")) for rule in logged)


def test_each_receiver_is_told_of_its_own_mails_under_its_own_secret(after: After) -> None:
    red, blue = after.controls["red"], after.controls["blue"]
    blue.advance(60)
    of_red, of_blue = ([each["id"] for each in control.messages()] for control in (red, blue))

    at_blue = after.receivers["blue"].wait(len(of_blue))
    told = [by_hmac(got) for got in at_blue]
    assert Counter(event["data"]["email_id"] for event in told) == dict.fromkeys(of_blue, 1)
    assert {(event["type"], event["data"]["subject"]) for event in told} == {("email.bounced", "for blue")}

    events = [event for got in all_of(after.receivers["red"], 2 * len(of_red)) for event in by_standard(got)]
    assert Counter(event["data"]["email_id"] for event in events) == dict.fromkeys(of_red, 2)
    assert {(event["type"], event["data"]["subject"]) for event in events} == {("email.accepted", "for red")}


def all_of(receiver: Receiver, events: int) -> list[Got]:
    """Return the requests that hold so many events, as soon as they are there."""
    requests = 0
    while sum(len(got.json) for got in receiver.wait(requests)) < events:
        requests += 1
    return receiver.wait(requests)


def by_standard(got: Got) -> Any:
    return Webhook(RED_SECRET).verify(got.body, dict(got.headers))


def by_hmac(got: Got) -> Any:
    signed = f"{got.headers['x-webhook-timestamp']}.".encode() + got.body
    expected = hmac.new(BLUE_SECRET.encode(), signed, hashlib.sha256).hexdigest()
    assert got.headers["x-webhook-signature"] == f"sha256={expected}"
    return got.json


def test_whom_one_account_may_not_write_to_any_more_the_other_one_may(after: After) -> None:
    """And the clock of one goes its own way."""
    red, blue = after.controls["red"], after.controls["blue"]
    blue.advance(60)

    bounced = {address for each in blue.messages() for address in each["recipients"]}
    assert {each["address"] for each in blue.suppressions()} == bounced
    assert bounced & {address for each in red.messages() for address in each["recipients"]}
    assert red.suppressions() == []
    assert red.clock()["ahead_s"] == 0.0
    assert blue.clock()["ahead_s"] >= 3660.0
