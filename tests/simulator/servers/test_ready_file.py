"""The ready file: whole or not there, ours or a successor's."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from simulator.servers import ready_file
from simulator.servers.options import ServeError
from tests.simulator.running import running

FACTS = {"http": "http://127.0.0.1:8025", "pid": 1}


def test_it_is_written_as_a_whole_and_taken_away(tmp_path: Path) -> None:
    """Nothing else is left in its folder, before or after."""
    path = tmp_path / "ready.json"
    ready_file.write(path, FACTS)
    assert [(each.name, json.loads(each.read_text())) for each in tmp_path.iterdir()] == [
        ("ready.json", FACTS)
    ]

    ready_file.remove(path, FACTS)
    ready_file.remove(path, FACTS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "stream"),
    [
        ("-", "out"),
        ("/dev/stdout", "out"),
        ("/dev/fd/1", "out"),
        ("/dev/stderr", "err"),
        ("/proc/self/fd/2", "err"),
    ],
)
def test_the_standard_streams_have_names(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, stream: str
) -> None:
    """Also where it is redirected to a file: what was written there before stays, and so does the name."""

    def harm(*_args: object, **_options: object) -> None:
        pytest.fail("a name of the machine was taken for a file of ours")

    # Before anything happens to the machine that runs this.
    for touch in ("write_text", "replace", "unlink"):
        monkeypatch.setattr(Path, touch, harm)
    ready_file.write(Path(name), FACTS)
    ready_file.remove(Path(name), FACTS)

    assert json.loads(getattr(capsys.readouterr(), stream)) == FACTS


@pytest.mark.skipif(os.name != "posix", reason="there are no named pipes here")
@pytest.mark.timeout(20)
def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    """To put a file in its place would leave its reader waiting, and a device without its name."""
    path = tmp_path / "ready"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        ready_file.write(path, FACTS)
        assert json.loads(os.read(reader, 1000)) == FACTS
    finally:
        os.close(reader)

    # Whoever asked a pipe now would wait for a writer.
    ready_file.remove(path, FACTS)
    assert [each.is_fifo() for each in tmp_path.iterdir()] == [True]


@pytest.mark.parametrize("name", ["nowhere/ready.json", "."])
def test_what_cannot_be_written_is_one_sentence_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with pytest.raises(ServeError, match=r"^--ready-file .* cannot be written: "):
        ready_file.write(path, FACTS)
    assert list(tmp_path.iterdir()) == []


def test_a_standard_output_that_is_closed_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed:
        def write(self, text: str) -> None:
            raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(sys, "stdout", Closed())
    with pytest.raises(ServeError, match=r"^--ready-file - cannot be written: Broken pipe"):
        ready_file.write(Path("-"), FACTS)


def test_a_successors_ready_file_is_left_alone(tmp_path: Path) -> None:
    """Only what we wrote is ours to take away."""
    ready = tmp_path / "ready.json"
    with running(ready_file=ready):
        ready.write_text('{"pid": 1}')
    assert ready.read_text() == '{"pid": 1}'
