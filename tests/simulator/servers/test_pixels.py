"""How large a picture says it is, in every form that a browser unpacks."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.servers.pixels import pixels


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height) + b"\x08\x02\0\0\0"


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0\0\0"


def jpeg(width: int, height: int) -> bytes:
    """With a segment and a fill byte before the frame."""
    frame = b"\xff\xc2\0\x11\x08" + struct.pack(">HH", height, width) + b"\x03"
    return b"\xff\xd8\xff\xe0\0\x06JFIF\xff" + frame


def webp(width: int, height: int) -> bytes:
    size = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + size


def webp_lossy(width: int, height: int) -> bytes:
    return b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height)


def webp_lossless(width: int, height: int) -> bytes:
    return b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f" + struct.pack("<I", (height - 1) << 14 | width - 1)


def bmp(width: int, height: int) -> bytes:
    """Upside down, as some are."""
    return b"BM" + bytes(12) + struct.pack("<Iii", 40, width, -height)


@pytest.mark.parametrize("write", [png, gif, jpeg, webp, webp_lossy, webp_lossless, bmp])
def test_its_size_stands_in_its_first_bytes(write: object) -> None:
    assert callable(write)
    whole = write(10_000, 9_000)

    assert pixels(whole) == 90_000_000
    # Cut anywhere, it is as large as that or nobody knows.
    found = [pixels(whole[:size]) for size in range(len(whole))]
    assert found[8] is None
    assert set(found) <= {None, 90_000_000}


@pytest.mark.parametrize(
    "content", [b"", b"<svg/>", b"RIFF\0\0\0\0WEBPxxxx", b"\xff\xd8\xff", b"\xff\xd8\0\0"]
)
def test_what_is_no_picture_has_none(content: bytes) -> None:
    assert pixels(content) is None


@given(
    st.sampled_from([b"", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"\xff\xd8\xff", b"RIFF1234WEBPVP8 ", b"BM"]),
    st.binary(),
)
def test_any_bytes_are_read(start: bytes, rest: bytes) -> None:
    found = pixels(start + rest)

    assert found is None or found >= 0
