"""What the queries of the outbox have in common."""

from __future__ import annotations

from dataclasses import fields

import pytest
from sqlalchemy import Select

from reference_sender.life import Docket, Parcel, State
from reference_sender.outbox.claims import _TO_CLAIM
from reference_sender.outbox.doubts import _doubtful_of, _looks
from reference_sender.outbox.rows import _NAMES, in_state
from reference_sender.outbox.strays import to_look_for
from reference_sender.policy.routes import Mine
from tests.reference_sender.outbox.benches import SqlBench
from tests.reference_sender.samples import NOW


def test_the_planner_can_see_the_state() -> None:
    """A partial index is used only if the condition is written out, not if it is a parameter."""
    assert str(in_state(State.PENDING)) == "outgoing_email.state = 'pending'"


_MINE = Mine(provider="a", providers=("a", "b"))
_LOOKS = [_looks(mine, to_look_for(mine, pending=True), dedupes=True) for mine in (None, _MINE)]


@pytest.mark.parametrize(
    "query", [*_TO_CLAIM.values(), _doubtful_of(_MINE), *(look[0] for look in _LOOKS if look is not None)]
)
def test_what_an_idle_sender_asks_is_spelled_once(query: Select[tuple[bool]]) -> None:
    """A list of values is put into the statement's text at every poll, which takes longer than the answer."""
    assert "POSTCOMPILE" not in str(query)


def test_a_parcel_that_is_set_field_by_field_is_one(outbox: SqlBench) -> None:
    outbox.put(expires_at=NOW, priority=7)
    (claimed,) = outbox.claim()
    (row,) = outbox.store.find(ids=[claimed.id])
    facts = {each.name: getattr(row, each.name) for each in fields(Docket)}
    assert claimed == Parcel(**facts, raw=bytes(outbox.row().raw))
    assert {each.name for each in fields(Parcel)} == {*_NAMES, "bar", "raw"}
