"""docs/enqueueing.md: its table of classes is the one of the code, and so are the alarms."""

from __future__ import annotations

import re

import pytest
import yaml

from reference_sender.policy.classes import MANNERS, MailClass
from tests.house.places import ROOT

PAGE = (ROOT / "docs" / "enqueueing.md").read_text(encoding="utf-8")
_UNITS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400}


def seconds(words: str) -> float | None:
    """`10 minutes`, `1 hour`; a dash is None."""
    if words == "–":
        return None
    count, unit = words.split()
    return float(count) * _UNITS[unit.removesuffix("s")]


def share(words: str) -> float | None:
    """`80 %`; `never` is None."""
    return None if words == "never" else float(words.removesuffix(" %")) / 100


def test_the_table_of_classes_is_the_one_of_the_code() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| (-?\d+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", PAGE, re.MULTILINE
    )
    told = {
        name: (
            int(priority),
            seconds(ends),
            share(refused),
            seconds(late),
            outage.replace("[the campaign](campaigns.md)", "the campaign"),
        )
        for name, priority, ends, refused, late, outage in rows
    }
    assert told == {
        name.value: (
            each.priority,
            each.expires_after_s,
            each.refused_from,
            each.late_after_s,
            each.in_outage,
        )
        for name, each in MANNERS.items()
    }


@pytest.mark.parametrize(
    ("alert", "classes"),
    [
        ("OutboxCodesOverdue", {MailClass.CODE}),
        ("OutboxAlarmMailOverdue", {MailClass.ALARM}),
        ("OutboxNewslettersOverdue", {MailClass.NEWSLETTER}),
        ("OutboxMailOverdue", {MailClass.CONFIRMATION, MailClass.NOTICE}),
    ],
)
def test_an_alarm_rings_when_mail_of_its_class_is_late(alert: str, classes: set[MailClass]) -> None:
    rules = yaml.safe_load((ROOT / "reference_sender" / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    (rule,) = [rule for group in rules for rule in group["rules"] if rule["alert"] == alert]
    assert {MANNERS[each].late_after_s for each in classes} == {float(rule["expr"].rpartition(" > ")[2])}
