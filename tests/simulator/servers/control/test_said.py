"""JSON that every reader can decode."""

from __future__ import annotations

import json

import pytest

from simulator.servers.control.said import encode


def test_bytes_that_were_no_characters_do_not_break_the_answer() -> None:
    """A raw KOI8 subject arrives as lone surrogates; strict readers choke on them, however they are escaped."""
    subject = b"\xcf\xf0\xe8 \xf0\x9f\x93\xa7".decode("ascii", "surrogateescape")

    said = encode({"subject": subject}).decode("utf-8", "strict")

    assert json.loads(said)["subject"].startswith("\ufffd\ufffd\ufffd ")


def test_characters_beyond_the_bmp_stay_whole() -> None:
    """Even beside a broken one."""
    assert json.loads(encode(["📧\udcff"])) == ["📧\ufffd"]


def test_what_json_does_not_know_is_a_bug_of_ours() -> None:
    """Infinity would be read by nobody else."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode(float("inf"))
