"""Tests of a running process: what it says is read to the end, in bounded memory, and it dies whole."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from scenarios import running
from scenarios.clock import wait_until
from scenarios.running import Output, Running

Start = Callable[..., Running]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a Python one-liner as a process of a sender is; it is dead afterwards."""
    with ExitStack() as stack:

        def begun(code: str, *, awaited: str | None = None, answers: bool = False) -> Running:
            process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            assert process.stdout is not None
            assert process.stderr is not None
            one = Running(
                what="worker",
                process=process,
                out=Output(process.stdout, tmp_path / "worker.out", awaited=awaited, answers=answers),
                err=Output(process.stderr, tmp_path / "worker.err"),
            )
            stack.callback(one.kill)
            return one

        yield begun


def test_output_is_kept_in_bounds(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that logs for ever does not fill the disk; its last lines are still known."""
    monkeypatch.setattr(running, "OUTPUT_LIMIT_BYTES", 1000)
    mine = start("for n in range(3000): print('line', n)\nprint('ready')")
    assert mine.process.wait(5.0) == 0
    mine.out.end()

    assert (tmp_path / "worker.out").stat().st_size == 1000
    assert mine.out.tail(1) == "ready"


def test_the_awaited_text_is_seen_however_much_is_logged(start: Start) -> None:
    """Among thousands of other lines, and long before anybody looks."""
    mine = start("print('ready')\nfor n in range(5000): print('line', n)", awaited="ready")
    assert mine.process.wait(5.0) == 0
    mine.out.end()

    assert "line 4999" in mine.out.tail()
    assert mine.out.said_it


def test_the_awaited_text_needs_no_end(start: Start) -> None:
    """Nor does it matter that it comes in pieces."""
    code = "import sys\nsys.stdout.write('x' * 70000 + 're'); sys.stdout.flush(); sys.stdin.readline()\nsys.stdout.write('ady'); sys.stdout.flush(); sys.stdin.readline()"
    mine = start(code, awaited="ready")
    assert not mine.out.said_it
    assert mine.process.stdin is not None
    mine.process.stdin.write(b"\n")
    mine.process.stdin.flush()

    assert wait_until(lambda: mine.out.said_it or None, timeout_s=5.0)


def test_a_line_without_end_is_cut(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not kept in memory as long as it is; the next line is whole again."""
    monkeypatch.setattr(running, "LINE_LIMIT_BYTES", 100_000)
    mine = start("print('x' * 3_000_000); print('{\"ok\": true}')", answers=True)
    cut, whole, end = (mine.out.next_line(5.0) for _ in range(3))

    assert cut == "x" * 100_000
    assert whole == '{"ok": true}'
    assert end is None


def test_its_last_words_are_those_of_its_trouble(start: Start) -> None:
    """What it said of errors, else what it said at all, else that it said nothing."""
    loud = start("import sys; print('fine'); sys.exit('no database at all')")
    plain = start("print('fine')")
    silent = start("")
    for each in (loud, plain, silent):
        each.process.wait(5.0)
        each.out.end()

    assert loud.last_words() == "; its last lines: no database at all"
    assert plain.last_words() == "; its last lines: fine"
    assert silent.last_words() == "; it said nothing"


def test_one_that_is_dead_already_is_killed_in_peace(start: Start) -> None:
    """And told as often as you like."""
    mine = start("")
    mine.process.wait(5.0)

    mine.kill()
    mine.kill()

    assert mine.process.returncode == 0
