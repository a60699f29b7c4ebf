"""Processes that belong together, and how all of them are ended: also those that left their group.

Nothing of a sender may live on after a scenario, or it would go on sending in the next one.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from scenarios.clock import wait_until

#: Environment variable with a folder: each process group that is started leaves a file with its id there.
GROUPS = "MAILPROOF_GROUPS"
#: Environment variable that is in everything a sender starts: what left its process group is found by it.
RUN = "MAILPROOF_RUN"
PROCESSES = Path("/proc")


def kill_groups(notes: Path) -> None:
    """End the process groups that left a note and did not take it back, and what left them."""
    for note in notes.iterdir():
        try:
            os.killpg(int(note.name), signal.SIGKILL)
        except (ProcessLookupError, PermissionError, ValueError):
            pass  # It is gone, or it is no group of ours.
    kill_marked(GROUPS, str(notes))


def can_find_escaped() -> bool:
    """Tell whether this platform shows the environment of processes, by which those that left are found."""
    return (PROCESSES / "self" / "environ").exists()


def kill_marked(name: str, value: str, *, below: bool = False) -> None:
    """SIGKILL to every process that has this in its environment, until there is none; `below`: also longer values.

    A process that left its group still has the environment it was started with. Not found is one that was started
    with another; and none at all where there is no /proc.
    """
    wanted = f"\0{name}={value}".encode() + (b"/" if below else b"\0")

    def killed() -> bool | None:
        # A dead process shows no environment, and what was being started meanwhile is met in the next round.
        marked = [pid for pid, facts in _environments() if wanted in facts]
        for pid in marked:
            kill_process(pid)
        return None if marked else True

    wait_until(killed, timeout_s=3.0, every_s=0.01)


def descendants(pid: int) -> list[int]:
    """Return the processes below a living one, in whatever group they are; empty where there is no /proc."""
    children: dict[int, list[int]] = {}
    for entry in _processes():
        try:
            # pid (command) state parent …; the command may have blanks and brackets in it.
            parent = int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue  # It ended meanwhile.
        children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    todo = children.get(pid, [])
    while todo:
        found += todo
        todo = [child for each in todo for child in children.get(each, [])]
    return found


def _processes() -> list[Path]:
    try:
        return [entry for entry in PROCESSES.iterdir() if entry.name.isdigit()]
    except OSError:
        return []


def _environments() -> list[tuple[int, bytes]]:
    return [
        (pid, facts)
        for entry in _processes()
        if (pid := int(entry.name)) != os.getpid() and (facts := _environment(pid))
    ]


def _environment(pid: int) -> bytes:
    try:
        facts = (PROCESSES / str(pid) / "environ").read_bytes()
    except OSError:
        return b""  # It ended, or it is somebody else's.
    return b"\0" + facts if facts else b""


def kill_process(pid: int) -> None:
    """SIGKILL to one process, if it is there and ours."""
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # It is gone, or it is none of ours.
