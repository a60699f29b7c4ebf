"""Tests of signatures: by fixed vectors, by a verifier of our own, and by the receivers' library."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from simulator.clock import SystemClock
from simulator.provider.signing import (
    PREFIX,
    Scheme,
    SecretError,
    headers,
    plain_signature,
    read_secret,
    standard_signature,
)

#: Built from the specification with `openssl dgst`, not with this code.
SECRET = PREFIX + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()
OTHER = PREFIX + base64.b64encode(b"fedcba9876543210fedcba9876543210").decode()


def test_a_known_message_has_the_known_signature() -> None:
    key = read_secret(SECRET, Scheme.STANDARD)

    assert (
        standard_signature(key, "msg_sim_1", 1_700_000_000, b'{"type":"email.delivered"}')
        == "v1,PofiLH5UAVNTLoUYbKQnKSXclAC5Bhvi2wpCaMUf8FE="
    )


def test_the_receivers_library_accepts_ours_and_only_ours() -> None:
    """`standardwebhooks` is what an intake uses: ours passes, a changed byte, id or secret does not."""
    now = int(SystemClock().now().timestamp())
    body = json.dumps({"type": "email.bounced", "data": {"recipient": "grüße@example.org"}}).encode()
    signed = headers(Scheme.STANDARD, [read_secret(SECRET, Scheme.STANDARD)], "evt_1", now, body)

    assert Webhook(SECRET).verify(body, signed)["type"] == "email.bounced"
    for wrong_body, wrong in (
        (body + b" ", signed),
        (body, signed | {"webhook-id": "evt_2"}),
        (body, signed | {"webhook-timestamp": str(now + 1)}),
    ):
        with pytest.raises(WebhookVerificationError):
            Webhook(SECRET).verify(wrong_body, wrong)
    with pytest.raises(WebhookVerificationError):
        Webhook(OTHER).verify(body, signed)


def test_while_secrets_are_rotated_both_are_accepted() -> None:
    """One signature per secret, in one header."""
    now = int(SystemClock().now().timestamp())
    keys = [read_secret(OTHER, Scheme.STANDARD), read_secret(SECRET, Scheme.STANDARD)]
    signed = headers(Scheme.STANDARD, keys, "evt_1", now, b"{}")

    assert len(signed["webhook-signature"].split(" ")) == 2
    assert Webhook(SECRET).verify(b"{}", signed) == {}
    assert Webhook(OTHER).verify(b"{}", signed) == {}


@settings(max_examples=50, deadline=None)
@given(
    key=st.binary(min_size=24, max_size=64),
    body=st.binary(max_size=200),
    timestamp=st.integers(0, 2**33),
)
def test_any_body_is_signed_by_the_letter_of_the_specification(
    key: bytes, body: bytes, timestamp: int
) -> None:
    signed = headers(Scheme.STANDARD, [key], "evt_1", timestamp, body)
    version, _, signature = signed["webhook-signature"].partition(",")
    mac = hmac.new(key, b"evt_1." + str(timestamp).encode() + b"." + body, hashlib.sha256)

    assert version == "v1"
    assert base64.b64decode(signature) == mac.digest()


def test_the_plain_scheme_signs_timestamp_and_body() -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    timestamp = int(now.timestamp())
    key = read_secret("no base64 needed", Scheme.HMAC)
    mac = hmac.new(b"no base64 needed", f"{timestamp}.".encode() + b"{}", hashlib.sha256).hexdigest()

    assert plain_signature(key, timestamp, b"{}") == f"sha256={mac}"
    assert headers(Scheme.HMAC, [key], "evt_1", timestamp, b"{}") == {
        "x-webhook-id": "evt_1",
        "x-webhook-timestamp": str(timestamp),
        "x-webhook-signature": f"sha256={mac}",
    }


def test_without_a_signature_only_the_id_is_told() -> None:
    assert headers(Scheme.NONE, [], "evt_1", 1, b"{}") == {"webhook-id": "evt_1"}


@pytest.mark.parametrize(
    ("secret", "scheme", "says"),
    [
        ("hunter2", Scheme.STANDARD, "begins with whsec_"),
        (PREFIX + "no base64!", Scheme.STANDARD, "no base64"),
        (PREFIX + base64.b64encode(b"short").decode(), Scheme.STANDARD, "this one has 5"),
        (PREFIX + base64.b64encode(b"x" * 65).decode(), Scheme.STANDARD, "this one has 65"),
        ("", Scheme.HMAC, "must not be empty"),
    ],
)
def test_a_bad_secret_is_one_sentence_that_does_not_show_it(secret: str, scheme: Scheme, says: str) -> None:
    with pytest.raises(SecretError) as caught:
        read_secret(secret, scheme)

    assert says in str(caught.value)
    assert not secret or secret not in str(caught.value)
