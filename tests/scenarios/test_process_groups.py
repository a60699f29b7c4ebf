"""Tests of processes that belong together: found, and ended to the last."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from scenarios import process_groups
from scenarios.clock import wait_until
from scenarios.process_groups import can_find_escaped, descendants, kill_groups, kill_marked

SLEEPS = "import time; print('up', flush=True); time.sleep(60)"
HAS_A_CHILD = (
    "import subprocess, sys, time\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], start_new_session=True)\n"
    "print(child.pid, flush=True); time.sleep(60)"
)
shown = pytest.mark.skipif(not can_find_escaped(), reason="processes show no environment here")


def started(code: str = SLEEPS, **env: str) -> tuple[subprocess.Popen[bytes], str]:
    """A process that has said its first line, and that line."""
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, **env},
    )
    assert process.stdout is not None
    said = process.stdout.readline().decode().strip()
    process.stdout.close()
    return process, said


def alive(pid: int) -> bool:
    """A zombie is dead."""
    try:
        return (
            "Z" not in (Path("/proc") / str(pid) / "stat").read_text(encoding="utf-8").rpartition(")")[2][:3]
        )
    except OSError:
        return False


def test_noted_groups_are_ended_and_others_are_not(tmp_path: Path) -> None:
    """A note that is no number, and one of a group that is gone, are passed over."""
    noted, _ = started()
    other, _ = started()
    gone, _ = started("print()")
    gone.wait(5.0)
    for name in (str(noted.pid), str(gone.pid), "README"):
        (tmp_path / name).touch()

    kill_groups(tmp_path)

    assert noted.wait(5.0) == -signal.SIGKILL
    assert other.poll() is None
    other.kill()
    other.wait(5.0)


@shown
def test_what_has_the_mark_is_killed_and_nothing_else() -> None:
    """A value that only begins like it is another one, unless those below are meant."""
    one, _ = started(MARK="here")
    below, _ = started(MARK="here/below")
    other, _ = started(MARK="hereafter")

    kill_marked("MARK", "here")
    assert one.wait(5.0) == -signal.SIGKILL
    assert below.poll() is other.poll() is None

    kill_marked("MARK", "here", below=True)
    assert below.wait(5.0) == -signal.SIGKILL
    assert other.poll() is None

    kill_marked("MARK", "hereafter")
    assert other.wait(5.0) == -signal.SIGKILL


@shown
def test_descendants_are_found_in_whatever_group() -> None:
    """The child in a session of its own is a child all the same; who is dead has none."""
    parent, said = started(HAS_A_CHILD)
    child = int(said)

    assert descendants(parent.pid) == [child]
    for pid in (parent.pid, child):
        os.kill(pid, signal.SIGKILL)
    parent.wait(5.0)
    assert wait_until(lambda: None if alive(child) else True, timeout_s=5.0)
    assert descendants(parent.pid) == []


def test_where_nothing_is_shown_nothing_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing is killed by guess."""
    monkeypatch.setattr(process_groups, "PROCESSES", tmp_path / "proc")

    assert not can_find_escaped()
    assert descendants(os.getpid()) == []
    kill_marked("PATH", os.environ["PATH"])
