"""A recording is read as it was written, and what is no recording is one sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest

from simulator.config.place import Place
from simulator.config.replay import read_replay, recorded_as_json
from simulator.provider.answer import Reason, Refused, RetryAfter, RetryAfterKind
from simulator.provider.fate import Fate
from simulator.provider.faults import DecideFate, ReplyWith, SlowDown
from simulator.provider.plan import Recorded
from simulator.provider.strike import Held, Hit
from tests.simulator.config.plans import sentence

WHOLE = (
    Recorded(
        wire="http",
        stage="accept",
        mail="to:a@x",
        nth=2,
        hits=(
            Hit(rule="slow", fault=SlowDown(delay_s=1.5)),
            Hit(rule="bounce", fault=DecideFate(fate=Fate.HARD_BOUNCE), recipients=("a@x",)),
            Hit(rule="no", fault=ReplyWith(code=503, text="später")),
        ),
    ),
    Recorded(
        wire="smtp",
        stage="booking",
        mail="to:a@x",
        nth=1,
        held=Held(
            rule="limit: senders",
            limit="senders",
            per="sender",
            scope="shop@x",
            words=Refused(
                reason=Reason.RATE_LIMITED,
                detail="too many mails just now",
                retry_after=RetryAfter(kind=RetryAfterKind.SECONDS, seconds=3),
                smtp=(451, "4.7.0"),
            ),
        ),
    ),
    Recorded(wire="smtp", stage="connect", mail="", nth=7, hits=(Hit(rule="r", fault=ReplyWith(code=421)),)),
)


def test_it_is_the_same_again() -> None:
    assert read_replay(json.loads(json.dumps(recorded_as_json(WHOLE))), Place("p")) == WHOLE


GOOD = {"wire": "http", "stage": "accept", "nth": 1, "strikes": [{"rule": "r", "fault": "hang"}]}


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (7, "replay 1: this must be a table, not 7"),
        ({}, 'replay 1: the key "wire" is missing'),
        (GOOD | {"when": 1}, 'there is no key "when"; known are'),
        (GOOD | {"wire": "htp"}, '"wire" is "htp"; did you mean "http"?'),
        (GOOD | {"stage": "rcpt"}, '"stage" is "rcpt"; '),
        (GOOD | {"nth": 0}, '"nth" is 0; it must be a whole number of 1 or more'),
        (GOOD | {"strikes": 5}, '"strikes" is 5; it must be a list'),
        (GOOD | {"strikes": ["hang"]}, 'a strike is a table, not "hang"'),
        (GOOD | {"strikes": [{"fault": "hung"}]}, '"fault" is "hung", which is no fault; did you mean "hang"?'),
        (GOOD | {"strikes": [{"fault": "hang", "recipients": "a"}]}, '"recipients" is "a"; it must be a list of addresses'),
        (GOOD | {"strikes": []}, 'it has either "strikes", or what a limit said ("held")'),
        (GOOD | {"held": 5}, '"held" is 5; it must be as it was saved'),
        (GOOD | {"held": {"limit": "l"}}, "it must be as it was saved"),
        (GOOD | {"held": {"rule": 5, "limit": None, "per": None, "scope": "", "says": {"kind": "refused", "reason": "rate_limited", "detail": ""}}}, "it must be as it was saved"),
        (GOOD | {"held": {"rule": "l", "limit": "l", "per": "ip", "scope": "", "says": {"kind": "reply", "code": 5}}}, "it must be as it was saved"),
        (GOOD | {"held": {"rule": "l", "limit": "l", "per": "ip", "scope": "", "says": {"kind": "refused", "reason": "rate_limited", "detail": ""}}}, 'it has either "strikes", or'),
    ],
    ids=str,
)  # fmt: skip
def test_a_mistake_is_named_with_its_cure(entry: Any, says: str) -> None:
    assert says in sentence({"replay": [entry]})


def test_a_recording_is_a_list() -> None:
    assert "it must be a list, as simulator decisions --save writes it" in sentence({"replay": "r.json"})
