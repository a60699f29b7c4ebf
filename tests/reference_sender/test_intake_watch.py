"""The watch of an intake: its metrics and its health, asked over HTTP."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from reference_sender.intake_watch import IntakeWatch
from reference_sender.policy.settings import InvalidSettings
from tests.reference_sender.samples import ManualClock


def test_an_intake_is_watched_from_start_to_close() -> None:
    clock, said = ManualClock(), list[tuple[str, dict[str, Any]]]()

    def hear(event: str, /, **facts: Any) -> None:
        said.append((event, facts))

    watch = IntakeWatch(place=("127.0.0.1", 0), turn_s=1.0, clock=clock, log=hear)
    watch.start()
    try:
        ((event, facts),) = said
        assert event == "monitoring"
        clock.advance(60)
        with urllib.request.urlopen(f"{facts['url']}/metrics", timeout=10) as answer:
            assert b"outbox_seconds_since_event_look 60.0" in answer.read()
        with urllib.request.urlopen(f"{facts['url']}/health", timeout=10) as answer:
            assert json.load(answer)["ok"] is True
        clock.advance(1)
        with pytest.raises(urllib.error.HTTPError, match="503") as caught:
            urllib.request.urlopen(f"{facts['url']}/health", timeout=10)
        with caught.value as answer:
            (why,) = json.load(answer)["why"]
        assert why.startswith("the processor of events has not come back")
        watch.beat()
        assert watch.health().ok
        port = int(facts["url"].rsplit(":", 1)[1])
        taken = IntakeWatch(place=("127.0.0.1", port), turn_s=1.0, clock=clock, log=hear)
        with pytest.raises(
            InvalidSettings, match=r"WEBHOOK_METRICS is 127\.0\.0\.1:\d+, and nobody can listen"
        ):
            taken.start()
    finally:
        watch.close()
        watch.close()  # twice does no harm


def test_who_looks_seldom_may_be_silent_for_ten_turns() -> None:
    clock = ManualClock()
    watch = IntakeWatch(place=("127.0.0.1", 0), turn_s=60.0, clock=clock, log=lambda *_, **__: None)
    clock.advance(600)
    assert watch.health().ok
    clock.advance(1)
    assert not watch.health().ok
