"""A fault is written as somebody would write it, and read again it is the same."""

from __future__ import annotations

import json

import pytest

from simulator.config.fault import read_fault
from simulator.config.place import Place
from simulator.provider.answer import RetryAfter, RetryAfterKind
from simulator.provider.faults import FAULTS, Fault, HangThere, ReplyWith
from simulator.provider.faults.written import as_table, written
from tests.simulator.provider.faults.samples import sample


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_is_the_same_again(name: str) -> None:
    fault = sample(name)

    assert read_fault(Place("p"), json.loads(written(fault)), ()) == (fault, None)


@pytest.mark.parametrize(
    ("fault", "table"),
    [
        (HangThere(), {"fault": "hang"}),
        (HangThere(delay_s=2), {"fault": "hang", "delay_s": 2}),
        (
            ReplyWith(code=503, retry_after=RetryAfter(kind=RetryAfterKind.DATE, seconds=1.5)),
            {"fault": "reply", "code": 503, "retry_after": "date:1.5"},
        ),
        (
            ReplyWith(code=503, retry_after=RetryAfter(kind=RetryAfterKind.ZERO)),
            {"fault": "reply", "code": 503, "retry_after": "zero"},
        ),
    ],
    ids=str,
)
def test_only_what_is_not_as_usual_is_written(fault: Fault, table: dict[str, object]) -> None:
    assert as_table(fault) == table
