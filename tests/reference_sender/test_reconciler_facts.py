"""What the reconciler asks and tells, fact by fact: who looks into a log at night has nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from reference_sender.life import Docket, State
from reference_sender.policy.decision import Decision
from reference_sender.policy.lookup import Found, LookedUp, Unavailable
from reference_sender.policy.routes import Mine
from reference_sender.policy.settings import Policy
from reference_sender.reconciler import Reconciled, Reconciler
from tests.reference_sender.samples import NOW, docket, settings

TRACE = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
ROWS = [
    docket(id=number, state=State.UNKNOWN, if_not_sent=State.PENDING, provider_id="m0", traceparent=TRACE)
    for number in (1, 2)
]
MINE = Mine(provider="main", providers=("main", "spare"))


class Books:
    """A store with one lost row and two in doubt, or one that is away."""

    def __init__(self, away: Exception | None = None) -> None:
        self.away = away
        self.asked: list[tuple[datetime, object]] = []
        self.for_whom: list[Mine | None] = []
        self.bad_row: int | None = None
        self.told: dict[int, str] = {}
        self.decisions: list[Decision] = []
        self.lost, self.rows = [7], ROWS
        self.questions: list[tuple[datetime, bool, Mine | None]] = []
        """Who asked whether there is anything to do."""
        self.has_some = False

    def has_doubts(self, *, now: datetime, dedupes: bool, mine: Mine | None = None) -> bool:
        self.questions.append((now, dedupes, mine))
        return self.has_some

    def park_lost(self, *, now: datetime, dedupes: bool, mine: Mine | None = None) -> list[int]:
        self.asked.append((now, dedupes))
        self.for_whom.append(mine)
        if self.away is not None:
            raise self.away
        return self.lost

    def doubtful(self, *, now: datetime, limit: int, mine: Mine | None = None) -> list[Docket]:
        self.for_whom.append(mine)
        return self.rows

    def late_acceptance(self, docket: Docket) -> str | None:
        return None

    def told_of(self, docket: Docket) -> str | None:
        return self.told.get(docket.id)

    def resolve(self, docket: Docket, decision: Decision, *, now: datetime) -> bool:
        if docket.id == self.bad_row:
            raise ValueError("no such state")
        self.decisions.append(decision)
        return True


class Provider:
    """A look-up that finds everything and remembers what it was asked about."""

    def __init__(self) -> None:
        self.asked: list[Docket] = []

    async def find(self, docket: Docket) -> LookedUp:
        self.asked.append(docket)
        return Found(provider_id=f"m{docket.id}")


class OneRest:
    """A clock that stands still, and ends the work with the first rest."""

    def __init__(self, stop: asyncio.Event) -> None:
        self._stop = stop
        self.rests: list[float] = []

    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("it has no reason to")

    def alarm(self, seconds: float, call: Callable[[], object]) -> asyncio.Handle:
        self.rests.append(seconds)
        self._stop.set()
        return asyncio.get_running_loop().call_soon(call)


def run(
    books: Books, policy: Policy = Policy.AT_MOST_ONCE, provider: Provider | None = None
) -> tuple[list[Any], Provider, OneRest]:
    """Let a reconciler work until its first rest; what it logged, whom it asked, how long it rests."""
    said: list[Any] = []
    provider = provider or Provider()

    async def story() -> OneRest:
        stop = asyncio.Event()
        clock = OneRest(stop)
        reconciler = Reconciler(
            store=books,
            settings=settings(policy, reconcile_s=15.0),
            clock=clock,
            lookup=provider,
            log=lambda event, /, **facts: said.append((event, facts)),
        )
        await reconciler.run(stop)
        return clock

    return said, provider, asyncio.run(story())


def test_it_tells_of_each_row_what_became_of_it() -> None:
    said, _, _ = run(Books())

    found = {
        "key": "order-1",
        "message_id": ROWS[0].message_id,
        "state": "accepted",
        "reason": "the look-up found it",
        "traceparent": ROWS[0].traceparent,
    }
    assert said == [
        ("parked", {"id": 7, "state": "unknown"}),
        ("reconciled", {"id": 1, "provider_id": "m1", **found}),
        ("reconciled", {"id": 2, "provider_id": "m2", **found}),
    ]


def test_it_asks_about_the_very_row() -> None:
    _, provider, _ = run(Books())

    assert provider.asked == ROWS


@pytest.mark.parametrize("policy", list(Policy))
def test_it_says_to_the_store_whether_the_provider_dedupes(policy: Policy) -> None:
    books = Books()
    run(books, policy)

    assert books.asked == [(NOW, policy is Policy.RESEND_SAME_KEY)]


def test_who_has_found_nothing_only_asks_until_there_is_something() -> None:
    books = Books()
    reconciler = Reconciler(store=books, settings=settings(), clock=OneRest(asyncio.Event()), mine=MINE)

    async def passes(*, asks: int, looks: int) -> None:
        before = len(books.questions), len(books.asked)
        done = await reconciler.run_once()
        assert looks or done == Reconciled(parked=0, looked_at=0, resolved=0)
        assert (len(books.questions), len(books.asked)) == (before[0] + asks, before[1] + looks)

    async def story() -> None:
        await passes(asks=0, looks=1)  # it does not know yet
        books.lost, books.rows = [], []
        await passes(asks=0, looks=1)  # there was something the last time
        await passes(asks=1, looks=0)
        books.has_some = True
        await passes(asks=1, looks=1)
        books.lost = [7]
        await passes(asks=1, looks=1)
        await passes(asks=0, looks=1)

    asyncio.run(story())
    assert set(books.questions) == {(NOW, True, MINE)}


def test_who_rests_is_woken_by_the_end() -> None:
    class Asleep(OneRest):
        def alarm(self, seconds: float, call: Callable[[], object]) -> asyncio.Handle:
            resting.set()
            return asyncio.get_running_loop().call_later(3_600, call)

    resting = asyncio.Event()

    async def story() -> None:
        stop = asyncio.Event()
        reconciler = Reconciler(store=Books(), settings=settings(), clock=Asleep(stop), lookup=Provider())
        running = asyncio.create_task(reconciler.run(stop))
        await resting.wait()
        stop.set()
        await asyncio.wait_for(running, 5)

    asyncio.run(story())


def test_it_rests_as_long_as_it_is_told() -> None:
    _, _, clock = run(Books())

    assert clock.rests == [15.0]


@pytest.mark.parametrize(("found", "passes"), [((), 1), ((1,), 2), ((1, 2), 2)])
def test_a_full_pass_is_no_reason_to_rest_if_it_settled_one(
    found: tuple[int, ...], passes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it settled none, the same rows would come again at once."""
    monkeypatch.setattr("reference_sender.reconciler._AT_ONCE", 2)

    class Emptied(Books):
        def doubtful(self, *, now: datetime, limit: int, mine: Mine | None = None) -> list[Docket]:
            rows, self.rows = self.rows, []
            return rows

    class Some(Provider):
        async def find(self, docket: Docket) -> LookedUp:
            seen = await super().find(docket)
            return seen if docket.id in found else Unavailable(reason="the look-up answers 503")

    books = Emptied()
    _, _, clock = run(books, provider=Some())

    assert (len(books.asked), clock.rests) == (passes, [15.0])


def test_a_store_that_is_away_is_told_by_the_name_of_the_error() -> None:
    said, _, clock = run(Books(away=OSError("gone")))

    assert [(event, facts["error"]) for event, facts in said] == [("reconcile_failed", "OSError")]
    assert clock.rests == [15.0]


def test_it_counts_every_row_it_settled() -> None:
    async def story() -> Reconciled:
        clock = OneRest(asyncio.Event())
        return await Reconciler(store=Books(), settings=settings(), clock=clock, lookup=Provider()).run_once()

    assert asyncio.run(story()) == Reconciled(parked=1, looked_at=2, resolved=2)


def test_a_row_that_makes_trouble_is_told_by_its_number_and_holds_up_no_other() -> None:
    books = Books()
    books.bad_row = 1
    said, _, _ = run(books)

    trouble = {"id": 1, "error": "ValueError", "cause": "no such state"}
    assert said[2] == ("reconcile_failed", trouble)
    assert [facts["id"] for event, facts in said if event == "reconciled"] == [2]


def test_what_an_event_proves_keeps_the_name_that_the_row_has_unless_it_tells_another() -> None:
    books = Books()
    books.told = {1: "", 2: "m9"}
    _, provider, _ = run(books)

    assert provider.asked == []
    assert [decision.provider_id for decision in books.decisions] == ["m0", "m9"]


def test_it_asks_for_the_doubts_of_its_provider_and_keeps_time_before() -> None:
    books = Books()
    asked_before: list[int] = []

    async def keep_time() -> None:
        asked_before.append(len(books.for_whom))

    async def story() -> None:
        clock = OneRest(asyncio.Event())
        reconciler = Reconciler(
            store=books, settings=settings(), clock=clock, mine=MINE, keep_time=keep_time, lookup=Provider()
        )
        await reconciler.run_once()

    asyncio.run(story())
    assert asked_before == [0]
    assert books.for_whom == [MINE, MINE]
