"""The answer to a batch, in the three ways in which services give it, and in the ways in which they should not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from simulator.dialects.native.answers import Style, answer
from simulator.dialects.native.results import odd_list, told_of, worded
from simulator.provider.answer import Accepted, Reason, Refused, Reply, Results
from simulator.provider.batch import BatchRules
from simulator.provider.dress import Listing
from tests.simulator.provider.mails import NOW

YES = Accepted(id="msg_1", message_id="<1@x>", recipients=("a@x",))
ALSO = Accepted(id="msg_3", message_id=None, recipients=("c@x",), replayed=True)
NO = Refused(reason=Reason.NO_RECIPIENTS, detail="nobody", index=1)
MIXED = Results(items=(YES, NO, ALSO))


def said(words: Results, **rules: Any) -> tuple[int, Any]:
    out = worded(words, NOW, Style(batch=BatchRules(**rules)))
    assert dict(out.headers)["Content-Type"] == "application/json"
    return out.status, json.loads(out.body)


def test_of_each_mail_is_said_what_became_of_it() -> None:
    status, document = said(MIXED)

    assert status == 200
    assert document == {
        "data": [
            {"index": 0, "http_status": 200, "id": "msg_1", "message_id": "<1@x>", "status": "accepted", "accepted": ["a@x"], "rejected": []},
            {
                "index": 1,
                "http_status": 422,
                "status": "rejected",
                "error": {
                    "type": "about:blank", "title": "Unprocessable Entity", "status": 422, "detail": "nobody",
                    "code": "invalid_recipient", "index": 1,
                },
            },
            {"index": 2, "http_status": 200, "id": "msg_3", "message_id": None, "status": "accepted", "accepted": ["c@x"], "rejected": [], "replayed": True},
        ],
        "accepted": 2,
        "rejected": 1,
    }  # fmt: skip


def test_only_ids_and_where_the_others_were() -> None:
    assert said(MIXED, results="accepted")[1] == {
        "data": [{"id": "msg_1"}, {"id": "msg_3"}],
        "errors": [{"index": 1, "code": "invalid_recipient", "message": "nobody"}],
    }


@pytest.mark.parametrize(
    ("results", "listing", "told"),
    [
        ("each", None, ["200", "422", "200"]),
        ("each", Listing.SHUFFLED, ["200", "422", "200"]),
        ("each", Listing.TWICE, ["200", "422", "200"]),
        ("each", Listing.FEWER, ["200", "422", None]),
        ("each", Listing.NONE, [None, None, None]),
        ("each", Listing.TOTALS, [None, None, None]),
        ("accepted", None, ["200", "422", "200"]),
        ("accepted", Listing.SHUFFLED, ["200", "422", "200"]),
        ("accepted", Listing.TWICE, [None, "422", None]),
        ("accepted", Listing.FEWER, [None, "422", None]),
        ("accepted", Listing.NONE, [None, "422", None]),
        ("totals", None, [None, None, None]),
    ],
)
def test_what_is_told_of_a_mail_is_what_can_be_read_of_it(
    results: str, listing: Listing | None, told: list[str | None]
) -> None:
    """Ids without places tell of nobody as soon as there are too many of them or too few."""
    style = Style(batch=BatchRules(results=results))

    assert [told_of(MIXED, index, NOW, style, listing) for index in range(3)] == told


def test_totals_only() -> None:
    assert said(MIXED, results="totals")[1] == {"accepted": 2, "rejected": 1}


@pytest.mark.parametrize(
    ("items", "status"), [((YES, YES), 200), ((YES, NO), 207), ((NO, YES), 207), ((NO, NO), 400)]
)
def test_the_status_of_a_mixed_batch_is_a_setting(items: tuple[Accepted | Refused, ...], status: int) -> None:
    assert said(Results(items=items), mixed_status=207, none_status=400)[0] == status


def test_a_rule_may_have_said_anything_of_a_mail() -> None:
    items = (Reply(code=503), Reply(code=502, body="<html>"), Reply(code=202), Reply(code=500, body="[1]"))
    _, document = said(Results(items=items))

    assert [each["http_status"] for each in document["data"]] == [503, 502, 202, 500]
    assert [each["status"] for each in document["data"]] == ["rejected", "rejected", "accepted", "rejected"]
    assert document["data"][0]["error"]["code"] == "unavailable"
    assert document["data"][1]["error"] == {"status": 502, "detail": "<html>"}
    assert "id" not in document["data"][2]
    assert (document["accepted"], document["rejected"]) == (0, 4)


def test_a_replayed_batch_is_marked() -> None:
    out = worded(Results(items=(YES,), replayed=True), NOW, Style(replay_header="X-Again"))

    assert ("X-Again", "true") in out.headers


def test_a_single_mail_is_answered_as_ever() -> None:
    assert worded(YES, NOW) == answer(YES, NOW)


@pytest.mark.parametrize(
    ("listing", "indexes"),
    [
        (Listing.FEWER, [0, 1]),
        (Listing.SHUFFLED, [2, 1, 0]),
        (Listing.TWICE, [0, 1, 2, 2]),
        (Listing.NONE, []),
        (Listing.TOTALS, None),
    ],
)
def test_a_list_may_be_wrong(listing: Listing, indexes: list[int] | None) -> None:
    document = json.loads(odd_list(worded(MIXED, NOW), listing).body)

    data = document.pop("data", None)
    assert (None if data is None else [each["index"] for each in data]) == indexes
    assert document == {"accepted": 2, "rejected": 1}


@pytest.mark.parametrize("listing", Listing)
@pytest.mark.parametrize("results", ["accepted", "totals"])
def test_a_list_that_is_none_may_be_wrong_too(listing: Listing, results: str) -> None:
    out = odd_list(worded(MIXED, NOW, Style(batch=BatchRules(results=results))), listing)

    assert json.loads(out.body) is not None
