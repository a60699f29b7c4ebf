"""An answer as bytes: the head says what the body is, and no value of it begins a line of its own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.dialects.http import HttpWords, head, part_of, phrase, sized, whole

OUT = HttpWords(status=200, headers=(("Content-Type", "application/json"),), body=b"{}")


def test_an_answer_is_a_head_and_a_body() -> None:
    assert whole(OUT, [b"date: x"]) == (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ndate: x\r\ncontent-length: 2\r\n\r\n{}"
    )


def test_the_last_answer_says_that_it_is() -> None:
    assert whole(OUT, closes=True).count(b"\r\nconnection: close\r\n") == 1


def test_the_answer_to_head_promises_what_get_would_bring() -> None:
    assert whole(OUT, bodiless=True) == whole(OUT)[:-2]


def test_a_head_without_fields_is_a_status_line_and_a_blank_one() -> None:
    assert head(103, (), ()) == b"HTTP/1.1 103 Early Hints\r\n\r\n"


@pytest.mark.parametrize("status", [204, 304])
def test_what_has_no_content_has_no_length(status: int) -> None:
    assert sized(HttpWords(status=status, headers=(), body=b"")) == []


def test_every_status_can_be_said() -> None:
    for status in range(100, 600):
        assert head(status, (), ()).startswith(f"HTTP/1.1 {status} {phrase(status)}\r\n".encode())
        assert phrase(status)


@given(st.text(), st.text())
def test_no_value_begins_a_line_of_its_own(value: str, other: str) -> None:
    lines = head(200, (("X-A", value), ("X-B", other)), ()).split(b"\r\n")

    assert len(lines) == 5
    assert [line.split(b":")[0] for line in lines[1:3]] == [b"x-a", b"x-b"]
    assert not any(mark in b"".join(lines) for mark in (b"\r", b"\n", b"\0"))


def test_a_part_is_never_the_whole() -> None:
    for size in range(5):
        assert len(part_of(b"x" * size)) <= max(0, size - 1) or size == 0
