"""The door for reports in a Maildir: a mail moves only when it is kept."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from reference_sender.doors.maildir import Maildir, NoMaildir
from reference_sender.doors.reports import Letterbox
from tests.reference_sender.doors.knocks import Shelf
from tests.reference_sender.events.test_reports import POSTFIX
from tests.reference_sender.samples import ManualClock


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("tmp", "new", "cur"):
        (tmp_path / name).mkdir()
    (tmp_path / "new" / "1.a").write_bytes(POSTFIX)
    (tmp_path / "new" / "2.b").write_bytes(b"Subject: none\n\n")
    return tmp_path


def names(folder: Path) -> tuple[list[str], list[str]]:
    """What is in new, and in cur."""
    new, cur = (sorted(each.name for each in (folder / name).iterdir()) for name in ("new", "cur"))
    return new, cur


def maildir(folder: Path, shelf: Shelf) -> Maildir:
    clock = ManualClock()
    return Maildir(folder, Letterbox(keeper=shelf, clock=clock), clock=clock)


def test_what_is_kept_is_read_and_moves(folder: Path) -> None:
    shelf = Shelf()
    assert maildir(folder, shelf).take_in() == 2
    assert len(shelf.kept) == 3
    assert names(folder) == ([], ["1.a:2,S", "2.b:2,S"])


def test_what_cannot_be_kept_stays_and_is_taken_in_later(folder: Path) -> None:
    shelf = Shelf(away=ConnectionError("away"))
    door = maildir(folder, shelf)
    assert door.take_in() == 0
    assert names(folder) == (["1.a", "2.b"], [])
    shelf.away = None
    assert door.take_in() == 2


def test_whoever_died_before_it_moved_changes_nothing(folder: Path) -> None:
    shelf = Shelf()
    maildir(folder, shelf).take_in()
    (folder / "cur" / "1.a:2,S").rename(folder / "new" / "1.a")
    maildir(folder, shelf).take_in()
    assert len(shelf.kept) == 3


def test_a_mail_that_nobody_makes_sense_of_stops_no_other(folder: Path) -> None:
    class Odd(Letterbox):
        def put(self, raw: bytes) -> bool:
            if raw == POSTFIX:
                raise ValueError("odd")
            return super().put(raw)

    clock = ManualClock()
    assert Maildir(folder, Odd(keeper=Shelf(), clock=clock), clock=clock).take_in() == 1
    assert names(folder) == (["1.a"], ["2.b:2,S"])


def test_a_folder_that_is_away_for_a_while_ends_nothing(folder: Path) -> None:
    said: list[str] = []
    stop = asyncio.Event()

    def log(event: str, /, **_: object) -> None:
        said.append(event)
        (folder / "away").rename(folder / "new")

    class Clock(ManualClock):
        async def sleep(self, seconds: float) -> None:
            if (folder / "cur" / "1.a:2,S").exists():
                stop.set()

    clock = Clock()
    door = Maildir(folder, Letterbox(keeper=Shelf(), clock=clock), clock=clock, log=log)
    (folder / "new").rename(folder / "away")
    asyncio.run(asyncio.wait_for(door.run(stop), 20))
    assert said == ["maildir_failed"]
    assert names(folder) == ([], ["1.a:2,S", "2.b:2,S"])


def test_it_runs_until_it_is_told_to_stop(folder: Path) -> None:
    async def story() -> None:
        stop = asyncio.Event()
        stop.set()
        await maildir(folder, Shelf()).run(stop)
        stop.clear()

        class Stops(ManualClock):
            async def sleep(self, seconds: float) -> None:
                stop.set()

        door = Maildir(folder, Letterbox(keeper=Shelf(), clock=Stops()), clock=Stops())
        await asyncio.wait_for(door.run(stop), 10)

    asyncio.run(story())
    assert names(folder)[0] == []


def test_a_folder_that_is_no_maildir_is_told(tmp_path: Path) -> None:
    with pytest.raises(NoMaildir, match="must have the folders new and cur"):
        maildir(tmp_path, Shelf())
