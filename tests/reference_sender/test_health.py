"""Health: a loop that stops looking turns it red, whatever the cause."""

from __future__ import annotations

import pytest

from reference_sender.health import Pulse, Watched, examine


class Ticks:
    """A monotonic clock that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_start_counts_as_a_beat() -> None:
    ticks = Ticks()
    loop = Watched(pulse=Pulse(ticks), patience_s=60)
    ticks.now += 60
    assert examine({"worker": loop}).ok


def test_silence_turns_it_red_with_a_sentence_and_a_beat_turns_it_green_again() -> None:
    ticks = Ticks()
    worker, reconciler = (Watched(pulse=Pulse(ticks), patience_s=60) for _ in range(2))
    ticks.now += 61
    reconciler.pulse.beat()
    health = examine({"worker": worker, "reconciler": reconciler})
    assert (health.ok, health.silent_s) == (False, {"worker": 61.0, "reconciler": 0.0})
    assert health.why == ("the worker has not come back from a look for 61 s; 60 s are its limit",)
    worker.pulse.beat()
    assert examine({"worker": worker, "reconciler": reconciler}).ok


def test_a_clock_that_goes_back_is_no_negative_silence() -> None:
    ticks = Ticks()
    pulse = Pulse(ticks)
    ticks.now -= 5
    assert pulse.seconds_since() == 0


@pytest.mark.parametrize(("turn_s", "patience_s"), [(1.0, 60.0), (6.0, 60.0), (7.0, 70.0)])
def test_a_loop_with_long_turns_may_be_silent_for_longer(turn_s: float, patience_s: float) -> None:
    assert Watched.every(turn_s, lambda: 0.0, least_s=60.0).patience_s == patience_s
