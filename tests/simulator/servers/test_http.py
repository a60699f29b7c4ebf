"""What a sender sees on the HTTP wire, byte by byte, and what the ledger knows of it."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import struct
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from simulator.provider.answer import Refused
from simulator.provider.faults import FAULTS, HTTP_STAGES
from simulator.servers.http import DRAIN_BYTES, KEY_HEADERS, MAX_BODY_BYTES, read_body
from simulator.store import StoreError
from tests.simulator.running import Running, Seen, Sender, ask, mail, raw_mail, request, running

SEND = request(mail(), key="order-1")
#: The mail is booked by then; everywhere else it is not.
BOOKED = ("reply", "body")


@pytest.fixture(scope="module")
def simulator() -> Iterator[Running]:
    with running() as service:
        yield service


@pytest.fixture(autouse=True)
def _clean(simulator: Running, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Each test begins with a healthy, empty provider, and none makes the server complain."""
    with simulator.control() as control:
        control.release()
        control.reset()
        yield
        control.release()
        control.heal()
    complaints = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert complaints == []


def plan(simulator: Running, *rules: dict[str, Any], **more: Any) -> None:
    with simulator.control() as control:
        control.set_plan({"rules": list(rules)} | more)


def accepted(simulator: Running) -> int:
    with simulator.control() as control:
        return len(control.messages())


def the_attempt(simulator: Running) -> dict[str, Any]:
    """Return the only attempt there is, once it is over."""
    with simulator.control() as control:
        (attempt,) = control.wait_for_attempts(state="closed")
        return attempt


# --- every fault at every stage ---------------------------------------------------------------------

#: Fault -> what makes it complete, besides name and stage.
PARAMETERS: dict[str, dict[str, Any]] = {
    "reply": {"code": 503, "retry_after": 7},
    "slow": {"delay_s": 0.01},
    "garble": {"code": 202},
    "refuse_recipients": {"recipient": "ada@*"},
}

MATRIX = [
    (name, stage)
    for stage in HTTP_STAGES
    for name, fault in FAULTS.items()
    if stage in fault.stages.get("http", ())
]


def is_yes(seen: Seen) -> bool:
    return seen.end == "open" and seen.status == 200 and seen.json["status"] == "accepted"


def judge(fault: str, stage: str, seen: Seen, sender: Sender, simulator: Running) -> None:
    """Compare what the sender saw with what this fault promises at this stage."""
    headed = stage == "body"
    match fault:
        case "reply":
            assert (seen.end, seen.status) == ("open", 503)
            assert seen.headers["retry-after"] == "7"
            assert seen.headers["content-type"] == "application/problem+json"
        case "slow" | "accept_then_drop":
            assert is_yes(seen)
        case "hang":
            assert seen.end == "silence"
            assert seen.data == b"" or headed
        case "hang_up":
            assert seen.end == "eof"
            assert seen.data == b"" or headed
        case "reset":
            assert seen.end == "reset"
            assert seen.data == b"" or headed
        case "garble":
            assert (seen.end, seen.status) == ("open", 200 if headed else 202)
            with pytest.raises(ValueError, match=r"."):
                json.loads(seen.body)
        case "truncate":
            assert (seen.end, seen.status) == ("eof", 200)
            assert 0 < len(seen.body) < int(seen.headers["content-length"])
        case "hold":
            assert seen.end == "silence"
            assert seen.data == b"" or headed
            with simulator.control() as control:
                assert control.release() == 1
            assert is_yes(sender.see())
        case "refuse_recipients":
            assert seen.status == 422
            assert seen.json["rejected"] == [
                {
                    "recipient": "ada@example.com",
                    "code": 550,
                    "message": "no such mailbox",
                    "enhanced": "5.1.1",
                }
            ]
        case _:
            pytest.fail(f"nobody has said what {fault} looks like on HTTP")
    if headed:
        assert seen.data.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(("fault", "stage"), MATRIX, ids=[f"{fault}-at-{stage}" for fault, stage in MATRIX])
def test_each_fault_looks_as_promised_at_each_stage(simulator: Running, fault: str, stage: str) -> None:
    """The sender sees what the fault says; the mail is in the ledger exactly if the stage is after booking."""
    plan(simulator, {"fault": fault, "stage": stage, **PARAMETERS.get(fault, {})})
    quiet_s = 0.6 if fault in ("hang", "hold") else None

    with Sender(simulator.http) as sender:
        seen = sender.say(SEND).see(silence_s=quiet_s)
        judge(fault, stage, seen, sender, simulator)

    goes_on = fault in ("slow", "hold", "accept_then_drop")
    attempt = the_attempt(simulator)
    booked = stage in BOOKED or goes_on
    assert accepted(simulator) == (1 if booked else 0)
    assert attempt["accepted"] == (["ada@example.com"] if booked else [])
    assert attempt["rules"] == ["rule 1"]
    sent = {
        "hang": "nothing", "hang_up": "nothing", "reset": "nothing", "garble": "partial", "truncate": "partial",
    }.get(fault, "complete")  # fmt: skip
    assert attempt["sent"] == ("partial" if stage == "body" and sent == "nothing" else sent)


@pytest.mark.parametrize("stage", HTTP_STAGES)
def test_after_a_fault_the_next_request_is_served(simulator: Running, stage: str) -> None:
    """A broken connection breaks nothing else."""
    plan(simulator, {"fault": "reset", "stage": stage, "times": 1})
    assert ask(simulator, SEND).end == "reset"

    assert is_yes(ask(simulator, SEND))
    assert accepted(simulator) == 1


@pytest.mark.parametrize("fault", ["hang_up", "reset", "truncate"])
@pytest.mark.parametrize("stage", ["request", "accept", "reply", "body"])
def test_a_fault_hits_the_request_it_is_meant_for(simulator: Running, fault: str, stage: str) -> None:
    """Of three pipelined requests the first is answered, the second struck, the third never looked at."""
    plan(simulator, {"fault": fault, "stage": stage, "skip": 1, "times": 1})
    three = b"".join(request(mail(to=[f"{n}@example.com"]), key=f"k{n}") for n in (1, 2, 3))

    with Sender(simulator.http) as sender:
        first = sender.say(three).see()
        second = sender.see()

    assert is_yes(first)
    assert first.json["accepted"] == ["1@example.com"]
    assert second.end == ("reset" if fault == "reset" else "eof")
    booked = ["1@example.com", "2@example.com"] if stage in BOOKED else ["1@example.com"]
    with simulator.control() as control:
        control.wait_for_attempts(count=2, state="closed")
        assert [each["recipients"][0] for each in control.messages()] == booked
        assert len(control.attempts()) == 2


def test_requests_on_one_connection_are_attempts_of_one_connection(simulator: Running) -> None:
    """An attempt is a request; the connection they share has a name."""
    with Sender(simulator.http) as sender:
        for number in range(3):
            assert is_yes(sender.say(request(mail(), key=f"k{number}")).see())

    with simulator.control() as control:
        attempts = control.wait_for_attempts(count=3, state="closed")
    assert len({each["id"] for each in attempts}) == 3
    assert len({each["connection"] for each in attempts}) == 1


def test_an_answer_behind_which_the_line_closes_was_told_whole(simulator: Running) -> None:
    """A sender that asks for `Connection: close` hears all of it; the attempt says so."""
    seen = ask(simulator, request(mail(), headers={"Connection": "close"}))

    assert seen.status == 200
    assert the_attempt(simulator)["sent"] == "complete"


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


def test_an_answer_is_slow_as_long_as_the_rule_says(simulator: Running) -> None:
    """Latency is felt in the answer; the mail is taken all the same."""
    plan(simulator, {"fault": "slow", "stage": "reply", "delay_s": 0.4})

    with Sender(simulator.http) as sender:
        assert sender.say(SEND).see(silence_s=0.1).end == "silence"
        assert is_yes(sender.see())


def test_a_hang_with_an_end_closes_the_line(simulator: Running) -> None:
    """`delay_s` bounds a hang."""
    plan(simulator, {"fault": "hang", "delay_s": 0.05})

    assert ask(simulator, SEND) == Seen(data=b"", end="eof")


def test_accepted_and_dropped_is_a_yes(simulator: Running) -> None:
    """The sender can see nothing of it; the ledger does."""
    plan(simulator, {"fault": "accept_then_drop"})

    assert is_yes(ask(simulator, SEND))
    with simulator.control() as control:
        assert [each["fate"] for each in control.messages()] == ["dropped"]


def test_some_recipients_refused_is_a_yes_for_the_others(simulator: Running) -> None:
    """A batch may fail in part."""
    plan(simulator, {"fault": "refuse_recipients", "recipient": "bob@*"})

    seen = ask(simulator, request(mail(to=["ada@example.com", "bob@example.com"])))

    assert seen.status == 200
    assert seen.json["accepted"] == ["ada@example.com"]
    assert [each["recipient"] for each in seen.json["rejected"]] == ["bob@example.com"]
    with simulator.control() as control:
        assert [each["recipients"] for each in control.messages()] == [["ada@example.com"]]


# --- idempotency over the wire ----------------------------------------------------------------------


@pytest.mark.parametrize(("path", "header"), [(path, name.decode()) for path, name in KEY_HEADERS.items()])
def test_a_replayed_key_gets_the_first_answer_back(simulator: Running, path: str, header: str) -> None:
    """Same key, same body: the same answer, marked, and one acceptance. Each path has its header name."""
    again = request(mail(), path=path, headers={header: '"order-1"'})

    first, second = ask(simulator, again), ask(simulator, again)

    assert (first.status, second.status) == (200, 200)
    assert "idempotency-replayed" not in first.headers
    assert second.headers["idempotency-replayed"] == "true"
    assert second.body == first.body
    assert accepted(simulator) == 1


def test_a_key_with_another_body_is_refused(simulator: Running) -> None:
    """422 key_reused (draft-ietf-httpapi-idempotency-key-header, section 2.7)."""
    assert ask(simulator, SEND).status == 200

    seen = ask(simulator, request(mail(subject="Another"), key="order-1"))

    assert (seen.status, seen.json["code"]) == (422, "key_reused")


@pytest.mark.parametrize("sticks", ["once", "until_healed"])
def test_a_key_is_in_flight_while_its_answer_is_held(simulator: Running, sticks: str) -> None:
    """409 for the second request while the first waits at `accept`; afterwards the key is done."""
    plan(simulator, {"fault": "hold", "stage": "accept", "sticks": sticks})
    with Sender(simulator.http) as first, Sender(simulator.http) as second, simulator.control() as control:
        first.say(SEND)
        control.wait_for_attempts(state="held")
        second.say(SEND)
        if sticks == "until_healed":
            control.wait_for_attempts(state="held", count=2)
            control.release()
        refused = second.see()
        control.release()

        assert (refused.status, refused.json["code"]) == (409, "key_in_flight")
        assert is_yes(first.see())
        control.heal()
        assert second.say(SEND).see().headers["idempotency-replayed"] == "true"
    assert accepted(simulator) == 1


def test_a_held_answer_after_booking_is_replayed_to_the_next_request(simulator: Running) -> None:
    """The mail is in the ledger while the first answer is held: a second request gets it."""
    plan(simulator, {"fault": "accept_then_hold", "times": 1})
    with Sender(simulator.http) as first, simulator.control() as control:
        first.say(SEND)
        control.wait_for_attempts(state="held", stage="reply")

        assert ask(simulator, SEND).headers["idempotency-replayed"] == "true"

        control.release()
        assert is_yes(first.see())
    assert accepted(simulator) == 1


def test_a_missing_key_is_refused_where_keys_are_required(simulator: Running) -> None:
    """400 key_required."""
    plan(simulator, idempotency={"required": True})

    seen = ask(simulator, request(mail()))

    assert (seen.status, seen.json["code"]) == (400, "key_required")


def test_a_provider_that_ignores_keys_takes_every_copy(simulator: Running) -> None:
    """`honoured = false`: the worst provider a sender can meet."""
    plan(simulator, idempotency={"honoured": False})

    assert ask(simulator, SEND).json["id"] != ask(simulator, SEND).json["id"]
    assert accepted(simulator) == 2


def test_a_second_request_waits_for_the_first_where_keys_say_so(simulator: Running) -> None:
    """`in_flight = "wait"`: no answer until the request in front ends, then the same one."""
    plan(
        simulator,
        {"fault": "hold", "stage": "accept", "times": 1},
        idempotency={"in_flight": "wait", "in_flight_s": 60},
    )
    with Sender(simulator.http) as first, Sender(simulator.http) as second, simulator.control() as control:
        first.say(SEND)
        control.wait_for_attempts(state="held")
        assert second.say(SEND).see(silence_s=0.1).end == "silence"

        control.release()

        assert is_yes(first.see())
        assert second.see().headers["idempotency-replayed"] == "true"
    assert accepted(simulator) == 1


def test_a_second_request_does_not_wait_for_ever(simulator: Running) -> None:
    """409 with `Retry-After` in the end."""
    plan(
        simulator,
        {"fault": "hold", "stage": "accept", "times": 1},
        idempotency={"in_flight": "wait", "in_flight_s": 0.05},
    )
    with Sender(simulator.http) as first, simulator.control() as control:
        first.say(SEND)
        control.wait_for_attempts(state="held")

        seen = ask(simulator, SEND)

        assert (seen.status, seen.json["code"], seen.headers["retry-after"]) == (409, "key_in_flight", "1")
        control.release()
        assert is_yes(first.see())


# --- requests as they should not be -----------------------------------------------------------------

BAD_REQUESTS = {
    "no JSON": (request(b"{"), 400, "invalid_request"),
    "no object": (request(b"[]"), 400, "invalid_request"),
    "no recipients": (request(mail(to=[])), 422, "invalid_recipient"),
    "no address": (request(mail(to=["nobody"])), 422, "invalid_recipient"),
    "broken key": (request(mail(), key='"open'), 400, "invalid_request"),
    "no bearer": (request(mail(), headers={"Authorization": "Basic YTpi"}), 401, "unauthorized"),
    "empty bearer": (request(mail(), headers={"Authorization": "Bearer "}), 401, "unauthorized"),
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


def test_bytes_that_are_no_http_get_400(simulator: Running) -> None:
    """A sender that speaks SMTP to the wrong port hears that it is wrong."""
    assert ask(simulator, b"EHLO here\r\n\r\n").status == 400


def test_an_endless_head_is_refused(simulator: Running) -> None:
    """Whether it is one header or many: 400, and nothing is collected any longer."""
    for endless in (b"a" * 65_536, b"X-A: b\r\n" * 8192):
        with Sender(simulator.http) as sender:
            sender.say(b"POST /v1/emails HTTP/1.1\r\nX-First: ")
            for _ in range(64):
                sender.say(endless)
            assert sender.see().status == 400


def test_a_body_at_the_limit_is_taken(simulator: Running) -> None:
    """40 MB of request; the ledger has the very bytes."""
    frame = len(json.dumps(raw_mail(b"", "ada@example.com")))
    raw = b"Subject: big\r\n\r\n" + b"0123456789abcde\r\n" * ((MAX_BODY_BYTES - frame) // 4 * 3 // 17 - 1)
    body = json.dumps(raw_mail(raw, "ada@example.com")).encode()
    assert MAX_BODY_BYTES - 100 < len(body) <= MAX_BODY_BYTES

    seen = ask(simulator, request(body))

    assert seen.status == 200
    with simulator.control() as control:
        assert control.raw(seen.json["id"]) == raw


def test_a_larger_body_is_refused_and_not_kept(simulator: Running) -> None:
    """413 after the body was thrown away piece by piece; the connection lives on."""
    with Sender(simulator.http) as sender:
        seen = sender.say(request(b" " * (MAX_BODY_BYTES + 1))).see()
        assert (seen.status, seen.json["code"]) == (413, "too_large")
        assert is_yes(sender.say(SEND).see())


def test_a_chunked_body_has_the_same_limit(simulator: Running) -> None:
    """The limit does not trust a declared length."""
    chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    head = b"POST /v1/emails HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    with Sender(simulator.http) as sender:
        seen = sender.say(head + chunk * 41 + b"0\r\n\r\n").see()
    assert seen.status == 413


def test_a_body_without_end_is_neither_kept_nor_read_without_end() -> None:
    """Memory never holds more than the limit, and after four times the limit the sender is told anyway."""
    piece, asked = b" " * 1024 * 1024, 0

    async def receive() -> dict[str, Any]:
        nonlocal asked
        asked += 1
        return {"type": "http.request", "body": piece, "more_body": True}

    tracemalloc.start()
    try:
        outcome = asyncio.run(read_body({}, receive))
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert isinstance(outcome, Refused)
    assert asked == DRAIN_BYTES // len(piece) + 1
    # A growing buffer is copied once in a while: twice the limit is the bound, not four times.
    assert peak_bytes < 2.2 * MAX_BODY_BYTES


def test_a_sender_that_asks_first_is_refused_before_it_sends(simulator: Running) -> None:
    """`Expect: 100-continue` with a length that is too large: 413 instead of 100 (RFC 9110, section 10.1.1)."""
    head = (
        f"POST /v1/emails HTTP/1.1\r\nHost: x\r\nContent-Length: {MAX_BODY_BYTES + 1}\r\n"
        "Expect: 100-continue\r\n\r\n"
    )
    with Sender(simulator.http) as sender:
        assert sender.say(head.encode()).see().status == 413


def test_a_sender_that_asks_first_is_told_to_go_on(simulator: Running) -> None:
    """`Expect: 100-continue` with a good length: 100, then the answer."""
    head, _, body = request(mail(), headers={"Expect": "100-continue"}).partition(b"\r\n\r\n")
    with Sender(simulator.http) as sender:
        assert sender.say(head + b"\r\n\r\n").see().status == 100
        assert is_yes(sender.say(body).see())


@pytest.mark.parametrize("cut", [1, 10, 30, 60, 100, len(SEND) - 1])
@pytest.mark.parametrize("how", ["fin", "rst"])
def test_a_sender_may_leave_at_any_byte(simulator: Running, cut: int, how: str) -> None:
    """Nothing is booked, nothing is logged as an error, and the next sender is served."""
    with Sender(simulator.http) as sender:
        sender.say(SEND[:cut])
        if how == "rst":
            sender.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    assert is_yes(ask(simulator, request(mail(), key="another")))
    assert accepted(simulator) == 1


def test_a_sender_that_leaves_while_its_answer_is_held_ends_its_attempt_at_release(
    simulator: Running,
) -> None:
    """Accepted, and nothing was told: what the harness that kills senders relies on."""
    plan(simulator, {"fault": "accept_then_hold"})
    with simulator.control() as control:
        with Sender(simulator.http) as sender:
            sender.say(SEND)
            control.wait_for_attempts(state="held", to="ada@example.com")
        control.release()

        (attempt,) = control.wait_for_attempts(state="closed")
        assert (attempt["accepted"], attempt["sent"]) == (["ada@example.com"], "nothing")


# --- look-ups ---------------------------------------------------------------------------------------


def look_up(simulator: Running, path: str, **headers: str) -> Seen:
    return ask(simulator, request(method="GET", path=path, headers=headers))


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


def test_accounts_do_not_see_each_other(simulator: Running) -> None:
    """The API key is the account once it has been named."""
    with simulator.control("shop-a") as control:
        control.reset()
        told = ask(simulator, request(mail(), key="k", headers={"Authorization": "Bearer shop-a"})).json
        assert [each["id"] for each in control.messages()] == [told["id"]]

    assert accepted(simulator) == 0
    assert look_up(simulator, f"/v1/emails/{told['id']}").status == 404
    assert look_up(simulator, f"/v1/emails/{told['id']}", Authorization="Bearer shop-a").status == 200


# --- what goes wrong in our own house ---------------------------------------------------------------


def test_a_bug_of_ours_is_a_500_and_is_logged(
    simulator: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Only answers that were left out on purpose are silent."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(simulator.service.provider, "submit", fail)

    assert ask(simulator, SEND).status == 500
    assert the_attempt(simulator)["accepted"] == []
    assert any(record.exc_info for record in caplog.records if record.levelno >= logging.ERROR)
    caplog.clear()


# --- a store that fails -----------------------------------------------------------------------------


def test_no_yes_without_a_durable_acceptance(
    simulator: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What fails to be kept gets no answer, what comes after it is put off, and the process says so once."""
    store = simulator.service.store
    append = store.append

    def fail(records: object) -> None:
        raise StoreError("the ledger cannot be written: disk full")

    monkeypatch.setattr(store, "append", fail)
    first, again = ask(simulator, SEND), ask(simulator, request(mail(to=["bob@example.com"]), key="order-2"))
    assert first.end == "eof"
    assert first.data == b""
    assert again.status == 503
    assert accepted(simulator) == 1
    with simulator.control() as control:
        assert control.health()["status"] == "failing"
    said = [record.getMessage() for record in caplog.records if record.name == "simulator.store"]
    assert len(said) == 1
    assert "disk full" in said[0]

    monkeypatch.setattr(store, "append", append)
    with simulator.control() as control:
        # Whatever is written next writes what was left over, too.
        control.owe([{"ref": "r", "recipient": "ada@example.com"}])
    seen = ask(simulator, SEND)
    assert seen.headers["idempotency-replayed"] == "true"
    assert store.body("default", seen.json["id"]) is not None
    with simulator.control() as control:
        assert control.health()["status"] == "ok"
    caplog.clear()
