"""Lists in pages: the parameters that every list has, and the cursor by which one page leads to the next."""

from __future__ import annotations

from simulator.provider.search import PAGE
from simulator.servers.control.endpoint import Parameter, flag, whole
from simulator.servers.control.problems import Refusal

#: The largest page.
MAX_PAGE = 1_000


def _cursor(name: str, given: str) -> int:
    if not (given.isascii() and given.isdecimal() and len(given) < 16):
        raise Refusal(400, f"{name} must be the `next` of the page before, not {given[:20]!r}")
    return int(given)


LIMIT = whole("limit", "How many at most.", default=PAGE, least=1, most=MAX_PAGE)
PAGING: tuple[Parameter, ...] = (
    Parameter(
        name="after",
        says="Go on after this: the `next` of the page before.",
        read=_cursor,
        schema={"type": "string", "pattern": "^[0-9]{1,15}$"},
    ),
    LIMIT,
    flag("newest_first", "Begin with the latest."),
)


def following(cursor: int | None) -> str | None:
    """Return what `next` says."""
    return None if cursor is None else str(cursor)
