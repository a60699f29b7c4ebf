"""The zoo as a whole: it is complete, and a visit shows it."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from scenarios import checks
from scenarios.promises import BY_NAME
from scenarios.simulation import manners, members
from scenarios.simulation.exhaustive import PROFILE_OF
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.zoo.intake import INTAKES
from scenarios.simulation.zoo.visit import ALL, zoo

#: The killed leave their sessions behind, and say so whenever the garbage collector meets them.
pytestmark = pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")

#: There is no SIGTERM in a cell: the tests of the black box have a sender that lets go when it is asked to stop.
BLACK_BOX_ONLY = {"abandoned"}
#: What a cell finds besides the kinds of `checks`: where the provider can be asked nothing may stay parked.
OF_CELLS = {"parked"} | manners.KINDS | members.KINDS


def test_there_are_many_and_each_has_a_name() -> None:
    """A sin that is named twice is one too many."""
    assert len(ALL) >= 40
    assert len({sender.name for sender in ALL}) == len(ALL)
    assert len({sender.sin for sender in ALL}) == len(ALL)


def test_every_kind_of_finding_catches_somebody() -> None:
    """A question that nobody fails is no question."""
    assert {sender.kind for sender in ALL} == (set(checks.KINDS) | OF_CELLS) - BLACK_BOX_ONLY


def test_every_profile_has_somebody_to_catch() -> None:
    """A profile where everything is forgiven would prove nothing."""
    caught = {block.profile for sender in ALL for block in sender.blocks}
    assert caught | {bad.profile for bad in INTAKES} == set(BY_ID)


def test_promises_that_are_named_are_there() -> None:
    """World and black box speak of the same promises."""
    assert {name for sender in ALL for name in sender.promises} <= set(BY_NAME)


#: What only real sockets, processes and big mails can show; the bad senders of the black box break these.
NOT_IN_THE_WORLD = {
    "content.large",
    "workers.sigterm",
}


def test_every_promise_has_a_sender_here_that_breaks_it() -> None:
    """Except those for which a world is too small; the black box has bad senders for every promise."""
    here = {name for sender in ALL for name in sender.promises}
    # Who hears webhooks badly has a zoo of his own, and storms in place of cells.
    here |= {name for bad in INTAKES for name in bad.promises}
    profiles = {block.profile for sender in ALL for block in sender.blocks}
    # What is promised for every cell of a profile is broken by whoever is caught in one of them.
    here |= {name for name, profile in PROFILE_OF.items() if profile in profiles}

    assert set(BY_NAME) - here == NOT_IN_THE_WORLD


def test_a_visit_shows_sender_sin_and_cells() -> None:
    """In a table, and in one line for those in a hurry."""
    done = CliRunner().invoke(zoo, ["--select", "timeout is*"], env={"COLUMNS": "200"})

    assert done.exit_code == 0, done.output
    assert "timeout is failure" in done.output
    assert "1 of 1 caught, in 1 cells" in done.output


def test_a_visit_to_nobody_says_who_is_there() -> None:
    """One sentence with the names."""
    done = CliRunner().invoke(zoo, ["--select", "unicorn"])

    assert done.exit_code == 2
    assert "unicorn" in done.output
    assert "claims nothing" in done.output
