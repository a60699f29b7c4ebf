"""Senders that misbehave while they are driven, and that nothing of them lives on."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scenarios import adapter, running
from scenarios.adapter import Sender
from scenarios.clock import monotonic_s, wait_until
from scenarios.process_groups import GROUPS, can_find_escaped, kill_groups
from scenarios.sender_file import SenderError, Timing, read_sender
from tests.scenarios.sender_files import GOOD, written


def sender(
    tmp_path: Path,
    *,
    work: str = "import time; print('ready', flush=True); time.sleep(60)",
    talk: str = "import time; time.sleep(60)",
    door: str = "process",
    more: str = "",
) -> Sender:
    """A sender made of two Python one-liners."""
    (tmp_path / "work.py").write_text(work, encoding="utf-8")
    (tmp_path / "talk.py").write_text(talk, encoding="utf-8")
    file = written(
        tmp_path,
        f"""
        [sender]
        name = "mine"
        [start]
        command = ["{{python}}", "{{here}}/work.py"]
        ready_line = "ready"
        [enqueue]
        {door} = ["{{python}}", "{{here}}/talk.py"]
        [timing]
        start_s = 5
        {more}
        """,
    )
    places = {"python": sys.executable, "here": str(tmp_path)}
    return Sender(file=read_sender(file), places=places, workdir=tmp_path)


@pytest.fixture(autouse=True)
def _nothing_is_left(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Whatever a test does, no process group of it is alive afterwards."""
    notes = tmp_path_factory.mktemp("groups")
    monkeypatch.setenv(GROUPS, str(notes))
    yield
    assert list(notes.iterdir()) == []


MAIL = {"key": "order-1"}


def test_a_command_that_does_not_exist_is_one_sentence(tmp_path: Path) -> None:
    """With the command as it was filled in."""
    mine = sender(tmp_path)
    mine = Sender(file=mine.file, places={"python": "/no/such/python", "here": "."}, workdir=tmp_path)

    with mine, pytest.raises(SenderError, match=r"\[start\] cannot start '/no/such/python .*No such file"):
        mine.start()


def test_a_worker_that_ends_at_once_is_one_sentence(tmp_path: Path) -> None:
    """With its exit code and its last words."""
    work = "import sys; print('loading'); sys.exit('no database at all')"

    with sender(tmp_path, work=work) as mine, pytest.raises(SenderError) as caught:
        mine.start()

    assert "ended at once with exit code 1; its last lines: no database at all" in str(caught.value)


def test_a_worker_that_never_gets_ready_is_killed(tmp_path: Path) -> None:
    """The deadline is its own start_s."""
    mine = sender(tmp_path, work="import time; print('thinking', flush=True); time.sleep(60)")
    mine = Sender(
        file=dataclasses.replace(mine.file, timing=Timing(start_s=0.5)),
        places=mine.places,
        workdir=tmp_path,
    )

    with (
        mine,
        pytest.raises(SenderError, match=r"did not say 'ready' within 0.5 s; its last lines: thinking"),
    ):
        mine.start()


@pytest.mark.parametrize(
    ("talk", "says"),
    [
        ("print('Hello, I am a sender!', flush=True); input()", "answered 'Hello, I am a sender!', which is no JSON"),
        ("print('[1]', flush=True); input()", "right would be a JSON object"),
        ("input(); raise SystemExit('out of memory')", "ended with exit code 1 instead of answering; its last lines: out of memory"),
        ("input(); print('{\"ok\": false, \"error\": \"no such table\"}')", "refused mail 'order-1': no such table"),
    ],
)  # fmt: skip
def test_a_process_that_answers_garbage_is_one_sentence(tmp_path: Path, talk: str, says: str) -> None:
    """What it said, and what would be right."""
    with sender(tmp_path, talk=talk) as mine, pytest.raises(SenderError) as caught:
        mine.enqueue(MAIL)

    assert says in str(caught.value)
    assert "[enqueue]" in str(caught.value)


def test_a_process_that_is_silent_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not keep us waiting for ever."""
    monkeypatch.setattr(adapter, "ANSWER_WITHIN_S", 0.3)

    with (
        sender(tmp_path) as mine,
        pytest.raises(SenderError, match=r"was silent for 0\.3 s instead of answering"),
    ):
        mine.enqueue(MAIL)


@pytest.mark.parametrize(
    ("talk", "says"),
    [
        ("raise SystemExit('no disk')", "ended with exit code 1; its last lines: no disk"),
        ("print('ok')", "answered 'ok', which is no JSON"),
    ],
)
def test_a_command_that_answers_garbage_is_one_sentence(tmp_path: Path, talk: str, says: str) -> None:
    """The same for one run per mail."""
    with sender(tmp_path, talk=talk, door="command") as mine, pytest.raises(SenderError) as caught:
        mine.enqueue(MAIL)

    assert says in str(caught.value)


def test_a_command_that_ends_well_and_says_nothing_has_committed(tmp_path: Path) -> None:
    """Its exit code says it; what it prints may add to that. A status that says nothing says nothing."""
    more = '[status]\n        command = ["{python}", "{here}/talk.py"]'
    with sender(tmp_path, talk="pass", door="command", more=more) as mine:
        assert mine.enqueue(MAIL) == {"ok": True}
        with pytest.raises(SenderError, match=r"\[status\] answered nothing"):
            mine.status()


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ('["./outbox.sh", "work"]', "for './outbox.sh' write '{here}/outbox.sh'"),
        ('["outbox.sh"]', "for 'outbox.sh' write '{here}/outbox.sh'"),
        ('["sh", "outbox.sh", "work"]', "for 'outbox.sh' write '{here}/outbox.sh'"),
        ('["{python}", "outbox.py"]', "for 'outbox.py' write '{here}/outbox.py'"),
        ('["{python}", "-m", "outbox.main"]', "for 'outbox.main' write PYTHONPATH = '{here}' in [env]"),
    ],
)
@pytest.mark.parametrize("table", ["start", "enqueue"])
def test_what_is_looked_for_in_the_wrong_folder_is_told_the_right_one(
    tmp_path: Path, command: str, says: str, table: str
) -> None:
    """Commands run in a folder of their own; who names a file beside the sender file meant {here}."""
    for name in ("outbox.sh", "outbox.py"):
        (tmp_path / name).write_text("", encoding="utf-8")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    given = '["mine", "work"]' if table == "start" else '["mine", "enqueue"]'
    file = read_sender(written(tmp_path, GOOD.replace(given, command)))

    with (
        Sender(file=file, places={"python": sys.executable}, workdir=elsewhere) as mine,
        pytest.raises(SenderError) as caught,
    ):
        mine.start() if table == "start" else mine.enqueue(MAIL)

    assert f"commands run in a folder of their own: {says}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_command_that_fails_otherwise_is_not_told_of_folders(tmp_path: Path) -> None:
    """The hint is for what is not found, not for every error."""
    with (
        sender(tmp_path, work="raise SystemExit('no database at all')") as mine,
        pytest.raises(SenderError) as caught,
    ):
        mine.start()

    assert "folder of their own" not in str(caught.value)


def test_an_address_where_nobody_listens_is_one_sentence(tmp_path: Path) -> None:
    """Named with the address."""
    file = read_sender(
        written(tmp_path, GOOD.replace('command = ["mine", "enqueue"]', 'http = "http://127.0.0.1:1/"'))
    )

    with (
        Sender(file=file, places={}, workdir=tmp_path) as mine,
        pytest.raises(SenderError, match=r"\[enqueue\] http 'http://127.0.0.1:1/' cannot be asked"),
    ):
        mine.enqueue(MAIL)


def test_a_status_without_mails_is_one_sentence(tmp_path: Path) -> None:
    """An empty object says nothing about any mail."""
    talk = "import sys\nfor line in sys.stdin: print('{\"ok\": true}', flush=True)"

    with sender(tmp_path, talk=talk, more="[status]\n        process = true") as mine:
        assert mine.enqueue(MAIL) == {"ok": True}
        with pytest.raises(SenderError, match=r"\[status\] answered without a list 'mails'"):
            mine.status()


def pid_in(text: str) -> int | None:
    """Return the number that a program said of its child, once the whole line is there."""
    said = re.search(r"(\d+) is there", text)
    return int(said.group(1)) if said else None


def test_kill_reaches_the_grandchildren(tmp_path: Path) -> None:
    """SIGKILL goes to the group: what a worker started dies with it."""
    work = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(child.pid, 'is there', flush=True)\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)"
    )
    with sender(tmp_path, work=work) as mine:
        mine.start()
        pid = wait_until(lambda: pid_in(mine.workers[0].out.tail()), timeout_s=5.0)
        assert pid is not None
        mine.kill()

        assert wait_until(lambda: None if alive(pid) else True, timeout_s=5.0)


ESCAPES = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True{more})
print("child", child.pid, flush=True)
print("ready", flush=True)
{then}
"""


@pytest.mark.skipif(not can_find_escaped(), reason="processes show no environment here")
@pytest.mark.parametrize(
    ("more", "then"),
    [
        ("", "time.sleep(60)"),
        # Its parent is gone: nothing but the environment tells where it came from.
        ("", "os.fork() and os._exit(0); os.setsid(); time.sleep(60)"),
        # Nothing of our environment: its parent tells.
        (", env={}", "time.sleep(60)"),
    ],
)
def test_kill_reaches_what_left_the_group(tmp_path: Path, more: str, then: str) -> None:
    """A session of its own does not save a worker's child."""
    with sender(tmp_path, work=ESCAPES.format(more=more, then=then)) as mine:
        mine.start()
        pid = int(mine.workers[0].out.tail().split()[1])
        assert alive(pid)

        mine.kill()

        assert wait_until(lambda: None if alive(pid) else True, timeout_s=5.0)


@pytest.mark.skipif(not can_find_escaped(), reason="processes show no environment here")
def test_what_a_command_leaves_behind_lives_until_the_end(tmp_path: Path) -> None:
    """A reset may start a server for the scenario; after the scenario it is gone."""
    talk = ESCAPES.format(more=", stdout=2", then="")
    with sender(tmp_path, talk=talk.replace("print", "open(sys.argv[0] + '.pid', 'a').write(str(child.pid) + ' ') or print"), more='[reset]\n        command = ["{python}", "{here}/talk.py"]') as mine:  # fmt: skip
        mine.reset()
        mine.start()
        mine.kill()
        pid = int((tmp_path / "talk.py.pid").read_text(encoding="utf-8").split()[0])
        assert alive(pid)

    assert wait_until(lambda: None if alive(pid) else True, timeout_s=5.0)


def alive(pid: int) -> bool:
    """Tell whether a process runs; a zombie nobody collected does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return False


def test_a_worker_that_ignores_the_stop_signal_is_killed_and_told(tmp_path: Path) -> None:
    """`in_time` is the finding; nothing is left."""
    work = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"
    with sender(tmp_path, work=work, more="[stop]\n        timeout_s = 0.3") as mine:
        mine.start()
        mine.signal_stop()

        assert [each.in_time for each in mine.await_stop()] == [False]
        assert mine.workers == []


def test_groups_that_were_noted_are_ended(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """What `certify` does last, also after Ctrl-C."""
    mine = sender(tmp_path)
    mine.start()

    kill_groups(Path(os.environ[GROUPS]))

    process = mine.workers[0].process
    before = monotonic_s()
    assert process.wait(timeout=5) == -9
    assert monotonic_s() - before < 5
    mine.close()


@pytest.mark.skipif(not can_find_escaped(), reason="processes show no environment here")
def test_what_left_its_group_is_ended_with_the_groups(tmp_path: Path) -> None:
    """After an interrupted run nobody closes a scenario; its escaped children are found all the same."""
    mine = sender(tmp_path, work=ESCAPES.format(more="", then="time.sleep(60)"))
    mine.start()
    pid = int(mine.workers[0].out.tail().split()[1])

    kill_groups(Path(os.environ[GROUPS]))

    assert wait_until(lambda: None if alive(pid) else True, timeout_s=5.0)
    mine.close()


def test_a_worker_that_goes_to_the_background_has_said_that_it_is_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it was gone before anybody read that."""
    pump, end, is_waited_for = running.Output._pump, running.Output.end, threading.Event()

    def late(self: running.Output, *arguments: Any) -> None:
        assert is_waited_for.wait(5.0)
        pump(self, *arguments)

    def wait_for_it(self: running.Output) -> None:
        is_waited_for.set()
        end(self)

    monkeypatch.setattr(running.Output, "_pump", late)
    monkeypatch.setattr(running.Output, "end", wait_for_it)
    with sender(tmp_path, work="print('ready', flush=True)") as mine:
        mine.start()

        assert mine.workers[0].out.tail(1) == "ready"
