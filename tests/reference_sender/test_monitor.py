"""The monitor: two pages over HTTP, from a thread of their own."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from reference_sender.health import Health
from reference_sender.monitor import Monitor

GREEN = Health(ok=True, silent_s={"worker": 0.1}, why=())
RED = Health(ok=False, silent_s={"worker": 99.0}, why=("the worker is silent",))


class Judge:
    """Says what a test wants it to say."""

    says = GREEN


@pytest.fixture
def judge() -> Judge:
    return Judge()


@pytest.fixture
def monitor(judge: Judge) -> Iterator[Monitor]:
    made = Monitor(
        "127.0.0.1", 0, metrics=lambda: b"outbox_info 1\n", media_type="text/x", health=lambda: judge.says
    )
    yield made
    made.close()


def get(url: str) -> tuple[int, str, bytes]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read()


def test_metrics_are_told_as_they_are(monitor: Monitor) -> None:
    assert get(f"{monitor.url}/metrics?x=1") == (200, "text/x", b"outbox_info 1\n")


def test_health_is_200_or_503_and_says_why(monitor: Monitor, judge: Judge) -> None:
    status, _, body = get(f"{monitor.url}/health")
    assert (status, json.loads(body)) == (200, {"ok": True, "silent_s": {"worker": 0.1}, "why": []})
    judge.says = RED
    status, _, body = get(f"{monitor.url}/health")
    assert (status, json.loads(body)["why"]) == (503, ["the worker is silent"])


def test_there_is_nothing_else(monitor: Monitor) -> None:
    assert get(f"{monitor.url}/outbox.db") == (404, "text/plain", b"there are /metrics and /health\n")


def test_a_client_that_hangs_up_or_says_nothing_is_nobodys_trouble(
    monitor: Monitor, capfd: pytest.CaptureFixture[str]
) -> None:
    place = (monitor.url.removeprefix("http://").split(":")[0], int(monitor.url.rsplit(":", 1)[1]))
    with socket.create_connection(place) as silent, socket.create_connection(place) as rude:
        rude.sendall(b"nonsense\r\n\r\n")
        rude.close()
        assert get(f"{monitor.url}/health")[0] == 200
        silent.sendall(b"GET")
    assert capfd.readouterr() == ("", "")


def test_a_place_that_is_taken_is_an_error(monitor: Monitor) -> None:
    with pytest.raises(OSError, match="in use"):
        Monitor(
            "127.0.0.1",
            int(monitor.url.rsplit(":", 1)[1]),
            metrics=lambda: b"",
            media_type="",
            health=lambda: GREEN,
        )
