"""Pieces are the whole, in order."""

from __future__ import annotations

import pytest

from simulator.dialects.script import Script, in_pieces


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_pieces_are_the_whole(size: int) -> None:
    script = in_pieces(b"abcdefg", size, 0.5)

    assert b"".join(script.pieces) == b"abcdefg"
    assert all(len(piece) == size for piece in script.pieces[:-1])
    assert 0 < len(script.pieces[-1]) <= size
    assert (script.pause_s, script.whole) == (0.5, True)


def test_nothing_is_no_piece() -> None:
    assert in_pieces(b"", 1, 0.5) == Script(pieces=(), pause_s=0.5)
