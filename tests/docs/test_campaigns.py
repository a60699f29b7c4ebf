"""docs/campaigns.md: its commands and options are there, and what it shows of them is what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reference_sender.commands.campaign import campaign
from reference_sender.outbox.campaigns import CampaignState
from tests.house.places import ROOT
from tests.reference_sender.commands.outboxes import Outbox

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


def test_the_first_lines_of_the_example_are_what_is_said(tmp_path: Path) -> None:
    """Created, and its pace, as the page has it."""
    outbox = Outbox(tmp_path)
    (tmp_path / "news").mkdir()
    for name in ("subject.txt", "text.txt"):
        (tmp_path / "news" / name).write_text("News", encoding="utf-8")
    rows = "".join(f"{number},u{number}@example.com\n" for number in range(48_211))
    (tmp_path / "users.csv").write_text("id,email\n" + rows, encoding="utf-8")
    asked, *_ = re.findall(r"^\$ reference-sender campaign create 318 (.*)$", PAGE, re.MULTILINE)
    words = asked.replace("'Shop <shop@example.org>'", "shop@example.org").replace(
        "users.csv", str(tmp_path / "users.csv")
    )
    done = outbox.call("campaign", "create", "318", *words.split(), "--templates", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert f"\n{done.stdout}" in PAGE


@pytest.mark.parametrize("state", [CampaignState.PAUSED, CampaignState.CANCELLED])
def test_what_the_table_says_of_a_stop_is_tested(state: CampaignState) -> None:
    """The row is there, and a test on every database plays it."""
    word = {CampaignState.PAUSED: "pause", CampaignState.CANCELLED: "cancel"}[state]
    assert re.search(rf"^\| {word}", PAGE, re.MULTILINE)
    tests = (ROOT / "tests" / "reference_sender" / "outbox" / "test_campaigns.py").read_text(encoding="utf-8")
    assert re.search(rf"CampaignState\.{state.name},\s+Bar\.{state.name}", tests)
