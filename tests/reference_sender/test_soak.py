"""The soak of the benchmarks: workers that die, an unkind provider, every mail accepted once – small, and once a night in full."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from typing import Any

import pytest

from tests.benchmarks.soak_outbox import CONCURRENCY, Repeats, Soak, longest_silence_s, repeats_of, soak
from tests.reference_sender.samples import NOW

#: When the one in full size is given up, in seconds.
DEADLINE_S = 1_500.0


def test_every_mail_is_accepted_once_whoever_dies() -> None:
    told = soak(
        120,
        workers=2,
        kill_every_s=1.0,
        seed=7,
        deadline_s=120.0,
        kills=1,
        lease_s=3.0,
        rules=("lose answers 3%", "503 3%", "lose answers by reset 2%"),
    )

    assert told.holds, str(told)
    assert told.kills == 1


@pytest.mark.long
@pytest.mark.timeout(DEADLINE_S + 120)
def test_a_night_of_kills_costs_no_mail_and_few_repeats(
    capsys: pytest.CaptureFixture[str], record_property: Any
) -> None:
    """Four workers, one of them killed each second, until 20,000 mails are out (MAILPROOF_SOAK_MAILS: so many instead)."""
    lease_s = 6.0
    told = soak(
        int(os.environ.get("MAILPROOF_SOAK_MAILS", "20000")),
        workers=4,
        kill_every_s=1.0,
        seed=1,
        deadline_s=DEADLINE_S,
        lease_s=lease_s,
    )

    record_property("soak", str(told))
    with capsys.disabled():
        sys.stdout.write(f"\n{told}\n")
    assert told.holds, str(told)
    assert told.kills > 5, "it was over before anybody died"
    assert told.repeats.count > 0, "nobody who died had a mail under way"
    # The lease, and what may come together behind it: a start of Python on a busy machine, 429s and a breaker that is open.
    # Who was lost twice waits for empty hands besides, and no worker lives long enough here to promise a time.
    assert told.repeats.longest_s < lease_s + 60, str(told)


def attempt(key: str, at_s: float, *rules: str) -> dict[str, Any]:
    return {"key": key, "opened_at": (NOW + timedelta(seconds=at_s)).isoformat(), "rules": list(rules)}


def test_a_repeat_that_a_fault_explains_is_no_cost_of_a_kill() -> None:
    attempts = [
        attempt("refused", 0, "503 2%"),
        attempt("slow", 1, "slow 0.5 s 2%"),
        attempt("left", 2),
        attempt("refused", 3),
        attempt("left", 9, "lose answers 2%"),
        attempt("slow", 9.5),
        attempt("left", 10),
    ]
    assert repeats_of(attempts) == Repeats(count=2, longest_s=8.5)
    assert repeats_of(attempts, {"left"}) == Repeats(count=2, longest_s=8.5, longest_of_suspects_s=7.0)
    assert repeats_of(attempts[:3]) == Repeats(count=0, longest_s=0.0)
    assert longest_silence_s(attempts) == 6.0
    assert longest_silence_s([]) == 0.0


def test_more_repeats_than_the_kills_may_cost_are_no_success() -> None:
    told = Soak(
        mails=1, kills=2, states={"accepted": 1}, verdict={"accepted_once": 1, "valid": True}, requests=60
    )
    assert told.holds
    told.repeats = Repeats(count=3 * CONCURRENCY, longest_s=1.0)
    assert told.holds
    told.repeats = Repeats(count=3 * CONCURRENCY + 1, longest_s=1.0)
    assert not told.holds
