"""Every fault at every stage of HTTP: the bytes that a raw sender sees, how its line ends, and what the ledger holds.

A row says what a fault looks like wherever it strikes; the matrix asks for it at each stage that the fault has. Behind
each request stands a look-up of another mail: a line that is still sound answers it, and whatever came before its
answer is all that the sender was told. That nothing is said at all is seen when others have been served after it.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from simulator.provider.faults import FAULTS, HTTP_STAGES
from tests.simulator.running import PATIENCE_S, Running, Sender, ask, mail, request
from tests.simulator.servers.http.answers import (
    MSG,
    Says,
    accepted_one,
    answer,
    compact,
    found,
    own_away,
    problem,
)
from tests.simulator.servers.http.provider import BOOKED, SEND, accepted, plan

OPEN, EOF, RST, SILENCE, HELD = "open", "end of file", "reset", "silence", "held back"

OTHER = request(method="GET", path="/v1/emails/msg_nobody")
ANSWER_TO_OTHER = b"HTTP/1.1 404 Not Found\r\n"
LOOK_UP = request(method="GET", path="/v1/emails?idempotency_key=order-1")


# --- words ------------------------------------------------------------------------------------------


def yes(at: str) -> bytes:
    """Return what is said if nothing goes wrong."""
    return found("order-1") if at == "lookup" else accepted_one()


def nothing(at: str) -> bytes:
    """Return no byte; where only the body is hit, its head."""
    return yes(at).partition(b"\r\n\r\n")[0] + b"\r\n\r\n" if at == "body" else b""


NOISE = b'{"id": "msg_\xff\xfe\x00", "stat<html>'


def noise(at: str) -> bytes:
    if at != "body":
        return answer("202 Accepted", "application/json", NOISE, at=at)
    head, _, body = yes(at).partition(b"\r\n\r\n")
    return head + b"\r\n\r\n" + (NOISE * 9)[: len(body)]


def half(at: str) -> bytes:
    """Return a whole head, and half of the body that it promises."""
    whole = yes(at)
    if at not in ("lookup", *BOOKED):
        # Nobody knows yet what would have been said.
        told: dict[str, Any] = {
            "id": MSG,
            "message_id": None,
            "status": "accepted",
            "accepted": [],
            "rejected": [],
        }
        whole = answer("200 OK", "application/json", compact(told), at=at)
    head, _, body = whole.partition(b"\r\n\r\n")
    return head + b"\r\n\r\n" + body[: len(body) // 2]


def gateway(status: str, phrase: str, *more: str) -> Says:
    """Return a gateway's page. What stands in it is not always the usual phrase of its status."""
    says = f"{status.partition(' ')[0]} {phrase}"
    page = (
        f"<html>\n<head><title>{says}</title></head>\n<body>\n"
        f"<center><h1>{says}</h1></center>\n<hr><center>gateway</center>\n</body>\n</html>\n"
    )
    return lambda at: answer(status, "text/html; charset=utf-8", page, *more, at=at)


def error_under_200(at: str) -> bytes:
    error = {"code": "internal_error", "message": "the mail could not be queued"}
    return answer("200 OK", "application/json", compact({"status": "error", "error": error}), at=at)


def early_hints(at: str) -> bytes:
    return b"HTTP/1.1 103 Early Hints\r\n\r\n" + yes(at)


def and_500(at: str) -> bytes:
    return yes(at) + problem("500 Internal Server Error", "internal_error")(at)


# --- what was heard, read ---------------------------------------------------------------------------


def as_heard(data: bytes) -> bytes:
    return data


def unzipped(data: bytes) -> bytes:
    """Return the answer as it would be without compression."""
    head, _, body = data.partition(b"\r\n\r\n")
    assert f"content-length: {len(body)}".encode() in head
    plain = gzip.decompress(body)
    head = head.replace(b"content-encoding: gzip\r\n", b"")
    return re.sub(rb"content-length: \d+", b"content-length: %d" % len(plain), head) + b"\r\n\r\n" + plain


def unchunked(data: bytes) -> bytes:
    """Return the answer as it would be with a length."""
    head, _, rest = data.partition(b"\r\n\r\n")
    plain = b""
    while True:
        size, _, rest = rest.partition(b"\r\n")
        chunk, rest = rest[: int(size, 16)], rest[int(size, 16) :]
        assert rest.startswith(b"\r\n")
        rest = rest[2:]
        if not chunk:
            assert rest == b""
            break
        plain += chunk
    head = head.replace(b"transfer-encoding: chunked", b"content-length: %d" % len(plain))
    return head + b"\r\n\r\n" + plain


@dataclass(frozen=True, kw_only=True)
class Row:
    """What a fault looks like on the wire, and in the ledger."""

    says: Says
    """Stage -> the bytes that the sender sees."""
    end: str = OPEN
    sent: str = "complete"
    """What the attempt says of its answer."""
    goes_on: bool = False
    """The mail is booked though the fault strikes before that."""
    needs: dict[str, Any] = field(default_factory=dict)
    """What a rule must say besides the fault and the stage."""
    read: Callable[[bytes], bytes] = as_heard


NOBODY = {"recipient": "ada@example.com", "code": 550, "message": "no such mailbox", "enhanced": "5.1.1"}
ELSEWHERE = "http://127.0.0.1:1/v1/emails?from=here"
#: By the fault, and by what is said besides where there is more than one answer to look at.
ROWS: dict[str, Row] = {
    "reply": Row(
        says=problem("503 Service Unavailable", "unavailable", "retry-after: 7"),
        needs={"code": 503, "retry_after": 7},
    ),
    "slow": Row(says=yes, goes_on=True, needs={"delay_s": 0.001}),
    "hang": Row(says=nothing, end=SILENCE, sent="nothing"),
    "hang_up": Row(says=nothing, end=EOF, sent="nothing"),
    "reset": Row(says=nothing, end=RST, sent="nothing"),
    "garble": Row(says=noise, sent="partial", needs={"code": 202}),
    "truncate": Row(says=half, end=EOF, sent="partial"),
    "hold": Row(says=yes, end=HELD, goes_on=True),
    "accept_then_drop": Row(says=yes, goes_on=True),
    "fate": Row(says=yes, goes_on=True, needs={"fate": "opened"}),
    "webhook_early": Row(says=yes, goes_on=True),
    "refuse_recipients": Row(
        says=problem(
            "422 Unprocessable Entity",
            "invalid_recipient",
            detail="no recipient was accepted",
            rejected=[NOBODY],
        ),
        needs={"recipient": "ada@*"},
    ),
    "lookup_misses": Row(says=lambda at: found()),
    "lookup_stale": Row(says=lambda at: found(), needs={"age_s": 60}),
    "lookup_unfiltered": Row(says=lambda at: found("order-0", "order-1")),
    "redirect": Row(says=problem("307 Temporary Redirect", "error", "location: /v1/emails")),
    **{
        f"redirect {status[:3]}": Row(
            says=problem(status, "error", f"location: {ELSEWHERE}"),
            needs={"code": int(status[:3]), "location": ELSEWHERE},
        )
        for status in ("301 Moved Permanently", "302 Found", "303 See Other", "308 Permanent Redirect")
    },
    "gateway": Row(says=gateway("504 Gateway Timeout", "Gateway Time-out")),
    "gateway 502": Row(says=gateway("502 Bad Gateway", "Bad Gateway"), needs={"code": 502}),
    "gateway 503": Row(
        says=gateway("503 Service Unavailable", "Service Temporarily Unavailable", "retry-after: 7"),
        needs={"code": 503, "retry_after": 7},
    ),
    "odd_body": Row(says=error_under_200, needs={"shape": "error"}),
    # The answer to a single mail has no list that could be odd: see the batches.
    "odd_results": Row(says=yes, needs={"listing": "fewer"}),
    "gzip": Row(says=yes, read=unzipped),
    "chunked": Row(says=yes, read=unchunked),
    "drip": Row(says=yes, needs={"delay_s": 0, "size_bytes": 7}),
    "interim": Row(says=early_hints),
    "two_answers": Row(says=and_500),
    # This sender does not wait for 100.
    "no_continue": Row(says=yes, goes_on=True),
}


def fault_of(row: str) -> str:
    return row.partition(" ")[0]


MATRIX = [
    pytest.param(name, stage, id=f"{name}-at-{stage}")
    for name in ROWS
    for stage in FAULTS[fault_of(name)].stages.get("http", ())
    if stage != "tls"  # See `test_secure.py`.
]


# --- the matrix -------------------------------------------------------------------------------------


def hear(sender: Sender) -> tuple[bytes, str]:
    """Return what comes before the answer to the other look-up, and how the line goes on."""
    data = b""
    try:
        while ANSWER_TO_OTHER not in data:
            piece = sender.socket.recv(65_536)
            if not piece:
                return data, EOF
            data += piece
    except ConnectionResetError:
        return data, RST
    return data.partition(ANSWER_TO_OTHER)[0], OPEN


def wait_until_struck(simulator: Running) -> None:
    """Serve others until the rule is in the decision log, and once more: by then everything is said that will be."""
    decisions = simulator.service.provider.accounts["default"].decisions
    for _ in range(1_000):
        struck = bool(decisions)
        assert ask(simulator, OTHER).status == 404
        if struck:
            return
    pytest.fail("the rule never struck")


def waiting(sender: Sender) -> bytes:
    """Return what has arrived by now, and make sure that the line has not ended."""
    sender.socket.setblocking(False)
    try:
        data = sender.socket.recv(65_536)
    except BlockingIOError:
        return b""
    finally:
        sender.socket.settimeout(PATIENCE_S)
    assert data, "the line has ended"
    return data


def ledger(simulator: Running, *, look_up: bool) -> int:
    """Return how many mails were booked by the request that was struck."""
    return accepted(simulator) - (2 if look_up else 0)


@pytest.mark.parametrize(("name", "stage"), MATRIX)
def test_every_fault_at_every_stage(simulator: Running, name: str, stage: str) -> None:
    row, look_up = ROWS[name], stage == "lookup"
    if look_up:
        for key in ("order-0", "order-1"):
            assert ask(simulator, request(mail(), key=key)).status == 200
    plan(simulator, {"fault": fault_of(name), "stage": stage, "times": 1} | row.needs)
    booked_before = stage in BOOKED

    with Sender(simulator.http) as sender:
        sender.say((LOOK_UP if look_up else SEND) + OTHER)
        if row.end in (SILENCE, HELD):
            wait_until_struck(simulator)
            data, end = waiting(sender), row.end
            assert ledger(simulator, look_up=look_up) == int(booked_before)
            assert own_away(data) == nothing(stage)
            if row.end == HELD:
                with simulator.control() as control:
                    assert control.release() == 1
                more, line = hear(sender)
                data += more
                assert line == OPEN
        else:
            data, end = hear(sender)

    expected_end = EOF if stage == "connect" and row.end == OPEN and not row.goes_on else row.end
    assert end == expected_end
    assert own_away(row.read(data)) == row.says(stage)
    booked = not look_up and (booked_before or row.goes_on)
    assert ledger(simulator, look_up=look_up) == int(booked)
    (decision,) = simulator.service.provider.accounts["default"].decisions
    assert (decision.stage, decision.rules, decision.wire) == (stage, ("rule 1",), "http")
    if look_up:
        assert decision.attempt.startswith("look_")
        return
    with simulator.control() as control:
        # At the door even those who only look something up are attempts.
        attempts = control.wait_for_attempts(count=len(control.attempts()), state="closed")
    (attempt,) = (each for each in attempts if each["rules"])
    assert attempt["accepted"] == (["ada@example.com"] if booked else [])
    assert attempt["rules"] == ["rule 1"]
    assert attempt["sent"] == ("partial" if stage == "body" and row.sent == "nothing" else row.sent)


# --- the table is whole -----------------------------------------------------------------------------


def test_every_fault_of_this_wire_has_a_row_and_every_row_a_fault() -> None:
    on_this_wire = {name for name, fault in FAULTS.items() if set(fault.stages.get("http", ())) - {"tls"}}

    assert {fault_of(name) for name in ROWS} == on_this_wire


def test_every_stage_has_a_fault_that_is_seen_there() -> None:
    """A stage that no fault can strike at would be one that nobody has tried."""
    assert {stage for _, stage in (param.values for param in MATRIX)} == {*HTTP_STAGES} - {"tls"}
