"""The description of the API as data: whole, closed where it takes, and true of what the code says."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest

from simulator.dialects.native.answers import STATUS, answer
from simulator.dialects.native.lookup import found
from simulator.dialects.native.openapi import OPERATIONS, PROBLEMS, document, schemas
from simulator.dialects.native.results import worded
from simulator.provider.answer import Accepted, Reason, Refused, RefusedRecipient, Results
from simulator.provider.api import PATHS
from simulator.provider.lookup import Query
from tests.simulator.dialects.native.bodies import FIELDS, RAW_BODY
from tests.simulator.provider.mails import NOW, acceptance

WHOLE = document("1.2.3")
NOBODY = RefusedRecipient(recipient="c@y", code=550, enhanced="5.1.1", text="no")
YES = Accepted(id="msg_1", message_id=None, recipients=("b@y",), refused=(NOBODY,))
NO = Refused(reason=Reason.NO_RECIPIENTS, detail="nobody", refused=(NOBODY,), index=1)


def fits(name: str, value: object) -> bool:
    schema = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas()}}
    return jsonschema_rs.validator_for(schema).is_valid(value)


def references(value: object) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*(references(each) for each in value.values()))
    return set().union(*(references(each) for each in value)) if isinstance(value, list) else set()


def test_the_document_is_json_and_every_reference_leads_somewhere() -> None:
    assert json.loads(json.dumps(WHOLE)) == WHOLE
    known = {f"#/components/schemas/{name}" for name in WHOLE["components"]["schemas"]}
    assert references(WHOLE) <= known
    assert WHOLE["info"]["version"] == "1.2.3"


def test_every_operation_is_in_it_under_a_name_of_its_own() -> None:
    inside = {
        (method.upper(), path): operation
        for path, methods in WHOLE["paths"].items()
        for method, operation in methods.items()
    }

    assert set(inside) == {(each.method, each.path) for each in OPERATIONS}
    assert len({each["operationId"] for each in inside.values()}) == len(OPERATIONS)
    assert set(PATHS) <= {path for _, path in inside}


def test_every_reason_of_the_provider_is_a_problem_with_its_status() -> None:
    told = {code: status for status, code, _ in PROBLEMS}

    assert {reason.value: STATUS[reason] for reason in Reason if reason.value in told}.items() <= told.items()
    assert {reason.value for reason in Reason} <= set(told)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_every_status_of_an_operation_is_explained(operation: Any) -> None:
    responses = WHOLE["paths"][operation.path][operation.method.lower()]["responses"]

    assert set(responses) == {"200", *map(str, operation.problems)}
    assert all(each["description"] for each in responses.values())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Mail", FIELDS),
        ("Mail", RAW_BODY),
        ("Batch", [FIELDS | {"idempotency_key": "k"}, RAW_BODY]),
        ("Accepted", json.loads(answer(YES, NOW).body)),
        ("Problem", json.loads(answer(NO, NOW).body)),
        ("Results", json.loads(worded(Results(items=(YES, NO)), NOW).body)),
        ("Found", json.loads(found(Query(id="x"), [acceptance(1)]).body or "")),
        ("FoundList", json.loads(found(Query(key="x"), [acceptance(1)]).body or "")),
    ],
)
def test_what_is_said_and_taken_fits_its_schema(name: str, value: object) -> None:
    assert fits(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Mail", FIELDS | {"subjet": "x"}),
        ("Mail", {"to": ["a@x"]}),
        ("Mail", FIELDS | {"to": []}),
        ("Mail", RAW_BODY | {"subject": "x"}),
        ("Mail", FIELDS | {"idempotency_key": "k"}),
        ("Batch", []),
        ("Problem", {"detail": "x"}),
        ("Accepted", {"status": "rejected", "accepted": [], "rejected": []}),
    ],
)
def test_what_is_not_does_not(name: str, value: object) -> None:
    assert not fits(name, value)
