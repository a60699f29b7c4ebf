"""Tests of the cast: a sender is found by its name, or a sentence says why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios.simulation.cast import CastError, cast
from scenarios.simulation.profiles import PROFILES
from scenarios.simulation.senders import Disk, ReferenceSender


def test_senders_have_names(tmp_path: Path) -> None:
    """The reference sender's, and those of functions that make one."""
    disk = Disk(tmp_path)

    assert isinstance(cast("reference", disk, PROFILES[0]), ReferenceSender)
    planted = cast("tests.scenarios.simulation.planted:renews_keys", disk, PROFILES[0])
    assert isinstance(planted, ReferenceSender)
    assert "key_of" in planted.parts


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("somebody", "no sender is called 'somebody'; right would be reference, a sender.toml, python:"),
        ("no_such_module:make", "no_such_module:make cannot be imported: No module named"),
        ("json:make", "json:make: the module json has nothing called make"),
        ("python:json:make", "json:make: the module json has nothing called make"),
    ],
)
def test_a_name_that_means_nobody_is_told_in_a_sentence(tmp_path: Path, name: str, says: str) -> None:
    """What is wrong with it, and what would be right."""
    with pytest.raises(CastError, match=says):
        cast(name, Disk(tmp_path), PROFILES[0])
