"""Every odd form has a name for people, and no two that differ have the same."""

from __future__ import annotations

import pytest

from simulator.provider.dress import (
    Announced,
    Chunked,
    Chunks,
    Doubled,
    Dress,
    Dripped,
    Flaw,
    Gzipped,
    Listed,
    Listing,
    Odd,
    Shape,
)

NAMES: list[tuple[Dress, str]] = [
    (Gzipped(), "gzip"),
    (Gzipped(flaw=Flaw.CUT), "gzip (cut)"),
    (Chunked(), "chunked"),
    (Chunked(chunks=Chunks.BAD_SIZE), "chunked (bad_size)"),
    (Dripped(pause_s=0.5, size_bytes=3), "dripped, 3 bytes every 0.5s"),
    (Announced(status=103), "103 first"),
    (Doubled(code=500), "and an unasked 500"),
    (Doubled(), "and an unasked second one"),
    (Listed(listing=Listing.TOTALS), "results totals"),
    (Odd(shape=Shape.HTML), "200 with odd body: html"),
    (
        Odd(shape=Shape.WHOLE, code=202, content_type="text/plain"),
        "202 with odd body: whole, text/plain content type",
    ),
    (Odd(shape=Shape.WHOLE, content_type=""), "200 with odd body: whole, no content type"),
]


@pytest.mark.parametrize(("dress", "name"), NAMES)
def test_a_form_has_a_name(dress: Dress, name: str) -> None:
    assert str(dress) == name


def test_no_two_have_the_same() -> None:
    assert len({name for _, name in NAMES}) == len(NAMES)
