"""Addresses in what others told: found in every form it comes in, and nobody else's with them."""

from __future__ import annotations

import base64
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_sender.policy.addresses import addresses_in, digest_of, spelled

ANN = "ann@example.com"


@pytest.mark.parametrize(
    "raw",
    [
        b'{"data": {"recipient": "ann@example.com"}}',
        b'{"recipient": "ANN@Example.COM"}',
        b'{"to": "\\u0061nn\\u0040example.com"}',
        b'[["deep", {"said": "550 5.1.1 <ann@example.com>: no such user"}]]',
        b'{"ann@example.com": "delivered"}',
        b'"rfc822; ann@example.com"',
        b'"user unknown: ann@example.com."',
        b'"https://example.org/leave?who=ann@example.com"',
        b"\"'ann@example.com' is unknown\"",
        b"From: Ann <ann@example.com>\r\nSubject: away\r\n\r\nback on Monday",
        b"not JSON {ann@example.com",
        b"Content-Transfer-Encoding: quoted-printable\r\n\r\nI am ann=40example.com",
        b"Content-Transfer-Encoding: base64\r\n\r\n" + base64.b64encode(b"I am ann@example.com"),
        b"\xff\xfe ann@example.com \x00",
    ],
)
def test_an_address_is_found_in_every_form(raw: bytes) -> None:
    assert ANN in addresses_in(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"recipient": "joann@example.com"}',
        b'{"recipient": "ann@example.com.au"}',
        b'{"recipient": "ann.lee@example.com"}',
        b'{"recipient": "ann+news@example.com"}',
        b'{"recipient": "mary-ann@example.com"}',
        b'{"recipient": "ann", "domain": "example.com"}',
        b"",
        b"\x00sealed:1:k\x00ab@",
    ],
)
def test_somebody_else_is_somebody_else(raw: bytes) -> None:
    assert ANN not in addresses_in(raw)


def test_the_last_at_begins_the_domain() -> None:
    assert spelled('"Ann@Home"@Bücher.example') == '"ann@home"@xn--bcher-kva.example'


@pytest.mark.parametrize(
    ("ours", "told"),
    [
        ("ann@xn--bcher-kva.example", "Ann@Bücher.example"),
        ("ann@xn--strae-oqa.example", "ann@straße.example"),
        ("Ann@Example.com", "ann@example.COM"),
        ("ann@exam\u200dple.com", "ann@exam\u200dple.com"),
    ],
)
def test_an_address_is_the_same_in_either_spelling_of_its_domain(ours: str, told: str) -> None:
    assert spelled(ours) == spelled(told)


def test_what_no_utf_8_can_say_has_a_name_as_well() -> None:
    names = {digest_of(f"ann\ud800{more}@example.com") for more in ("", "x")}
    assert len(names) == 2


def test_all_that_stands_beside_each_other_is_read() -> None:
    to = ["ann@example.com", {"cc": "ben@example.com"}]
    told = {"to": to, "from": {"who": "cleo@example.com"}, "n": 7}
    wanted = {"ann@example.com", "ben@example.com", "cleo@example.com"}
    assert addresses_in(json.dumps(told).encode()) == wanted
    assert addresses_in(json.dumps([told["from"], *to]).encode()) == wanted


def test_a_part_that_is_no_text_hides_nothing() -> None:
    raw = b"Content-Transfer-Encoding: base64\r\n\r\n" + base64.b64encode(b"\xff\xfe ann@example.com")
    assert ANN in addresses_in(raw)


def test_a_domain_is_compared_as_the_dns_has_it() -> None:
    raw = json.dumps({"recipient": "ann@Bücher.example"}).encode()
    assert addresses_in(raw) == {"ann@xn--bcher-kva.example"}
    assert digest_of("ann@bücher.example") == digest_of("Ann@xn--bcher-kva.example")


def test_a_domain_that_is_none_stays_as_it_is() -> None:
    assert spelled(f"ann@{'ü' * 70}.example") == f"ann@{'ü' * 70}.example"


def test_all_of_them_are_found() -> None:
    told = [f"u{n}@example.com" for n in range(500)]
    assert addresses_in(json.dumps({"to": told}).encode()) == set(told)


@given(st.binary(max_size=300))
def test_no_bytes_break_it(raw: bytes) -> None:
    for each in addresses_in(raw + b" x@y.example "):
        assert len(digest_of(each)) == 64


def test_nesting_as_deep_as_it_can_be_told_is_no_trouble() -> None:
    assert ANN in addresses_in(b"[" * 100_000 + b'"ann@example.com"' + b"]" * 100_000)


def test_all_of_one_text_are_found() -> None:
    """Also where it begins with the sign itself."""
    raw = b"@ann wrote to ann@example.com, ben@example.com; and cleo@example.com said no"
    wanted = {"ann@example.com", "ben@example.com", "cleo@example.com"}
    assert addresses_in(raw) == addresses_in(json.dumps(raw.decode()).encode()) == wanted


def test_what_stood_before_a_list_is_read_as_well() -> None:
    assert addresses_in(json.dumps(["ann@example.com", ["ben@example.com"]]).encode()) == {
        "ann@example.com",
        "ben@example.com",
    }


def test_the_parts_of_a_mail_are_read_whatever_its_own_head_says() -> None:
    part = base64.b64encode(b"it was for ann@example.com")
    raw = (
        b"Content-Type: multipart/mixed; boundary=b\r\nContent-Transfer-Encoding: 8bit\r\n\r\n"
        b"--b\r\nContent-Transfer-Encoding: base64\r\n\r\n" + part + b"\r\n--b--\r\n"
    )
    assert ANN in addresses_in(raw)


def test_a_mail_without_addresses_takes_as_long_as_it_is() -> None:
    """The search holds up everybody in the process, and whoever can mail the door for bounces can send 30 MB."""

    def takes_s(lines: int) -> float:
        raw = b"\r\n".join([b"QUJD" * 19] * lines) + b"\r\n\r\n" + b"x" * (40 * lines)
        began_s = time.process_time()
        assert addresses_in(raw) == frozenset()
        return time.process_time() - began_s

    # Four times as much: by the square it would be sixteen times as long.
    assert min(takes_s(96_000) for _ in range(3)) < 10 * min(takes_s(24_000) for _ in range(3))
