"""The sender at a provider with a limit that nobody told it of: the provider itself judges whether it obeys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scenarios.simulation.machine import Run
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.schedule import Step
from scenarios.simulation.senders import Disk, ReferenceSender
from scenarios.simulation.zoo.patience import Deaf
from simulator.provider.obedience import Obedience, judge_obedience
from simulator.provider.obligations import Reported

pytestmark = pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")


def played(folder: Path, **more: Any) -> tuple[Run, Obedience]:
    """Two workers and eight mails; what the provider says of it."""
    disk, profile = Disk(folder), BY_ID["http-limited"]
    options = {"rate_per_s": None, "concurrency": 1, "poll_s": 1.0}
    with Run(profile, ReferenceSender(disk=disk, profile=profile, options=options, **more), disk) as run:
        run.take(Step(do="start_worker"))
        for number in range(1, 9):
            run.take(Step(do="enqueue", number=number))
        run.take(Step(do="wait", seconds=120.0))
        return run, judge_obedience(run._account().attempts.values())


def test_what_one_worker_is_told_all_obey_and_everything_arrives(tmp_path: Path) -> None:
    run, obedience = played(tmp_path)
    assert obedience.told > 0, "the limit was never met"
    assert (obedience.obeyed, obedience.too_early_count, obedience.pressed_count) == (True, 0, 0)
    assert {each.state for each in run.sender.said()} == {Reported.ACCEPTED}


def test_who_keeps_it_to_the_one_mail_is_found_out(tmp_path: Path) -> None:
    _, obedience = played(tmp_path, parts={"gatekeeper": Deaf})
    assert obedience.obeyed is False
    assert obedience.pressed_count > 0
