"""Tests of anybody's asyncio sender in the world; the one of the documentation among them."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from scenarios.simulation.behaviours import BY_WIRE, columns
from scenarios.simulation.cast import CastError, cast
from scenarios.simulation.cell import Cell, play
from scenarios.simulation.loop import NotInTheWorld
from scenarios.simulation.machine import perform
from scenarios.simulation.matrix import Block
from scenarios.simulation.playing import play_block
from scenarios.simulation.processes import CrashPoint
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.python_sender import PythonSender, PythonSenderError, world_profiles
from scenarios.simulation.schedule import Schedule, Step
from scenarios.simulation.senders import Disk
from tests.house.places import ROOT

pytestmark = pytest.mark.filterwarnings(
    "ignore:Unclosed:ResourceWarning", "ignore:unclosed database:ResourceWarning"
)


class Simple:
    """Says yes to everything and sends nothing: enough to see how it is called."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.env = env
        self.db = sqlite3.connect(env["database_path"], isolation_level=None)

    def init(self) -> None:
        self.db.execute("CREATE TABLE mail (key, recipient, state)")

    async def enqueue(self, mail: dict[str, Any]) -> None:
        await asyncio.sleep(1.0)
        for recipient in mail["to"]:
            self.db.execute("INSERT INTO mail VALUES (?, ?, 'pending')", (mail["key"], recipient))

    async def run(self, stop: asyncio.Event) -> None:
        await asyncio.to_thread(self.db.execute, "UPDATE mail SET state = 'accepted'")
        await stop.wait()

    async def status(self) -> list[dict[str, Any]]:
        rows = self.db.execute("SELECT key, recipient, state FROM mail").fetchall()
        return [dict(zip(("key", "recipient", "state"), row, strict=True)) for row in rows]


def made(tmp_path: Path, factory: Callable[[Mapping[str, str]], Any]) -> tuple[PythonSender, Disk]:
    disk = Disk(tmp_path)
    return PythonSender(disk=disk, profile=BY_ID["http-keys"], factory=factory), disk


def test_plain_and_async_calls_are_alike(tmp_path: Path) -> None:
    """And what it says is judged: a mail that is called accepted must be in the ledger."""
    outcome = play(Cell(profile="http-keys"), *made(tmp_path, Simple))

    assert {"lost", "misreported"} & {each.kind for each in outcome.findings}


def test_it_dies_at_the_same_crash_points(tmp_path: Path) -> None:
    """Its statements and commits are seen like anybody's."""
    sender, disk = made(tmp_path, Simple)

    outcome = play(Cell(profile="http-keys", crash=CrashPoint("sql", "before", 1)), sender, disk)

    assert outcome.reached
    assert {"lost", "misreported"} & {each.kind for each in outcome.findings}


@pytest.mark.parametrize(
    ("life", "says"),
    [
        (lambda: time.sleep(1), r"worker 1 called time\.sleep\(\)"),
        (
            lambda: asyncio.get_running_loop().create_task(asyncio.create_subprocess_shell("true")),
            r"loop\.subprocess",
        ),
        (lambda: os.system("true"), r"worker 1 called os\.system\(\)"),
    ],
)
def test_what_there_is_not_in_the_world_is_said(tmp_path: Path, life: Callable[[], Any], says: str) -> None:
    """By the name of the call, although the sender would have gone on."""

    class Bad(Simple):
        async def run(self, stop: asyncio.Event) -> None:
            try:
                life()
            except Exception:
                pass
            await stop.wait()

    with pytest.raises(NotInTheWorld, match=says):
        play(Cell(profile="http-keys"), *made(tmp_path, Bad))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"run": None}, "the factory made a Other without run"),
        (
            {"status": lambda self: "fine"},
            "status.. of the sender returned str; right would be a list of mails",
        ),
        (
            {"status": lambda self: [{"key": "k"}]},
            "status.. of the sender: a mail of the status has no text 'rec",
        ),
        (
            {"status": lambda self: [dict.fromkeys(("key", "recipient", "state"), "x")]},
            "state 'x' is not one of",
        ),
    ],
)
def test_a_sender_that_is_none_is_told_in_a_sentence(
    tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    """Which call, what it gave, what would be right."""
    with pytest.raises(PythonSenderError, match=says):
        play(Cell(profile="http-keys"), *made(tmp_path, type("Other", (Simple,), change)))


def test_a_sender_file_names_the_factory(tmp_path: Path) -> None:
    """With [env], whose placeholders are filled; in either spelling, and from the folder of the file."""
    code = "seen = []\ndef make(env):\n    seen.append(dict(env))\n    return env\n"
    (tmp_path / "their_code.py").write_text(code, encoding="utf-8")
    file = tmp_path / "sender.toml"
    for spelling in ("their_code:make", "python:their_code:make"):
        file.write_text(
            f'[world]\nfactory = "{spelling}"\n[env]\nMAIL_API = "{{http_url}}/v1"\n', encoding="utf-8"
        )
        sender = cast(str(file), Disk(tmp_path), BY_ID["http-keys"])
        with pytest.raises(PythonSenderError, match=r"made a dict without init\(\)"):
            sender.prepare()

    env = sys.modules["their_code"].seen[-1]
    assert env["MAIL_API"] == "http://provider:8025/v1"
    assert env["database_url"].endswith("outbox.db")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", r"sender\.toml: \[world\] factory is missing; right would be a text like"),
        ('[world]\nfactory = "x"', r"\[world\] factory is 'x'; right would be 'module:factory'"),
        ("[world", r"sender\.toml: cannot be read"),
        ('[world]\nfactory = "json:nothing"', "the module json has nothing called nothing"),
    ],
)
def test_a_wrong_sender_file_is_told_in_a_sentence(tmp_path: Path, text: str, says: str) -> None:
    """Which file and key, and what would be right."""
    file = tmp_path / "sender.toml"
    file.write_text(text, encoding="utf-8")

    with pytest.raises(CastError, match=says):
        cast(str(file), Disk(tmp_path), BY_ID["http-keys"])


@pytest.fixture
def documented(tmp_path: Path) -> Path:
    """The sender of the documentation, as somebody would copy it."""
    page = (ROOT / "docs" / "certification.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(\"\"\"outbox\.py.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "outbox.py").write_text(code, encoding="utf-8")
    (tmp_path / "sender.toml").write_text('[world]\nfactory = "outbox:make"\n', encoding="utf-8")
    return tmp_path / "sender.toml"


@pytest.mark.parametrize("name", columns("http-keys", "http"))
def test_the_documented_sender_keeps_every_promise(documented: Path, tmp_path: Path, name: str) -> None:
    """Every behaviour, without a crash and with one at each commit."""
    assert world_profiles(documented) == ("http-keys",)
    sys.modules.pop("outbox", None)
    disk = Disk(tmp_path)
    sender = cast(str(documented), disk, BY_ID["http-keys"])
    shape = BY_WIRE["http"][name].shape
    block = Block(profile="http-keys", script=(name,), shape=shape, victim="worker", kinds=("commit",))

    played = play_block(block, sender, disk)

    sys.path.remove(str(tmp_path.resolve()))
    assert [(each.said, each.findings[0]["sentence"]) for each in played.failures] == []
    assert played.error is None
    assert played.cells == played.total >= 5


def test_a_machine_can_play_it(tmp_path: Path) -> None:
    """A step that only the reference sender knows does nothing."""
    sender, disk = made(tmp_path, Simple)
    steps = (Step(do="enqueue", number=1), Step(do="requeue", number=1), Step(do="wait", seconds=1.0))

    findings, _ = perform(Schedule(profile="http-keys", steps=steps), sender, disk)

    assert {"lost", "misreported"} & {each.kind for each in findings}
