"""How times and counts are spelled for people.

Must not hold: clocks.
"""

from __future__ import annotations

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def spelled_s(seconds: float) -> str:
    """A duration by its two largest units: `12 s`, `3 min 4 s`, `2 d 5 h`; below ten seconds with its fraction."""
    if seconds < 0:
        return f"-{spelled_s(-seconds)}"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    left = round(seconds)
    for place, (size, name) in enumerate(_UNITS):
        if left >= size:
            count, rest = divmod(left, size)
            if place + 1 == len(_UNITS):
                return f"{count} {name}"
            smaller, smaller_name = _UNITS[place + 1]
            return (
                f"{count} {name} {rest // smaller} {smaller_name}" if rest >= smaller else f"{count} {name}"
            )
    return "0 s"


def spelled_count(count: int, one: str, many: str | None = None) -> str:
    """`1 mail`, `12,345 mails`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
