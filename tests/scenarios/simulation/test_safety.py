"""What must hold after every step, and what a judge must allow for."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from scenarios.history import History, Try
from scenarios.simulation.machine import Run
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.safety import Done
from scenarios.simulation.schedule import Step
from scenarios.simulation.senders import Disk, ReferenceSender
from scenarios.simulation.world import BEGIN

pytestmark = pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def do(run: Run, what: str, **details: Any) -> None:
    assert run.take(Step(do=what, **details)) == []


def test_a_state_that_changes_behind_its_table_is_found(disk: Disk) -> None:
    """Nobody may move a mail that has ended."""
    profile = BY_ID["http-keys"]
    with Run(profile, ReferenceSender(disk=disk, profile=profile), disk) as run:
        do(run, "enqueue", number=1)
        do(run, "wait", seconds=22.0)
        intruder = run.world.process("worker 9")
        engine = run.sender._engine()  # type: ignore[attr-defined] # the reference sender's

        def meddle() -> None:
            with engine.begin() as connection:
                connection.exec_driver_sql("UPDATE outgoing_email SET state = 'pending'")
            engine.dispose()

        intruder.run(meddle)

        assert "illegal move" in {each.kind for each in run.unsafe()}


def test_a_row_that_is_gone_is_found_at_once(disk: Disk) -> None:
    """Committed, and the outbox knows nothing of it."""
    profile = BY_ID["http-keys"]
    with Run(profile, ReferenceSender(disk=disk, profile=profile), disk) as run:
        do(run, "kill", number=1)
        do(run, "enqueue", number=1)
        intruder = run.world.process("worker 9")
        engine = run.sender._engine()  # type: ignore[attr-defined] # the reference sender's

        def meddle() -> None:
            with engine.begin() as connection:
                connection.exec_driver_sql("DELETE FROM outgoing_email")
            engine.dispose()

        intruder.run(meddle)

        assert "lost" in {each.kind for each in run.unsafe()}


def attempt(opened_s: float, closed_s: float | None) -> Try:
    closed_at = None if closed_s is None else BEGIN + timedelta(seconds=closed_s)
    return Try(id=f"a{opened_s}", opened_at=BEGIN + timedelta(seconds=opened_s), closed_at=closed_at)


def test_each_death_stop_and_cut_may_have_swallowed_answers() -> None:
    """One of a worker; of a provider and of one that was stopped up to four; and what was under way while nothing arrived."""
    history = History(attempts=(attempt(1, 4), attempt(5, 12), attempt(20, None), attempt(40, 41)))
    done = Done()
    assert done.unheard(history, ()) == 0
    assert done.unheard(history, [(3.0, "worker 1", "kill -9"), (9.0, "application", "kill -9")]) == 1
    assert done.unheard(history, [(3.0, "provider", "kill -9")]) == 4
    done.partitions.append((10.0, 22.0))
    assert done.unheard(history, ()) == 2
    done.partitions.append((3.0, 3.5))
    assert done.unheard(history, ()) == 3
    done.frozen.add(object())  # type: ignore[arg-type] # only counted
    assert done.unheard(history, ()) == 7
