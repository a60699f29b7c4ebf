"""What an outbox does about rows that nobody takes: one suite of behaviour, to be run on each of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from reference_sender.life import State
from reference_sender.outbox.strays import LOOK_S, NEVER
from reference_sender.policy.decision import Decision, Doubt
from reference_sender.policy.gate import Gate, GateRules
from reference_sender.policy.routes import Mine
from tests.reference_sender.samples import NOW

TWO = ("main", "spare")
MAIN = Mine(provider="main", providers=TWO)
SPARE = Mine(provider="spare", providers=TWO)


def in_doubt(outbox: Any, key: str, provider: str) -> Any:
    """Put a mail in, and let an attempt of it at a provider end in doubt, to be repeated at once; its number."""
    (row_id,) = outbox.put(key)
    gate = Gate(GateRules(provider=provider, providers=(provider,)))
    (parcel,) = outbox.store.claim(now=NOW, limit=1, lease_s=60.0, dedupes=True, gate=gate)
    again = Decision(state=State.PENDING, reason="silence", next_attempt_at=NOW, doubt=Doubt.NEW)
    assert outbox.store.settle(parcel, again, now=NOW)
    return row_id


LATER_THAN_ALL = NEVER + timedelta(microseconds=1)


class StraysContract:
    """A subclass brings the fixture `outbox`, whose bench can `edit` a row by hand."""

    @pytest.mark.parametrize("mine", [None, MAIN], ids=["alone", "first of two"])
    @pytest.mark.parametrize("dedupes", [True, False])
    @pytest.mark.parametrize(
        ("edited", "sentence"),
        [
            ({"state": State.SENDING, "next_attempt_at": None}, "`sending` without a lease"),
            ({"state": State.SENDING, "lease_until": LATER_THAN_ALL}, "`sending` without a lease that ends"),
            ({"next_attempt_at": None}, "`pending` without a next attempt"),
            ({"next_attempt_at": LATER_THAN_ALL}, "`pending` without a next attempt that comes"),
            (
                {"next_attempt_at": None, "hold_until": LATER_THAN_ALL},
                "waited for other mail, without an end",
            ),
            (
                {"state": State.UNKNOWN, "next_attempt_at": LATER_THAN_ALL},
                "`unknown` without a next look that comes",
            ),
        ],
    )
    def test_a_row_edited_into_a_state_that_there_is_not_is_parked_and_the_others_flow(
        self, outbox: Any, edited: dict[str, Any], sentence: str, dedupes: bool, mine: Mine | None
    ) -> None:
        for number in range(3):
            outbox.put(f"order-{number}")
        outbox.edit(2, **edited)
        assert not outbox.store.has_doubts(now=NOW, dedupes=dedupes, mine=SPARE)
        assert outbox.store.park_lost(now=NOW, dedupes=dedupes, mine=SPARE) == [], "one looks for all"
        assert outbox.store.has_doubts(now=NOW, dedupes=dedupes, mine=mine)
        assert outbox.store.park_lost(now=NOW, dedupes=dedupes, mine=mine) == [2]
        assert outbox.store.has_doubts(now=NOW, dedupes=dedupes, mine=mine), "it waits for a look"
        assert outbox.store.park_lost(now=NOW, dedupes=dedupes, mine=mine) == []
        row = outbox.row(2)
        assert (row.state, row.if_not_sent, row.doubted_at) == (State.UNKNOWN, State.DEAD, NOW)
        assert (row.token, row.lease_until, row.in_doubt) == (1, None, False)
        assert sentence in row.last_error
        assert row.last_error.endswith("the row was edited by hand")
        assert [(each.email_id, each.reason) for each in outbox.attempts()] == [(2, row.last_error)]
        assert [parcel.key for parcel in outbox.claim()] == ["order-0", "order-2"]
        # A reconciler finds it, and a person.
        assert [docket.id for docket in outbox.store.doubtful(now=NOW, limit=9, mine=mine)] == [2]

    def test_who_still_sends_a_row_whose_lease_was_taken_by_hand_is_fenced_out(self, outbox: Any) -> None:
        outbox.put()
        (parcel,) = outbox.claim(dedupes=False)
        outbox.edit(1, lease_until=None)
        assert outbox.store.park_lost(now=NOW, dedupes=False, mine=MAIN) == [1]
        assert not outbox.store.mark(parcel, now=NOW)

    def test_what_waits_for_other_mail_is_no_stray(self, outbox: Any) -> None:
        outbox.put("welcome", depends_on="verification")
        outbox.put("first", ordering_key="user-7")
        outbox.put("second", ordering_key="user-7")
        outbox.claim()
        assert outbox.store.park_lost(now=NOW, dedupes=True, mine=MAIN) == []

    def test_pending_rows_are_gone_through_once_in_a_while(self, outbox: Any) -> None:
        outbox.put()
        assert not outbox.store.has_doubts(now=NOW, dedupes=True, mine=MAIN)
        outbox.edit(1, next_attempt_at=None)
        soon, later = (NOW + timedelta(seconds=s) for s in (LOOK_S - 1, LOOK_S))
        assert outbox.store.park_lost(now=soon, dedupes=True, mine=MAIN) == []
        assert outbox.store.has_doubts(now=later, dedupes=True, mine=MAIN)
        assert outbox.store.park_lost(now=later, dedupes=True, mine=MAIN) == [1]

    @pytest.mark.parametrize("dedupes", [True, False])
    def test_pending_mail_in_doubt_at_a_provider_that_is_gone_is_parked(
        self, outbox: Any, dedupes: bool
    ) -> None:
        """It would wait for ever: a doubt never goes elsewhere. If the provider comes back, it is asked."""
        for number, provider in enumerate((*TWO, "sold"), start=1):
            assert in_doubt(outbox, f"order-{number}", provider) == number
        outbox.put("order-4")
        assert outbox.store.park_lost(now=NOW, dedupes=dedupes, mine=SPARE) == []
        assert outbox.store.park_lost(now=NOW, dedupes=dedupes, mine=MAIN) == [3]
        row = outbox.row(3)
        assert (row.state, row.if_not_sent, row.doubted_at) == (State.UNKNOWN, State.PENDING, NOW)
        assert "a provider that is not configured any more" in row.last_error
        assert row.provider == "sold"
        assert [outbox.row(number).state for number in (1, 2, 4)] == [State.PENDING] * 3
        assert [docket.id for docket in outbox.store.doubtful(now=NOW, limit=9, mine=MAIN)] == []
        sold = Mine(provider="sold", providers=("sold",))
        assert [docket.id for docket in outbox.store.doubtful(now=NOW, limit=9, mine=sold)] == [3]

    def test_so_is_one_that_was_taken_up_again_and_lost_before_its_marker(self, outbox: Any) -> None:
        in_doubt(outbox, "order-1", "sold")
        gate = Gate(GateRules(provider="sold", providers=("sold",)))
        assert outbox.store.claim(now=NOW, limit=1, lease_s=60.0, dedupes=False, gate=gate)
        late = NOW + timedelta(seconds=61)
        assert outbox.store.park_lost(now=NOW + timedelta(seconds=60), dedupes=False, mine=MAIN) == []
        assert outbox.store.park_lost(now=late, dedupes=False, mine=MAIN) == [1]
        assert (outbox.row().state, outbox.row().doubted_at) == (State.UNKNOWN, NOW)
