"""An idempotency key is plain or quoted, and never silently something else."""

from __future__ import annotations

import pytest

from simulator.dialects.native.keys import read_key
from simulator.provider.answer import Reason, Refused


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (None, None),
        ("order-1", "order-1"),
        (" order-1 ", "order-1"),
        ('"order-1"', "order-1"),
        (r'"a\"b\\c"', 'a"b\\c'),
        ("8e03978e-40d5-43dd-bc93-6894a57f9324", "8e03978e-40d5-43dd-bc93-6894a57f9324"),
    ],
)
def test_a_key_is_plain_or_quoted(value: str | None, key: str | None) -> None:
    assert read_key(value) == key


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("", "is empty"),
        ('""', "is empty"),
        ('"open', "begins with a double quote but is no quoted string"),
        (r'"a\n"', "begins with a double quote"),
        ("schlüssel", "1 to 255 printable ASCII characters"),
        ("x" * 256, "1 to 255 printable ASCII characters"),
    ],
    ids=lambda value: value[:10],
)
def test_a_key_that_is_none_is_refused(value: str, says: str) -> None:
    found = read_key(value)

    assert isinstance(found, Refused)
    assert found.reason is Reason.INVALID
    assert says in found.detail
