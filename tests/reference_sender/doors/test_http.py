"""The door for webhooks: nothing is believed unverified, nothing acknowledged before it is kept."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.reference_sender.doors.knocks import RULES, Caller, Shelf, knocking, signed
from tests.reference_sender.samples import NOW

BODY = b'{ "id":"evt_1", "type" : "email.delivered" }'


def knock(story: Any, shelf: Shelf | None = None, **more: Any) -> Shelf:
    shelf = shelf or Shelf()
    asyncio.run(knocking(story, shelf, **more))
    return shelf


def test_what_is_genuine_is_kept_as_it_came_and_acknowledged() -> None:
    woken: list[int] = []

    async def story(caller: Caller) -> None:
        status, text, _ = await caller.post(BODY)
        assert (status, text) == (204, "")
        # Told again, it is acknowledged again: the provider did not hear the first yes.
        assert (await caller.post(BODY))[0] == 204

    shelf = knock(story, told=lambda: woken.append(1))
    assert shelf.kept == [("evt_1", BODY)]
    assert shelf.sources == {"webhook"}
    assert woken == [1]


def test_a_batch_is_kept_item_by_item_whatever_its_items_are() -> None:
    body = json.dumps([{"id": "a"}, None, {"id": "b", "type": 7}, "text"]).encode()

    async def story(caller: Caller) -> None:
        assert (await caller.post(body))[0] == 204

    assert [raw for _, raw in knock(story).kept] == [
        b'{"id": "a"}',
        b"null",
        b'{"id": "b", "type": 7}',
        b'"text"',
    ]


@pytest.mark.parametrize("body", [b"", b"[1,", b"<!doctype html>"])
def test_what_is_signed_is_kept_even_if_it_is_no_json(body: bytes) -> None:
    """It will not get better by being told again, and an endpoint that refuses is switched off."""

    async def story(caller: Caller) -> None:
        assert (await caller.post(body))[0] == 204

    ((_, raw),) = knock(story).kept
    assert raw == body


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({}, "no timestamp"),
        (signed(BODY) | {"webhook-signature": "v1,nonsense"}, "wrong signature"),
        (signed(BODY + b" "), "wrong signature"),
        (signed(BODY, at=NOW - timedelta(seconds=301)), "too old"),
        (signed(BODY, at=NOW + timedelta(seconds=301)), "from the future"),
    ],
)
def test_what_is_not_genuine_is_refused_and_not_kept(headers: dict[str, str], reason: str) -> None:
    said: list[tuple[str, dict[str, object]]] = []

    def log(name: str, /, **facts: object) -> None:
        said.append((name, facts))

    async def story(caller: Caller) -> None:
        status, text, _ = await caller.post(BODY, headers | {"webhook-id": "evt_1"})
        assert (status, text) == (401, f"{reason}\n")

    assert knock(story, log=log).kept == []
    assert said == [("webhook_refused", {"status": 401, "reason": reason})]


def test_no_yes_is_said_before_it_is_kept() -> None:
    """While the database takes its time, the provider waits."""
    may_commit = threading.Event()

    async def story(caller: Caller) -> None:
        asking = asyncio.create_task(caller.post(BODY))
        await asyncio.to_thread(begun.wait, 10)
        assert not asking.done()
        may_commit.set()
        assert (await asking)[0] == 204

    begun = threading.Event()

    def before() -> None:
        begun.set()
        assert may_commit.wait(10)

    assert knock(story, Shelf(before=before)).kept == [("evt_1", BODY)]


def test_while_the_database_is_away_it_is_to_be_told_again() -> None:
    async def story(caller: Caller) -> None:
        status, text, headers = await caller.post(BODY)
        assert (status, headers["Retry-After"]) == (503, "30")
        assert "password" not in text

    shelf = knock(story, Shelf(away=ConnectionError("password=secret")))
    assert shelf.kept == []


def test_too_much_is_refused_before_anything_is_verified() -> None:
    async def story(caller: Caller) -> None:
        assert (await caller.post(b"x" * 2_001))[0] == 413
        assert (await caller.post(b" " * 2_000))[0] == 204

    assert len(knock(story).kept) == 1


def test_what_is_compressed_is_not_what_was_signed() -> None:
    packed = gzip.compress(BODY)

    async def story(caller: Caller) -> None:
        headers = signed(BODY) | {"Content-Encoding": "gzip"}
        status, text, _ = await caller.post(packed, headers)
        assert status == 415
        assert "gzip" in text
        # Signed as it came, and not said to be compressed: bytes like any others.
        assert (await caller.post(packed, signed(BODY)))[0] == 401

    assert knock(story).kept == []


def test_another_path_or_method_is_none_of_ours() -> None:
    async def story(caller: Caller) -> None:
        assert (await caller.post(BODY, path="/hooks"))[0] == 204
        assert (await caller.post(BODY))[0] == 404
        async with caller.session.get(f"{caller.url}/hooks") as response:
            assert response.status == 405
        async with caller.session.get(f"{caller.url}/healthz") as response:
            assert (response.status, await response.text()) == (200, "ok\n")

    knock(story, rules=replace(RULES, path="/hooks"))
