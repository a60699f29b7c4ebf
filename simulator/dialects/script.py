"""An answer as it goes out where it does not go out in one piece: what a wire plays, and nothing more."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """Bytes, with a pause before each piece but the first."""

    pieces: tuple[bytes, ...]
    pause_s: float = 0.0
    whole: bool = True
    """False: this is no whole answer, and the line is closed behind it."""


def in_pieces(data: bytes, size_bytes: int, pause_s: float) -> Script:
    """Return a script that says `data` piece by piece."""
    pieces = tuple(data[start : start + size_bytes] for start in range(0, len(data), size_bytes))
    return Script(pieces=pieces, pause_s=pause_s)
