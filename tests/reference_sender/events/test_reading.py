"""From bodies to facts: batches are split before they are read, and what nobody can read costs only itself."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_sender.events.kinds import Happened, Irrelevant, Kind, Malformed
from reference_sender.events.reading import TYPES, items_of, read
from tests.reference_sender.samples import NOW

EVENT: dict[str, Any] = {
    "id": "evt_1",
    "type": "email.delivered",
    "timestamp": "2026-11-29T12:00:00.000Z",
    "account": "default",
    "data": {
        "email_id": "msg_1",
        "message_id": "<a@example.org>",
        "key": "order-1",
        "recipient": "ann@example.com",
        "bounce": None,
        "reply": {"code": 250, "enhanced": "2.0.0", "text": "OK"},
    },
}


def written(**changes: Any) -> bytes:
    return json.dumps(EVENT | changes).encode()


def data(**changes: Any) -> bytes:
    return written(data=EVENT["data"] | changes)


def bounced(**changes: Any) -> bytes:
    return written(type="email.bounced", data=EVENT["data"] | changes)


def test_an_event_is_read_with_every_name_of_its_mail() -> None:
    assert read(written()) == Happened(
        kind=Kind.DELIVERED,
        at=NOW,
        provider_id="msg_1",
        message_id="<a@example.org>",
        key="order-1",
        recipient="ann@example.com",
        detail="250 2.0.0 OK",
    )


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (bounced(bounce="hard"), Kind.HARD_BOUNCE),
        (bounced(bounce="soft", reply={"code": 550, "enhanced": "5.1.1"}), Kind.SOFT_BOUNCE),
        (bounced(reply={"code": 550, "enhanced": "5.1.1"}), Kind.HARD_BOUNCE),
        (bounced(reply={"code": 452, "enhanced": "4.2.2"}), Kind.SOFT_BOUNCE),
        (bounced(reply=None), Kind.SOFT_BOUNCE),
        (bounced(reply={"code": True, "enhanced": 5}), Kind.SOFT_BOUNCE),
    ],
)
def test_a_bounce_is_what_the_provider_says_else_what_the_reply_says(raw: bytes, kind: Kind) -> None:
    told = read(raw)
    assert isinstance(told, Happened)
    assert told.kind is kind


@pytest.mark.parametrize("type_", TYPES)
def test_every_type_is_read(type_: str) -> None:
    assert isinstance(read(written(type=type_)), Happened)


def test_a_type_that_nobody_knows_is_no_mistake() -> None:
    assert isinstance(read(written(type="contact.created")), Irrelevant)


@pytest.mark.parametrize("timestamp", ["2026-11-29T14:00:00+02:00", NOW.timestamp(), int(NOW.timestamp())])
def test_an_instant_may_be_spelled_in_several_ways(timestamp: Any) -> None:
    told = read(written(timestamp=timestamp))
    assert isinstance(told, Happened)
    assert abs(told.at - NOW) < timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "no JSON object"),
        (b"null", "no JSON object"),
        (b'"text"', "no JSON object"),
        (b"\xff\xfe", "no JSON object"),
        (b"[" * 100_000, "no JSON object"),
        (b"<!doctype html>", "no JSON object"),
        (written()[:40], "no JSON object"),
        (written(type=7), '"type"'),
        (written(data=["no", "object"]), '"data"'),
        (written(timestamp=True), '"timestamp"'),
        (written(timestamp="yesterday"), '"timestamp"'),
        (written(timestamp="2026-11-29T12:00:00"), '"timestamp"'),
        (written(timestamp=1e300), '"timestamp"'),
        (written(timestamp="0001-01-01T00:00:00+14:00"), '"timestamp"'),
        (data(email_id=None, message_id=7, key="", recipient="nobody"), "neither a mail nor a recipient"),
    ],
)
def test_what_cannot_be_read_says_why(raw: bytes, reason: str) -> None:
    told = read(raw)
    assert isinstance(told, Malformed)
    assert reason in told.reason


@pytest.mark.parametrize("name", ["a\x00b", "a\nb", "\ud800", "x" * 400])
def test_a_name_that_no_database_would_store_is_no_name(name: str) -> None:
    told = read(data(email_id=name, message_id=name, key=name))
    assert isinstance(told, Happened)
    assert not told.names_a_mail


# --- splitting --------------------------------------------------------------------------------------


def test_an_object_is_one_item_under_its_own_id() -> None:
    (item,) = items_of(written(), request_id="msg_9")
    assert (item.event_id, item.raw) == ("evt_1", written())


def test_an_array_is_split_and_each_item_keeps_its_bytes() -> None:
    body = b'[ {"id":"a",  "n": 1.50} ,null,"text", {"id": "b"}]'
    found = items_of(body, request_id="batch_1")
    assert [each.raw for each in found] == [b'{"id":"a",  "n": 1.50}', b"null", b'"text"', b'{"id": "b"}']
    assert [each.event_id for each in found if each.event_id in "ab"] == ["a", "b"]
    assert len({each.event_id for each in found}) == 4


def test_an_empty_array_tells_nothing() -> None:
    assert items_of(b"[]") == ()


def test_without_an_id_the_signed_one_of_the_request_will_do() -> None:
    (item,) = items_of(b'{"type": "x"}', request_id="evt_7")
    assert item.event_id == "evt_7"


@pytest.mark.parametrize(
    "body", [b"", b"[1, 2", b"<html>", b'[{"id": "a"}] x', b'{"id": "a\\u0000"}', b"[" * 99_999]
)
def test_what_is_no_json_is_one_item_named_by_its_bytes(body: bytes) -> None:
    (item,) = items_of(body)
    assert item.raw == body
    assert item.event_id.startswith("sha256:")
    assert items_of(body) == (item,)
    assert items_of(body + b"!")[0].event_id != item.event_id


@given(body=st.binary(max_size=200))
def test_whatever_comes_is_split_and_read(body: bytes) -> None:
    for item in items_of(body):
        assert 0 < len(item.event_id) <= 255
        read(item.raw)


ODD: tuple[Any, ...] = (None, True, -1, 1e300, "", "x", "\x00", [], [[]], {}, {"code": "x"}, {"email_id": {}})
JSON = st.sampled_from((*ODD, *({key: odd} for key in EVENT["data"] for odd in ODD)))


@given(changes=st.dictionaries(st.sampled_from(sorted(EVENT)), JSON))
def test_whatever_json_comes_is_read(changes: dict[str, Any]) -> None:
    assert isinstance(read(written(**changes)), Happened | Malformed | Irrelevant)
