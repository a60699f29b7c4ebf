"""Look-ups in the native API's words: what may be asked for, and how what was found is shown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from simulator.dialects.native.answers import rejected
from simulator.provider.acceptance import Acceptance
from simulator.provider.answer import Reason, Refused, Reply
from simulator.provider.lookup import Query

#: Parameter -> what a query calls it.
PARAMETERS = {"idempotency_key": "key", "message_id": "message_id"}


def read_query(parameters: Sequence[tuple[str, str]]) -> Query | Refused:
    """Read the query string of a look-up: exactly one parameter."""
    if len(parameters) != 1 or parameters[0][0] not in PARAMETERS:
        detail = f"ask with either {' or '.join(f'?{name}=' for name in PARAMETERS)}"
        return Refused(reason=Reason.INVALID, detail=detail)
    name, value = parameters[0]
    return Query(**{PARAMETERS[name]: value})


def found(query: Query, acceptances: Sequence[Acceptance]) -> Reply:
    """Return the answer to a look-up."""
    if query.id is None:
        return _json({"data": [as_json(each) for each in acceptances]})
    if not acceptances:
        return Reply(code=404, text="there is no mail with this id")
    return _json(as_json(acceptances[0]))


def as_json(acceptance: Acceptance) -> dict[str, Any]:
    """Return an acceptance as a look-up shows it to the sender."""
    return {
        "id": acceptance.id,
        "message_id": acceptance.message_id,
        "idempotency_key": acceptance.key,
        "status": "accepted",
        "to": list(acceptance.recipients),
        "accepted": list(acceptance.recipients),
        "rejected": [rejected(each) for each in acceptance.refused],
        "created_at": acceptance.accepted_at.isoformat(),
    }


def _json(document: dict[str, Any]) -> Reply:
    return Reply(code=200, body=json.dumps(document, ensure_ascii=False, separators=(",", ":")))
