"""The sender at a provider whose look-up misbehaves, and has taken another mail by then; columns of the matrix have one alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reference_sender.transports import http
from scenarios.checks import Finding
from scenarios.simulation.machine import Run
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.schedule import Step
from scenarios.simulation.senders import Disk, ReferenceSender
from simulator.provider.faults import FAULTS
from simulator.provider.obligations import Reported

pytestmark = pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")

#: What goes wrong at the look-up; what is said there is wrong for no longer than the sender was told that it may be.
PARTICULARS: dict[str, dict[str, Any]] = {
    "reply": {"code": 503, "times": 2},
    "slow": {"delay_s": 35.0, "times": 1},
    "hang": {"times": 1},
    "hang_up": {"times": 2},
    "reset": {"times": 2},
    "garble": {"times": 2},
    "truncate": {"times": 2},
    "redirect": {"times": 2},
    "gateway": {"times": 2},
    "odd_body": {"shape": "empty", "times": 2},
    "gzip": {"flaw": "cut", "times": 2},
    "chunked": {"chunks": "unfinished", "times": 2},
    "drip": {"size_bytes": 8, "delay_s": 1.0, "times": 2},
    "interim": {},
    "two_answers": {"times": 2},
    "lookup_misses": {"times": 1},
    "lookup_stale": {"age_s": 15.0},
    "lookup_unfiltered": {},
}
#: Held until somebody lets go: nobody does.
ELSEWHERE = {"hold"}
#: What became of the first mail: taken and not told, or neither.
LOST = {"taken": "reply", "not taken": "accept"}


def played(folder: Path, lost_at: str, fault: str) -> tuple[list[Finding], set[Reported | None], int]:
    """Two mails, the answer to the first is lost, and whoever asks for it meets the fault.

    Return what is broken in the end, what the sender says of its mails, and how many more than promised there are.
    """
    disk, profile = Disk(folder), BY_ID["http-lookup-lagging"]
    rules = [
        {"name": "lost", "dialect": "http", "fault": "hang_up", "stage": lost_at, "times": 1},
        {"name": "asked", "dialect": "http", "fault": fault, "stage": "lookup", **PARTICULARS[fault]},
    ]
    with Run(profile, ReferenceSender(disk=disk, profile=profile), disk) as run:
        run._set_up(rules)
        findings: list[Finding] = []
        for step in (
            Step(do="enqueue", number=1),
            Step(do="wait", seconds=35.0),
            Step(do="enqueue", number=2),
            Step(do="wait", seconds=300.0),
        ):
            findings += run.take(step)
        struck = {rule for each in run._account().decisions for rule in each.rules}
        assert {"lost", "asked"} <= struck, "nobody asked: nothing was tried"
        findings += run.end()
        more = len(run._account().ledger.acceptances) - len(run.done.owed)
        return findings, {each.state for each in run.sender.said()}, more


def test_every_fault_of_a_look_up_is_here() -> None:
    assert {*PARTICULARS} | ELSEWHERE == {
        name for name, fault in FAULTS.items() if "lookup" in fault.stages.get("http", ())
    }


@pytest.mark.parametrize("fault", PARTICULARS)
@pytest.mark.parametrize("lost", LOST)
def test_each_mail_is_there_once_whatever_a_look_up_says(tmp_path: Path, lost: str, fault: str) -> None:
    assert played(tmp_path, LOST[lost], fault) == ([], {Reported.ACCEPTED}, 0)


def test_who_believes_whatever_a_look_up_shows_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other mail is there, so this one is thought to be."""
    monkeypatch.setattr(http, "is_ours", lambda *_: True)

    findings, _, _ = played(tmp_path, "accept", "lookup_unfiltered")

    assert "lost" in {each.kind for each in findings}
