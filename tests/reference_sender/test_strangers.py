"""Variables that look like ours and are none."""

from __future__ import annotations

import click
import pytest

from reference_sender.cli import cli
from reference_sender.strangers import known_variables, strangers


@pytest.fixture
def known() -> frozenset[str]:
    return known_variables(cli, click.Context(cli))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("OUTBOX_POLL", "did you mean OUTBOX_POLL_S?"),
        ("OUTBOX_CONCURENCY", "did you mean OUTBOX_CONCURRENCY?"),
        ("OUTBOX_LEASE", "did you mean OUTBOX_LEASE_S?"),
        ("OUTBOX_WIRE", "--help has those that there are"),
    ],
)
def test_a_misspelt_variable_is_told_with_what_may_be_meant(
    name: str, meant: str, known: frozenset[str]
) -> None:
    assert list(strangers([name, "HOME"], known)) == [
        f"there is no variable {name}, so it does nothing; {meant}"
    ]


def test_those_of_every_command_are_known(known: frozenset[str]) -> None:
    """Of `work`, of commands that are loaded when they are called, and of those below them."""
    assert {"OUTBOX_DATABASE_URL", "OUTBOX_POLL_S", "OUTBOX_OPERATOR", "OUTBOX_TEMPLATES"} <= known
    assert list(strangers(known, known)) == []
