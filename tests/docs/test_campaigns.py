"""docs/campaigns.md: its commands and options are there, and what it shows of them is what they say."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from reference_sender.commands.campaign import campaign
from reference_sender.outbox.campaigns import CampaignState
from tests.house.places import ROOT

PAGE = (ROOT / "docs" / "campaigns.md").read_text(encoding="utf-8")


def test_every_command_and_option_is_there() -> None:
    asked = re.findall(r"reference-sender campaign (\w+)(.*)", PAGE)
    assert {name for name, _ in asked} <= set(campaign.commands)
    assert [name for name in campaign.commands if name not in PAGE] == []
    for name, rest in asked:
        known = {option for parameter in campaign.commands[name].params for option in parameter.opts}
        assert set(re.findall(r"--[\w-]+", rest)) <= known
    options = set(re.findall(r"`(--[\w-]+)", PAGE))
    known = {option for parameter in campaign.commands["create"].params for option in parameter.opts}
    assert options <= known


def test_the_example_works_as_it_is_written(tmp_path: Path) -> None:
    """In an empty folder: what is to be there is made, and each command says what the page has."""
    setting_up, *_ = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    shown, *_ = re.findall(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    commands = re.findall(r"^\$ (.*)$", shown, re.MULTILINE)
    wanted = [line for line in shown.splitlines() if not line.startswith("$ ")]
    program = f'reference-sender() {{ {shlex.quote(sys.executable)} -m reference_sender "$@"; }}'
    done = subprocess.run(
        ["bash", "-c", "\n".join(["set -e", program, setting_up, "echo '--'", *commands])],
        cwd=tmp_path,
        env={**{k: v for k, v in os.environ.items() if not k.startswith("OUTBOX_")}, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.partition("--\n")[2].splitlines() == wanted


def test_the_pace_of_many_is_what_is_said() -> None:
    count, over, gap = re.findall(
        r"With ([\d,]+) members and `--over (\d+)` it is one mail every ([\d.]+) s", PAGE
    )[0]
    assert f"{float(over) / int(count.replace(',', '')):g}" == gap


@pytest.mark.parametrize("state", [CampaignState.PAUSED, CampaignState.CANCELLED])
def test_what_the_table_says_of_a_stop_is_tested(state: CampaignState) -> None:
    """The row is there, and a test on every database plays it."""
    word = {CampaignState.PAUSED: "pause", CampaignState.CANCELLED: "cancel"}[state]
    assert re.search(rf"^\| {word}", PAGE, re.MULTILINE)
    tests = (ROOT / "tests" / "reference_sender" / "outbox" / "test_campaigns.py").read_text(encoding="utf-8")
    assert re.search(rf"CampaignState\.{state.name},\s+Bar\.{state.name}", tests)
