"""Whether a name was ever seen: never "no" for one that was, seldom "yes" for one that was not. Of a bounded size."""

from __future__ import annotations

from collections.abc import Iterable

#: How many names go into few bits, 16 KiB: most accounts have no more. Of so many seen, 0.5 % of the others are taken for seen.
FEW = 5_000
FEW_BITS = 1 << 17
#: What comes after them goes into as many bits, 2 MiB: of a million seen, 1 % of the others are taken for seen.
BITS = 1 << 24

_BIT = tuple(1 << nth for nth in range(8))
_SECOND = BITS.bit_length() - 1


class Seen:
    """A Bloom filter (CACM 13(7), 1970) with two places a name, and a larger one behind it when it is full."""

    __slots__ = ("_added", "_few", "_many")

    def __init__(self) -> None:
        self._few = bytearray(FEW_BITS // 8)
        self._many: bytearray | None = None
        self._added = 0

    def update(self, names: Iterable[str]) -> None:
        """They are seen."""
        for name in names:
            self.add(name)

    def add(self, name: str) -> None:
        """It is seen."""
        bits = self._few if self._many is None else self._many
        place, places = len(bits) * 8 - 1, hash(name)
        for each in (places & place, places >> _SECOND & place):
            bits[each >> 3] |= _BIT[each & 7]
        self._added += 1
        if self._added == FEW:
            self._many = bytearray(BITS // 8)

    def __contains__(self, name: str) -> bool:
        """Tell whether it was seen, perhaps."""
        places = hash(name)
        return _has(self._few, places) or (self._many is not None and _has(self._many, places))


def _has(bits: bytearray, places: int) -> bool:
    place = len(bits) * 8 - 1
    first, second = places & place, places >> _SECOND & place
    return bool(bits[first >> 3] & _BIT[first & 7] and bits[second >> 3] & _BIT[second & 7])
