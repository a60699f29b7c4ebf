"""The table `[idempotency]` is read as it is meant."""

from __future__ import annotations

import dataclasses

import pytest

from simulator.config.keys import SETTINGS, read_keys
from simulator.config.place import Place, PlanError
from simulator.provider.idempotency import CARRIERS, FORMS, WAYS, KeyRules


def test_what_is_not_given_stays_as_usual() -> None:
    assert read_keys({}, Place("p")) == KeyRules()
    assert read_keys({"window_s": 5}, Place("p")) == KeyRules(window_s=5.0)


def test_every_setting_can_be_written() -> None:
    assert set(SETTINGS) == {field.name for field in dataclasses.fields(KeyRules)}
    usual = dataclasses.asdict(KeyRules())
    assert read_keys(usual, Place("p")) == KeyRules()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *((situation, choice) for situation, row in WAYS.items() for choice in row),
        *(("carrier", each) for each in CARRIERS),
        *(("form", each) for each in FORMS),
        ("header", "X-Dedupe-Key"),
        ("replay_header", ""),
        ("body_field", "headers.idempotencyKey"),
        ("max_chars", 256),
    ],
)
def test_every_choice_can_be_written(key: str, value: object) -> None:
    assert getattr(read_keys({key: value}, Place("p")), key) == value


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"finished": "replays"}, 'p: "finished" is "replays"; did you mean "replay"?'),
        ({"reused": 409}, 'p: "reused" is 409; known are conflict, replay, unprocessable'),
        ({"in_flight": []}, 'p: "in_flight" is []; known are conflict, process, retry_after, wait'),
        (
            {"header": "X Key"},
            'p: "header" is "X Key"; it must be the name of a header, like "X-Request-Key"',
        ),
        ({"replay_header": 1}, 'p: "replay_header" is 1; it must be the name of a header'),
        ({"header": "X-A\r\nX-B"}, "it must be the name of a header"),
        ({"max_chars": 0}, '"max_chars" is 0; it must be a whole number of 1 or more'),
        ({"carrier": "body", "body_field": "a..b"}, '"body_field" is "a..b"; it must name a member'),
        ({"required": True, "honoured": False}, "a key that is asked for must be honoured"),
        ({"windows": 1}, 'there is no key "windows"; did you mean "window_s"?'),
        ([], "this must be a table of settings, not []"),
    ],
)
def test_a_mistake_is_said_in_one_sentence(data: object, says: str) -> None:
    with pytest.raises(PlanError) as caught:
        read_keys(data, Place("p"))

    assert says in str(caught.value)
