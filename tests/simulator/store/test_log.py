"""The log: what was written is read, what was torn is cut, what is damaged is refused."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from simulator.store import StoreError
from simulator.store.entries import Entry
from simulator.store.log import MAGIC, Log, files, packed, path_of, read

FRAMES = [
    [Entry(1, b"{}", b"body\0")],
    [Entry(2, b'{"a":1}'), Entry(3, b"[]", b"")],
    [Entry(1, b"", b"x" * 5_000)],
]


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    return str(tmp_path / "ledger.db-log")


def written(prefix: str, *, synced: bool = False) -> bytes:
    log = Log(prefix, first=1, synced=synced)
    for frame in FRAMES:
        log.append(packed(frame))
    log.close()
    return path_of(prefix, 1).read_bytes()


def frames(prefix: str, *, start: int = 0, is_last: bool = True) -> list[list[Entry]]:
    return [entries for _, entries in read(path_of(prefix, 1), start=start, is_last=is_last)]


@pytest.mark.parametrize("synced", [False, True])
def test_what_was_written_is_read(prefix: str, synced: bool) -> None:
    data = written(prefix, synced=synced)

    assert data.startswith(MAGIC)
    assert frames(prefix) == FRAMES
    assert frames(prefix, is_last=False) == FRAMES


def test_reading_goes_on_where_a_frame_ended(prefix: str) -> None:
    written(prefix)
    ends = [end for end, _ in read(path_of(prefix, 1), start=0, is_last=True)]

    assert frames(prefix, start=ends[0]) == FRAMES[1:]
    assert frames(prefix, start=ends[-1]) == []


def test_a_torn_end_is_cut_at_every_byte(prefix: str) -> None:
    """Only whole frames are read, and all of them."""
    data, path = written(prefix), path_of(prefix, 1)
    ends = [end for end, _ in read(path, start=0, is_last=True)]
    for size in [*range(200), *range(len(data) - 50, len(data))]:
        path.write_bytes(data[:size])
        assert len(frames(prefix)) == sum(end <= size for end in ends)


def test_room_that_a_power_cut_left_empty_is_cut(prefix: str) -> None:
    """The file system made the file longer, and the bytes never came."""
    data = written(prefix)
    path_of(prefix, 1).write_bytes(data + b"\0" * 4_096)

    assert frames(prefix) == FRAMES


def test_a_last_frame_with_a_wrong_checksum_is_cut(prefix: str) -> None:
    data = bytearray(written(prefix))
    data[-1] ^= 1
    path_of(prefix, 1).write_bytes(data)

    assert frames(prefix) == FRAMES[:2]


def test_damage_before_the_end_is_refused(prefix: str) -> None:
    """And so is a file that is not the last and does not end with a frame: no crash did that."""
    data = bytearray(written(prefix))
    path = path_of(prefix, 1)
    path.write_bytes(data[:-3])
    with pytest.raises(StoreError, match="before its end"):
        frames(prefix, is_last=False)
    data[len(MAGIC) + 10] ^= 1
    path.write_bytes(data)
    with pytest.raises(StoreError, match=f"damaged at byte {len(MAGIC)} of {len(data)}, before its end"):
        frames(prefix)


def test_a_log_of_another_version_is_refused(prefix: str) -> None:
    path_of(prefix, 1).write_bytes(b"mailproof log 2\n")

    with pytest.raises(StoreError, match="is no log of this version"):
        frames(prefix)


def test_files_are_found_by_their_numbers(prefix: str, tmp_path: Path) -> None:
    for name in ("ledger.db-log.2", "ledger.db-log.10", "ledger.db-log.x", "ledger.db-wal", "other.db-log.1"):
        (tmp_path / name).touch()

    assert list(files(prefix)) == [2, 10]


def test_a_file_that_is_there_is_not_overwritten(prefix: str) -> None:
    written(prefix)

    with pytest.raises(StoreError, match="cannot be begun: File exists"):
        Log(prefix, first=1, synced=False)


def test_a_large_file_is_followed_by_another(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulator.store.log.FILE_BYTES", 50)
    written(prefix)

    assert len(files(prefix)) == 2


def test_a_write_that_fails_half_way_leaves_no_half_frame(
    prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk was full; what comes after it is read all the same."""
    log = Log(prefix, first=1, synced=False)
    log.append(packed(FRAMES[0]))
    real, room = os.write, [20]

    def full(fd: int, data: bytes) -> int:
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(fd, bytes(data)[: room.pop()])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(StoreError, match=r"cannot be written: No space left"):
            log.append(packed(FRAMES[1]))
    log.append(packed(FRAMES[2]))
    log.close()

    assert frames(prefix) == [FRAMES[0], FRAMES[2]]


def test_nothing_is_written_behind_half_a_frame_that_cannot_be_taken_away(
    prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be lost at the next start, as everything behind a torn write is."""
    log = Log(prefix, first=1, synced=False)
    real = os.write

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: real(fd, bytes(data)[:9]) and fail())
        patch.setattr(os, "ftruncate", fail)
        for _ in range(2):
            with pytest.raises(StoreError, match="cannot be written"):
                log.append(packed(FRAMES[0]))
            patch.setattr(os, "write", real)
    log.append(packed(FRAMES[1]))
    log.close()

    assert frames(prefix) == [FRAMES[1]]
