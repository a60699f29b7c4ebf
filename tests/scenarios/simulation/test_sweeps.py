"""`python -m scenarios storms`."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from scenarios.simulation.sweeps import storms

#: The killed leave their sessions behind, and say so whenever the garbage collector meets them.
pytestmark = pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")


def test_a_sweep_says_how_many_it_played() -> None:
    done = CliRunner().invoke(storms, ["--select", "in batches", "--every", "20"])
    assert done.exit_code == 0, done.output
    assert "0 with findings" in done.output


def test_a_storm_that_nobody_knows_is_told_with_those_that_there_are() -> None:
    done = CliRunner().invoke(storms, ["--select", "drizzle"])
    assert done.exit_code == 2
    assert "before the answer" in done.output
