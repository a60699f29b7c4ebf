"""Parameters: what is read, and what is refused with which sentence."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from simulator.servers.control.app import ENDPOINTS
from simulator.servers.control.endpoint import (
    ACCOUNT,
    Endpoint,
    Parameter,
    choice,
    field_of_mail,
    flag,
    instant,
    seconds,
    text,
    whole,
)
from simulator.servers.control.problems import Refusal

WHOLE = whole("count", "…", default=1, least=1, most=50)
SECONDS = seconds("timeout_s", "…", default=10, most=300)
FLAG = flag("final", "…")
INSTANT = instant("since", "…")
FIELD = field_of_mail("header", "…")
CHOICE = choice("state", "…", "open", "held")


@pytest.mark.parametrize(
    ("parameter", "given", "expected"),
    [
        (text("q", "…"), "", ""),
        (WHOLE, "50", 50),
        (SECONDS, "0.5", 0.5),
        (SECONDS, "300", 300.0),
        (FLAG, "", True),
        (FLAG, "TRUE", True),
        (FLAG, "0", False),
        (CHOICE, "held", "held"),
        (ACCOUNT, "Käthe & Co", "Käthe & Co"),
        (INSTANT, "2030-01-02T03:04:05Z", datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)),
        (INSTANT, "2030-01-02T03:04:05 00:00", datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)),
        (FIELD, "X-Order: a:b ", ("X-Order", "a:b")),
        (FIELD, "X-Order", ("X-Order", "")),
    ],
)
def test_a_good_value_is_read(parameter: Parameter, given: str, expected: Any) -> None:
    """Into what the endpoint works with."""
    assert parameter.read(parameter.name, given) == expected


@pytest.mark.parametrize(
    ("parameter", "given", "says"),
    [
        (WHOLE, "0", "count must be a whole number from 1 to 50, not '0'"),
        (WHOLE, "51", "from 1 to 50"),
        (WHOLE, "1.0", "whole number"),
        (WHOLE, "٣", "whole number"),
        (WHOLE, "9" * 5000, "not '99999999999999999999'"),
        (SECONDS, "nan", "timeout_s must be a number from 0 to 300, not 'nan'"),
        (SECONDS, "-1", "from 0 to 300"),
        (SECONDS, "soon", "from 0 to 300"),
        (FLAG, "maybe", "final must be true or false, not 'maybe'"),
        (CHOICE, "gone", "there is no state 'gone'; known are open, held"),
        (INSTANT, "2030-01-02T03:04:05", "since must look like 2030-01-01T00:00:00Z"),
        (INSTANT, "yesterday", "not 'yesterday'"),
        (FIELD, ": 17", "header must look like X-Order: 17"),
        (FIELD, "X Order: 17", "must look like"),
        (ACCOUNT, "", "an account name has 1 to 200 characters on one line"),
        (ACCOUNT, "x" * 201, "1 to 200"),
        (ACCOUNT, "a\x00b", "on one line"),
    ],
)
def test_a_bad_value_is_refused_with_one_sentence(parameter: Parameter, given: str, says: str) -> None:
    """What was given, and what would be right; never more than a bit of an endless value."""
    with pytest.raises(Refusal, match=re.escape(says)) as refused:
        parameter.read(parameter.name, given)

    assert refused.value.status == 400
    assert len(refused.value.detail) < 120


@pytest.mark.parametrize(
    "row",
    [row for row in ENDPOINTS if row.takes is None],
    ids=lambda row: f"{row.method} {row.path}",
)
def test_who_takes_no_body_says_so(web: httpx.Client, row: Endpoint) -> None:
    """Whoever sends one believes that it says something."""
    url = web.base_url.copy_with(path=re.sub("{.*?}", "x", row.whole_path))
    seen = web.request(row.method, url, content=b'{"keep": true}')

    assert seen.status_code == 400
    assert seen.json()["detail"] == f"{row.method} {row.path.strip('/')} takes no body; leave it out"


@pytest.mark.parametrize("given", [b" ", b"{", b"}", b"{}}", b"{}{}", b"[]", b"null", b"{\x0c}"])
def test_what_is_nearly_an_empty_object_is_a_body(web: httpx.Client, given: bytes) -> None:
    """Whoever wrote it meant something else, or broke off."""
    assert web.request("DELETE", "plan", content=given).status_code == 400


def test_an_empty_body_is_none(web: httpx.Client) -> None:
    """In chunks, too."""
    assert web.request("DELETE", "plan", content=iter([b""])).status_code == 200
    assert web.post("plan/reset", content=b"").status_code == 200


@pytest.mark.parametrize("given", [b"{}", b" {\t}\r\n", b"\n{" + b" " * 100_000 + b"}"])
def test_an_empty_object_is_none(web: httpx.Client, given: bytes) -> None:
    """Generated clients send one with every POST and DELETE; it says nothing."""
    assert web.request("DELETE", "plan", content=given).status_code == 200
    assert web.post("plan/reset", content=given).status_code == 200


def test_an_empty_object_in_chunks_is_none(web: httpx.Client) -> None:
    """Wherever they end; one that never ends is a body."""
    assert web.request("DELETE", "plan", content=iter([b" {", b" ", b"}", b"\n"])).status_code == 200
    assert web.request("DELETE", "plan", content=iter([b" {", b" "])).status_code == 400
