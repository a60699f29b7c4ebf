"""Signatures of webhooks: Standard Webhooks (symmetric, `v1`), and a plain HMAC with a timestamp.

Standard Webhooks, specification of standard-webhooks/standard-webhooks: `webhook-id`, `webhook-timestamp` (whole
seconds of this attempt), `webhook-signature` (space-separated, one per secret while secrets are rotated), each
`v1,` + base64 of HMAC-SHA256 over `id.timestamp.body`. A secret is `whsec_` + base64 of 24 to 64 bytes.

The plain scheme is the common ground of providers that do not follow it: `X-Webhook-Timestamp`, and
`X-Webhook-Signature: sha256=<hex>` over `timestamp.body` with the secret's characters as the key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from enum import StrEnum

#: How far a receiver lets clocks differ (Standard Webhooks), in seconds.
TOLERANCE_S = 300
PREFIX = "whsec_"


class Scheme(StrEnum):
    """How a webhook shows where it comes from."""

    STANDARD = "standard"
    HMAC = "hmac"
    NONE = "none"


class SecretError(ValueError):
    """A secret cannot be used. The message is one sentence that does not show the secret."""


def read_secret(text: str, scheme: Scheme) -> bytes:
    """Return the key of a secret. Raises `SecretError`."""
    if scheme is not Scheme.STANDARD:
        if not text:
            raise SecretError("a webhook secret must not be empty")
        return text.encode()
    if not text.startswith(PREFIX):
        raise SecretError(
            f"a webhook secret begins with {PREFIX} and goes on with base64 of 24 to 64 bytes; this one does not"
        )
    try:
        key = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError) as problem:
        raise SecretError(f"a webhook secret is {PREFIX} and base64; this one is no base64") from problem
    if not 24 <= len(key) <= 64:
        raise SecretError(f"a webhook secret has 24 to 64 bytes; this one has {len(key)}")
    return key


def secret_of(seed: int) -> str:
    """Return the secret of a simulator that was given none: the same for the same seed."""
    return PREFIX + base64.b64encode(hashlib.sha256(f"webhook secret {seed}".encode()).digest()).decode()


def standard_signature(key: bytes, webhook_id: str, timestamp: int, body: bytes) -> str:
    """Return one `v1` signature."""
    signed = f"{webhook_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


def plain_signature(key: bytes, timestamp: int, body: bytes) -> str:
    """Return the signature of the plain scheme."""
    return "sha256=" + hmac.new(key, f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()


def headers(
    scheme: Scheme, keys: Sequence[bytes], webhook_id: str, timestamp: int, body: bytes
) -> dict[str, str]:
    """Return the headers that sign a body with every key, the newest first."""
    match scheme:
        case Scheme.STANDARD:
            signatures = [standard_signature(key, webhook_id, timestamp, body) for key in keys]
            signed = {"webhook-id": webhook_id, "webhook-timestamp": str(timestamp)}
            return signed | ({"webhook-signature": " ".join(signatures)} if signatures else {})
        case Scheme.HMAC:
            signed = {"x-webhook-id": webhook_id, "x-webhook-timestamp": str(timestamp)}
            signatures = [plain_signature(key, timestamp, body) for key in keys]
            return signed | ({"x-webhook-signature": ",".join(signatures)} if signatures else {})
        case Scheme.NONE:
            return {"webhook-id": webhook_id}
