"""One outage, two designs: what is said of either is so, and docs/outbox.md shows what was printed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

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


#: Sampled as Prometheus would.
_EVERY_S = 30


def shipped(alert: str) -> tuple[str, float, float]:
    """The expression of an alarm that is shipped, its limit, and for how long it must be passed; in seconds."""
    told = yaml.safe_load((ROOT / "reference_sender" / "alerts.yml").read_text(encoding="utf-8"))
    (rule,) = [each for group in told["groups"] for each in group["rules"] if each["alert"] == alert]
    limit, minutes = re.search(r"> (\d+)$", rule["expr"]), re.fullmatch(r"(\d+)m", rule["for"])
    assert limit is not None
    assert minutes is not None
    return rule["expr"], float(limit[1]), 60.0 * int(minutes[1])


def longest_above_s(ending: Ending, limit: float) -> float:
    """For how long at a stretch the metric of overdue mail was above a limit."""
    longest, since = 0.0, None
    for at_s, overdue_s in ending.overdue:
        since = (at_s if since is None else since) if overdue_s > limit else None
        longest = max(longest, 0.0 if since is None else at_s - since)
    return longest


@pytest.fixture(scope="module")
def longer() -> Ending:
    """The same weather for ten minutes, and fewer orders: none after the sixth."""
    return play("outbox", minutes=10, orders=600)


def test_the_shipped_alarm_of_overdue_mail_rings_in_a_longer_outage_and_not_in_this_one(
    outbox: Ending, longer: Ending
) -> None:
    """Five minutes, for two minutes: this outage is over before. docs/outbox.md says so."""
    _, limit, for_s = shipped("OutboxMailOverdue")
    assert 60 < max(overdue_s for _, overdue_s in outbox.overdue) < limit
    assert longest_above_s(outbox, limit) == 0.0
    assert longest_above_s(longer, limit) > for_s
    assert (longer.twice, longer.lost) == (0, 0)
    assert longer.overdue[-1][1] == 0.0, "and it ends with the outage"


@pytest.mark.skipif(
    shutil.which("promtool") is None,
    reason="promtool is not installed; the test above compares the same series with the limit of the rule",
)
def test_prometheus_rings_it_over_what_the_sender_told(
    outbox: Ending, longer: Ending, tmp_path: Path
) -> None:
    tests = []
    for ending, fires in ((outbox, False), (longer, True)):
        told = {round(at_s): overdue_s for at_s, overdue_s in ending.overdue}
        times = range(_EVERY_S, round(ending.overdue[-1][0]), _EVERY_S)
        values = [told[min(told, key=lambda at_s: abs(at_s - time))] for time in times]
        # Once, at any moment: what rang is counted over all of the run.
        asked = 'count_over_time(ALERTS{alertname="OutboxMailOverdue",alertstate="firing"}[1h]) > bool 0'
        labels = '{alertname="OutboxMailOverdue", alertstate="firing", class="confirmation", severity="page"}'
        tests.append(
            {
                "name": f"{len(values)} samples",
                "interval": f"{_EVERY_S}s",
                "input_series": [
                    {
                        "series": 'outbox_overdue_seconds{class="confirmation"}',
                        "values": " ".join(f"{value:.3f}" for value in values),
                    }
                ],
                "promql_expr_test": [
                    {
                        "expr": asked,
                        "eval_time": f"{_EVERY_S * len(values)}s",
                        "exp_samples": [{"labels": labels, "value": 1}] if fires else [],
                    }
                ],
            }
        )
    file = tmp_path / "outages.yml"
    rules = str(ROOT / "reference_sender" / "alerts.yml")
    file.write_text(
        yaml.safe_dump({"rule_files": [rules], "evaluation_interval": f"{_EVERY_S}s", "tests": tests})
    )
    done = subprocess.run(
        ["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


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
