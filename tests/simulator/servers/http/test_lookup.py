"""Looking mail up over HTTP: what a reconciler sees."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from simulator.provider.faults import FAULTS
from tests.simulator.running import Running, Seen, Sender, ask, mail, request
from tests.simulator.servers.http.provider import SEND, accepted, look_up, plan


def test_mail_is_found_by_id_key_and_message_id(simulator: Running) -> None:
    """What a reconciler asks for."""
    told = ask(simulator, request(mail(message_id="<m-1@example.org>"), key="order-1")).json

    by_id = look_up(simulator, f"/v1/emails/{told['id']}").json
    by_key = look_up(simulator, "/v1/emails?idempotency_key=order-1").json["data"]
    by_message_id = look_up(simulator, "/v1/emails?message_id=%3Cm-1%40example.org%3E").json["data"]

    assert by_id["message_id"] == "<m-1@example.org>"
    assert by_id["to"] == ["ada@example.com"]
    assert by_key == by_message_id == [by_id]
    assert by_key[0]["idempotency_key"] == "order-1"


def test_unknown_mail_is_not_found(simulator: Running) -> None:
    """404 for an id, an empty list for a key."""
    assert look_up(simulator, "/v1/emails/msg_none").status == 404
    assert look_up(simulator, "/v1/emails?idempotency_key=none").json == {"data": []}


@pytest.mark.parametrize("query", ["", "?key=x", "?idempotency_key=a&message_id=b"])
def test_a_look_up_names_one_thing(simulator: Running, query: str) -> None:
    """Anything else is a mistake of the sender's, and said so."""
    assert look_up(simulator, f"/v1/emails{query}").status == 400


def test_a_look_up_lags_as_the_plan_says(simulator: Running) -> None:
    """An eventually consistent service does not know a mail yet that it has accepted."""
    plan(simulator, idempotency={"lookup_lag_s": 3600})
    told = ask(simulator, SEND).json

    assert look_up(simulator, f"/v1/emails/{told['id']}").status == 404
    assert look_up(simulator, "/v1/emails?idempotency_key=order-1").json == {"data": []}


# --- rules at stage `lookup` ------------------------------------------------------------------------

#: Fault -> what makes it complete, besides name and stage.
PARAMETERS: dict[str, dict[str, Any]] = {
    "reply": {"code": 503, "retry_after": 7},
    "slow": {"delay_s": 0.01},
    "garble": {"code": 202},
    "lookup_stale": {"age_s": 60},
    "odd_body": {"shape": "html"},
    "drip": {"delay_s": 0, "size_bytes": 7},
}
FAULTS_HERE = [name for name, fault in FAULTS.items() if "lookup" in fault.stages.get("http", ())]
BY_KEY = "/v1/emails?idempotency_key=order-1"


def judge(fault: str, by_id: bool, seen: Seen, sender: Sender, simulator: Running) -> None:
    """Compare what a look-up saw with what this fault promises."""
    match fault:
        case "reply":
            assert (seen.status, seen.headers["retry-after"]) == (503, "7")
            assert seen.headers["content-type"] == "application/problem+json"
        case "slow":
            assert "order-1" in seen.body.decode()
        case "hang":
            assert seen == Seen(data=b"", end="silence")
        case "hang_up":
            assert seen == Seen(data=b"", end="eof")
        case "reset":
            assert seen == Seen(data=b"", end="reset")
        case "garble":
            assert seen.status == 202
            with pytest.raises(ValueError, match=r"."):
                json.loads(seen.body)
        case "truncate":
            assert (seen.end, seen.status) == ("eof", 200)
            assert 0 < len(seen.body) < int(seen.headers["content-length"])
        case "hold":
            assert seen == Seen(data=b"", end="silence")
            with simulator.control() as control:
                assert control.release() == 1
            assert "order-1" in sender.see().body.decode()
        case "redirect":
            assert (seen.status, seen.headers["location"]) == (307, "/v1/emails")
        case "gateway":
            assert (seen.status, seen.body[:6]) == (504, b"<html>")
        case "odd_body":
            assert (seen.status, seen.body[:15]) == (200, b"<!DOCTYPE html>")
        case "gzip":
            assert b"order-1" in gzip.decompress(seen.body)
        case "chunked":
            assert b'"id"' in sender.until(b"0\r\n\r\n")
        case "drip":
            assert "order-1" in seen.body.decode()
        case "interim":
            assert seen.status == 103
            assert "order-1" in sender.see().body.decode()
        case "two_answers":
            assert "order-1" in seen.body.decode()
            assert sender.see().status == 500
        case "lookup_misses" | "lookup_stale":
            assert seen.status == (404 if by_id else 200)
            assert by_id or seen.json == {"data": []}
        case "lookup_unfiltered":
            assert seen.status == 200
            shown = [seen.json] if by_id else seen.json["data"]
            assert [each["idempotency_key"] for each in shown] == (
                ["order-1"] if by_id else ["order-0", "order-1"]
            )
        case _:
            pytest.fail(f"nobody has said what {fault} looks like at a look-up")


@pytest.mark.parametrize("by_id", [True, False], ids=["by id", "by key"])
@pytest.mark.parametrize("fault", FAULTS_HERE)
def test_each_fault_looks_as_promised_at_a_look_up(simulator: Running, fault: str, by_id: bool) -> None:
    """The reconciler's view goes wrong; the ledger stays as it is, and a look-up is no attempt."""
    ask(simulator, request(mail(), key="order-0"))
    told = ask(simulator, SEND).json
    with simulator.control() as control:
        control.add_rules({"fault": fault, "stage": "lookup", "name": "odd"} | PARAMETERS.get(fault, {}))

    quiet_s = 0.2 if fault in ("hang", "hold") else None
    path = f"/v1/emails/{told['id']}" if by_id else BY_KEY
    with Sender(simulator.http) as sender:
        seen = sender.say(request(method="GET", path=path)).see(silence_s=quiet_s)
        judge(fault, by_id, seen, sender, simulator)

    with simulator.control() as control:
        assert control.plan()["rules"][0]["fired"] == 1
        assert len(control.attempts()) == 2
    assert accepted(simulator) == 2
    (decision,) = simulator.service.provider.accounts["default"].decisions
    assert (decision.stage, decision.rules) == ("lookup", ("odd",))
    assert decision.attempt.startswith("look_")


def test_a_rule_of_the_look_up_can_mean_one_key(simulator: Running) -> None:
    for number in (0, 1):
        ask(simulator, request(mail(), key=f"order-{number}"))
    plan(simulator, {"fault": "lookup_misses", "key": "order-1"})

    found = [
        look_up(simulator, f"/v1/emails?idempotency_key=order-{number}").json["data"] for number in (0, 1)
    ]

    assert [len(each) for each in found] == [1, 0]


def test_a_slow_look_up_sees_what_came_meanwhile(simulator: Running) -> None:
    """What is shown is what is there when the answer goes out."""
    plan(simulator, {"fault": "hold", "stage": "lookup"})
    with Sender(simulator.http) as sender, simulator.control() as control:
        sender.say(request(method="GET", path=BY_KEY))
        assert sender.see(silence_s=0.1).end == "silence"
        ask(simulator, SEND)
        control.release()

        assert len(sender.see().json["data"]) == 1


@pytest.mark.parametrize(
    "query",
    ["?" + "a=b&" * 50, "?idempotency_key=%ff%fe", "?idempotency_key=" + "k" * 10_000, "?%00=", "?&&&="],
)
def test_odd_queries_are_answered(simulator: Running, query: str) -> None:
    assert look_up(simulator, f"/v1/emails{query}").status in (200, 400)
