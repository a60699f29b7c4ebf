"""Every behaviour of the provider × every crash point, in the simulated world: enumerated, not sampled."""

from __future__ import annotations

import pytest

from scenarios.plugin import promises
from scenarios.simulation.exhaustive import Matrix

#: The killed leave their sessions behind, and say so whenever the garbage collector meets them.
pytestmark = [pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning"), pytest.mark.timeout(0)]


@promises("exhaustive.keys")
def test_keys_make_it_exactly_one(matrix: Matrix) -> None:
    """The provider looks a key up before anything else, for longer than we try."""
    matrix.judge()


@promises("exhaustive.keys-forgotten")
def test_behind_a_forgotten_key_the_look_up_tells(matrix: Matrix) -> None:
    """A key is trusted for less long than it lives; behind that only evidence counts."""
    matrix.judge()


@promises("exhaustive.lookup")
def test_a_look_up_counts_when_it_must_know(matrix: Matrix) -> None:
    """Not found proves something only after all that may be under way and all that may lag."""
    matrix.judge()


@promises("exhaustive.at-most-once")
def test_at_most_once_parks_what_nobody_can_know(matrix: Matrix) -> None:
    """No second copy, nothing silently lost; the doubtful wait for a person."""
    matrix.judge()


@promises("exhaustive.at-least-once")
def test_at_least_once_loses_nothing(matrix: Matrix) -> None:
    """Copies are bounded by the attempts in doubt, and can be told as copies."""
    matrix.judge()


@promises("exhaustive.limited")
def test_a_limit_is_kept_together_and_nothing_is_lost_over_it(matrix: Matrix) -> None:
    """What all workers let go stays below what was agreed, whoever dies with a part of it in hand."""
    matrix.judge()


@promises("exhaustive.batches")
def test_mails_that_go_together_are_judged_one_by_one(matrix: Matrix) -> None:
    """A request with several mails may be refused or lost in part; what is said of one says nothing of the others."""
    matrix.judge()


@promises("exhaustive.spare")
def test_who_stands_in_takes_over_no_doubt(matrix: Matrix) -> None:
    """A mail goes to the other provider only if the first one cannot have it."""
    matrix.judge()


@promises("exhaustive.webhooks")
def test_what_was_acknowledged_is_known(matrix: Matrix) -> None:
    """Events come in every way there is, and whoever hears them dies anywhere meanwhile."""
    matrix.judge()


@promises("exhaustive.webhooks-in-doubt")
def test_an_event_settles_what_no_answer_did(matrix: Matrix) -> None:
    """Over SMTP, where nobody can be asked, what is told afterwards is all the evidence there is."""
    matrix.judge()
