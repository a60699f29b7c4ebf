"""Several mails in one HTTP request: an array of mails out, evidence for each of them back.

Every mail carries its own idempotency key, so a batch that is repeated needs neither the same company nor the same
order: whoever was taken before is recognised one by one. What the answer does not say of a mail is not known of it –
a result that is missing, said twice in two ways, or a total alone is silence after the last byte.
Must not hold: what a code means (`policy.classify`), which mails go together, when to try again.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from reference_sender.life import Parcel
from reference_sender.policy.batches import BatchEvidence
from reference_sender.policy.evidence import Evidence, Phase, Wire
from reference_sender.transports.http import (
    EXPECTED,
    HttpOptions,
    HttpTransport,
    Letting,
    Progress,
    document_of,
    evidence_of,
    is_status,
    limits_in,
    read_answer,
    trouble_of,
)

_KEPT_ANSWER_CHARS = 2_000

#: Services that list only the names of errors leave out the status; these are the ones that the native API has.
_STATUS_OF_NAME: Mapping[str, int] = {
    "invalid_request": 400,
    "invalid_recipient": 422,
    "key_in_flight": 409,
    "key_required": 400,
    "key_reused": 422,
    "too_large": 413,
    "too_many_recipients": 422,
    "rate_limited": 429,
    "quota_exceeded": 429,
    "greylisted": 503,
    "unavailable": 503,
}


class HttpBatchTransport(HttpTransport):
    """Sends several mails by one POST – and a single one too, as an array of one.

    A mail that was in a batch and is repeated alone must come to the same door: not every service knows at the one
    what it was told at the other.
    """

    def __init__(
        self, options: HttpOptions, *, most: int, most_octets: int, path: str = "/v1/emails/batch"
    ) -> None:
        super().__init__(options)
        self.most = most
        """So many mails go together at most."""
        self.most_octets = most_octets
        """And so many octets of mails; one alone may have more."""
        self._batch_url = options.url.rstrip("/") + path

    async def send(
        self, parcel: Parcel, *, key: str, point_of_no_return: Callable[[], Awaitable[bool]]
    ) -> Evidence:
        """Make one attempt for one mail."""
        seen = await self.send_batch([parcel], keys=[key], point_of_no_return=point_of_no_return)
        return seen.items[0]

    async def send_batch(
        self,
        parcels: Sequence[Parcel],
        *,
        keys: Sequence[str],
        point_of_no_return: Callable[[], Awaitable[bool]],
    ) -> BatchEvidence:
        """Make one attempt for all of them. `point_of_no_return` is awaited once; False stops all of them."""
        progress = Progress()
        body = batch_body(parcels, keys)
        try:
            async with self._client.session().post(
                self._batch_url,
                # No key for the whole: it would bind the mails to each other, and each has its own.
                data=Letting(body, progress, point_of_no_return),
                allow_redirects=False,
            ) as response:
                content = await read_answer(response)
                retry_after = response.headers.get("Retry-After")
                seen_of_all = evidence_of_batch(
                    response.status, retry_after, content, parcels, progress.phase
                )
                # They are about the provider, whatever became of each mail.
                return _with_limits(seen_of_all, limits_in(response.headers.items()))
        except EXPECTED as error:
            trouble = "withdrawn" if progress.withdrawn else trouble_of(error)
            seen = Evidence(
                wire=Wire.HTTP, phase=progress.phase, trouble=trouble, answer=type(error).__name__
            )
            return BatchEvidence(items=(seen,) * len(parcels), whole=True)


def _with_limits(seen: BatchEvidence, limits: tuple[tuple[str, str], ...]) -> BatchEvidence:
    return replace(seen, items=tuple(replace(each, limits=limits) for each in seen.items)) if limits else seen


def batch_body(parcels: Sequence[Parcel], keys: Sequence[str]) -> bytes:
    """The JSON array of mails, each with its own key."""
    return json.dumps(
        [
            {
                "from": parcel.sender,
                "to": [parcel.recipient],
                "raw": base64.b64encode(parcel.raw).decode("ascii"),
                "idempotency_key": key,
            }
            for parcel, key in zip(parcels, keys, strict=True)
        ]
    ).encode()


def evidence_of_batch(
    status: int, retry_after: str | None, content: bytes, parcels: Sequence[Parcel], phase: Phase
) -> BatchEvidence:
    """What a whole answer says of each mail; `retry_after` is the header as it came."""
    told = document_of(content)
    if not _holds_results(told):
        # One answer for all: the request was not taken apart into its mails.
        items = tuple(evidence_of(status, retry_after, content, each, phase) for each in parcels)
        index = told.get("index")
        bad = index if isinstance(index, int) and 0 <= index < len(parcels) else None
        return BatchEvidence(items=items, whole=True, bad=bad)
    found = _by_mail(told, parcels)
    return BatchEvidence(
        items=tuple(
            _evidence_of_entry(found[number], retry_after, each, phase)
            if number in found
            else Evidence(
                wire=Wire.HTTP,
                phase=phase,
                trouble="no result for this mail",
                answer=content.decode("utf-8", "replace").replace("\x00", "")[:_KEPT_ANSWER_CHARS],
                retry_after=retry_after,
            )
            for number, each in enumerate(parcels)
        ),
        whole=False,
    )


def _holds_results(told: Mapping[str, Any]) -> bool:
    """Whether this speaks of single mails, or at least counts them – whatever its status says."""
    counted = any(isinstance(told.get(name), int) for name in ("accepted", "rejected"))
    return isinstance(told.get("data"), list) or isinstance(told.get("errors"), list) or counted


def _by_mail(told: Mapping[str, Any], parcels: Sequence[Parcel]) -> dict[int, dict[str, Any]]:
    """Sort results to their mails. What is contradicted, or belongs to nobody, is left out."""
    entries = [each for each in _list(told, "data") if isinstance(each, dict)]
    errors = [each for each in _list(told, "errors") if isinstance(each, dict)]
    found: dict[int, dict[str, Any]] = {}
    contradicted: set[int] = set()

    def say(place: int, entry: dict[str, Any]) -> None:
        if found.setdefault(place, entry) != entry:
            contradicted.add(place)

    for error in errors:
        place = error.get("index")
        if isinstance(place, int) and 0 <= place < len(parcels):
            say(place, {"error": error})
    if any("index" in each or "message_id" in each for each in entries):
        for each in entries:
            if (named := _place_of(each, parcels)) is not None:
                say(named, each)
    elif len(entries) + len(found) == len(parcels):
        # Nothing but ids, in the order of those that are not among the errors. The numbers agree, so each of them was
        # accepted, whoever it is.
        free = [place for place in range(len(parcels)) if place not in found]
        for place, each in zip(free, entries, strict=True):
            say(place, each)
    return {place: entry for place, entry in found.items() if place not in contradicted}


def _place_of(entry: Mapping[str, Any], parcels: Sequence[Parcel]) -> int | None:
    # The Message-ID is ours, so it says more than a place that somebody counted. Services that write their own
    # Message-IDs are believed the place.
    for place, parcel in enumerate(parcels):
        if entry.get("message_id") == parcel.message_id:
            return place
    index = entry.get("index")
    return index if isinstance(index, int) and 0 <= index < len(parcels) else None


def _evidence_of_entry(
    entry: Mapping[str, Any], retry_after: str | None, parcel: Parcel, phase: Phase
) -> Evidence:
    error = entry.get("error")
    error = error if isinstance(error, dict) else {}
    name = error.get("code")
    code = next(
        (
            each
            for each in (entry.get("http_status"), error.get("status"), _STATUS_OF_NAME.get(str(name)))
            if is_status(each)
        ),
        None,
    )
    says_a_number = isinstance(entry.get("http_status"), int)
    if code is None and not error and not says_a_number and isinstance(entry.get("id"), str):
        code = 200
    told = {**error, **{key: value for key, value in entry.items() if key != "error"}}
    seen = evidence_of(code or 0, retry_after, json.dumps(told).encode(), parcel, phase)
    if code is None:
        # An error without a number and with a name that nobody knows: no answer that could be acted on.
        return Evidence(wire=Wire.HTTP, phase=phase, trouble="no status for this mail", answer=seen.answer)
    return seen


def _list(told: Mapping[str, Any], name: str) -> list[Any]:
    value = told.get(name)
    return value if isinstance(value, list) else []
