"""Whether a name was ever seen: never "no" for one that was, seldom "yes" for one that was not. Of a fixed size."""

from __future__ import annotations

from collections.abc import Iterable

#: As many bits as there are, a power of two: 2 MiB. Of a million names seen, 1 % of the others are taken for seen.
BITS = 1 << 24

_PLACE = BITS - 1
_SECOND = BITS.bit_length() - 1
_BIT = tuple(1 << nth for nth in range(8))


class Seen:
    """A Bloom filter (CACM 13(7), 1970) with two places a name."""

    __slots__ = ("_bits",)

    def __init__(self) -> None:
        self._bits = bytearray(BITS // 8)

    def update(self, names: Iterable[str]) -> None:
        """They are seen."""
        for name in names:
            self.add(name)

    def add(self, name: str) -> None:
        """It is seen."""
        bits, places = self._bits, hash(name)
        for place in (places & _PLACE, places >> _SECOND & _PLACE):
            bits[place >> 3] |= _BIT[place & 7]

    def __contains__(self, name: str) -> bool:
        """Tell whether it was seen, perhaps."""
        bits, places = self._bits, hash(name)
        first, second = places & _PLACE, places >> _SECOND & _PLACE
        return bool(bits[first >> 3] & _BIT[first & 7] and bits[second >> 3] & _BIT[second & 7])
