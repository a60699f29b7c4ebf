"""The shapes of the control API's JSON: their words are those the provider works with."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from simulator import shapes
from simulator.provider.fate import Fate
from simulator.provider.ledger import AttemptState, Sent
from simulator.provider.obligations import Reported


@pytest.mark.parametrize(
    ("shape", "field", "words"),
    [
        (shapes.Attempt, "state", AttemptState),
        (shapes.Attempt, "sent", Sent),
        (shapes.Message, "fate", Fate),
        (shapes.Obligation, "state", Reported),
        (shapes.Finding, "state", Reported),
    ],
)
def test_an_enumeration_is_written_once(shape: Any, field: str, words: Any) -> None:
    """And a field that may be null says so."""
    _, components = msgspec.json.schema_components([shape])

    schema = components[shape.__name__]["properties"][field]

    assert {each for each in schema["enum"] if each is not None} == set(words)
    assert (None in schema["enum"]) == ("null" in schema["type"])


def test_every_shape_says_what_it_is() -> None:
    """The document takes its descriptions from here."""
    for name, shape in vars(shapes).items():
        if isinstance(shape, type) and shape.__module__ == shapes.__name__:
            assert shape.__doc__, name
