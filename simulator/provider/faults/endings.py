"""How a line ends, where a fault ends it at a chosen moment."""

from __future__ import annotations

from enum import StrEnum

from simulator.provider.answer import Hang, HangUp, Reset


class End(StrEnum):
    """How a line ends."""

    HANG_UP = "hang_up"
    RESET = "reset"
    HANG = "hang"


def ending(end: End) -> Hang | HangUp | Reset:
    """Return what happens to the line."""
    match end:
        case End.HANG_UP:
            return HangUp()
        case End.RESET:
            return Reset()
        case End.HANG:
            return Hang()
