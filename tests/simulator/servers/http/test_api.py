"""Paths, methods and accounts of the API, and the door before it."""

from __future__ import annotations

import pytest

from simulator.dialects.native.openapi import OPERATIONS, Operation
from tests.simulator.running import Running, Sender, ask, mail, request
from tests.simulator.servers.http.provider import SEND, accepted, is_yes, look_up, plan, the_attempt

BAD_REQUESTS = {
    "no JSON": (request(b"{"), 400, "invalid_request"),
    "no object": (request(b"[]"), 400, "invalid_request"),
    "no recipients": (request(mail(to=[])), 422, "invalid_recipient"),
    "no address": (request(mail(to=["nobody"])), 422, "invalid_recipient"),
    "broken key": (request(mail(), key='"open'), 400, "invalid_request"),
    "no bearer": (request(mail(), headers={"Authorization": "Basic YTpi"}), 401, "credential_missing"),
    "empty bearer": (request(mail(), headers={"Authorization": "Bearer "}), 401, "credential_missing"),
    "no such path": (request(mail(), path="/v1/mails"), 404, "not_found"),
    "no such method": (request(method="DELETE"), 405, "method_not_allowed"),
}


@pytest.mark.parametrize("name", BAD_REQUESTS)
def test_a_bad_request_is_a_problem_with_a_code(simulator: Running, name: str) -> None:
    """Errors are problem+json with one sentence and a code."""
    data, status, code = BAD_REQUESTS[name]

    seen = ask(simulator, data)

    assert (seen.status, seen.json["code"]) == (status, code)
    assert seen.headers["content-type"] == "application/problem+json"
    assert seen.json["detail"]
    assert accepted(simulator) == 0


def test_a_connect_rule_never_locks_out_the_control_api(simulator: Running) -> None:
    """Who could heal the provider is let in although every sender is broken off at the door."""
    plan(simulator, {"fault": "reset", "stage": "connect"})

    assert ask(simulator, SEND).end == "reset"
    with simulator.control() as control:
        assert control.plan()["rules"][0]["fired"] == 1
        control.heal()
    assert is_yes(ask(simulator, SEND))


def test_a_connect_rule_strikes_a_sender_that_says_nothing(simulator: Running) -> None:
    """Nothing has to be read for a fault at the door."""
    plan(simulator, {"fault": "reply", "stage": "connect", "code": 421})

    with Sender(simulator.http) as sender:
        seen = sender.see()
        assert (seen.status, seen.headers["connection"]) == (421, "close")
        assert sender.end() == "eof"


def test_a_connection_without_a_request_closes_its_attempt(simulator: Running) -> None:
    """An attempt opened at the door ends with its connection."""
    plan(simulator, {"fault": "slow", "stage": "connect", "delay_s": 0.01})
    with Sender(simulator.http), simulator.control() as control:
        control.wait_for_attempts(state="open")

    assert the_attempt(simulator)["sent"] == "nothing"


def test_accounts_do_not_see_each_other(simulator: Running) -> None:
    """The API key is the account once it has been named."""
    with simulator.control("shop-a") as control:
        control.reset()
        told = ask(simulator, request(mail(), key="k", headers={"Authorization": "Bearer shop-a"})).json
        assert [each["id"] for each in control.messages()] == [told["id"]]

    assert accepted(simulator) == 0
    assert look_up(simulator, f"/v1/emails/{told['id']}").status == 404
    assert look_up(simulator, f"/v1/emails/{told['id']}", Authorization="Bearer shop-a").status == 200


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_every_operation_that_is_described_is_served(simulator: Running, operation: Operation) -> None:
    """And every other method at its path is refused with the list of those that are."""
    path = operation.path.replace("{id}", "msg_x")
    ours = {each.method for each in OPERATIONS if each.path == operation.path}

    served = ask(simulator, request(b"{" if operation.takes else None, method=operation.method, path=path))
    other = ask(simulator, request(method="DELETE", path=path))

    assert served.status in (200, *operation.problems)
    assert (other.status, other.json["code"]) == (405, "method_not_allowed")
    assert {each.strip() for each in other.headers["allow"].split(",")} - {"HEAD"} == ours


@pytest.mark.parametrize(
    "path",
    [
        "/nowhere",
        "/v1",
        "/v1/emails/",
        "/v1/emails/a/b",
        "/v1/emails/batch/x",
        "//v1/emails",
        "/V1/emails",
        "*",
    ],
)
def test_what_is_nowhere_is_not_found(simulator: Running, path: str) -> None:
    method = "OPTIONS" if path == "*" else "GET"

    assert ask(simulator, request(method=method, path=path)).status in (400, 404)


def test_an_account_may_have_paths_of_its_own(simulator: Running) -> None:
    """With the header that names the key there; other accounts do not have them."""
    plan(simulator, http={"aliases": {"/mail/send": "X-Request-Key"}})
    data = request(mail(), path="/mail/send", headers={"X-Request-Key": "k"})
    with simulator.control("shop-c") as control:
        control.reset()

    first, second = ask(simulator, data), ask(simulator, data)
    foreign = request(mail(), path="/mail/send", headers={"Authorization": "Bearer shop-c"})

    assert first.status == second.status == 200
    assert second.headers["idempotency-replayed"] == "true"
    assert ask(simulator, foreign).status == 404
    other = ask(simulator, request(method="GET", path="/mail/send"))
    assert (other.status, other.json["detail"]) == (405, "GET is not possible at /mail/send; POST is")
