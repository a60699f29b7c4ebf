"""Mail bodies that are hard to hand over (no NUL: such mail is refused), and how a correct sender makes them transparent."""

from __future__ import annotations

from hypothesis import strategies as st

PIECES = st.sampled_from([b".", b"..", b"\r\n", b".\r\n", b"a", b"\r\n.", b"Subject: x\r\n", b"\xff", b" "])
BODIES = st.lists(PIECES | st.binary(max_size=8), max_size=40).map(
    lambda pieces: b"".join(
        line.translate(None, b"\r\n\0") + b"\r\n" for line in b"".join(pieces).split(b"\r\n")
    )
)


def transparent(raw: bytes) -> bytes:
    """Make mail data transparent, line by line as RFC 5321, section 4.5.2, says it."""
    return b"".join(
        b"." + line if line.startswith(b".") else line
        for line in raw.split(b"\r\n")[:-1]
        for line in [line + b"\r\n"]
    )
