"""Every setting of idempotency keys on the wire: the bytes of both answers, and what the ledger holds then.

A row is a first request, a second one with the key, and what each gets; a last one shows what the key has learned.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import pytest

from simulator.config.keys import SETTINGS
from simulator.provider.idempotency import CARRIERS, FORMS, WAYS
from tests.simulator.running import Running, Sender, mail, request
from tests.simulator.servers.http.answers import accepted_one, found, own_away, problem
from tests.simulator.servers.http.provider import SEND, plan

OTHER_BODY = request(mail(subject="Another order"), key="order-1")
WITHOUT_KEY = request(mail())
IN_BODY = request(mail(idempotency_key="order-1"))
DEEP_IN_BODY = request(mail(headers={"Key": "order-1"}))
IN_ANOTHER_HEADER = request(mail(), headers={"X-Request-Key": "order-1"})
LOOK_UP = request(method="GET", path="/v1/emails?idempotency_key=order-1")

YES = accepted_one()
AGAIN = accepted_one("idempotency-replayed: true")
SAME_BUT_NAMELESS = accepted_one("idempotency-replayed: true", names_it=False)
DONE = problem(
    "409 Conflict", "key_done", detail="the request with this idempotency key has been processed already"
)("")
REUSED = {
    status: problem(
        status, "key_reused", detail="this idempotency key was used before with another request body"
    )("")
    for status in ("409 Conflict", "422 Unprocessable Entity")
}
KEY_FAILED = problem(
    "412 Precondition Failed",
    "key_failed",
    detail="the request with this idempotency key failed; repeat it with another key",
)("")
FAILED = problem("503 Service Unavailable", "unavailable", "retry-after: 7")("")
FAILED_AGAIN = problem(
    "503 Service Unavailable", "unavailable", "retry-after: 7", "idempotency-replayed: true"
)("")
LIED = problem("500 Internal Server Error", "internal_error")("")
LIED_AGAIN = problem("500 Internal Server Error", "internal_error", "idempotency-replayed: true")("")

#: Answered with an error: nothing is booked, or it is.
FAILS = {"fault": "reply", "code": 503, "retry_after": 7, "stage": "accept", "times": 1}
LIES = {"fault": "reply", "code": 500, "stage": "reply", "times": 1}


def in_flight(*more: str) -> bytes:
    return problem(
        "409 Conflict",
        "key_in_flight",
        *more,
        detail="a request with this idempotency key is still being processed",
    )("")


def no_key(code: str, detail: str) -> bytes:
    return problem("400 Bad Request", code, detail=detail)("")


@dataclass(frozen=True, kw_only=True)
class Row:
    """What two requests with one key get, if nothing else is said: a yes, and the same yes as a replay."""

    sets: dict[str, Any]
    """Of the table `[idempotency]`."""
    first: bytes = SEND
    again: bytes = SEND
    rule: dict[str, Any] | None = None
    """Strikes the first one."""
    advance_s: float = 0.0
    """How far the clock moves between them."""
    said: tuple[bytes, bytes] = (YES, AGAIN)
    names: tuple[int | None, int | None] = (0, 0)
    """Which mail of the ledger each answer names."""
    keys: list[str | None] = field(default_factory=lambda: ["order-1"])
    """Those of the mails in the ledger, in order."""


TWICE: dict[str, Any] = {"said": (YES, YES), "names": (0, 1), "keys": ["order-1", "order-1"]}

ROWS = [
    # The first one is finished.
    Row(sets={"finished": "replay"}),
    Row(sets={"finished": "without_id"}, said=(YES, SAME_BUT_NAMELESS), names=(0, None)),
    Row(sets={"finished": "conflict"}, said=(YES, DONE), names=(0, None)),
    # … with another body.
    Row(
        sets={"reused": "unprocessable"},
        again=OTHER_BODY,
        said=(YES, REUSED["422 Unprocessable Entity"]),
        names=(0, None),
    ),
    Row(sets={"reused": "conflict"}, again=OTHER_BODY, said=(YES, REUSED["409 Conflict"]), names=(0, None)),
    Row(sets={"reused": "replay"}, again=OTHER_BODY),
    # … with an error, and nothing was booked.
    Row(sets={"failed": "release"}, rule=FAILS, said=(FAILED, YES), names=(None, 0)),
    Row(sets={"failed": "replay"}, rule=FAILS, said=(FAILED, FAILED_AGAIN), names=(None, None), keys=[]),
    Row(sets={"failed": "refuse"}, rule=FAILS, said=(FAILED, KEY_FAILED), names=(None, None), keys=[]),
    # … with an error, though it was booked.
    Row(sets={"lied": "replay_yes"}, rule=LIES, said=(LIED, AGAIN), names=(None, 0)),
    Row(sets={"lied": "replay_error"}, rule=LIES, said=(LIED, LIED_AGAIN), names=(None, None)),
    Row(sets={"lied": "release"}, rule=LIES, said=(LIED, YES), names=(None, 1), keys=["order-1", "order-1"]),
    # Whether keys mean anything, and for how long.
    Row(sets={"honoured": True}),
    Row(sets={"honoured": False}, **TWICE),
    Row(
        sets={"required": True},
        again=WITHOUT_KEY,
        said=(YES, no_key("key_required", "an idempotency key is required")),
        names=(0, None),
    ),
    Row(
        sets={"required": False},
        again=WITHOUT_KEY,
        said=(YES, YES),
        names=(0, 1),
        keys=["order-1", None],
    ),
    Row(sets={"window_s": 3600}, advance_s=3000),
    Row(sets={"window_s": 3600}, advance_s=3600, **TWICE),
    Row(
        sets={"lookup_lag_s": 3600},
        again=LOOK_UP,
        advance_s=3000,
        said=(YES, found()),
        names=(0, None),
    ),
    Row(sets={"lookup_lag_s": 3600}, again=LOOK_UP, advance_s=3600, said=(YES, found("order-1"))),
    # Where the key stands, and how.
    Row(sets={"carrier": "header"}),
    Row(sets={"carrier": "body"}, first=IN_BODY, again=IN_BODY),
    Row(sets={"carrier": "body"}, said=(YES, YES), names=(0, 1), keys=[None, None]),
    Row(sets={"carrier": "either"}, again=IN_BODY),
    Row(
        sets={"carrier": "body", "body_field": "headers.Key"},
        first=DEEP_IN_BODY,
        again=DEEP_IN_BODY,
    ),
    Row(
        sets={"header": "X-Request-Key"},
        first=IN_ANOTHER_HEADER,
        again=IN_ANOTHER_HEADER,
    ),
    Row(sets={"header": "X-Request-Key"}, said=(YES, YES), names=(0, 1), keys=[None, None]),
    Row(sets={"form": "any"}, again=request(mail(), key='"order-1"')),
    Row(
        sets={"form": "quoted"},
        first=request(mail(), key='"order-1"'),
        said=(
            YES,
            no_key(
                "invalid_request",
                'the idempotency key must be a string in double quotes, like "order-1"',
            ),
        ),
        names=(0, None),
    ),
    Row(
        sets={"max_chars": 7},
        again=request(mail(), key="order-12"),
        said=(
            YES,
            no_key("invalid_request", "an idempotency key has 1 to 7 printable ASCII characters"),
        ),
        names=(0, None),
    ),
    # How a replay is marked.
    Row(sets={"replay_header": "X-Again"}, said=(YES, accepted_one("x-again: true"))),
    Row(sets={"replay_header": ""}, said=(YES, YES)),
]


def written(sets: dict[str, Any]) -> str:
    return ",".join(f"{key}={value}" for key, value in sets.items())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: written(row.sets))
def test_what_a_second_request_with_the_key_gets(simulator: Running, row: Row) -> None:
    plan(simulator, *([] if row.rule is None else [row.rule]), idempotency=row.sets)

    with simulator.control() as control, Sender(simulator.http) as sender:
        first = sender.say(row.first).see().data
        control.advance(row.advance_s)
        again = sender.say(row.again).see().data
        ledger = control.messages()

    assert (own_away(first), own_away(again)) == row.said
    assert [each["key"] for each in ledger] == row.keys
    ids = [each["id"] for each in ledger]
    assert [id_in(first), id_in(again)] == [None if each is None else ids[each] for each in row.names]
    assert {each["subject"] for each in ledger} <= {"Your order"}, (
        "the other mail is never the one that is sent"
    )


def id_in(data: bytes) -> str | None:
    named = re.search(rb"msg_[0-9a-f]{20}", data)
    return None if named is None else named[0].decode()


WAITS = {"in_flight": "wait", "in_flight_s": 60}


IN_FLIGHT: list[tuple[dict[str, Any], bytes, int]] = [
    ({"in_flight": "conflict"}, in_flight(), 0),
    ({"in_flight": "conflict", "in_flight_s": 7}, in_flight(), 0),
    ({"in_flight": "retry_after"}, in_flight("retry-after: 1"), 0),
    ({"in_flight": "retry_after", "in_flight_s": 6.5}, in_flight("retry-after: 7"), 0),
    ({"in_flight": "wait", "in_flight_s": 0.01}, in_flight("retry-after: 1"), 0),
    (WAITS, AGAIN, 0),
    ({"in_flight": "process"}, YES, 1),
]


@pytest.mark.parametrize(("sets", "says", "booked"), IN_FLIGHT, ids=[written(each[0]) for each in IN_FLIGHT])
def test_what_a_second_request_gets_while_the_first_is_being_processed(
    simulator: Running, sets: dict[str, Any], says: bytes, booked: int
) -> None:
    """`booked`: how many mails the ledger has by then; the first one is booked when it is let go."""
    plan(simulator, {"fault": "hold", "stage": "accept", "times": 1}, idempotency=sets)

    with simulator.control() as control, Sender(simulator.http) as first, Sender(simulator.http) as second:
        first.say(SEND)
        control.wait_for_attempts(state="held")
        second.say(SEND)
        if sets is WAITS:
            # It stands behind the first one: both have come as far as that, and neither is over.
            control.wait_for_attempts(stage="accept", count=2)
            assert second.see(silence_s=0.05).end == "silence"
        else:
            again = second.see().data
        assert len(control.messages()) == booked
        control.release()
        said = first.see().data
        if sets is WAITS:
            again = second.see().data
        later = second.say(SEND).see().data
        ids = [each["id"] for each in control.messages()]

    assert (own_away(said), own_away(again), own_away(later)) == (YES, says, AGAIN)
    assert id_in(said) == ids[-1]
    assert id_in(again) == (ids[0] if says in (YES, AGAIN) else None)
    assert id_in(later) == ids[-1]
    assert len(ids) == booked + 1


def test_every_setting_stands_in_a_row() -> None:
    """And every value that it may have, where there is a list of them."""
    shown = {(key, str(value)) for row in ROWS for key, value in row.sets.items()}
    shown |= {(key, str(value)) for sets, _, _ in IN_FLIGHT for key, value in sets.items()}
    values = {
        **{situation: list(ways) for situation, ways in WAYS.items()},
        "carrier": CARRIERS,
        "form": FORMS,
        "honoured": ("True", "False"),
        "required": ("True", "False"),
    }

    assert {key for key, _ in shown} == set(SETTINGS)
    assert {(key, value) for key, all_ in values.items() for value in all_} <= shown
