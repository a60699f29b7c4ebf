"""What a key remembers besides acceptances, written down: the stored answer of a request, as JSON that a ledger keeps.

It rides on the attempt that made it (`Attempt.kept`), so that a store needs no table of its own for it.
"""

from __future__ import annotations

import dataclasses
import json
from datetime import datetime
from typing import Any

from simulator.provider.answer import (
    Accepted,
    Reason,
    Refused,
    RefusedRecipient,
    Reply,
    Results,
    RetryAfter,
    RetryAfterKind,
    Words,
)
from simulator.provider.idempotency import Kept
from simulator.provider.strike import Held

_KINDS: dict[str, type[Accepted | Refused | Reply]] = {
    kind.__name__.lower(): kind for kind in (Accepted, Refused, Reply)
}


def written(key: str, kept: Kept) -> str:
    """Write down what a key remembers."""
    facts = {
        "key": key,
        "fingerprint": kept.fingerprint,
        "at": kept.at.isoformat(),
        "failed": kept.failed,
        "words": None if kept.words is None else _plain(kept.words),
    }
    return json.dumps(facts, ensure_ascii=True, separators=(",", ":"))


def read(text: str, attempt: str) -> tuple[str, Kept]:
    """Read it again: the key, and what it remembers. Raise `ValueError`, `KeyError` or `TypeError` for damage."""
    facts = json.loads(text)
    kept = Kept(
        fingerprint=facts["fingerprint"],
        at=datetime.fromisoformat(facts["at"]),
        attempt=attempt,
        words=None if facts["words"] is None else _words(facts["words"]),
        failed=facts["failed"],
    )
    return facts["key"], kept


def held_as_json(held: Held) -> str:
    """Write down what a limit said."""
    facts = {
        "rule": held.rule,
        "limit": held.limit,
        "per": held.per,
        "scope": held.scope,
        "says": _plain(held.words),
    }
    return json.dumps(facts, ensure_ascii=True, separators=(",", ":"))


def held_from(facts: dict[str, Any]) -> Held:
    """Read again what a limit said. Raise `ValueError`, `KeyError` or `TypeError` for damage."""
    words = _item(facts["says"])
    known = {key: facts[key] for key in ("rule", "limit", "per", "scope")}
    texts = [each for each in known.values() if each is not None]
    if not isinstance(words, Refused) or not all(isinstance(each, str) for each in (known["rule"], *texts)):
        raise ValueError("this is nothing that a limit says")
    return Held(words=words, **known)


def _plain(words: Words) -> dict[str, Any]:
    if isinstance(words, Results):
        return {"kind": "results", "items": [_plain(item) for item in words.items]}
    return {"kind": type(words).__name__.lower()} | dataclasses.asdict(words)


def _words(facts: dict[str, Any]) -> Words:
    if facts["kind"] == "results":
        return Results(items=tuple(_item(item) for item in facts["items"]))
    return _item(facts)


def _item(facts: dict[str, Any]) -> Accepted | Refused | Reply:
    given = {name: value for name, value in facts.items() if name != "kind"}
    if "refused" in given:
        given["refused"] = tuple(RefusedRecipient(**each) for each in given["refused"])
    if "recipients" in given:
        given["recipients"] = tuple(given["recipients"])
    if "headers" in given:
        given["headers"] = tuple((name, value) for name, value in given["headers"])
    if "reason" in given:
        given["reason"] = Reason(given["reason"])
    if given.get("smtp") is not None:
        number, enhanced = given["smtp"]
        given["smtp"] = (number, enhanced)
    if given.get("retry_after") is not None:
        retry = given["retry_after"]
        given["retry_after"] = RetryAfter(kind=RetryAfterKind(retry["kind"]), seconds=retry["seconds"])
    return _KINDS[facts["kind"]](**given)
