"""The README's promises about commands are true: CI runs the very lines a newcomer copies."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from reference_sender.cli import run as sender
from simulator.cli import run as simulator_cli
from tests.house.places import ROOT
from tests.simulator.running import Seen, ask, request, running

README = ROOT / "README.md"
MAIL = {"from": "shop@example.org", "to": ["bob@example.com"], "subject": "Your order", "text": "Thank you!"}


def block_after(heading: str) -> str:
    """Return the first fenced code block after a heading."""
    text = README.read_text(encoding="utf-8")
    found = re.search(rf"^#+ {re.escape(heading)}$.*?```\w*\n(.*?)```", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"README has no code block under {heading!r}"
    return found.group(1).strip()


def test_ci_runs_the_readmes_test_command() -> None:
    """What the README tells people to run is what CI runs, letter by letter."""
    command = block_after("Run the tests")

    assert command in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_the_main_command_is_the_first_one() -> None:
    """A newcomer's first command certifies the reference sender."""
    assert block_after("Certify a sender in one command").endswith("simulator certify")


def test_the_first_fault_is_what_the_readme_says() -> None:
    """The plan and the mail of the page: an answer lost, a replay, and a duplicate that is named."""
    text = README.read_text(encoding="utf-8")
    section = text[text.index("## Thirty seconds") : text.index("## Point your own sender")]
    plan = re.search(r"```toml\n(.*?)```", section, re.DOTALL)
    body = re.search(r"-d '(.*?)'", section, re.DOTALL)
    assert plan is not None
    assert body is not None

    with running(plan=tomllib.loads(plan.group(1))) as simulator:

        def send(key: str) -> Seen:
            return ask(simulator, request(json.loads(body.group(1)), key=key))

        assert send("order-1-confirmation").data == b""
        with simulator.control() as control:
            assert len(control.messages()) == 1
        assert send("order-1-confirmation").headers["idempotency-replayed"] == "true"
        assert send("another").status == 200
        with simulator.control() as control:
            (duplicate,) = control.verdict()["duplicated"]
    assert duplicate["copies"] == 2


def test_the_sender_by_itself_does_what_the_readme_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every line of the section is one that its program takes; those that need no provider are done."""
    monkeypatch.chdir(tmp_path)
    lines = [
        shlex.split(line, comments=True)
        for line in block_after("The reference sender by itself").splitlines()
        if line.startswith(".venv/bin/reference-sender ")
    ]
    assert [words[1] for words in lines] == ["init", "enqueue", "work", "status", "trace"]
    for _, *words in lines:
        # `work` needs a provider, and goes on until it is told to stop.
        assert sender([*words[:1], "--help"] if words[0] == "work" else words) == 0
    shown = capsys.readouterr().out
    assert "order-2-confirmation enqueued" in shown
    assert "order-2-confirmation  #1  pending" in shown


def test_whoever_follows_the_page_from_top_to_bottom_is_not_surprised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every line to the running provider, one after the other: it is taken, and nothing in it is doubted."""
    text = README.read_text(encoding="utf-8")
    plan = re.search(r"`plan.toml`:\n\n```toml\n(.*?)```", text, re.DOTALL)
    assert plan is not None
    (tmp_path / "plan.toml").write_text(plan[1])
    monkeypatch.chdir(tmp_path)
    lines = [
        shlex.split(line, comments=True)[1:]
        for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
        for line in block.splitlines()
        if line.startswith(".venv/bin/simulator ")
    ]
    asked = [words for words in lines if words[0] not in ("certify", "serve")]
    assert [words[:2] for words in asked] == [
        ["ledger"],
        ["plan", "set"],
        ["plan", "add"],
        ["plan", "set"],
        ["clock", "--advance"],
        ["verdict", "--json"],
    ]

    with running(plan=tomllib.loads(plan[1])) as simulator:
        assert ask(simulator, request({**MAIL, "to": ["ada@example.com"]}, key="order-1")).data == b""
        for words in asked:
            assert simulator_cli([*words, "--url", simulator.service.ready["http"]]) == (
                words[0] == "verdict"
            ), words
            assert capsys.readouterr().err == "", words
            if words == ["plan", "set", "plan.toml"]:
                assert ask(simulator, request(MAIL, key="order-2")).data == b"", "one more answer is lost"


def test_what_is_installed_into_a_venv_is_called_there() -> None:
    """A newcomer has not activated it: no command of ours is found by its bare name."""
    blocks = re.findall(r"```sh\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    words = {line.split()[0] for block in blocks for line in block.splitlines() if line[:1].strip("# ")}

    assert words <= {
        "python3",
        "curl",
        "export",
        ".venv/bin/simulator",
        ".venv/bin/reference-sender",
        ".venv/bin/locust",
    }


def test_both_programs_say_what_they_can() -> None:
    """`--help` of each program names every command the README or the docs speak of."""
    for module, package in (("simulator.cli", "simulator"), ("reference_sender.cli", "reference-sender")):
        done = subprocess.run(
            [sys.executable, "-c", f"from {module} import main; main(['--help'])"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        commands = set(re.findall(r"^  ([a-z]+)  ", done.stdout, re.MULTILINE))
        docs = "\n".join(
            path.read_text(encoding="utf-8") for path in (README, *sorted((ROOT / "docs").rglob("*.md")))
        )
        missing = [command for command in commands if f"{package} {command}" not in docs]
        assert commands
        assert missing == [], f"no page shows how to use: {missing}"
