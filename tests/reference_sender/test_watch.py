"""The watch: one sender with its metrics and its health, asked over HTTP."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from reference_sender.life import State
from reference_sender.outbox.depths import Depth, EventDepth
from reference_sender.policy.breaker import Breaker, Position
from reference_sender.policy.gate import Shared
from reference_sender.policy.settings import InvalidSettings
from reference_sender.watch import Watch
from tests.reference_sender.samples import NOW, ManualClock

beat: dict[str, Callable[[], None]] = {}


class Store:
    """An outbox with one queue."""

    def depths(self, *, now: datetime) -> Iterable[Depth]:
        return [Depth(state=State.PENDING, mail_class="code", count=7, due=7, oldest_s=1, overdue_s=0)]

    def event_depth(self, *, now: datetime) -> EventDepth:
        return EventDepth(waiting=0, oldest_s=0.0, last_s=None)

    def gates(self) -> Mapping[str, Shared]:
        opened = Breaker(position=Position.OPEN, until=NOW + timedelta(seconds=30))
        return {"primary": Shared(breaker=opened, paused_until=NOW + timedelta(seconds=20))}


def watch(
    clock: ManualClock,
    said: list[tuple[str, dict[str, Any]]],
    port: int = 0,
    turn_s: float = 1.0,
    store: Store | None = None,
) -> Watch:
    def hear(event: str, /, **facts: Any) -> None:
        said.append((event, facts))

    made = Watch(
        place=("127.0.0.1", port),
        store=store or Store(),
        providers=["primary", "other"],
        patience_s=60,
        clock=clock,
        log=hear,
    )
    for loop in ("worker of primary", "worker of other", "reconciler of primary"):
        beat[loop] = made.beat_of(loop, turn_s)
    return made


def test_a_sender_is_watched_from_start_to_close() -> None:
    clock, said = ManualClock(), list[tuple[str, dict[str, Any]]]()
    watched = watch(clock, said)
    watched.start()
    try:
        ((event, facts),) = said
        assert event == "monitoring"
        with urllib.request.urlopen(f"{facts['url']}/metrics", timeout=10) as answer:
            page = answer.read()
        assert b'outbox_mails{class="code",state="pending"} 7.0' in page
        assert b'outbox_breaker{position="open",provider="primary"} 1.0' in page
        assert b'outbox_pause_seconds{provider="primary"} 30.0' in page
        assert b'outbox_breaker{position="closed",provider="other"} 1.0' in page
        with urllib.request.urlopen(f"{facts['url']}/health", timeout=10) as answer:
            assert json.load(answer)["ok"] is True
        clock.advance(1000)
        beat["reconciler of primary"]()
        beat["worker of other"]()
        with pytest.raises(urllib.error.HTTPError, match="503") as caught:
            urllib.request.urlopen(f"{facts['url']}/health", timeout=10)
        with caught.value as answer:
            (why,) = json.load(answer)["why"]
        assert why.startswith("the worker of primary has not come back")
        taken = watch(clock, [], port=int(facts["url"].rsplit(":", 1)[1]))
        with pytest.raises(
            InvalidSettings, match=r"OUTBOX_METRICS is 127\.0\.0\.1:\d+, and nobody can listen"
        ):
            taken.start()
    finally:
        watched.close()
        watched.close()  # twice does no harm
    with pytest.raises(urllib.error.URLError, match="refused"):
        urllib.request.urlopen(f"{facts['url']}/health", timeout=10)


def test_a_loop_has_ten_turns_at_least() -> None:
    """Who polls every minute is not dead after one."""
    clock = ManualClock()
    watched = watch(clock, [], turn_s=60.0)
    clock.advance(599)
    beat["reconciler of primary"]()
    beat["worker of other"]()
    assert watched.health().ok
    clock.advance(2)
    beat["reconciler of primary"]()
    beat["worker of other"]()
    assert not watched.health().ok


def test_ages_are_told_by_the_clock_by_which_mails_were_written_down() -> None:
    asked: list[datetime] = []

    class Asked(Store):
        def depths(self, *, now: datetime) -> Iterable[Depth]:
            asked.append(now)
            return []

    watched = watch(ManualClock(), [], store=Asked())
    theirs = ManualClock(NOW + timedelta(hours=1))
    watched.go_by(theirs)
    watched.metrics.text()
    assert asked == [NOW + timedelta(hours=1)]
