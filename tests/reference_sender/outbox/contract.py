"""What every outbox must do, whatever it stands on: one suite of behaviour, to be run on each of them."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from reference_sender.life import Parcel, State
from reference_sender.message import InvalidMail, Mail
from reference_sender.outbox.store import Enqueued, Store
from reference_sender.policy.decision import Decision, Doubt, Ended
from reference_sender.policy.evidence import Evidence, Phase, Wire
from tests.reference_sender.samples import MAIL, NOW

ACCEPTED = Decision(state=State.ACCEPTED, reason="accepted", provider_id="m1")
ANSWER = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=200, answer='{"id": "m1"}')
LATER = Decision(state=State.PENDING, reason="later", next_attempt_at=NOW + timedelta(seconds=5))
UNKNOWN = Decision(
    state=State.UNKNOWN,
    reason="silence",
    next_attempt_at=NOW,
    doubt=Doubt.NEW,
    if_not_sent=State.PENDING,
)


class Bench(ABC):
    """An outbox and the ways into it that are not the worker's: the application's transaction, and a look inside."""

    def __init__(self, store: Store) -> None:
        self.store = store

    @abstractmethod
    def begin(self) -> AbstractContextManager[Any]:
        """Begin a transaction: committed at the end, rolled back by an exception."""

    @abstractmethod
    def enqueue(self, transaction: Any, mail: Mail, **more: Any) -> Enqueued:
        """Put a mail into the outbox, inside a transaction."""

    @abstractmethod
    def row(self, row_id: int = 1) -> Any:
        """A row with its columns as attributes."""

    @abstractmethod
    def edit(self, row_id: int, **columns: Any) -> None:
        """Set columns of a row by hand, as somebody with a database client does."""

    @abstractmethod
    def attempts(self) -> list[Any]:
        """The record of attempts, oldest first, with their columns as attributes."""

    def put(self, key: str = "order-1", mail: Mail = MAIL, **more: Any) -> tuple[int, ...]:
        with self.begin() as transaction:
            return self.enqueue(transaction, mail, key=key, now=NOW, **more).ids

    def claim(self, at_s: float = 0.0, limit: int = 10, *, dedupes: bool = True) -> list[Parcel]:
        return self.store.claim(now=NOW + timedelta(seconds=at_s), limit=limit, lease_s=60.0, dedupes=dedupes)


def parked(outbox: Bench) -> Any:
    outbox.put()
    (parcel,) = outbox.claim(dedupes=False)
    outbox.store.mark(parcel, now=NOW)
    outbox.store.settle(parcel, UNKNOWN, now=NOW)
    (docket,) = outbox.store.doubtful(now=NOW, limit=10)
    return docket


class Contract:
    """Every test is a promise of the outbox. A subclass brings the fixture `outbox`."""

    # -- enqueue --------------------------------------------------------------------------------------------------

    def test_a_mail_is_there_after_the_commit(self, outbox: Bench) -> None:
        (row_id,) = outbox.put()
        stored = outbox.row(row_id)
        assert (stored.state, stored.attempts, stored.in_doubt) == (State.PENDING, 0, False)
        assert stored.message_id.encode() in stored.raw
        assert NOW == stored.created_at == stored.next_attempt_at

    def test_a_rollback_leaves_nothing(self, outbox: Bench) -> None:
        def change_ones_mind() -> None:
            with outbox.begin() as transaction:
                outbox.enqueue(transaction, MAIL, key="order-1", now=NOW)
                raise LookupError("the order is not to be")

        with pytest.raises(LookupError):
            change_ones_mind()
        assert outbox.store.standings() == []

    def test_the_same_key_again_is_the_same_mail(self, outbox: Bench) -> None:
        with outbox.begin() as transaction:
            first = outbox.enqueue(transaction, MAIL, key="order-1", now=NOW)
        with outbox.begin() as transaction:
            second = outbox.enqueue(transaction, MAIL, key="order-1", now=NOW + timedelta(days=1))
        assert (first.created, second.created) == (True, False)
        assert replace(first, created=False) == second
        assert len(outbox.store.standings()) == 1

    def test_the_same_key_twice_in_one_transaction_is_one_mail(self, outbox: Bench) -> None:
        with outbox.begin() as transaction:
            created = [outbox.enqueue(transaction, MAIL, key="order-1", now=NOW).created for _ in range(2)]
        assert created == [True, False]

    def test_two_events_with_equal_content_are_two_mails(self, outbox: Bench) -> None:
        assert outbox.put("order-1") != outbox.put("order-2")

    def test_what_a_mail_was_rendered_from_is_kept(self, outbox: Bench) -> None:
        (row_id,) = outbox.put(template="order", parameters={"number": 7, "name": "Ann"})
        row = outbox.row(row_id)
        assert (row.template, row.parameters) == ("order", '{"name": "Ann", "number": 7}')

    def test_keys_are_compared_letter_by_letter(self, outbox: Bench) -> None:
        ids = {outbox.put(key) for key in ("order-1", "Order-1", "örder-1", "order-1 ")}
        assert len(ids) == 4
        for key in ("order-1", "Order-1", "örder-1", "order-1 "):
            assert [each.key for each in outbox.store.find(key=key)] == [key]

    def test_a_new_recipient_of_a_known_event_is_a_new_row(self, outbox: Bench) -> None:
        outbox.put()
        with outbox.begin() as transaction:
            mail = replace(MAIL, recipients=("ann@example.com", "bob@example.com"))
            assert outbox.enqueue(transaction, mail, key="order-1", now=NOW).created
        assert [s.recipient for s in outbox.store.standings()] == ["ann@example.com", "bob@example.com"]

    def test_two_transactions_with_the_same_key_at_once_make_one_mail(self, outbox: Bench) -> None:
        began = threading.Barrier(2)
        made: list[bool] = []

        def transact() -> None:
            began.wait()
            with outbox.begin() as transaction:
                made.append(outbox.enqueue(transaction, MAIL, key="order-1", now=NOW).created)

        threads = [threading.Thread(target=transact) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(made) == [False, True]

    @pytest.mark.parametrize("key", ["", "x" * 256, "a\x00b"])
    def test_a_key_that_names_nothing_is_refused(self, outbox: Bench, key: str) -> None:
        with pytest.raises(ValueError, match="event key"):
            outbox.put(key)

    def test_a_bad_mail_never_reaches_the_database(self, outbox: Bench) -> None:
        with pytest.raises(InvalidMail):
            outbox.put(mail=replace(MAIL, subject="a\nb"))
        with pytest.raises(InvalidMail, match="the name of the template has 256 characters"):
            outbox.put(template="x" * 256)

    def test_big_mails_come_back_byte_for_byte(self, outbox: Bench) -> None:
        outbox.put(mail=replace(MAIL, text="ä" * 3_000_000))
        (parcel,) = outbox.claim()
        assert parcel.raw == outbox.row().raw
        assert len(parcel.raw) > 3_000_000

    # -- claim ----------------------------------------------------------------------------------------------------

    def test_a_claim_is_committed_before_it_is_returned(self, outbox: Bench) -> None:
        outbox.put()
        (parcel,) = outbox.claim()
        stored = outbox.row()
        assert (stored.state, stored.token, stored.attempts) == (State.SENDING, 1, 1)
        assert (parcel.token, parcel.attempts) == (1, 1)
        assert NOW + timedelta(seconds=60) == stored.lease_until == parcel.lease_until
        assert stored.first_attempt_at == NOW

    def test_what_is_claimed_is_not_claimed_again(self, outbox: Bench) -> None:
        outbox.put()
        assert len(outbox.claim()) == 1
        assert outbox.claim() == []

    def test_what_is_not_due_is_not_claimed(self, outbox: Bench) -> None:
        outbox.put()
        (parcel,) = outbox.claim()
        assert outbox.store.settle(parcel, LATER, now=NOW)
        assert outbox.claim(4.9) == []
        assert len(outbox.claim(5)) == 1

    def test_a_limit_is_a_limit(self, outbox: Bench) -> None:
        for number in range(5):
            outbox.put(f"order-{number}")
        assert len(outbox.claim(limit=3)) == 3
        assert outbox.claim(limit=0) == []
        assert len(outbox.claim(limit=3)) == 2

    def test_urgent_mail_goes_first(self, outbox: Bench) -> None:
        outbox.put("bulk")
        outbox.put("code", priority=10)
        assert [p.key for p in outbox.claim()] == ["code", "bulk"]

    def test_two_claimers_never_share_a_row(self, outbox: Bench) -> None:
        for number in range(40):
            outbox.put(f"order-{number}")
        began = threading.Barrier(4)
        taken: list[int] = []

        def work() -> None:
            began.wait()
            while parcels := outbox.claim(limit=3):
                taken.extend(p.id for p in parcels)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(taken) == sorted(set(taken))
        # With SKIP LOCKED a claimer may look while all that is left is in another's hands; nothing stays behind.
        assert len(taken) + len(outbox.claim(limit=100)) == 40

    def test_with_keys_a_lost_lease_is_claimed_again_and_is_doubted(self, outbox: Bench) -> None:
        outbox.put()
        outbox.claim()
        assert outbox.claim(60) == []
        (parcel,) = outbox.claim(61)
        assert (parcel.token, parcel.attempts, parcel.doubted) == (2, 2, True)
        assert [a.reason for a in outbox.attempts()] == ["lease ran out"]

    def test_without_keys_a_lease_lost_before_the_marker_is_claimed_again_without_doubt(
        self, outbox: Bench
    ) -> None:
        outbox.put()
        outbox.claim(dedupes=False)
        (parcel,) = outbox.claim(61, dedupes=False)
        assert not parcel.doubted

    def test_without_keys_a_lease_lost_after_the_marker_is_never_claimed_again(self, outbox: Bench) -> None:
        outbox.put()
        (parcel,) = outbox.claim(dedupes=False)
        assert outbox.store.mark(parcel, now=NOW)
        assert outbox.claim(61, dedupes=False) == []

    def test_a_change_from_keys_to_no_keys_does_not_repeat_what_may_have_been_sent(
        self, outbox: Bench
    ) -> None:
        outbox.put()
        outbox.claim(dedupes=True)
        assert outbox.claim(61, dedupes=False) == []

    # -- fencing --------------------------------------------------------------------------------------------------

    def test_a_settled_row_says_what_came_of_it(self, outbox: Bench) -> None:
        outbox.put()
        (parcel,) = outbox.claim()
        assert outbox.store.settle(parcel, ACCEPTED, now=NOW, evidence=ANSWER, started_at=NOW)
        stored = outbox.row()
        assert (
            stored.state,
            stored.provider_id,
            stored.last_code,
            stored.accepted_at,
        ) == (State.ACCEPTED, "m1", 200, NOW)
        assert (stored.lease_until, stored.in_doubt) == (None, False)
        (attempt,) = outbox.attempts()
        assert (attempt.decision, attempt.phase, attempt.code, attempt.late) == (
            "accepted",
            "sent",
            200,
            False,
        )

    def test_a_refund_gives_the_attempt_back(self, outbox: Bench) -> None:
        outbox.put()
        (parcel,) = outbox.claim()
        outbox.store.settle(parcel, replace(LATER, refund=True), now=NOW)
        # It counts as a try all the same: the back-off grows with those.
        assert (outbox.row().attempts, outbox.row().tries, outbox.row().token) == (0, 1, 1)

    def test_a_late_result_changes_no_state_but_is_kept(self, outbox: Bench) -> None:
        outbox.put()
        (zombie,) = outbox.claim()
        (second,) = outbox.claim(61)
        assert not outbox.store.settle(zombie, ACCEPTED, now=NOW + timedelta(seconds=62), evidence=ANSWER)
        assert (outbox.row().state, outbox.row().token) == (State.SENDING, 2)
        assert [a.late for a in outbox.attempts() if a.decision == "accepted"] == [True]
        assert outbox.store.late_acceptance(second) == "m1"
        assert outbox.store.settle(second, LATER, now=NOW + timedelta(seconds=63))

    def test_a_late_yes_keeps_a_mail_from_being_sent_again(self, outbox: Bench) -> None:
        """The policy repeats it, but nobody has begun to: the reconciler looks first, and finds that answer."""
        outbox.put()
        (zombie,) = outbox.claim(dedupes=False)
        assert outbox.store.mark(zombie, now=NOW)
        outbox.store.park_lost(now=NOW + timedelta(seconds=61), dedupes=False)
        (doubtful,) = outbox.store.doubtful(now=NOW + timedelta(seconds=61), limit=9)
        again = Decision(state=State.PENDING, reason="repeated", next_attempt_at=NOW + timedelta(seconds=90))
        assert outbox.store.resolve(doubtful, again, now=NOW + timedelta(seconds=61))

        assert not outbox.store.settle(zombie, ACCEPTED, now=NOW + timedelta(seconds=62), evidence=ANSWER)

        assert outbox.row().state is State.UNKNOWN
        assert outbox.claim(100, dedupes=False) == []
        (parked,) = outbox.store.doubtful(now=NOW + timedelta(seconds=62), limit=9)
        assert outbox.store.late_acceptance(parked) == "m1"

    def test_a_late_no_changes_nothing_for_a_mail_that_waits(self, outbox: Bench) -> None:
        """It will be tried again anyway."""
        outbox.put()
        (zombie,) = outbox.claim()
        (second,) = outbox.claim(61)
        assert outbox.store.settle(second, LATER, now=NOW + timedelta(seconds=62))
        due = outbox.row().next_attempt_at

        assert not outbox.store.settle(zombie, UNKNOWN, now=NOW + timedelta(seconds=63), evidence=ANSWER)

        assert (outbox.row().state, outbox.row().next_attempt_at) == (State.PENDING, due)

    def test_a_marker_without_the_lease_is_refused(self, outbox: Bench) -> None:
        outbox.put()
        (zombie,) = outbox.claim(dedupes=False)
        outbox.claim(61, dedupes=False)
        assert not outbox.store.mark(zombie, now=NOW)
        assert outbox.row().in_doubt is False

    def test_a_lease_is_renewed_by_whoever_holds_it(self, outbox: Bench) -> None:
        """Also one that is over, as long as nobody has taken the row."""
        outbox.put()
        (parcel,) = outbox.claim()
        for seconds in (30, 75):
            now = NOW + timedelta(seconds=seconds)
            assert outbox.store.renew(parcel, now=now, lease_s=60.0) == now + timedelta(seconds=60)
            assert outbox.row().lease_until == now + timedelta(seconds=60)
        assert outbox.claim(134) == []
        (lost,) = outbox.claim(136)
        assert lost.token == parcel.token + 1

    def test_a_lease_that_is_lost_is_not_renewed(self, outbox: Bench) -> None:
        """Neither one that somebody else has, nor one of a mail that has come to its end."""
        outbox.put()
        (zombie,) = outbox.claim()
        (parcel,) = outbox.claim(61)
        before = outbox.row()
        assert outbox.store.renew(zombie, now=NOW + timedelta(seconds=62), lease_s=60.0) is None
        assert outbox.row() == before
        assert outbox.store.settle(parcel, ACCEPTED, now=NOW)
        assert outbox.store.renew(parcel, now=NOW, lease_s=60.0) is None
        assert outbox.row().lease_until is None

    def test_nobody_settles_twice(self, outbox: Bench) -> None:
        outbox.put()
        (parcel,) = outbox.claim()
        assert outbox.store.settle(parcel, ACCEPTED, now=NOW)
        assert not outbox.store.settle(parcel, LATER, now=NOW)
        assert outbox.row().state is State.ACCEPTED

    def test_the_same_end_written_again_is_no_second_one(self, outbox: Bench) -> None:
        """Who lost the answer to his commit asks again."""
        outbox.put()
        (parcel,) = outbox.claim()
        assert outbox.store.settle(parcel, LATER, now=NOW)
        assert outbox.store.settle(parcel, LATER, now=NOW + timedelta(seconds=1))
        assert outbox.store.settle_all([Ended(docket=parcel, decision=LATER)], now=NOW) == [True]
        assert [a.late for a in outbox.attempts()] == [False]
        # And once somebody else has it, it still was.
        outbox.claim(10)
        assert outbox.store.settle(parcel, LATER, now=NOW + timedelta(seconds=11))
        assert outbox.row().state is State.SENDING

    def test_many_ends_are_written_together_each_behind_its_own_fence(self, outbox: Bench) -> None:
        for number in range(5):
            outbox.put(f"order-{number}")
        parcels = outbox.claim()
        (second,) = outbox.claim(61, limit=1)
        assert second.id == parcels[0].id
        decisions = [ACCEPTED, ACCEPTED, LATER, UNKNOWN, replace(ACCEPTED, provider_id="m5")]
        group = [
            Ended(docket=parcel, decision=decision, evidence=ANSWER, started_at=NOW)
            for parcel, decision in zip(parcels, decisions, strict=True)
        ]
        written = outbox.store.settle_all(group, now=NOW + timedelta(seconds=62))
        assert written == [False, True, True, True, True]
        rows = [outbox.row(parcel.id) for parcel in parcels]
        assert [row.state for row in rows] == [
            State.SENDING,
            State.ACCEPTED,
            State.PENDING,
            State.UNKNOWN,
            State.ACCEPTED,
        ]
        assert [row.provider_id for row in rows] == [None, "m1", None, None, "m5"]
        assert (rows[2].last_error, rows[2].attempts, rows[3].if_not_sent) == ("later", 1, State.PENDING)
        ends = {a.email_id: a for a in outbox.attempts() if a.reason != "lease ran out"}
        assert [ends[parcel.id].late for parcel in parcels] == [True, False, False, False, False]
        assert {each.code for each in ends.values()} == {200}
        assert outbox.store.late_acceptance(second) == "m1"
        assert outbox.store.settle_all([], now=NOW) == []

    def test_a_move_that_is_not_in_the_table_is_a_bug(self, outbox: Bench) -> None:
        outbox.put()
        (parcel,) = outbox.claim()
        outbox.store.settle(parcel, ACCEPTED, now=NOW)
        (docket,) = outbox.store.find(key="order-1")
        with pytest.raises(AssertionError):
            outbox.store.requeue(docket, LATER, now=NOW)

    # -- doubt ----------------------------------------------------------------------------------------------------

    def test_a_worker_lost_after_the_marker_leaves_an_unknown_row(self, outbox: Bench) -> None:
        outbox.put()
        (parcel,) = outbox.claim(dedupes=False)
        outbox.store.mark(parcel, now=NOW)
        late = NOW + timedelta(seconds=61)
        assert outbox.store.park_lost(now=NOW + timedelta(seconds=60), dedupes=False) == []
        assert [parcel.id] == outbox.store.park_lost(now=late, dedupes=False)
        assert outbox.store.park_lost(now=late, dedupes=False) == []
        stored = outbox.row()
        assert (State.UNKNOWN, State.PENDING, late) == (stored.state, stored.if_not_sent, stored.doubted_at)
        # Nobody who comes back can write to it any more.
        assert not outbox.store.mark(parcel, now=late)
        assert not outbox.store.settle(parcel, LATER, now=late)

    def test_where_the_provider_dedupes_nothing_is_parked(self, outbox: Bench) -> None:
        outbox.put()
        outbox.claim()
        assert outbox.store.park_lost(now=NOW + timedelta(seconds=61), dedupes=True) == []

    def test_who_only_asks_is_told_whether_there_is_anything_to_do(self, outbox: Bench) -> None:
        store = outbox.store
        assert not store.has_doubts(now=NOW, dedupes=False)
        outbox.put()
        (parcel,) = outbox.claim(dedupes=False)
        late = NOW + timedelta(seconds=61)
        assert not store.has_doubts(now=late, dedupes=False), "it never came to the point of no return"
        store.mark(parcel, now=NOW)
        assert not store.has_doubts(now=NOW + timedelta(seconds=60), dedupes=False)
        assert not store.has_doubts(now=late, dedupes=True), "a worker takes it up again"
        assert store.has_doubts(now=late, dedupes=False)
        assert outbox.row().state is State.SENDING, "who only asks moves nothing"
        store.park_lost(now=late, dedupes=False)
        (docket,) = store.doubtful(now=late, limit=10)
        later = late + timedelta(seconds=9)
        store.resolve(docket, replace(UNKNOWN, doubt=Doubt.KEEP, next_attempt_at=later), now=late)
        assert not store.has_doubts(now=late, dedupes=False)
        assert store.has_doubts(now=later, dedupes=True)

    def test_an_unknown_row_is_looked_at_when_it_is_due(self, outbox: Bench) -> None:
        docket = parked(outbox)
        again = replace(
            UNKNOWN, doubt=Doubt.KEEP, next_attempt_at=NOW + timedelta(seconds=9), reason="too early"
        )
        assert outbox.store.resolve(docket, again, now=NOW)
        assert outbox.store.doubtful(now=NOW, limit=10) == []
        (later,) = outbox.store.doubtful(now=NOW + timedelta(seconds=9), limit=10)
        assert (docket.doubted_at, "silence") == (later.doubted_at, later.last_error)

    def test_a_row_is_resolved_once(self, outbox: Bench) -> None:
        docket = parked(outbox)
        back = Decision(state=State.PENDING, reason="not sent", next_attempt_at=NOW, doubt=Doubt.CLEAR)
        assert outbox.store.resolve(docket, back, now=NOW)
        assert not outbox.store.resolve(docket, replace(ACCEPTED), now=NOW)
        assert (outbox.row().state, outbox.row().doubted_at) == (State.PENDING, None)

    def test_a_late_answer_brings_the_next_look_forward(self, outbox: Bench) -> None:
        outbox.put()
        (zombie,) = outbox.claim(dedupes=False)
        outbox.store.mark(zombie, now=NOW)
        late = NOW + timedelta(seconds=61)
        outbox.store.park_lost(now=late, dedupes=False)
        (docket,) = outbox.store.doubtful(now=late, limit=10)
        outbox.store.resolve(
            docket, replace(UNKNOWN, doubt=Doubt.KEEP, next_attempt_at=NOW + timedelta(days=1)), now=late
        )
        assert outbox.store.doubtful(now=late, limit=10) == []
        assert not outbox.store.settle(zombie, ACCEPTED, now=late, evidence=ANSWER)
        assert len(outbox.store.doubtful(now=late, limit=10)) == 1

    # -- people ---------------------------------------------------------------------------------------------------

    def test_a_requeued_mail_starts_afresh_with_the_same_key_and_bytes(self, outbox: Bench) -> None:
        outbox.put()
        (parcel,) = outbox.claim()
        outbox.store.settle(parcel, Decision(state=State.DEAD, reason="spent"), now=NOW)
        (docket,) = outbox.store.find(key="order-1")
        later = NOW + timedelta(days=9)
        back = Decision(state=State.PENDING, reason="by hand", next_attempt_at=later, doubt=Doubt.CLEAR)
        assert outbox.store.requeue(docket, back, now=later)
        assert not outbox.store.requeue(docket, back, now=later)
        (again,) = outbox.claim(9 * 86_400)
        assert (1, 1, later) == (again.attempts, again.tries, again.queued_at)
        assert (parcel.idempotency_key, parcel.raw) == (again.idempotency_key, again.raw)
        assert outbox.row().created_at == NOW

    def test_rows_are_found_by_key_number_and_state(self, outbox: Bench) -> None:
        first, second = outbox.put("order-1"), outbox.put("order-2")
        assert first == tuple(d.id for d in outbox.store.find(key="order-1"))
        assert second == tuple(d.id for d in outbox.store.find(ids=second))
        assert first + second == tuple(d.id for d in outbox.store.find(states=[State.PENDING]))
        assert outbox.store.find(states=[State.DEAD]) == []

    def test_the_tally_counts_states_and_knows_the_oldest(self, outbox: Bench) -> None:
        outbox.put()
        outbox.put("order-2")
        outbox.claim(limit=1)
        assert [(t.state, t.count, t.oldest) for t in outbox.store.tallies()] == [
            (State.PENDING, 1, NOW),
            (State.SENDING, 1, NOW),
        ]
