"""The whole ledger, read: what the store has and what goes on, in one order and complete."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from simulator.provider.acceptance import Acceptance
from simulator.provider.ledger import Attempt, AttemptState
from simulator.provider.obligations import Obligation
from simulator.provider.provider import Account, Provider
from simulator.provider.search import AttemptSearch, Page, Search
from simulator.servers.archive import Archive
from simulator.store import StoreError
from simulator.store.committer import Committer
from simulator.store.memory import MemoryStore
from tests.simulator.provider.mails import ANN, BOB, NOW, mail, send


class Desk:
    """A provider with a small window, its store, and the archive."""

    def __init__(self, window: int = 3) -> None:
        self.store = MemoryStore()
        self.provider = Provider(now=NOW, past=self.store)
        self.committer = Committer(self.provider.records, self.store)
        self.archive = Archive(self.provider, self.store, self.committer)
        self.account.ledger.window = window

    @property
    def account(self) -> Account:
        return self.provider.account("default", NOW)

    async def send(self, *to: str, end: bool = True) -> Attempt:
        attempt, _ = send(self.provider, mail(*to), end=end)
        await self.committer.commit()
        return attempt


def run(story: Callable[[Desk], Coroutine[Any, Any, None]], window: int = 3) -> None:
    async def tell() -> None:
        async with asyncio.timeout(10):
            await story(Desk(window))

    asyncio.run(tell())


def numbers(found: Page[Acceptance] | Page[Attempt] | list[Acceptance] | list[Attempt]) -> list[int]:
    return [each.number for each in (found.found if isinstance(found, Page) else found)]


def test_mails_are_found_that_left_memory() -> None:
    """With everything that was decided just now."""

    async def story(desk: Desk) -> None:
        for number in range(10):
            send(desk.provider, mail(BOB if number % 2 else ANN))
        assert numbers(await desk.archive.messages("default", Search(to=BOB))) == [2, 4, 6, 8, 10]
        assert len(desk.account.ledger.acceptances) < 10
        first = desk.account.ledger.get(desk.store.messages("default").found[0].id)
        assert first is not None
        assert (await desk.archive.raw(first) or b"").startswith(b"Subject: Hello")
        assert await desk.archive.copies("default", [first]) == {first.sha256: 10}

    run(story)


def test_the_verdict_is_about_the_whole_ledger() -> None:
    async def story(desk: Desk) -> None:
        desk.provider.owe([Obligation(account="default", ref="r", recipient=BOB)], NOW)
        for _ in range(9):
            send(desk.provider, mail(BOB))
        judgement = await desk.archive.judge("default", NOW)
        assert [len(each.acceptances) for each in judgement.duplicated] == [9]
        assert desk.provider.judge("default", NOW).as_json() == judgement.as_json()

    run(story)


def test_attempts_that_go_on_are_shown_as_they_are() -> None:
    """In their places among those that have ended, however the pages fall."""

    async def story(desk: Desk) -> None:
        living = []
        for number in range(1, 13):
            attempt = await desk.send(BOB, end=number % 4 != 2)
            if number % 4 == 2:
                living.append(attempt)
        living[0].state, living[0].answer = AttemptState.HELD, "only we know"
        for newest_first in (False, True):
            for limit in (1, 2, 3, 5, 20):
                found: list[int] = []
                cursor = None
                while True:
                    page = await desk.archive.attempts(
                        desk.account, after=cursor, limit=limit, newest_first=newest_first
                    )
                    assert len(page.found) <= limit
                    found += numbers(page)
                    cursor = page.cursor
                    if cursor is None:
                        break
                assert found == sorted(range(1, 13), reverse=newest_first)
        held = await desk.archive.attempts(desk.account, AttemptSearch(state="held"))
        assert [each.answer for each in held.found] == ["only we know"]
        assert numbers(await desk.archive.attempts(desk.account, AttemptSearch(state="open"))) == [6, 10]

    run(story)


def test_who_waits_for_mails_sees_old_and_new_ones() -> None:
    """Each once; after a reset only what came then."""

    async def story(desk: Desk) -> None:
        for _ in range(6):
            await desk.send(BOB)
        look = await desk.archive.watch_messages(desk.account, Search(to=BOB), 20)
        assert numbers(look()) == [1, 2, 3, 4, 5, 6]
        await desk.send(ANN)
        await desk.send(BOB)
        assert numbers(look()) == [1, 2, 3, 4, 5, 6, 8]
        desk.provider.reset("default", NOW)
        assert look() == []
        await desk.send(BOB)
        assert numbers(look()) == [1]

    run(story)


def test_who_waits_for_attempts_sees_old_and_new_ones() -> None:
    async def story(desk: Desk) -> None:
        for _ in range(6):
            await desk.send(BOB)
        assert len(desk.account.attempts) < 6
        look = await desk.archive.watch_attempts(desk.account, AttemptSearch(to=BOB), 20)
        assert numbers(look()) == [1, 2, 3, 4, 5, 6]
        attempt = await desk.send(BOB, end=False)
        assert numbers(look()) == [1, 2, 3, 4, 5, 6, 7]
        assert look()[-1] is attempt
        desk.provider.reset("default", NOW)
        assert look() == []

    run(story)


@pytest.mark.parametrize("window", [1, 3])
def test_memory_stays_as_it_is(window: int) -> None:
    """Mails, attempts and decisions: the newest are held, however many there were."""

    async def story(desk: Desk) -> None:
        for _ in range(50):
            await desk.send(BOB)
        assert len(desk.account.ledger.acceptances) <= window + 1
        assert len(desk.account.attempts) <= window + 1
        assert len((await desk.archive.decisions("default")).found) == 0
        assert len((await desk.archive.messages("default")).found) == 50

    run(story, window)


def test_while_the_ledger_cannot_be_written_memory_is_read(caplog: pytest.LogCaptureFixture) -> None:
    """What was booked and could not be kept is shown all the same: it is what the provider believes."""

    async def story(desk: Desk) -> None:
        def fail(records: object) -> None:
            raise StoreError("the disk is full")

        await desk.send(BOB)
        write, desk.store.append = desk.store.append, fail  # type: ignore[method-assign]
        send(desk.provider, mail(BOB))
        send(desk.provider, mail(ANN))
        found = await desk.archive.messages("default", newest_first=True, limit=2)
        assert (numbers(found), found.cursor) == ([3, 2], 2)
        assert numbers(await desk.archive.messages("default", Search(to=BOB), after=1)) == [2]
        assert set((await desk.archive.copies("default", found.found)).values()) == {3}
        assert numbers(await desk.archive.attempts(desk.account, AttemptSearch(to=BOB))) == [1, 2]
        desk.store.append = write  # type: ignore[method-assign]
        assert numbers(await desk.archive.messages("default")) == [1, 2, 3]

    run(story)
