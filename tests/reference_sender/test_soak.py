"""The soak of the benchmarks, small: two workers, an unkind provider, one of them killed, every mail accepted once."""

from __future__ import annotations

from tests.benchmarks.soak_outbox import soak


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
