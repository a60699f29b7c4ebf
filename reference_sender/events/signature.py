"""Whether a webhook comes from the provider: signatures over the raw bytes, and the age of the request.

Two schemes. Standard Webhooks (specification of standard-webhooks/standard-webhooks; Svix is the same with other header
names): HMAC-SHA256 over `id.timestamp.body`, base64 behind `v1,`, several with spaces between them while secrets are
rotated. Plain: `X-Webhook-Signature: sha256=<hex>` over `timestamp.body`, several with commas between them.
Must not hold: what a body says. A body that was parsed and written again has another signature.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

PREFIX = "whsec_"
#: More signatures than anybody has secrets: what comes behind them is not looked at.
MOST_SIGNATURES = 16


class Scheme(StrEnum):
    """How a webhook shows where it comes from."""

    STANDARD = "standard"
    HMAC = "hmac"


class BadSecret(ValueError):
    """A secret cannot be used; one sentence that does not show it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Genuine:
    """The request comes from somebody who knows a secret, and it is fresh."""

    id: str | None
    """Of the request, the same in every attempt at telling it; None where the scheme does not sign it."""
    sent_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NotGenuine:
    """Nobody may believe it; the reason is one of few words, for logs and counters."""

    reason: str


def read_secrets(text: str, scheme: Scheme) -> tuple[bytes, ...]:
    """Return the keys of one or more secrets with blanks between them. Raises `BadSecret`."""
    keys = tuple(_read_secret(each, scheme) for each in text.split())
    if not keys:
        raise BadSecret("there is no webhook secret; without one anybody could tell us anything")
    return keys


def _read_secret(text: str, scheme: Scheme) -> bytes:
    if scheme is Scheme.HMAC:
        return text.encode()
    if not text.startswith(PREFIX):
        raise BadSecret(f"a webhook secret of this scheme begins with {PREFIX}; this one does not")
    try:
        key = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadSecret(f"a webhook secret is {PREFIX} and base64; this one is no base64") from error
    if not 24 <= len(key) <= 64:
        raise BadSecret(f"a webhook secret has 24 to 64 bytes; this one has {len(key)}")
    return key


def verify(
    scheme: Scheme,
    keys: Sequence[bytes],
    headers: Mapping[str, str],
    body: bytes,
    *,
    now: datetime,
    tolerance_s: float,
) -> Genuine | NotGenuine:
    """Look at a request as it came. `headers`: names in lower case. The age counts in both directions."""
    match scheme:
        case Scheme.STANDARD:
            id_ = _one_of(headers, "webhook-id", "svix-id")
            stamp = _one_of(headers, "webhook-timestamp", "svix-timestamp")
            given = _one_of(headers, "webhook-signature", "svix-signature")
            if id_ is None:
                return NotGenuine(reason="no id")
        case Scheme.HMAC:
            id_ = None
            stamp, given = headers.get("x-webhook-timestamp"), headers.get("x-webhook-signature")
    if stamp is None or given is None:
        return NotGenuine(reason="no timestamp" if stamp is None else "no signature")
    sent_at = _moment(stamp)
    if sent_at is None:
        return NotGenuine(reason="unreadable timestamp")
    if not _fits(scheme, keys, id_, stamp, body, given):
        return NotGenuine(reason="wrong signature")
    # Behind the signature: who cannot sign learns nothing about our clock.
    age_s = (now - sent_at).total_seconds()
    if abs(age_s) > tolerance_s:
        return NotGenuine(reason="too old" if age_s > 0 else "from the future")
    return Genuine(id=id_, sent_at=sent_at)


def _one_of(headers: Mapping[str, str], *names: str) -> str | None:
    return next((headers[name] for name in names if name in headers), None)


def _moment(stamp: str) -> datetime | None:
    # Twelve digits reach beyond the year 30000; int() would take other digits than ours, and blanks, and lines.
    if not (stamp.isascii() and stamp.isdecimal() and len(stamp) <= 12):
        return None
    try:
        return datetime.fromtimestamp(int(stamp), UTC)
    except (OverflowError, ValueError, OSError):
        return None


def _fits(
    scheme: Scheme, keys: Sequence[bytes], id_: str | None, stamp: str, body: bytes, given: str
) -> bool:
    # Bytes, because comparing texts in constant time raises for characters beyond ASCII, which anybody may send.
    candidates = [each.encode("utf-8", "surrogatepass") for each in _signatures(scheme, given)]
    signed = f"{stamp}." if id_ is None else f"{id_}.{stamp}."
    message = signed.encode("utf-8", "surrogateescape") + body
    fits = False
    for key in keys:
        right = _signature(scheme, key, message)
        for candidate in candidates:
            # No early end: how long it takes says nothing about which secret it was.
            fits |= hmac.compare_digest(right, candidate)
    return fits


def _signatures(scheme: Scheme, given: str) -> Iterable[str]:
    match scheme:
        case Scheme.STANDARD:
            return given.split(" ")[:MOST_SIGNATURES]
        case Scheme.HMAC:
            return [each.strip() for each in given.split(",")[:MOST_SIGNATURES]]


def _signature(scheme: Scheme, key: bytes, message: bytes) -> bytes:
    digest = hmac.digest(key, message, hashlib.sha256)
    match scheme:
        case Scheme.STANDARD:
            return b"v1," + base64.b64encode(digest)
        case Scheme.HMAC:
            return b"sha256=" + digest.hex().encode()
