"""`reference-sender campaign`: written down, run, stopped, shown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from reference_sender.life import State
from reference_sender.outbox.campaigns import CampaignState
from tests.reference_sender.commands.outboxes import Outbox
from tests.reference_sender.outbox.test_campaigns import CAMPAIGN

FROM = ("--from", "shop@example.org", "--template", "news")


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "news").mkdir()
    (tmp_path / "news" / "subject.txt").write_text("News")
    (tmp_path / "news" / "text.txt").write_text("{{ greeting }} {{ name }}")
    rows = "".join(f"{n},u{n}@example.com,N{n}\n" for n in range(5))
    (tmp_path / "audience.csv").write_text("id,email,name\n" + rows)
    return (
        *("--templates", str(tmp_path), "--csv", str(tmp_path / "audience.csv")),
        *("--address", "email", "--key", "id", "--param", "greeting=Hello"),
    )


async def no_sleep(seconds: float) -> None:
    assert seconds == 0.0


def test_a_campaign_from_its_beginning_to_its_end(
    outbox: Outbox, files: tuple[str, ...], tmp_path: Path
) -> None:
    assert outbox.call("campaign", "status").stdout == "there is no campaign\n"
    made = outbox.call("campaign", "create", "318", *FROM, *files, "--over", "100", "--page", "2")
    assert (made.exit_code, made.stdout) == (0, "created 318: 5 members, one mail every 20 s\n")
    again = outbox.call("campaign", "create", "318", *FROM, *files)
    assert (again.exit_code, "there is a campaign '318' already" in again.stderr) == (2, True)
    assert outbox.call("campaign", "status").stdout == "318: ready; read: 0 members\n"
    outbox.call("campaign", "cancel", "318")
    assert outbox.call("campaign", "run", "318", "--templates", str(tmp_path)).stdout == "318: cancelled\n"


def test_an_unpaced_campaign_runs_to_its_end_at_once(
    outbox: Outbox, files: tuple[str, ...], tmp_path: Path
) -> None:
    outbox.call("campaign", "create", "318", *FROM, *files, "--page", "3")
    outbox.clock.sleep = no_sleep  # type: ignore[method-assign] # there is nothing to wait for
    done = outbox.call("campaign", "run", "318", "--templates", str(tmp_path))
    assert (done.exit_code, done.stdout) == (0, "318: done\n")
    assert outbox.call("campaign", "status", "318").stdout == (
        "318: done; read: 5 members, 5 enqueued\n  mails: 5 pending\n"
    )
    shown = json.loads(outbox.call("campaign", "status", "--json").stdout)
    assert (shown["state"], shown["mails"]) == ("done", {"pending": 5})
    assert outbox.call("campaign", "pause", "318").stdout == "318: paused\n"
    assert outbox.call("campaign", "resume", "318").stdout == "318: done\n"
    said = outbox.call("campaign", "resume", "318")
    assert (said.exit_code, "is done and cannot become done" in said.stderr) == (2, True)


def test_what_nobody_could_be_written_to_with_is_said_before_it_begins(
    outbox: Outbox, files: tuple[str, ...], tmp_path: Path
) -> None:
    """A misspelled parameter meets everybody: no campaign is better than one that refuses each of them."""
    (tmp_path / "news" / "text.txt").write_text("{{ greeting }} {{ nmae }}")
    said = outbox.call("campaign", "create", "318", *FROM, *files, "--page", "2")
    assert said.exit_code == 2
    assert "none of the first 2 members can be written to: the template 'news' (text.txt)" in said.stderr
    assert "'nmae'" in said.stderr
    assert outbox.call("campaign", "status").stdout == "there is no campaign\n"
    # One of them is enough.
    (tmp_path / "news" / "text.txt").write_text("{% if id == '0' %}{{ nmae }}{% endif %}")
    assert outbox.call("campaign", "create", "318", *FROM, *files, "--page", "2").exit_code == 0


def test_a_run_without_its_template_refuses_nobody(
    outbox: Outbox, files: tuple[str, ...], tmp_path: Path
) -> None:
    """Started in another folder, say: it ends with a sentence, and goes on where it was from the right one."""
    outbox.call("campaign", "create", "318", *FROM, *files)
    outbox.clock.sleep = no_sleep  # type: ignore[method-assign] # there is nothing to wait for
    said = outbox.call("campaign", "run", "318", "--templates", str(tmp_path / "elsewhere"))
    assert said.exit_code == 2
    assert "there is no template 'news' in " in said.stderr
    assert outbox.call("campaign", "status").stdout == "318: running; read: 0 members\n"
    done = outbox.call("campaign", "run", "318", "--templates", str(tmp_path))
    assert (done.exit_code, done.stdout) == (0, "318: done\n")
    assert "5 enqueued" in outbox.call("campaign", "status", "318").stdout


def test_a_stop_says_what_it_does_not_reach(outbox: Outbox) -> None:
    """In a worker's hands, and in doubt."""
    outbox.store.create_campaign(replace(CAMPAIGN, name="318", state=CampaignState.RUNNING))
    for number in (1, 2):
        outbox.put(f"campaign-318-user-{number}", campaign="318")
    outbox.end(outbox.claim(), State.UNKNOWN)
    outbox.claim()
    left = "1 under way, and still go; 1 in doubt, and"
    for stop, words in (
        ("pause", f"318: paused; {left} not repeated before the resume\n"),
        ("cancel", f"318: cancelled; {left} never repeated\n"),
    ):
        assert outbox.call("campaign", stop, "318").stdout == words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--csv", "/nowhere.csv"), "/nowhere.csv is not a file"),
        ((), "say once where the audience is"),
        (("--csv", "a", "--sql", "b"), "say once where the audience is"),
        (("--sql", "SELECT 1"), "the query has no :after"),
        (("--csv", "a", "--over", "1", "--per-hour", "1"), "both set the pace"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    outbox: Outbox, files: tuple[str, ...], arguments: tuple[str, ...], words: str
) -> None:
    said = outbox.call("campaign", "create", "318", *FROM, *files[:2], *arguments)
    assert said.exit_code == 2
    assert words in said.stderr + said.output


def test_a_template_or_a_campaign_that_is_not_there_is_one_sentence(
    outbox: Outbox, files: tuple[str, ...]
) -> None:
    said = outbox.call("campaign", "create", "318", "--from", "a@example.org", "--template", "x", *files)
    assert "there is no template 'x'" in said.stderr
    for command in ("run", "pause", "resume", "cancel", "status"):
        said = outbox.call("campaign", command, "319")
        assert (said.exit_code, "there is no campaign '319'" in said.stderr) == (2, True)
