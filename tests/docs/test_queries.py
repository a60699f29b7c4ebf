"""The reader of queries sees what is wrong with one, and which labels it keeps."""

from __future__ import annotations

import pytest

from tests.docs.queries import kept, wrong


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ('sum(outbox_mails{state="dead"}', "unclosed left parenthesis"),
        ("sum(outbox_mails) by state", "invalid promql query"),
        ("rate(outbox_trouble_total)", "expected type matrix in call to function 'rate', got vector"),
        ("average(outbox_mails)", "unknown function with name 'average'"),
        ('sum(outbox_mail{state="dead"})', "outbox_mail"),
        ('sum(outbox_mails{colour="dead"})', "outbox_mails{colour}"),
        ("sum by (colour) (outbox_mails)", "by or without colour"),
        ("up == 0", "up"),
        ("1 + 1", "no metric at all"),
        ("rate(outbox_mails[5m])", "rate of the gauge outbox_mails"),
        ("deriv(outbox_parked_total[5m])", "outbox_parked_total itself, which only ever grows"),
        ("outbox_parked_total > 0", "outbox_parked_total itself, which only ever grows"),
        (
            "rate(outbox_parked_total[5m]) > outbox_parked_total",
            "outbox_parked_total itself, which only ever grows",
        ),
        (
            "histogram_quantile(0.5, sum by (wire) (rate(outbox_attempt_seconds_bucket[5m])))",
            "histogram_quantile without le",
        ),
    ],
)
def test_what_is_wrong_is_said(query: str, says: str) -> None:
    told = list(wrong(query))
    assert len(told) == 1
    assert told[0].startswith(says)


@pytest.mark.parametrize(
    ("query", "labels"),
    [
        ("outbox_mails", {"state", "class", "job", "instance"}),
        ("sum by (state) (max by (state, class) (outbox_mails))", {"state"}),
        ("sum(outbox_mails)", set()),
        ("sum without (state) (rate(outbox_decisions_total[$__rate_interval]))", {"job", "instance"}),
        ("histogram_quantile(0.9, sum by (wire, le) (rate(outbox_attempt_seconds_bucket[5m])))", {"wire"}),
        ("0.5 * max by (class) (outbox_mails) > 3", {"class"}),
        ("max by (class) (outbox_mails) or max by (state) (outbox_mails)", set()),
        ("max by (class) (outbox_mails) and on () sum(outbox_mails)", {"class"}),
        ("absent(outbox_info)", set()),
    ],
)
def test_labels_that_an_answer_has_are_known(query: str, labels: set[str]) -> None:
    assert list(wrong(query)) == []
    assert kept(query) == labels
