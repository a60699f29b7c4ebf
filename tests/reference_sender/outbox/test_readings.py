"""However long the history, claim, settlement and the reconciler's look make the database read as much as without one.

Counted by the database itself, not by the clock. The plans are asked for in `test_plans`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
from sqlalchemy import text

from reference_sender.life import Parcel, State
from reference_sender.outbox.engine import open_engine
from reference_sender.outbox.store import Store
from reference_sender.policy.decision import Decision, Ended
from reference_sender.policy.gate import Gate, GateRules
from reference_sender.policy.routes import Mine
from tests.benchmarks.senders import filling
from tests.reference_sender.outbox.benches import SqlBench
from tests.reference_sender.outbox.databases import KINDS, database
from tests.reference_sender.outbox.plans import analyse
from tests.reference_sender.outbox.readings import Counts, leave_alone, reading
from tests.reference_sender.samples import NOW

#: Finished rows. Not none in the first: in an empty table the trees of the indexes are only a root, and each level is a page
#: more for every row that is looked up or changed.
FEW, MANY = 1_000, 20_000
_ROUNDS = 15
_ROWS = 5
#: So much more may be read beside a history. The first look goes through all that is due, and a planner may do so twice.
_MOST = {"claim": 1.2, "settle": 1.2, "look": 1.2, "first look": 2.2}
_LATER = NOW.replace(year=NOW.year + 10)
_MINE = Mine(provider="main", providers=("main",))


@pytest.fixture(scope="module", params=KINDS)
def outboxes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Store, Store]]:
    """One with few and one with many finished rows; in each the same mails are due. Made once: it takes seconds."""
    tmp_path = tmp_path_factory.mktemp(request.param)
    with ExitStack() as stack:
        stores = []
        for history in (FEW, MANY):
            folder = tmp_path / str(history)
            folder.mkdir()
            url = stack.enter_context(database(request.param, folder))
            store = Store(open_engine(url))
            stack.callback(store.engine.dispose)
            store.create()
            leave_alone(store.engine, "outgoing_email", "email_attempt")
            filling.finished(url, history)
            filling.waiting(url, 3 * _ROUNDS * _ROWS)
            stores.append(store)
        yield stores[0], stores[1]


def _claim(store: Store) -> list[Parcel]:
    parcels = store.claim(now=_LATER, limit=_ROWS, lease_s=60, dedupes=True, gate=Gate(GateRules()))
    assert len(parcels) == _ROWS
    return parcels


def _settle(store: Store, parcels: list[Parcel]) -> None:
    accepted = Decision(state=State.ACCEPTED, reason="accepted", provider_id="p-1")
    ended = [Ended(docket=parcel, decision=accepted, evidence=None, started_at=None) for parcel in parcels]
    assert all(store.settle_all(ended, now=_LATER))


def _look(store: Store) -> None:
    assert not store.has_doubts(now=_LATER, dedupes=False, mine=_MINE)
    assert store.park_lost(now=_LATER, dedupes=False, mine=_MINE) == []
    assert store.doubtful(now=_LATER, limit=10, mine=_MINE) == []


def _read(store: Store) -> dict[str, Counts]:
    """What was read by each of them, over all rounds: the first ones are planned otherwise than the later."""
    sums: dict[str, Counter[str]] = {name: Counter() for name in _MOST}
    sums["first look"].update(reading(store.engine, partial(_look, store))[1])
    for _ in range(_ROUNDS):
        parcels, counts = reading(store.engine, partial(_claim, store))
        sums["claim"].update(counts)
        sums["settle"].update(reading(store.engine, partial(_settle, store, parcels))[1])
        sums["look"].update(reading(store.engine, partial(_look, store))[1])
    if store.engine.dialect.name == "mysql":
        for counter in sums.values():
            del counter["pages"]  # of the whole server, and others are about
    return {name: dict(counter) for name, counter in sums.items()}


# In this order, because an outbox that was analysed stays so, and the last test takes its indexes away.
@pytest.mark.parametrize("counted", [False, True], ids=["never analysed", "analysed"])
def test_a_history_is_not_read(outboxes: tuple[Store, Store], counted: bool) -> None:
    for store in outboxes:
        if counted:
            with store.engine.begin() as connection:
                analyse(connection, "outgoing_email", "email_attempt")
    few, many = (_read(store) for store in outboxes)
    assert few["claim"], "nothing was counted"
    assert all(few["claim"].values())
    too_much = {
        (act, what): (count, many[act][what])
        for act, counts in few.items()
        for what, count in counts.items()
        if many[act][what] > _MOST[act] * count
    }
    assert too_much == {}


def test_a_claim_without_its_index_is_seen_to_read_the_history(outboxes: tuple[Store, Store]) -> None:
    for store in outboxes:
        on = " ON outgoing_email" if store.engine.dialect.name == "mysql" else ""
        with store.engine.begin() as connection:
            for name in ("next", "lease", "doubt"):
                connection.execute(text(f"DROP INDEX outgoing_email_{name}{on}"))
    few, many = (reading(store.engine, partial(_claim, store))[1] for store in outboxes)
    assert all(many[what] > 1.2 * count for what, count in few.items() if what != "pages")


@pytest.mark.parametrize("own", ["postgresql"], indirect=True)
def test_a_vacuum_clears_up_behind_claims_however_long_the_history(own: SqlBench) -> None:
    """By itself PostgreSQL leaves the indexes as they are where less than one page in fifty has something dead on it."""
    store = own.store
    filling.finished(store.engine.url.render_as_string(hide_password=False), MANY)
    own.put()
    own.claim()
    said: list[str] = []
    with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        driver: Any = connection.connection.driver_connection
        driver.add_notice_handler(lambda notice: said.append(str(notice.message_primary)))
        connection.execute(text("VACUUM (VERBOSE) outgoing_email"))
    assert "outgoing_email" in str(said)
    assert "bypassed" not in str(said)
