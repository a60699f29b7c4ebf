"""One outage, two designs: what is said of either is so, and docs/outbox.md shows what was printed."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from scenarios.simulation.two_designs import Ending, play, shown
from tests.house.places import ROOT


@pytest.fixture(scope="module")
def naive() -> Ending:
    return play("naive")


@pytest.fixture(scope="module")
def outbox() -> Ending:
    return play("outbox")


def test_mail_from_within_the_request_comes_twice_or_never_and_its_customers_wait(naive: Ending) -> None:
    """Some 150 answers are lost, as in the example that this is; there would be nothing to see without."""
    assert 130 <= naive.unanswered <= 170
    assert naive.twice > 50
    assert naive.lost > 0
    assert naive.errors > naive.lost, "an error was shown for mails that were taken, too"
    assert naive.longest_wait_s > 20


def test_the_outbox_sends_each_mail_once_and_only_late(outbox: Ending) -> None:
    """It met lost answers as well."""
    assert outbox.unanswered > 10
    assert (outbox.twice, outbox.lost) == (0, 0)
    assert (outbox.errors, outbox.longest_wait_s) == (0, 0.0)
    assert 100 < outbox.most_waiting < 600
    assert 60 < outbox.latest_s < 360


def test_its_alarms_ring_in_the_outage_and_end_soon_after_it(outbox: Ending) -> None:
    shut = [at_s for at_s, text in outbox.alarms if "is shut" in text]
    well = [at_s for at_s, text in outbox.alarms if "is well again" in text]
    late, in_time = (at_s for at_s, text in outbox.alarms if "waits too long" in text)
    assert all(120 <= at_s <= 360 for at_s in [*shut, late])
    assert len(shut) == len(well) > 0
    assert max(shut) < max(well) < 480
    assert 360 < in_time < 480


def test_the_page_shows_what_was_printed(naive: Ending, outbox: Ending) -> None:
    page = (ROOT / "docs" / "outbox.md").read_text(encoding="utf-8")
    section = page.partition("## One outage, two designs\n")[2]
    (printed,) = re.findall(r"^```\n(.*?)^```", section.partition("\n## ")[0], re.MULTILINE | re.DOTALL)
    assert shown(naive, outbox) == printed


def test_it_is_a_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scenarios", "outage", "--help"], capture_output=True, text=True, check=True
    )
    assert "counted at the provider" in done.stdout
