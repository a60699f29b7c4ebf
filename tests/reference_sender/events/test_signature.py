"""Whether a webhook is genuine: judged by another library's signatures, and by everything that is none."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from reference_sender.events.signature import BadSecret, Genuine, NotGenuine, Scheme, read_secrets, verify
from tests.reference_sender.samples import NOW

OLD, NEW = ("whsec_" + base64.b64encode(bytes([n]) * 32).decode() for n in (1, 2))
BODY = '{ "type" : "email.delivered","who":"Zoë" }'.encode()


def signed(body: bytes = BODY, secret: str = NEW, *, id_: str = "evt_1", at: Any = NOW) -> dict[str, str]:
    return {
        "webhook-id": id_,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(secret).sign(id_, at, body.decode()),
    }


def plain(body: bytes = BODY, secret: str = "s3cret", *, at: Any = NOW) -> dict[str, str]:
    stamp = str(int(at.timestamp()))
    digest = hmac.new(secret.encode(), stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    return {"x-webhook-timestamp": stamp, "x-webhook-signature": f"sha256={digest}"}


def look(
    headers: dict[str, str], body: bytes = BODY, *, secrets: str = NEW, scheme: Scheme = Scheme.STANDARD
) -> Any:
    return verify(scheme, read_secrets(secrets, scheme), headers, body, now=NOW, tolerance_s=300.0)


def why(told: Any) -> str:
    assert isinstance(told, NotGenuine)
    return told.reason


def test_what_another_library_signs_is_genuine() -> None:
    assert Genuine(id="evt_1", sent_at=NOW) == look(signed())


def test_svix_is_the_same_with_other_names() -> None:
    headers = {name.replace("webhook", "svix"): value for name, value in signed().items()}
    assert isinstance(look(headers), Genuine)


def test_the_plain_scheme_signs_no_id() -> None:
    told = look(plain() | {"x-webhook-id": "evt_9"}, secrets="s3cret", scheme=Scheme.HMAC)
    assert Genuine(id=None, sent_at=NOW) == told


@pytest.mark.parametrize("secrets", [f"{OLD} {NEW}", f"{NEW}  {OLD}"])
@pytest.mark.parametrize("by", [OLD, NEW])
def test_while_secrets_are_rotated_either_of_them_will_do(secrets: str, by: str) -> None:
    assert isinstance(look(signed(secret=by), secrets=secrets), Genuine)


def test_one_of_several_signatures_is_enough() -> None:
    headers = signed(secret=OLD)
    headers["webhook-signature"] = f"v2,abc v1,nonsense {headers['webhook-signature']}"
    assert isinstance(look(headers, secrets=OLD), Genuine)
    two = plain(secret="old")["x-webhook-signature"] + ", " + plain(secret="new")["x-webhook-signature"]
    headers = plain() | {"x-webhook-signature": two}
    assert isinstance(look(headers, secrets="new", scheme=Scheme.HMAC), Genuine)


def test_what_was_parsed_and_written_again_is_another_body() -> None:
    again = json.dumps(json.loads(BODY)).encode()
    assert why(look(signed(), again)) == "wrong signature"


@pytest.mark.parametrize(
    ("age_s", "reason"),
    [(299, None), (300, None), (301, "too old"), (-299, None), (-300, None), (-301, "from the future")],
)
@pytest.mark.parametrize("scheme", Scheme)
def test_clocks_may_differ_in_both_directions_and_no_further(
    age_s: int, reason: str | None, scheme: Scheme
) -> None:
    at = NOW - timedelta(seconds=age_s)
    told = (
        look(signed(at=at))
        if scheme is Scheme.STANDARD
        else look(plain(at=at), secrets="s3cret", scheme=scheme)
    )
    assert isinstance(told, Genuine) if reason is None else why(told) == reason


def test_who_cannot_sign_learns_nothing_about_our_clock() -> None:
    at = NOW - timedelta(days=1)
    assert why(look(signed(secret=OLD, at=at))) == "wrong signature"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"webhook-id": None}, "no id"),
        ({"webhook-timestamp": None}, "no timestamp"),
        ({"webhook-signature": None}, "no signature"),
        ({"webhook-signature": ""}, "wrong signature"),
        ({"webhook-signature": "v1,this is no signature"}, "wrong signature"),
        ({"webhook-signature": "v1,größer \udcff"}, "wrong signature"),
        ({"webhook-id": "evt_2"}, "wrong signature"),
        ({"webhook-timestamp": "soon"}, "unreadable timestamp"),
        ({"webhook-timestamp": "-1"}, "unreadable timestamp"),
        ({"webhook-timestamp": "1e9"}, "unreadable timestamp"),
        ({"webhook-timestamp": "١٢٣"}, "unreadable timestamp"),
        ({"webhook-timestamp": "9" * 12}, "unreadable timestamp"),
        ({"webhook-timestamp": "9" * 4000}, "unreadable timestamp"),
    ],
)
def test_anything_else_is_not(change: dict[str, str | None], reason: str) -> None:
    headers = {name: value for name, value in (signed() | change).items() if value is not None}
    assert why(look(headers)) == reason


def test_another_secret_is_not() -> None:
    assert why(look(signed(secret=OLD))) == "wrong signature"
    assert why(look(plain(), secrets="other", scheme=Scheme.HMAC)) == "wrong signature"


@given(at=st.integers(min_value=0, max_value=len(BODY) - 1), flip=st.integers(min_value=1, max_value=255))
def test_every_byte_counts(at: int, flip: int) -> None:
    changed = BODY[:at] + bytes([BODY[at] ^ flip]) + BODY[at + 1 :]
    assert why(look(signed(), changed)) == "wrong signature"


@given(headers=st.dictionaries(st.sampled_from(sorted(signed())), st.text(max_size=40)))
def test_whatever_comes_is_answered(headers: dict[str, str]) -> None:
    assert isinstance(look(headers), NotGenuine)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "there is no webhook secret"),
        ("secret", "begins with whsec_"),
        ("whsec_ä", "no base64"),
        ("whsec_QUJD", "24 to 64 bytes; this one has 3"),
        (f"{NEW} oops", "begins with whsec_"),
    ],
)
def test_a_secret_that_is_none_is_told_without_showing_it(text: str, sentence: str) -> None:
    with pytest.raises(BadSecret, match=sentence) as told:
        read_secrets(text, Scheme.STANDARD)
    assert "QUJD" not in str(told.value)
    assert "oops" not in str(told.value)
