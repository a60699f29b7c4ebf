"""State machines over the world, one for each profile: no schedule of theirs breaks a promise.

A bounded number of schedules by default; `MAILPROOF_EXAMPLES=2000 pytest scenarios/test_machines.py` for a long run,
`--seed` for other dice. What is found is made small, printed as a timeline and written as a replay file.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from scenarios.plugin import DEFAULT_SENDER, sender_of
from scenarios.simulation import replay
from scenarios.simulation.campaign_machine import CampaignMachine
from scenarios.simulation.cast import REFERENCE, cast
from scenarios.simulation.listening import ListeningMachine
from scenarios.simulation.matrix import FEW
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.senders import Disk
from scenarios.simulation.stateful import Machine, search

#: Schedules for each machine; each is a world of about 20 steps and costs some 40 ms.
EXAMPLES = int(os.environ.get("MAILPROOF_EXAMPLES", "20"))
#: By default half of that where most of the world is that of another profile.
FEWER = EXAMPLES if "MAILPROOF_EXAMPLES" in os.environ else EXAMPLES // 2

#: The killed leave their sessions behind, and say so whenever the garbage collector meets them.
pytestmark = pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")


@pytest.mark.timeout(60 + EXAMPLES)
@pytest.mark.parametrize("profile", sorted(BY_ID))
def test_no_schedule_breaks_a_promise(profile: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Crashes, freezes, partitions, wrong clocks, restarts and people, in any order: safe always, live in the end."""
    kind = ListeningMachine if BY_ID[profile].hears else Machine
    _search(profile, kind, FEWER if profile in FEW else EXAMPLES, tmp_path, request)


@pytest.mark.timeout(60 + EXAMPLES)
def test_no_schedule_with_a_campaign_breaks_a_promise(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Besides all that, it is begun, paused, resumed and cancelled, and whoever puts its mails in dies."""
    _search("http-keys", CampaignMachine, FEWER, tmp_path, request)


def _search(
    profile: str, kind: type[Machine], examples: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if sender_of(request.config).path != DEFAULT_SENDER:
        pytest.skip("the machines play the sender that lives in the world: the reference sender")
    report = request.config.getoption("--report")
    disk = Disk(tmp_path)
    try:
        found = search(
            profile,
            cast(REFERENCE, disk, BY_ID[profile]),
            disk,
            examples=examples,
            kind=kind,
            dice=request.config.getoption("--seed"),
        )
    finally:
        # While what they say is not taken for an error.
        gc.collect()
    if found.broken is not None:
        path, seen = replay.keep(Path(report) if report else tmp_path, found.broken.schedule)
        lines = "\n".join(line.text for line in seen.lines)
        pytest.fail(
            f"{found.broken.schedule.profile}:\n{lines}\nagain: {replay.command(path)}", pytrace=False
        )
    assert found.tried >= examples
