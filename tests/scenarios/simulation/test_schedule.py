"""A schedule is written as JSON and read back, and what is none is refused."""

from __future__ import annotations

import json

import pytest

from scenarios.simulation.campaign_machine import CampaignRun
from scenarios.simulation.machine import Run
from scenarios.simulation.schedule import CAMPAIGN_STEPS, INTAKE_STEPS, STEPS, Schedule, Step, schedule_from


def test_a_schedule_that_was_written_is_read_as_it_was() -> None:
    schedule = Schedule(
        profile="http-keys",
        seed=7,
        steps=(Step(do="enqueue", number=1), Step(do="freeze", number=1, count=20, seconds=35.0)),
    )
    written = json.loads(json.dumps(schedule.as_json()))
    assert written["steps"][0] == {"do": "enqueue", "number": 1}, "what is not said is not written"
    assert schedule_from(written) == schedule
    assert str(schedule) == "http-keys · enqueue 1 → freeze 1 ×20 35 s"


def test_each_step_is_a_method_of_a_run() -> None:
    assert [name for name in STEPS if not callable(getattr(Run, name, None))] == []


@pytest.mark.parametrize("step", INTAKE_STEPS)
def test_steps_of_an_intake_are_steps_only_where_somebody_hears(step: str) -> None:
    facts = {"profile": "http-hearing", "steps": [{"do": step}]}
    assert schedule_from(facts).steps == (Step(do=step),)
    with pytest.raises(ValueError, match=f"step 1 does '{step}'"):
        schedule_from(facts | {"profile": "http-keys"})


@pytest.mark.parametrize("step", CAMPAIGN_STEPS)
def test_steps_of_a_campaign_are_steps_where_nobody_hears(step: str) -> None:
    """Each is a method of a world with a campaign in it."""
    assert callable(getattr(CampaignRun, step))
    facts = {"profile": "http-keys", "steps": [{"do": step, "name": "pause"}]}
    assert schedule_from(facts).steps == (Step(do=step, name="pause"),)
    with pytest.raises(ValueError, match=f"step 1 does '{step}'"):
        schedule_from(facts | {"profile": "http-hearing"})


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"profile": "pigeon"}, "profile is 'pigeon'; right would be one of http-keys"),
        ({"profile": "http-keys", "steps": [{"do": "dance"}]}, "step 1 does 'dance'; right would be one of"),
        ({"profile": "http-keys", "steps": [{"do": "wait", "x": 1}]}, "step 1 is {'do': 'wait', 'x': 1}"),
        (
            {"profile": "http-keys", "steps": [{"do": "enqueue", "number": 1, "name": "express"}]},
            "step 1: no sort of mail is called 'express'; right would be one of urgent",
        ),
        (
            {"profile": "http-keys", "steps": [{"do": "move_campaign", "name": "hurry"}]},
            "step 1: nobody does 'hurry' to a campaign; right would be one of pause, resume, cancel",
        ),
    ],
)
def test_a_wrong_schedule_is_refused_in_a_sentence(facts: dict[str, object], says: str) -> None:
    """Which step, and what would be right."""
    with pytest.raises(ValueError, match=says.replace("{", r"\{")):
        schedule_from(facts)
