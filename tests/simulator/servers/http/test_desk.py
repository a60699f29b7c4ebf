"""What goes wrong in our own house is never told as a yes."""

from __future__ import annotations

import logging

import pytest

from simulator.store import StoreError
from tests.simulator.running import Running, ask, mail, request
from tests.simulator.servers.http.provider import SEND, accepted, the_attempt


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
