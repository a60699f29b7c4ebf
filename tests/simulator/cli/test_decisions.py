"""`simulator decisions`: what struck whom, saved and played again by another simulator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from simulator.cli import cli, run
from simulator.cli.remote import read_recording
from tests.simulator.running import Running, ask, mail, request, running

PLAN = {"rules": ["503 every other"]}


@pytest.fixture(scope="module")
def simulator() -> Iterator[Running]:
    with running(PLAN) as service:
        for to in ("ada", "bob", "ada", "bob"):
            send(service, to)
        yield service


def send(service: Running, to: str, account: str = "default") -> int:
    headers = {"Authorization": f"Bearer {account}"}
    return ask(service, request(mail(to=[f"{to}@example.com"]), headers=headers)).status


def invoke(simulator: Running, *arguments: str) -> Result:
    where = ["--url", str(simulator.service.ready["http"])]
    return CliRunner().invoke(cli, ["decisions", *arguments, *where])


def test_what_struck_is_listed(simulator: Running) -> None:
    listed = invoke(simulator).output.splitlines()

    assert len(listed) == 2
    assert listed[0].endswith("accept: 503 every other – 503")
    as_json = json.loads(invoke(simulator, "--json").output)
    assert [each["answer"] for each in as_json["decisions"]] == ["503", "503"]
    with simulator.control("calm") as calm:
        calm.make_account()
    assert invoke(simulator, "--account", "calm").output == "nothing has gone wrong in account calm yet\n"


def test_a_saved_run_is_played_by_another_simulator(simulator: Running, tmp_path: Path) -> None:
    """Bob's first two attempts were hit; they are hit again, in whatever order the mails come."""
    file = tmp_path / "run.json"
    said = invoke(simulator, "--save", str(file)).output
    assert said == f"{file}: 2 decisions; play them with: simulator serve --replay {file}\n"

    recording = read_recording(str(file))
    with running(setup=recording.setup, seed=recording.setup.plan.seed) as again:
        assert [send(again, to) for to in ("bob", "bob", "ada", "ada", "bob")] == [503, 503, 200, 200, 200]


def test_the_runs_of_all_accounts_are_saved_together(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    with running(PLAN) as simulator:
        with simulator.control("shop") as shop:
            shop.add_rules("429 once")
        send(simulator, "ada", "shop")
        assert ": 1 decisions; " in invoke(simulator, "--save", str(file), "--all").output

    ((name, tenant),) = read_recording(str(file)).tenancy.tenants
    assert name == "shop"
    assert [each.hits[0].rule for each in tenant.setup.plan.recorded or ()] == ["429 once"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["decisions", "--save", "run.toml"], "the file is JSON and must be named so, like run.json"),
        (["decisions", "--save", "nowhere/run.json"], "cannot be written: No such file or directory"),
        (["decisions", "--all"], "--all goes with --save"),
    ],
)
def test_what_cannot_be_saved_says_why(
    simulator: Running,
    arguments: list[str],
    says: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)

    assert run([*arguments, "--url", str(simulator.service.ready["http"])]) == 2
    assert says in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["--replay", "chaos"],
            'chaos: it has no "replay"; give what simulator decisions --save has written',
        ),
        (["--replay", "run.json", "--plan", "chaos"], "--plan and --replay both say what goes wrong"),
        (["--replay", "run.json"], "run.json: there is no such file"),
    ],
)
def test_what_cannot_be_replayed_says_why(
    arguments: list[str],
    says: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)

    assert run(["serve", *arguments]) == 2
    assert says in capsys.readouterr().err
