"""Reading the whole ledger: what the store has, and what goes on just now.

Readings may take their time and run in a thread. They see everything that was decided before they began; while the
ledger cannot be written, they see what memory holds.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import takewhile
from typing import TypeVar

from simulator.dialects.native.letter import message_of
from simulator.provider.acceptance import Acceptance
from simulator.provider.ledger import Attempt, AttemptState, Decision
from simulator.provider.obedience import Obedience, judge_obedience
from simulator.provider.obligations import Judgement, judge
from simulator.provider.provider import Account, Provider
from simulator.provider.search import PAGE, AttemptSearch, Page, Search, page_of
from simulator.store import Store, StoreError
from simulator.store.committer import Committer

#: So many attempts are read at once where all of them are wanted.
READ_AT_ONCE = 1_000

Numbered = TypeVar("Numbered", Acceptance, Attempt)


class Archive:
    """One service's. Every reading raises `StoreError` if the ledger cannot be read."""

    def __init__(self, provider: Provider, store: Store, committer: Committer) -> None:
        self._provider = provider
        self._store = store
        self._committer = committer

    async def _is_written(self) -> bool:
        """See to it that the store knows everything; False: it cannot be, and what memory holds must do."""
        try:
            await self._committer.commit()
        except StoreError:
            return False
        return True

    # --- acceptances --------------------------------------------------------------------------------

    async def messages(
        self,
        account: str,
        search: Search = Search(),
        *,
        after: int | None = None,
        limit: int = PAGE,
        newest_first: bool = False,
    ) -> Page[Acceptance]:
        """Return a page of acceptances, in the order of their numbers."""
        if not await self._is_written():
            known = self._provider.accounts.get(account)
            found = [] if known is None else known.ledger.search(search)
            return _page(found, after, limit, newest_first=newest_first)
        return await asyncio.to_thread(
            self._store.messages, account, search, after=after, limit=limit, newest_first=newest_first
        )

    async def watch_messages(
        self, account: Account, search: Search, at_least: int
    ) -> Callable[[], list[Acceptance]]:
        """Return what tells again and again which acceptances there are, at least so many of them, oldest first.

        Each call looks at what is new only, so that waiting costs the senders nothing.
        """
        seen = account.booked
        page = await self.messages(account.name, search, limit=max(1, at_least))
        found = [each for each in page.found if each.number <= seen]

        def look() -> list[Acceptance]:
            nonlocal account, seen
            now = self._provider.accounts.get(account.name)
            if now is not account and now is not None:
                # A reset: what was before is gone.
                account, seen = now, 0
                found.clear()
            newest = account.ledger.acceptances
            fresh = takewhile(lambda each: each.number > seen, reversed(newest))
            found.extend(reversed([each for each in fresh if search.matches(each)]))
            seen = max(seen, newest[-1].number) if newest else seen
            return found

        return look

    async def copies(self, account: str, acceptances: Iterable[Acceptance]) -> dict[str, int]:
        """Return how many acceptances have each of these mails' bodies, by SHA-256."""
        wanted = {each.sha256 for each in acceptances}
        if not await self._is_written():
            known = self._provider.accounts.get(account)
            held = Counter() if known is None else Counter(each.sha256 for each in known.ledger.acceptances)
            return {each: held[each] for each in wanted}
        return await asyncio.to_thread(self._store.copies, account, wanted)

    async def raw(self, acceptance: Acceptance) -> bytes | None:
        """Return the bytes of an accepted mail, or None if they are not kept any more."""
        await self._committer.commit()

        def find() -> bytes | None:
            body = self._store.body(acceptance.account, acceptance.id)
            return None if body is None else message_of(acceptance, body)

        return await asyncio.to_thread(find)

    async def judge(self, name: str, now: datetime, *, final: bool = False) -> Judgement:
        """Compare an account's promises with its whole ledger."""
        # Counted before: what is booked meanwhile may not be in the store yet.
        booked = self._provider.account(name, now).booked
        await self._committer.commit()
        account = self._provider.account(name, now)
        obligations, booked = list(account.obligations.values()), min(booked, account.booked)
        return await asyncio.to_thread(
            lambda: judge(obligations, self._store.acceptances(name), final=final, booked=booked)
        )

    async def judge_obedience(self, name: str, now: datetime) -> Obedience:
        """Say whether the senders of an account came back when they were told to."""
        await self._committer.commit()
        owed = Counter(recipient for _, recipient in self._provider.account(name, now).obligations)
        once = {recipient for recipient, count in owed.items() if count == 1}
        return await asyncio.to_thread(lambda: judge_obedience(self._all_attempts(name), promised_once=once))

    def _all_attempts(self, account: str) -> Iterator[Attempt]:
        after: int | None = None
        while True:
            page = self._store.attempts(account, AttemptSearch(), after=after, limit=READ_AT_ONCE)
            yield from page.found
            if page.cursor is None:
                return
            after = page.cursor

    # --- attempts and decisions ---------------------------------------------------------------------

    async def attempts(
        self,
        account: Account,
        search: AttemptSearch = AttemptSearch(),
        *,
        after: int | None = None,
        limit: int = PAGE,
        newest_first: bool = False,
    ) -> Page[Attempt]:
        """Return a page of attempts, those that go on as they are now, in the order of their numbers."""
        if not await self._is_written():
            held = [each for each in account.attempts.values() if search.matches(each)]
            return _page(held, after, limit, newest_first=newest_first)
        page = await asyncio.to_thread(
            self._store.attempts, account.name, search, after=after, limit=limit, newest_first=newest_first
        )
        account = self._provider.accounts.get(account.name, account)
        return _with_living(page, account, search, after, limit, newest_first=newest_first)

    async def watch_attempts(
        self, account: Account, search: AttemptSearch, at_least: int
    ) -> Callable[[], list[Attempt]]:
        """Return what tells again and again which attempts there are, at least so many of them, oldest first."""
        page = await self.attempts(account, search, limit=max(1, at_least))
        former = account

        def look() -> list[Attempt]:
            now = self._provider.accounts.get(account.name, account)
            ended = page.found if now is former else ()
            found = {each.id: each for each in ended if each.id not in now.attempts}
            found |= {each.id: each for each in now.attempts.values() if search.matches(each)}
            return sorted(found.values(), key=lambda each: each.number)

        return look

    async def decisions(self, account: str, *, after: int | None = None, limit: int = PAGE) -> Page[Decision]:
        """Return a page of the decision log, oldest first."""
        await self._committer.commit()
        return await asyncio.to_thread(self._store.decisions, account, after=after, limit=limit)


def _page(found: Sequence[Numbered], after: int | None, limit: int, *, newest_first: bool) -> Page[Numbered]:
    return page_of(
        (
            (each.number, each)
            for each in sorted(found, key=lambda each: each.number, reverse=newest_first)
            if after is None or (each.number < after if newest_first else each.number > after)
        ),
        limit,
    )


def _with_living(
    page: Page[Attempt],
    account: Account,
    search: AttemptSearch,
    after: int | None,
    limit: int,
    *,
    newest_first: bool,
) -> Page[Attempt]:
    """Put the attempts that go on into their places; what a store knows of them is older."""
    living = {each.id: each for each in account.attempts.values() if each.state is not AttemptState.CLOSED}

    def in_turn() -> Iterator[Attempt]:
        yield from (each for each in page.found if each.id not in living)
        for each in living.values():
            here = after is None or (each.number < after if newest_first else each.number > after)
            # What lies behind the end of the store's page belongs to the next one.
            there = page.cursor is not None and (
                each.number < page.cursor if newest_first else each.number > page.cursor
            )
            if here and not there and search.matches(each):
                yield each

    found = sorted(in_turn(), key=lambda each: -each.number if newest_first else each.number)
    cut = page_of(((each.number, each) for each in found), limit)
    return cut if cut.cursor is not None else Page(found=cut.found, cursor=page.cursor)
