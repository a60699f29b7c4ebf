"""Tests of the rest of a world: it names all that decides, and leaves out only words."""

from __future__ import annotations

import ast
import inspect
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from reference_sender.outbox.schema import metadata
from scenarios import checks
from scenarios.history import Try
from scenarios.simulation.behaviours import LOOKS
from scenarios.simulation.cell import plan_of
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.rest import GIVEN, WORDS, WRITTEN_ONCE, as_judged, queries, struck_at_look_ups
from simulator.config import read_plan
from simulator.provider.plan_state import Tally

AT = datetime(2026, 1, 1, tzinfo=UTC)
TRY = Try(
    id="att_1",
    opened_at=AT,
    closed_at=AT,
    dialect="native",
    stage="reply",
    recipients=("ann@example.com",),
    key="k",
    answer="503 not now",
    sent="complete",
    rules=("1: 503",),
)


def test_every_table_is_read_and_every_column_that_is_not_words() -> None:
    """A table or a column that is added counts by itself."""
    asked = " ".join(queries())
    for table in metadata.sorted_tables:
        assert f" FROM {table.name} " in asked
        for column in table.columns:
            is_left_out = column.name in (*WORDS.get(table.name, ()), *WRITTEN_ONCE)
            assert (f'"{column.name}"' in asked) or is_left_out


def test_what_is_left_out_is_there() -> None:
    """A column that was renamed would count again, and nobody would know why nothing is one any more."""
    for name, columns in (*WORDS.items(), *GIVEN.items()):
        assert set(columns) <= set(metadata.tables[name].columns.keys())


@pytest.mark.parametrize(
    "words",
    [
        {"answer": "421 not now either", "dialect": "native"},
        {"rules": ("2: something else",)},
        {"id": "att_9"},
    ],
    ids=str,
)
def test_words_are_left_out(words: dict[str, object]) -> None:
    """A judge makes the same of both."""
    assert as_judged(replace(TRY, **words)) == as_judged(TRY)  # type: ignore[arg-type] # fields of a Try


@pytest.mark.parametrize(
    "more",
    [
        {"answer": "400 never"},
        {"answer": "200 taken"},
        {"answer": "302 elsewhere"},
        {"answer": "422 used before", "rules": ()},
        {"sent": "partial"},
        {"accepted": ("ann@example.com",)},
        {"retry_after_s": 3.0},
        {"stage": "connect"},
        {"closed_at": None},
        {"key": "other"},
    ],
    ids=str,
)
def test_what_a_judge_asks_is_not(more: dict[str, object]) -> None:
    """Each of these decides whether something was right."""
    assert as_judged(replace(TRY, **more)) != as_judged(TRY)  # type: ignore[arg-type] # fields of a Try


def test_what_a_look_up_has_used_up_counts() -> None:
    """It stands in no attempt, and decides what whoever asks next is told."""
    setup = read_plan(plan_of(BY_ID[LOOKS], ("taken, asked: 503",)), "test")
    tallies = [
        Tally(rule=rule, seen=fired, fired=fired, over=False)
        for fired, rule in enumerate(setup.plan.rules, 1)
    ]

    assert {each.rule.name for each in tallies} == {"lost: taken", "1: taken, asked: 503"}
    ((name, fired),) = struck_at_look_ups(tallies)
    assert name == "1: taken, asked: 503"
    assert fired == next(each.fired for each in tallies if each.rule.name == name)


#: Who may look at how an attempt ended: the questions that are compared, and two that come to what is compared, too.
ASKING = {
    "_finds_nobody",
    "_got_to_its_name",
    "_hands_over_nothing",
    "_is_told_to_wait",
    "_meets_its_own_key",
    "_meets_the_limit",
    "_only_a_limit",
    "_says_not_now",
    "_withdrawn",
    "perhaps_too_fast",
    "redirected",
    "refused_for_good",
    # Retry-After where a code was told, which is compared; and the words of a sentence.
    "too_early",
    "again_after_refusal",
}


def test_the_judge_asks_a_single_attempt_nothing_else() -> None:
    """Whoever looks at words, code, stage or rules belongs to `checks.QUESTIONS`, or worlds are one that are not."""
    tree = ast.parse(inspect.getsource(checks))
    looking = {
        function.name
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and node.attr in ("code", "answer", "stage", "sent", "rules")
    }

    assert looking <= ASKING
