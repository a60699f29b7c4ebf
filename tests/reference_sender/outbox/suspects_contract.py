"""What an outbox does about rows that are lost with their worker again and again: one suite, to be run on each of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from reference_sender.life import Parcel, State
from reference_sender.policy.decision import Decision, Doubt, before_sending
from reference_sender.policy.gate import Gate, GateRules
from reference_sender.policy.suspects import LOST_TOGETHER, Suspects
from tests.reference_sender.samples import NOW, settings

LEASE_S = 60.0
YES = Decision(state=State.ACCEPTED, reason="accepted", provider_id="m1")


class Hands:
    """A worker's hands, by the moment, with a gate or without one."""

    def __init__(self, outbox: Any, gate: Gate | None) -> None:
        self.outbox, self.gate = outbox, gate
        self.at_s = 0.0
        self.told = Suspects()

    @property
    def now(self) -> Any:
        return NOW + timedelta(seconds=self.at_s)

    def claim(self, *, limit: int = 9, dedupes: bool = True, **told: bool) -> list[Parcel]:
        self.told = Suspects(**told)
        found: list[Parcel] = self.outbox.store.claim(
            now=self.now,
            limit=limit,
            lease_s=LEASE_S,
            dedupes=dedupes,
            gate=self.gate,
            suspects=self.told,
        )
        return found

    def keys(self, **more: Any) -> list[str]:
        return [each.key for each in self.claim(**more)]

    def die(self) -> None:
        """What is in somebody's hands is lost: its lease runs out."""
        self.at_s += LEASE_S + 1

    def lose(self, *keys: str, times: int = LOST_TOGETHER) -> None:
        """Put these in and lose them together so often."""
        for key in keys:
            self.outbox.put(key)
        for _ in range(times):
            assert sorted(self.keys()) == sorted(keys)
            self.die()


class SuspectsContract:
    """A subclass brings the fixture `outbox`."""

    @pytest.fixture(params=[None, "main"], ids=["no gate", "a gate"])
    def hands(self, request: pytest.FixtureRequest, outbox: Any) -> Hands:
        gate = None if request.param is None else Gate(GateRules(provider=request.param))
        return Hands(outbox, gate)

    def test_what_was_lost_once_goes_with_others(self, hands: Hands) -> None:
        hands.lose("a", "b", times=LOST_TOGETHER - 1)
        hands.outbox.put("c")
        assert hands.keys() == ["a", "b", "c"]
        assert (hands.told.taken, hands.told.waits) == (False, False)
        assert [hands.outbox.row(number).losses for number in (1, 2, 3)] == [1, 1, None]

    def test_what_was_lost_again_goes_alone(self, hands: Hands) -> None:
        hands.lose("a", "b")
        hands.outbox.put("c")
        assert hands.keys() == ["a"]
        assert (hands.told.taken, hands.told.waits) == (True, False)
        assert hands.outbox.row(1).losses == LOST_TOGETHER
        assert hands.keys() == ["b"]
        assert hands.keys() == ["c"]
        assert hands.told.taken is False
        assert [each.reason for each in hands.outbox.attempts()] == ["lease ran out"] * 4

    def test_whoever_has_something_in_hand_takes_none_and_is_told_that_it_waits(self, hands: Hands) -> None:
        hands.lose("a")
        hands.outbox.put("b")
        busy = {"may_take": False, "first": False}
        assert hands.keys(**busy) == ["b"]
        assert (hands.told.taken, hands.told.waits) == (False, True)
        assert hands.keys(**busy) == []
        assert hands.told.waits
        assert (hands.outbox.row(1).token, hands.outbox.row(1).state) == (LOST_TOGETHER, State.SENDING)
        assert hands.keys(may_take=True, first=True) == ["a"]
        assert hands.keys(**busy) == []
        assert not hands.told.waits

    def test_what_is_lost_beside_a_suspect_is_not_counted_for_it(self, hands: Hands) -> None:
        """However often: it came when the suspect had been out for a while, and that one has a record."""
        beside = {"may_take": False, "first": False, "beside": True}
        hands.lose("suspect")
        for key in ("new", "lost once"):
            hands.outbox.put(key)
        assert hands.keys(may_take=True, first=False) == ["new", "lost once"]
        hands.outbox.edit(2, state=State.PENDING, lease_until=None, losses=None)
        for times in range(1, 4):
            hands.die()
            assert hands.keys(may_take=True, first=True) == ["suspect"]
            parcels = hands.claim(**beside)
            assert sorted(each.key for each in parcels) == ["lost once", "new"]
            assert (hands.told.taken, hands.told.waits) == (False, False)
            assert hands.outbox.row(1).losses == LOST_TOGETHER + times - 1
            assert {each.key: each.losses for each in parcels} == {"new": -1, "lost once": 0}
        hands.die()
        parcels = hands.claim(may_take=False, first=False)
        assert {each.key: each.losses for each in parcels} == {"new": 0, "lost once": 1}
        ends = [before_sending(each, settings(max_attempts=1), hands.now) for each in parcels]
        assert ends == [None, None], "what it lost so cost it no attempt for good"
        hands.die()
        assert hands.keys(may_take=False, first=False) == ["new"], "now it is counted as any other"
        assert hands.outbox.row(2).losses == 1

    def test_an_end_forgets_also_what_was_not_counted(self, hands: Hands) -> None:
        hands.outbox.put("a")
        (parcel,) = hands.claim(may_take=False, first=False, beside=True)
        later = Decision(state=State.PENDING, reason="later", next_attempt_at=hands.now)
        assert hands.outbox.store.settle(parcel, later, now=hands.now)
        assert hands.outbox.row(1).losses is None

    def test_others_go_first_unless_it_is_its_turn(self, hands: Hands) -> None:
        hands.lose("a")
        hands.outbox.put("b")
        assert hands.keys(may_take=True, first=False) == ["b"]
        assert (hands.told.taken, hands.told.waits) == (False, True)
        assert hands.keys(may_take=True, first=False) == ["a"], "there is nothing else"
        assert (hands.told.taken, hands.told.waits) == (True, False)

    def test_where_there_is_no_room_none_waits(self, hands: Hands) -> None:
        hands.lose("a")
        assert hands.keys(limit=0, may_take=False, first=False) == []
        assert not hands.told.waits

    def test_whose_attempt_came_to_an_end_is_none_any_more(self, hands: Hands) -> None:
        hands.lose("a", "b")
        later = Decision(state=State.PENDING, reason="later", next_attempt_at=hands.now)
        for _ in range(2):
            (parcel,) = hands.claim()
            assert parcel.losses == LOST_TOGETHER
            assert hands.outbox.store.settle(parcel, later, now=hands.now)
            assert hands.outbox.row(parcel.id).losses is None
        assert sorted(hands.keys()) == ["a", "b"]

    def test_what_was_parked_and_is_repeated_goes_alone(self, hands: Hands) -> None:
        """At least once, without keys: lost behind the point of no return."""
        store = hands.outbox.store
        for key in ("a", "b"):
            hands.outbox.put(key)
        for _ in range(LOST_TOGETHER):
            parcels = hands.claim(dedupes=False)
            assert len(parcels) == 2
            for parcel in parcels:
                assert store.mark(parcel, now=hands.now)
            hands.die()
            assert len(store.park_lost(now=hands.now, dedupes=False)) == 2
            for docket in store.doubtful(now=hands.now, limit=9):
                again = Decision(
                    state=State.PENDING, reason="repeated", next_attempt_at=hands.now, doubt=Doubt.KEEP
                )
                assert store.resolve(docket, again, now=hands.now)
        hands.outbox.put("c")
        assert hands.keys(dedupes=False, may_take=False, first=False) == ["c"]
        assert hands.told.waits
        assert [hands.keys(dedupes=False) for _ in range(3)] == [["a"], ["b"], []]

    def test_without_keys_what_is_in_doubt_is_no_claims(self, hands: Hands) -> None:
        hands.lose("a")
        assert hands.keys(dedupes=False, may_take=False, first=False) == []
        assert not hands.told.waits

    def test_a_person_who_puts_one_back_lets_it_begin_afresh(self, hands: Hands) -> None:
        store = hands.outbox.store
        hands.lose("a")
        hands.outbox.edit(1, state=State.DEAD)
        (docket,) = store.find(key="a")
        back = Decision(state=State.PENDING, reason="by hand", next_attempt_at=hands.now)
        assert store.requeue(docket, back, now=hands.now)
        hands.outbox.put("b")
        assert sorted(hands.keys()) == ["a", "b"]

    @pytest.mark.parametrize("most", [1, 3, 12])
    def test_a_mail_that_kills_its_workers_ends_by_itself(self, hands: Hands, most: int) -> None:
        """Whatever was in their hands with it is sent; and nothing waits for long."""
        for number in range(5):
            hands.outbox.put(str(number))
        deaths, turn = 0, False
        while hands.outbox.row(3).state is State.SENDING or not deaths:
            parcels = hands.claim(may_take=True, first=turn)
            turn = hands.told.waits
            ends = [before_sending(parcel, settings(max_attempts=most), hands.now) for parcel in parcels]
            if any(parcel.id == 3 and end is None for parcel, end in zip(parcels, ends, strict=True)):
                deaths += 1
                hands.die()
                continue
            for parcel, end in zip(parcels, ends, strict=True):
                assert hands.outbox.store.settle(parcel, end or YES, now=hands.now)
            if not parcels:
                hands.die()
        rows = [hands.outbox.row(number) for number in range(1, 6)]
        assert [row.state for row in rows if row.id != 3] == [State.ACCEPTED] * 4
        assert (rows[2].state, rows[2].if_not_sent) == (State.UNKNOWN, State.DEAD)
        assert deaths == max(most, LOST_TOGETHER + 1)
