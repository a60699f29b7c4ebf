"""What goes wrong in our own house is never told as a yes."""

from __future__ import annotations

import logging

import pytest

from simulator.store import StoreError
from tests.simulator.running import Running, ask, mail, request
from tests.simulator.servers.http.provider import SEND, accepted, plan


@pytest.mark.parametrize("short_way", [True, False])
def test_a_bug_of_ours_is_a_500_and_is_logged(
    simulator: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, short_way: bool
) -> None:
    """Only answers that were left out on purpose are silent."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    provider = simulator.service.provider
    monkeypatch.setattr(provider.quick, "is_open", short_way)
    monkeypatch.setattr(provider, "submit", fail)
    monkeypatch.setattr(provider.quick, "hand_in", fail)

    assert ask(simulator, SEND).status == 500
    assert accepted(simulator) == 0
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


# --- what every answer says ---------------------------------------------------------------------------


def test_an_account_with_limits_tells_how_they_stand(simulator: Running) -> None:
    """In every answer, good or bad, to a mail or to a look-up."""
    plan(simulator, limits={"rate_per_s": 0.5, "burst": 2})
    look = request(method="GET", path="/v1/emails?idempotency_key=order-1")

    told = [ask(simulator, data) for data in (SEND, look, request(mail(), key="b"), request(mail(), key="c"))]

    assert [each.status for each in told] == [200, 200, 200, 429]
    assert {each.headers["ratelimit-policy"] for each in told} == {'"account";q=2;w=4'}
    assert [each.headers["ratelimit"].partition(";t=")[0] for each in told] == [
        '"account";r=1', '"account";r=1', '"account";r=0', '"account";r=0',
    ]  # fmt: skip
    assert 1 <= int(told[-1].headers["retry-after"]) <= 2


def test_an_account_without_limits_tells_nothing(simulator: Running) -> None:
    assert not any(name.startswith("ratelimit") for name in ask(simulator, SEND).headers)


def test_a_sender_that_waits_as_told_is_let_in(simulator: Running) -> None:
    """`Retry-After` is never before the quota is there again."""
    plan(simulator, limits={"rate_per_s": 0.5})
    ask(simulator, SEND)
    refused = ask(simulator, request(mail(), key="b"))
    with simulator.control() as control:
        control.advance(float(refused.headers["retry-after"]))

    assert ask(simulator, request(mail(), key="b")).status == 200
