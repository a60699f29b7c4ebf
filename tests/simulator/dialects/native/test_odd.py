"""Bodies that are no success: each is wrong in exactly its own way."""

from __future__ import annotations

import json

import pytest

from simulator.dialects.native.answers import answer
from simulator.dialects.native.odd import BODIES, odd
from simulator.provider.answer import Accepted
from simulator.provider.dress import Odd, Shape
from tests.simulator.provider.mails import NOW

YES = answer(Accepted(id="msg_1", message_id="<1@x>", recipients=("a@x",)), NOW)
USUAL = json.loads(YES.body)
#: Shape -> the JSON that it is.
JSON = {
    Shape.WHOLE: USUAL,
    Shape.ERROR: {
        "status": "error",
        "error": {"code": "internal_error", "message": "the mail could not be queued"},
    },
    Shape.NO_ID: {"status": "accepted", "accepted": ["a@x"], "rejected": []},
    Shape.NULL_ID: USUAL | {"id": None},
    Shape.NUMBER_ID: USUAL | {"id": 2**63 - 1},
    Shape.ARRAY: [USUAL],
    Shape.NULL: None,
}
NO_JSON = (Shape.TEXT, Shape.HTML, Shape.EMPTY, Shape.CUT, Shape.BOM, Shape.LATIN1, Shape.NESTED)


def test_every_shape_has_a_body_and_a_test() -> None:
    assert set(BODIES) == set(Shape) == {*JSON, *NO_JSON, Shape.TWICE}


@pytest.mark.parametrize("shape", JSON)
def test_some_are_json(shape: Shape) -> None:
    out = odd(YES, Odd(shape=shape))

    assert (out.status, json.loads(out.body)) == (200, JSON[shape])
    assert dict(out.headers)["Content-Type"] == "application/json"


@pytest.mark.parametrize("shape", NO_JSON)
def test_some_are_not(shape: Shape) -> None:
    out = odd(YES, Odd(shape=shape, code=202))

    assert out.status == 202
    with pytest.raises((ValueError, RecursionError)):
        json.loads(out.body.decode())


def test_one_says_two_things() -> None:
    pairs = json.loads(odd(YES, Odd(shape=Shape.TWICE)).body, object_pairs_hook=list)

    assert [value for name, value in pairs if name == "id"] == ["msg_1", "msg_ffffffffffffffffffff"]


@pytest.mark.parametrize(
    ("shape", "given", "kind"),
    [
        (Shape.HTML, None, "text/html; charset=utf-8"),
        (Shape.HTML, "application/json", "application/json"),
        (Shape.WHOLE, "text/plain", "text/plain"),
        (Shape.WHOLE, "", None),
    ],
)
def test_the_content_type_may_lie(shape: Shape, given: str | None, kind: str | None) -> None:
    out = odd(YES, Odd(shape=shape, content_type=given))

    assert dict(out.headers).get("Content-Type") == kind
