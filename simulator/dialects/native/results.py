"""The answer to a batch: what became of each mail, as the account's provider says it; and any answer at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from simulator.dialects.http import HttpWords
from simulator.dialects.native.answers import USUAL, Style, answer, yes
from simulator.provider.answer import Accepted, Results, Words
from simulator.provider.dress import Listing


def worded(words: Words, now: datetime, style: Style = USUAL) -> HttpWords:
    """Return the HTTP answer that says these words, to a single mail or to a batch."""
    return results(words, now, style) if isinstance(words, Results) else answer(words, now, style)


def results(words: Results, now: datetime, style: Style) -> HttpWords:
    """Return the answer to a batch."""
    rules = style.batch
    status = 200
    if words.accepted < len(words.items):
        status = rules.mixed_status if words.accepted else rules.none_status
    document = _LISTS[rules.results](words, now)
    headers = style.headers
    if words.replayed and style.replay_header:
        headers = ((style.replay_header, "true"), *headers)
    return _json(status, headers, document)


def told_of(
    words: Results, index: int, now: datetime, style: Style, listing: Listing | None = None
) -> str | None:
    """Return the status that the answer gives to one mail of the batch; None: none. `listing`: what a rule made of it."""
    entry = _entry(words, index, now)
    told = style.batch.results != "totals" and listing is not Listing.TOTALS
    if told and listing is not None and (style.batch.results == "each" or entry["status"] == "accepted"):
        told = _is_listed(index, len(words.items), listing, numbered=style.batch.results == "each")
    return str(entry["http_status"]) if told else None


def _is_listed(index: int, of: int, listing: Listing, *, numbered: bool) -> bool:
    """Tell whether a list still says what became of a mail. Ids without places say it as long as they are all there."""
    match listing:
        case Listing.SHUFFLED:
            return True
        case Listing.TWICE:
            return numbered
        case Listing.FEWER:
            return numbered and index < of - 1
        case _:
            return False


def _json(status: int, headers: tuple[tuple[str, str], ...], document: Mapping[str, Any]) -> HttpWords:
    body = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return HttpWords(status=status, headers=(("Content-Type", "application/json"), *headers), body=body)


def _entry(words: Results, index: int, now: datetime) -> dict[str, Any]:
    item = words.items[index]
    if isinstance(item, Accepted):
        again = {"replayed": True} if item.replayed else {}
        return {"index": index, "http_status": 200} | yes(item) | again
    out = answer(item, now)
    status, said = out.status, _document(out)
    if status < 300:
        return {"index": index, "http_status": status} | said
    return {"index": index, "http_status": status, "status": "rejected", "error": said}


def _totals(words: Results, now: datetime) -> dict[str, Any]:
    return {"accepted": words.accepted, "rejected": len(words.items) - words.accepted}


def _each(words: Results, now: datetime) -> dict[str, Any]:
    return {"data": [_entry(words, index, now) for index in range(len(words.items))]} | _totals(words, now)


def _only_accepted(words: Results, now: datetime) -> dict[str, Any]:
    entries = [_entry(words, index, now) for index in range(len(words.items))]
    return {
        # Without their places: whoever wants to know which mail an id is of must count the errors away.
        "data": [{"id": each.get("id")} for each in entries if each["status"] == "accepted"],
        "errors": [
            {
                "index": each["index"],
                "code": each["error"].get("code"),
                "message": each["error"].get("detail"),
            }
            for each in entries
            if each["status"] != "accepted"
        ],
    }


_LISTS: Mapping[str, Callable[[Results, datetime], dict[str, Any]]] = {
    "each": _each,
    "accepted": _only_accepted,
    "totals": _totals,
}


#: What a rule makes of the list of results.
_ODD_LISTS: Mapping[Listing, Callable[[list[Any]], list[Any]]] = {
    Listing.FEWER: lambda entries: entries[:-1],
    Listing.SHUFFLED: lambda entries: entries[::-1],
    Listing.TWICE: lambda entries: [*entries, entries[-1]],
    Listing.NONE: lambda entries: [],
}


def odd_list(out: HttpWords, listing: Listing) -> HttpWords:
    """Return the answer to a batch with another list of results than it should have."""
    document = json.loads(out.body)
    if listing is Listing.TOTALS:
        document = {name: document[name] for name in ("accepted", "rejected") if name in document}
    elif isinstance(document.get("data"), list) and document["data"]:
        document["data"] = _ODD_LISTS[listing](document["data"])
    headers = tuple((name, value) for name, value in out.headers if name != "Content-Type")
    return _json(out.status, headers, document)


def _document(out: HttpWords) -> dict[str, Any]:
    try:
        document = json.loads(out.body)
    except ValueError:
        document = None
    # A rule may have said anything, and an entry has to be JSON all the same.
    return (
        document
        if isinstance(document, dict)
        else {"status": out.status, "detail": out.body.decode("utf-8", "replace")}
    )
