"""An append-only log of entries: one write each time, and a write that a crash tore is cut.

A log is a row of files `PREFIX.1`, `PREFIX.2`, …; a new one is begun when the last has grown large, and an old one is
deleted when nobody needs it any more. A file begins with `MAGIC`; then come frames, each a length, a CRC-32 and so
many bytes of entries. A frame is whole or was never written.
"""

from __future__ import annotations

import contextlib
import logging
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from simulator.store import StoreError
from simulator.store.entries import Entry

MAGIC = b"mailproof log 1\n"
#: A file that has grown beyond this is followed by a new one.
FILE_BYTES = 32 * 1024 * 1024

#: `zlib` works without Python's lock on what is larger.
_PIECE_BYTES = 5 * 1024
_FRAME = struct.Struct("<II")
_ENTRY = struct.Struct("<BII")

_log = logging.getLogger("simulator.store")


def packed(entries: Sequence[Entry]) -> bytes:
    """Return a frame of these entries."""
    parts = [b""]
    for kind, facts, body, _ in entries:
        parts += (_ENTRY.pack(kind, len(facts), len(body)), facts, body)
    payload = b"".join(parts)
    return _FRAME.pack(len(payload), _crc_of(payload)) + payload


def _crc_of(payload: bytes) -> int:
    """Return the CRC-32. `zlib` lets go of Python's lock for large pieces, and to get it back takes longer than a few."""
    if len(payload) > 32 * _PIECE_BYTES:
        return zlib.crc32(payload)
    crc, view = 0, memoryview(payload)
    for at in range(0, len(payload), _PIECE_BYTES):
        crc = zlib.crc32(view[at : at + _PIECE_BYTES], crc)
    return crc


def unpacked(payload: bytes) -> Iterator[Entry]:
    """Return the entries of a frame."""
    at = 0
    while at < len(payload):
        kind, facts, body = _ENTRY.unpack_from(payload, at)
        at += _ENTRY.size
        yield Entry(kind, payload[at : at + facts], payload[at + facts : at + facts + body])
        at += facts + body


class Log:
    """The end of a log, where it is written. Not to be used by two threads at once.

    Raises `StoreError` when it cannot be written; what was written before stays whole.
    """

    def __init__(self, prefix: str, *, first: int, synced: bool) -> None:
        """Begin file number `first`, which must not be there. `synced`: a write is on the disk when it returns."""
        self._prefix = prefix
        self._synced = synced
        self._fd: int | None = None
        self._dirty = False
        """There may be half a frame at the end of the file."""
        self.number = first
        self.end = 0
        self._begin(first)

    def append(self, frame: bytes) -> None:
        """Write a frame (`packed`)."""
        if self.end > FILE_BYTES:
            self._begin(self.number + 1)
        fd = self._fd
        assert fd is not None, "the log is closed"
        try:
            self._mend()
            self._dirty = True
            written = os.write(fd, frame)
            while written < len(frame):
                written += os.write(fd, memoryview(frame)[written:])
            if self._synced:
                os.fdatasync(fd)
            self._dirty = False
        except OSError as problem:
            with contextlib.suppress(OSError):
                self._mend()
            raise StoreError(
                f"the ledger's log {self._path(self.number)} cannot be written: {problem.strerror}"
            ) from problem
        self.end += len(frame)

    def close(self) -> None:
        """Let go of the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _mend(self) -> None:
        """Take away what a failed write left behind: nothing may come after half a frame."""
        if self._dirty and self._fd is not None:
            os.ftruncate(self._fd, self.end)
            self._dirty = False

    def _begin(self, number: int) -> None:
        path = self._path(number)
        fd = -1
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
            os.write(fd, MAGIC)
            if self._synced:
                os.fsync(fd)
                _sync_directory(path.parent)
        except OSError as problem:
            if fd >= 0:
                os.close(fd)
                path.unlink(missing_ok=True)
            raise StoreError(f"the ledger's log {path} cannot be begun: {problem.strerror}") from problem
        self.close()
        self._fd, self.number, self.end, self._dirty = fd, number, len(MAGIC), False

    def _path(self, number: int) -> Path:
        return path_of(self._prefix, number)


def path_of(prefix: str, number: int) -> Path:
    """Return the path of a file of a log."""
    return Path(f"{prefix}.{number}")


def files(prefix: str) -> dict[int, Path]:
    """Return the files of a log by their numbers, in order."""
    folder, name = Path(prefix).parent, Path(prefix).name
    numbers = (
        path.name.removeprefix(f"{name}.") for path in folder.iterdir() if path.name.startswith(f"{name}.")
    )
    return {
        number: path_of(prefix, number)
        for number in sorted(int(text) for text in numbers if text.isdecimal())
    }


def read(path: Path, *, start: int, is_last: bool) -> Iterator[tuple[int, list[Entry]]]:
    """Yield the frames of a log file from the byte `start` on, each with the place where the next one begins.

    What follows the last whole frame of the last file was torn by a crash: nobody was told of it. Anything else that
    is not a frame is damage, and raises `StoreError`.
    """
    try:
        data = path.read_bytes()
    except OSError as problem:
        raise StoreError(f"the ledger's log {path} cannot be read: {problem.strerror}") from problem
    if not data.startswith(MAGIC):
        if is_last and MAGIC.startswith(data):
            return
        raise StoreError(
            f"{path} is no log of this version of the simulator; the ledger beside it can only be opened by the one that wrote it"
        )
    at = max(start, len(MAGIC))
    while at < len(data):
        end = at + _FRAME.size
        length, crc = _FRAME.unpack_from(data, at) if end <= len(data) else (0, 0)
        payload = data[end : end + length]
        if end > len(data) or len(payload) < length or not length or zlib.crc32(payload) != crc:
            _cut_or_refuse(path, data, at, end + length, is_last=is_last)
            return
        yield end + length, list(unpacked(payload))
        at = end + length


def _cut_or_refuse(path: Path, data: bytes, at: int, end: int, *, is_last: bool) -> None:
    # The file system may have made room for a write that a power cut kept from arriving: zeros to the end.
    torn = end >= len(data) or not data[at:].strip(b"\0")
    if not (is_last and torn):
        raise StoreError(
            f"the ledger's log {path} is damaged at byte {at} of {len(data)}, before its end; no crash does that:"
            " restore it from a copy, or delete it and lose what stands in it"
        )
    _log.warning(
        "the last %d bytes of the ledger's log %s were torn by a crash and are left out; nobody was told of them",
        len(data) - at,
        path,
    )


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
