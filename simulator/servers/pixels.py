"""How large a picture will be once somebody unpacks it, read from its first bytes. Nothing here unpacks anything.

A PNG of some kilobytes may be a hundred million pixels: harmless in a ledger, not on a page.
"""

from __future__ import annotations

import struct


def pixels(content: bytes) -> int | None:
    """Return width times height of a PNG, GIF, JPEG, WebP or BMP, whatever it says it is; None: it is none of these."""
    for read in (_png, _gif, _jpeg, _webp, _bmp):
        try:
            size = read(content)
        except (struct.error, IndexError):
            continue
        if size is not None:
            width, height = size
            return width * height
    return None


def _png(content: bytes) -> tuple[int, int] | None:
    if not content.startswith(b"\x89PNG\r\n\x1a\n"):
        return None
    width, height = struct.unpack_from(">II", content, 16)
    return width, height


def _gif(content: bytes) -> tuple[int, int] | None:
    if content[:6] not in (b"GIF87a", b"GIF89a"):
        return None
    width, height = struct.unpack_from("<HH", content, 6)
    return width, height


def _jpeg(content: bytes) -> tuple[int, int] | None:
    """The size stands in the frame header, behind segments of any length (ITU T.81, B.2.2)."""
    if not content.startswith(b"\xff\xd8"):
        return None
    at = 2
    while content[at] == 0xFF:
        marker = content[at + 1]
        if marker == 0xFF:  # fill bytes
            at += 1
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack_from(">HH", content, at + 5)
            return width, height
        else:
            at += 2 + int(struct.unpack_from(">H", content, at + 2)[0])
    return None


def _webp(content: bytes) -> tuple[int, int] | None:
    if content[:4] != b"RIFF" or content[8:12] != b"WEBP":
        return None
    match content[12:16]:
        case b"VP8X":
            width, wide, height, high = struct.unpack_from("<HBHB", content, 24)  # of 24 bits each
            return (wide << 16 | width) + 1, (high << 16 | height) + 1
        case b"VP8L":
            (bits,) = struct.unpack_from("<I", content, 21)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", content, 26)
            return width & 0x3FFF, height & 0x3FFF
        case _:
            return None


def _bmp(content: bytes) -> tuple[int, int] | None:
    if not content.startswith(b"BM"):
        return None
    width, height = struct.unpack_from("<ii", content, 18)
    return abs(width), abs(height)
