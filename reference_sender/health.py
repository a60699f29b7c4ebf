"""Whether the sender still does its work: each loop has a pulse, and a pulse that stops turns health red.

A loop beats when it has looked for work and come back. One that died does not, nor one that hangs, nor one that the
database keeps from looking; nobody has to find out which of them it is to see that no mail is leaving.
Must not hold: sockets, clocks of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

#: A loop may miss so many of its turns before its silence means something.
TURNS = 10


class Pulse:
    """When a loop last came back from a look."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        # A start counts as a beat: the first look has its time, too.
        self._beaten_at = monotonic()

    def beat(self) -> None:
        """Looked, and came back."""
        self._beaten_at = self._monotonic()

    def seconds_since(self) -> float:
        """How long ago that was."""
        return max(self._monotonic() - self._beaten_at, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A loop and how long it may be silent."""

    pulse: Pulse
    patience_s: float

    @classmethod
    def every(cls, turn_s: float, monotonic: Callable[[], float], *, least_s: float) -> Watched:
        """Watch one that means to look every `turn_s`: it may be silent for `least_s`, or for `TURNS` of its turns."""
        return cls(pulse=Pulse(monotonic), patience_s=max(least_s, TURNS * turn_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The judgement: whether all loops beat, the silence of each in seconds, and a sentence for each that is too long."""

    ok: bool
    silent_s: dict[str, float]
    why: tuple[str, ...]


def examine(loops: Mapping[str, Watched]) -> Health:
    """Judge all loops as of now."""
    silent_s = {name: round(loop.pulse.seconds_since(), 3) for name, loop in loops.items()}
    why = tuple(
        f"the {name} has not come back from a look for {silent_s[name]:g} s; {loop.patience_s:g} s are its limit"
        for name, loop in loops.items()
        if silent_s[name] > loop.patience_s
    )
    return Health(ok=not why, silent_s=silent_s, why=why)
