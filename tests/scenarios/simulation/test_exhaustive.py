"""Tests of a run as a whole: kept, taken up, summed up, and invalid if the hard paths were not walked."""

from __future__ import annotations

import io
import multiprocessing
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from scenarios.certify import play_matrix
from scenarios.simulation import exhaustive, replay
from scenarios.simulation.cell import Cell
from scenarios.simulation.exhaustive import Matrix, play, read_journal, sources, summary, told
from scenarios.simulation.matrix import Block, Size, blocks
from scenarios.simulation.played import Failure, Played, as_line
from scenarios.stage import Broken, Invalid

#: The killed leave their sessions behind, and say so whenever the garbage collector meets them.
pytestmark = pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")

BLOCK = Block(
    profile="http-keys", script=("taken, closed",), shape="one mail", victim="worker", kinds=("commit",)
)


def played(block: Block, **more: object) -> Played:
    """A block that went well: three cells, two of which died."""
    facts: dict[str, object] = {
        "total": 3,
        "cells": 3,
        "played": 2,
        "coverage": {
            block.script[0]: {
                "no crash": {"cells": 1, "failed": 0, "not_reached": 0, "played": 1},
                "worker: commit": {"cells": 2, "failed": 0, "not_reached": 0, "played": 1},
            }
        },
        "fired": [f"1: {block.script[0]}"],
    }
    return Played(block=block.id, profile=block.profile, **(facts | more))  # type: ignore[arg-type]


def test_a_run_is_taken_up_where_it_ended(tmp_path: Path) -> None:
    """What the journal knows is not played again, and comes to the same."""
    journal = tmp_path / "report" / "journal.jsonl"
    first = play([BLOCK], jobs=1, journal=journal)
    journal.write_text(journal.read_text() + f"{sources()} {{half a li")

    seen: list[str] = []
    again = play([BLOCK], jobs=1, journal=journal, each=lambda each: seen.append(each.block))

    assert again == first
    assert seen == [BLOCK.id]
    assert len(journal.read_text().splitlines()) == 2


def test_a_journal_of_other_sources_counts_for_nothing(tmp_path: Path) -> None:
    """After a change everything is played again; so is what broke off."""
    journal = tmp_path / "journal.jsonl"
    lines = [
        f"0123456789abcdef {as_line(played(BLOCK))}",
        f"{sources()} {as_line(played(BLOCK, error='it broke'))}",
    ]
    journal.write_text("\n".join(lines))

    assert read_journal(journal) == {}
    assert read_journal(tmp_path / "none") == {}


def test_the_sum_is_honest() -> None:
    """Played and skipped are all there are; what never happened is named, and so is what broke off."""
    first, second = blocks(Size.QUICK, ("http-keys",))[:2]
    result = summary(
        "http-keys",
        Size.QUICK,
        [played(second, total=9, error="it broke"), played(first, events={"recovered": 3})],
    )

    assert (result.total, result.cells, result.skipped, result.blocks) == (12, 6, 6, 2)
    assert result.cells + result.skipped == result.total
    assert result.events == {"recovered": 3}
    assert "a key was replayed" in result.missing
    assert "recovered" not in result.missing
    assert "the provider never did '503'" in result.missing
    assert result.errors == [f"{second.id}: it broke"]
    assert told([result]).startswith("6 of 12 cells covered by 4 worlds, 6 skipped, 0 failed")


def test_a_table_adds_up_to_what_was_played(tmp_path: Path) -> None:
    """Each cell stands in exactly one square."""
    result = summary("http-keys", Size.QUICK, play(blocks(Size.QUICK, ("http-keys",))[:3], jobs=1))
    squares = [counts["cells"] for row in result.rows.values() for counts in row.values()]

    assert sum(squares) == result.cells == result.total > 10


def test_what_fails_is_broken_and_what_says_nothing_is_invalid(monkeypatch: pytest.MonkeyPatch) -> None:
    """A finding names its cell; a run without the hard paths, or one that broke off, is no green run."""
    failure = Failure(
        cell={},
        said="this cell",
        findings=[{"kind": "duplicated", "recipient": "ann@example.com", "sentence": "accepted twice"}],
    )
    block = blocks(Size.QUICK, ("http-keys",))[0]
    for given, error, words in (
        (played(block, failed=1, failures=[failure]), Broken, r"duplicated: .* accepted twice \[this cell\]"),
        (played(block, error="it broke"), Invalid, "1 blocks broke off, the first one: .*it broke"),
        (played(block), Invalid, "never in 3 cells: a key was in flight"),
    ):
        monkeypatch.setattr(exhaustive, "play", lambda todo, given=given, **more: [given])
        matrix = Matrix("exhaustive.keys", size="quick", jobs=1)
        with pytest.raises(error, match=words):
            matrix.judge()
        assert matrix.evidence()["matrix"]["cells"] == 3


def test_who_never_played_has_no_evidence() -> None:
    """Nothing is made up."""
    assert Matrix("exhaustive.keys", size="quick", jobs=1).evidence() == {}


def test_a_broken_promise_leaves_a_file_that_plays_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The certificate names file and command, and shows the smallest counterexample."""
    block = Block(
        profile="http-keys", script=("taken, hangs",), shape="one mail", victim="worker", kinds=("commit",)
    )
    monkeypatch.setattr(exhaustive, "blocks", lambda size, profiles: [block])
    matrix = Matrix(
        "exhaustive.keys",
        size="quick",
        jobs=1,
        sender="tests.scenarios.simulation.planted:renews_keys",
        replays=tmp_path,
    )

    with pytest.raises(Broken):
        matrix.judge()

    kept = matrix.evidence()["replay"]
    example, _ = replay.read(tmp_path / kept["file"])
    assert kept["command"] == f"simulator replay {tmp_path / kept['file']}"
    assert isinstance(example.case, Cell)
    assert example.case.crash is None
    assert "DUPLICATED" in "\n".join(kept["timeline"])


#: Who breaks which promise, as what it is found, and which promises it keeps all the same.
BREAKERS = {
    "exhaustive.limited": ("ignores_the_limit", "too fast", ("keys", "spare", "batches")),
    "exhaustive.spare": ("moves_doubt", "duplicated", ("keys", "limited", "batches")),
    "exhaustive.batches": ("fails_the_whole", "lost", ("keys", "limited", "spare")),
    "exhaustive.webhooks": ("drops_what_comes_early", "event lost", ()),
    "exhaustive.webhooks-in-doubt": ("settles_nothing", "told in vain", ("webhooks",)),
}

#: Cells in which one of them sins, and some in which nobody does.
TELLING = {"ok", "taken, closed", "one refused, so all are", "nothing wrong", "before the answer"}
TELLING |= {"the answer is lost and the event is not"}


@pytest.mark.parametrize("name", BREAKERS)
def test_a_sender_with_one_sin_breaks_one_promise(name: str) -> None:
    """In cells without a crash; in those of other promises nothing is found."""
    sender, kind, keeps = BREAKERS[name]

    def found(promises: Iterable[str]) -> set[str]:
        todo = [
            replace(block, kinds=())
            for block in blocks(Size.QUICK, [exhaustive.PROFILE_OF[each] for each in promises])
            if set(block.script) <= TELLING and block.victim in ("worker", "intake")
        ]
        played = play(todo, jobs=1, sender=f"tests.scenarios.simulation.planted:{sender}") if todo else []
        assert [each.error for each in played if each.error] == []
        return {
            finding["kind"] for each in played for failure in each.failures for finding in failure.findings
        }

    assert kind in found([name])
    assert found(f"exhaustive.{each}" for each in keeps) == set()


def test_a_person_sees_how_far_the_matrix_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal in lines; with the count in the end; and a second time nothing is played again."""
    few = blocks(Size.QUICK, ("http-keys",))[:3]
    monkeypatch.setattr("scenarios.simulation.matrix.blocks", lambda size, profiles: few)
    said = []
    for _ in range(2):
        console = Console(file=io.StringIO(), width=200)
        journal = play_matrix(console, "quick", ["exhaustive.keys"], tmp_path / "report")
        said.append(console.file.getvalue())  # type: ignore[attr-defined] # a StringIO, as given
        assert len(journal.read_text().splitlines()) == 3

    assert "the matrix: 3 of 3 blocks" in said[0]
    assert said[0].splitlines()[-1] == said[1].splitlines()[-1]
    assert "worlds, 0 skipped, 0 failed" in said[1]


def test_who_is_interrupted_leaves_no_process_and_keeps_what_is_done(tmp_path: Path) -> None:
    """The players end with whoever began it; their folders are gone; the journal has what was finished."""
    todo = blocks(Size.QUICK, ("http-keys",))
    journal = tmp_path / "journal.jsonl"
    before = set(multiprocessing.active_children())

    def stop(_played: Played) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play(todo, jobs=2, journal=journal, each=stop)

    assert set(multiprocessing.active_children()) <= before
    assert len(read_journal(journal)) == 1
