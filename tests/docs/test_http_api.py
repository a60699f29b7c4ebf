"""docs/http-api.md describes every operation, member, header and problem of the native API, and none that is none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from simulator.dialects.native.letter import ATTACHMENT_KEYS, LETTER_KEYS
from simulator.dialects.native.openapi import OPERATIONS, PROBLEMS, Operation
from simulator.dialects.native.ratelimit import rate_fields
from simulator.dialects.native.request import RAW_KEYS
from simulator.provider.idempotency import KeyRules
from simulator.provider.meters import Standing
from simulator.servers.http.body import LEAST_BYTES_PER_S, MAX_BODY_BYTES, STALL_S
from simulator.servers.http.connection import HEAD_S, MAX_HEAD_BYTES
from tests.simulator.provider.mails import NOW

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "http-api.md").read_text(encoding="utf-8")


def part(heading: str) -> str:
    """Return what stands under a heading."""
    return re.split(r"\n#{1,3} ", PAGE.split(f"# {heading}\n")[1])[0]


def first_cells(heading: str) -> list[str]:
    """Return every name in the first cells of the tables under a heading."""
    rows = re.findall(r"^\| (`[^|]+`) \|", part(heading), re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


def test_every_operation_has_its_heading_and_no_other() -> None:
    headings = re.findall(r"^### `(\w+) ([^`]+)`$", PAGE, re.MULTILINE)

    assert sorted(headings) == sorted((each.method, each.path) for each in OPERATIONS)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_an_operation_names_its_key_header_and_its_parameters(operation: Operation) -> None:
    said = part(f"`{operation.method} {operation.path}`")

    assert all(f"`{name}`" in said for name in operation.query)
    assert operation.key_header in (None, "Idempotency-Key") or f"`{operation.key_header}`" in said


def test_every_member_of_a_mail_has_its_row() -> None:
    assert sorted(first_cells("`POST /v1/emails`")) == sorted([*LETTER_KEYS, *RAW_KEYS])
    assert all(f"`{name}`" in part("`POST /v1/emails`") for name in ATTACHMENT_KEYS)


def test_every_problem_has_its_row_and_no_other() -> None:
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| (.+) \|$", part("Errors"), re.MULTILINE)

    assert [(int(status), code, says) for status, code, says in rows] == list(PROBLEMS)


def test_every_header_of_an_answer_has_its_row() -> None:
    """Those that the code says, found where it says them."""
    said = {
        "Retry-After",
        "WWW-Authenticate",
        "Allow",
        "Accept-Encoding",
        "Connection",
        KeyRules().replay_header,
    }
    limit = Standing(name="a", quota=1, window_s=1, remaining=1, reset_s=1)
    said |= {name for name, _ in rate_fields("ietf", [limit], NOW)}

    assert set(first_cells("Headers of answers")) == said


def test_the_bounds_are_those_of_the_code() -> None:
    said = part("Headers of requests")

    assert f"{MAX_HEAD_BYTES // 1024} KB of head within {HEAD_S:g} s" in said
    assert f"{MAX_BODY_BYTES // 1024 // 1024} MB of body, never silent for {STALL_S:g} s" in said
    assert f"slower than {LEAST_BYTES_PER_S // 1024} KB/s" in said
