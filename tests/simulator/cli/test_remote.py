"""What commands share: one sentence for every trouble."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from simulator.cli.remote import Trouble, ask, print_json, read_configuration, read_plan, remote


def test_trouble_is_one_sentence_on_stderr_and_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    trouble = Trouble("no")
    trouble.show()

    assert capsys.readouterr() == ("", "simulator: no\n")
    assert trouble.exit_code == 2


def test_nobody_there_is_trouble() -> None:
    with pytest.raises(Trouble, match="there is no simulator at"):
        ask("http://127.0.0.1:1", "default", None, lambda client: client.health())


@pytest.mark.parametrize("read", [read_plan, read_configuration])
def test_a_plan_is_read_by_name_and_by_path(read: object, tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text('rules = ["hang"]\n')

    assert callable(read)
    assert read("chaos")
    assert read(str(path))
    with pytest.raises(Trouble, match=r'there is no plan "choas".*did you mean "chaos"'):
        read("choas")


def test_every_remote_command_says_which_simulator_and_account_is_meant() -> None:
    @click.command()
    @remote
    def command(url: str, account: str, token: str | None) -> None:
        print_json({"url": url, "account": account, "token": token})

    said = CliRunner().invoke(command, ["--account", "ü"]).output
    assert json.loads(said) == {"url": "http://127.0.0.1:8025", "account": "ü", "token": None}
