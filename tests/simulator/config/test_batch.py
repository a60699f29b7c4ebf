"""The table `[batch]` is read as it is meant."""

from __future__ import annotations

import dataclasses

import pytest

from simulator.config.batch import SETTINGS, read_batch
from simulator.config.place import Place, PlanError
from simulator.provider.batch import MODES, RESULTS, BatchRules


def test_what_is_not_given_stays_as_usual() -> None:
    assert read_batch({}, Place("p")) == BatchRules()


def test_every_setting_can_be_written() -> None:
    assert set(SETTINGS) == {field.name for field in dataclasses.fields(BatchRules)}
    assert read_batch(dataclasses.asdict(BatchRules()), Place("p")) == BatchRules()


@pytest.mark.parametrize(
    ("key", "value"), [*(("mode", each) for each in MODES), *(("results", each) for each in RESULTS)]
)
def test_every_choice_can_be_written(key: str, value: str) -> None:
    assert getattr(read_batch({key: value}, Place("p")), key) == value


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"max_mails": 0}, 'p: "max_mails" is 0; it must be a whole number of 1 or more'),
        ({"mode": "some"}, '"mode" is "some"; known are all_or_nothing, each'),
        ({"results": 1}, '"results" is 1; known are accepted, each, totals'),
        ({"mixed_status": 42}, '"mixed_status" is 42; it must be a reply code'),
        ({"max": 1}, 'there is no key "max"'),
        ([], "this must be a table of settings, not []"),
    ],
)
def test_a_mistake_is_said_in_one_sentence(data: object, says: str) -> None:
    with pytest.raises(PlanError) as caught:
        read_batch(data, Place("p"))

    assert says in str(caught.value)
