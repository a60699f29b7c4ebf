"""What every outbox does with mail that waits, that must not go, or that is of a kind: part of the contract."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from reference_sender.life import Bar, Parcel, State
from reference_sender.message import InvalidMail, Mail
from reference_sender.outbox.waiting import HOLD_S
from reference_sender.policy.classes import MANNERS, MailClass
from reference_sender.policy.decision import Decision
from reference_sender.policy.suppression import Kind
from tests.reference_sender.samples import MAIL, NOW

TWO = replace(MAIL, recipients=("ann@example.com", "bob@example.com"))


def end(outbox: Any, parcel: Parcel, state: State, at_s: float = 0.0) -> None:
    """End the attempt of a parcel like this."""
    at = NOW + timedelta(seconds=at_s)
    outbox.store.settle(
        parcel,
        Decision(
            state=state,
            reason=state.value,
            next_attempt_at=at if state in (State.PENDING, State.UNKNOWN) else None,
            if_not_sent=State.PENDING if state is State.UNKNOWN else None,
            provider_id="m1" if state is State.ACCEPTED else None,
        ),
        now=at,
    )


def keys(parcels: list[Parcel]) -> list[str]:
    return [each.key for each in parcels]


class MannersContract:
    """A subclass brings the fixture `outbox`."""

    # -- classes --------------------------------------------------------------------------------------------------

    def test_a_mail_of_a_class_has_its_priority_and_its_end(self, outbox: Any) -> None:
        outbox.put("n", mail_class="newsletter")
        outbox.put("o")
        outbox.put("c", mail_class=MailClass.CODE)
        parcels = outbox.claim()
        assert [(each.key, each.mail_class) for each in parcels] == [
            ("c", "code"),
            ("o", "confirmation"),
            ("n", "newsletter"),
        ]
        assert parcels[0].expires_at == NOW + timedelta(seconds=600)
        assert parcels[2].expires_at is None

    def test_what_the_caller_says_counts_more(self, outbox: Any) -> None:
        outbox.put("c", mail_class="code", priority=-1, expires_at=NOW + timedelta(hours=1))
        outbox.put("o")
        first, second = outbox.claim()
        assert (first.key, second.key) == ("o", "c")
        assert second.expires_at == NOW + timedelta(hours=1)
        assert MANNERS[MailClass.CODE].priority > 0

    def test_a_class_that_does_not_exist_is_refused(self, outbox: Any) -> None:
        with pytest.raises(ValueError, match="gossip"):
            outbox.put(mail_class="gossip")

    def test_a_mail_for_later_waits_and_ages_from_then_on(self, outbox: Any) -> None:
        outbox.put(not_before=NOW + timedelta(seconds=10), mail_class="code")
        assert outbox.claim(9) == []
        (parcel,) = outbox.claim(10)
        assert parcel.queued_at == NOW + timedelta(seconds=10)
        assert parcel.expires_at == NOW + timedelta(seconds=610)

    # -- the same key again ---------------------------------------------------------------------------------------

    def test_the_same_key_with_another_mail_says_so_and_changes_nothing(self, outbox: Any) -> None:
        def again(mail: Mail, later_s: float) -> bool:
            with outbox.begin() as transaction:
                at = NOW + timedelta(seconds=later_s)
                done = outbox.enqueue(transaction, mail, key="order-1", now=at)
            assert done.created is (later_s == 0)
            return bool(done.differs)

        assert not again(MAIL, 0)
        assert not again(MAIL, 5)
        assert again(replace(MAIL, subject="Something else"), 9)
        (parcel,) = outbox.claim(9)
        assert b"Something else" not in parcel.raw

    # -- suppression ----------------------------------------------------------------------------------------------

    def test_who_is_suppressed_gets_a_row_that_is_never_sent(self, outbox: Any) -> None:
        outbox.store.suppress("ANN@example.com", reason="hard_bounce", source="evt_1", now=NOW)
        with outbox.begin() as transaction:
            done = outbox.enqueue(transaction, TWO, key="order-1", now=NOW)
        assert (done.created, done.suppressed) == (True, ("ann@example.com",))
        assert [(each.recipient, each.state) for each in outbox.store.standings()] == [
            ("ann@example.com", State.SUPPRESSED),
            ("bob@example.com", State.PENDING),
        ]
        assert [each.recipient for each in outbox.claim()] == ["bob@example.com"]

    def test_who_is_suppressed_after_the_enqueue_is_seen_at_the_claim(self, outbox: Any) -> None:
        outbox.put()
        outbox.store.suppress("ann@example.com", reason="complaint", source="evt_1", now=NOW)
        (parcel,) = outbox.claim()
        assert parcel.bar is Bar.SUPPRESSED
        end(outbox, parcel, State.SUPPRESSED)
        assert outbox.row().state is State.SUPPRESSED

    def test_who_unsubscribed_still_gets_confirmations(self, outbox: Any) -> None:
        outbox.store.suppress(
            "ann@example.com", reason="unsubscribe", source="link", now=NOW, kind=Kind.NEWSLETTER
        )
        outbox.put("order-1")
        outbox.put("letter-1", mail_class="newsletter")
        assert [(each.key, each.bar) for each in outbox.claim()] == [("order-1", None)]

    def test_a_suppression_that_is_over_bars_nobody(self, outbox: Any) -> None:
        until = NOW + timedelta(seconds=5)
        outbox.store.suppress("ann@example.com", reason="manual", source="bob", now=NOW, until=until)
        with outbox.begin() as transaction:
            assert not outbox.enqueue(transaction, MAIL, key="order-1", now=until).suppressed
        (parcel,) = outbox.claim(5)
        assert parcel.bar is None

    # -- superseding ----------------------------------------------------------------------------------------------

    def test_a_newer_mail_bars_the_older_ones_of_its_slot(self, outbox: Any) -> None:
        outbox.put("code-1", slot="user-7", mail=TWO)
        outbox.put("code-2", slot="user-8")
        outbox.put("code-3", slot="user-7")
        assert [(each.key, each.bar) for each in outbox.claim()] == [
            ("code-1", Bar.SUPERSEDED),
            ("code-1", Bar.SUPERSEDED),
            ("code-2", None),
            ("code-3", None),
        ]

    def test_a_mail_that_was_under_way_when_the_newer_came_is_not_repeated(self, outbox: Any) -> None:
        outbox.put("code-1", slot="user-7")
        (parcel,) = outbox.claim()
        assert parcel.bar is None
        outbox.put("code-2", slot="user-7")
        end(outbox, parcel, State.PENDING)
        assert [(each.key, each.bar) for each in outbox.claim()] == [
            ("code-1", Bar.SUPERSEDED),
            ("code-2", None),
        ]

    def test_notices_of_one_round_go_as_the_newest_at_the_time_of_the_first(self, outbox: Any) -> None:
        first = NOW + timedelta(seconds=600)
        for number in (1, 2, 3):
            outbox.put(f"notice-{number}", slot="notices-77", mail_class="notice", not_before=first)
        assert outbox.claim(599) == []
        assert [(each.key, each.bar) for each in outbox.claim(600)] == [
            ("notice-1", Bar.SUPERSEDED),
            ("notice-2", Bar.SUPERSEDED),
            ("notice-3", None),
        ]

    # -- dependencies ---------------------------------------------------------------------------------------------

    def test_a_mail_waits_for_the_one_it_depends_on(self, outbox: Any) -> None:
        outbox.put("welcome", depends_on="verification")
        assert outbox.claim() == []  # not even enqueued
        outbox.put("verification", mail=TWO)
        first, second = outbox.claim(1)
        end(outbox, first, State.ACCEPTED)
        assert outbox.claim(2) == []  # the other recipient has not got it yet
        end(outbox, second, State.ACCEPTED)
        assert [(each.key, each.bar) for each in outbox.claim(3)] == [("welcome", None)]

    def test_what_it_waited_for_does_not_send_it_before_its_time(self, outbox: Any) -> None:
        outbox.put("order-1")
        outbox.put("receipt-1", depends_on="order-1", not_before=NOW + timedelta(seconds=60))
        (first,) = outbox.claim()
        end(outbox, first, State.ACCEPTED)
        assert outbox.claim(59) == []
        assert [parcel.key for parcel in outbox.claim(60)] == ["receipt-1"]

    def test_what_it_depends_on_may_be_accepted_already(self, outbox: Any) -> None:
        outbox.put("verification")
        end(outbox, outbox.claim()[0], State.ACCEPTED)
        outbox.put("welcome", depends_on="verification")
        assert keys(outbox.claim()) == ["welcome"]

    @pytest.mark.parametrize("state", [State.FAILED, State.EXPIRED, State.SUPPRESSED])
    def test_a_mail_whose_other_came_to_nothing_is_orphaned(self, outbox: Any, state: State) -> None:
        outbox.put("verification")
        outbox.put("welcome", depends_on="verification")
        end(outbox, outbox.claim()[0], state)
        assert [(each.key, each.bar) for each in outbox.claim(1)] == [("welcome", Bar.ORPHANED)]

    @pytest.mark.parametrize("state", [State.UNKNOWN, State.DEAD])
    def test_where_a_person_or_a_look_up_may_help_it_waits_and_no_longer_than_it_may(
        self, outbox: Any, state: State
    ) -> None:
        outbox.put("verification")
        outbox.put("welcome", depends_on="verification", expires_at=NOW + timedelta(hours=1))
        end(outbox, outbox.claim()[0], state)
        assert outbox.claim(3_599) == []
        assert [(each.key, each.bar) for each in outbox.claim(3_600)] == [("welcome", Bar.OVERSLEPT)]

    def test_without_an_end_of_its_own_it_waits_for_days(self, outbox: Any) -> None:
        outbox.put("welcome", depends_on="verification")
        assert outbox.claim(HOLD_S - 1) == []
        assert [each.bar for each in outbox.claim(HOLD_S)] == [Bar.OVERSLEPT]

    def test_with_an_end_of_its_own_it_waits_until_then(self, outbox: Any) -> None:
        outbox.put("welcome", depends_on="verification", expires_at=NOW + timedelta(seconds=3 * HOLD_S))
        assert outbox.claim(3 * HOLD_S - 1) == []
        assert [each.bar for each in outbox.claim(3 * HOLD_S)] == [Bar.OVERSLEPT]

    def test_a_mail_that_would_wait_for_itself_is_refused(self, outbox: Any) -> None:
        with pytest.raises(InvalidMail, match="the mail itself"):
            outbox.put("welcome", depends_on="welcome")

    @pytest.mark.parametrize("priority", [-(2**31) - 1, 2**31, 10**30])
    def test_a_priority_that_its_column_does_not_hold_is_refused(self, outbox: Any, priority: int) -> None:
        with pytest.raises(InvalidMail, match=f"priority is {priority}; it must be from -2147483648 to"):
            outbox.put("welcome", priority=priority)

    # -- order ----------------------------------------------------------------------------------------------------

    def test_mails_of_one_key_go_one_after_the_other(self, outbox: Any) -> None:
        for number in range(3):
            outbox.put(f"user-7-{number}", ordering_key="user-7")
        outbox.put("user-8-0", ordering_key="user-8")
        for number in range(3):
            parcels = outbox.claim(number)
            assert keys(parcels) == [f"user-7-{number}"] + (["user-8-0"] if number == 0 else [])
            assert outbox.claim(number) == []
            end(outbox, parcels[0], State.ACCEPTED, number)

    def test_a_mail_that_is_tried_again_keeps_its_place(self, outbox: Any) -> None:
        outbox.put("a", ordering_key="user-7")
        outbox.put("b", ordering_key="user-7", mail_class="code")  # however urgent
        end(outbox, outbox.claim()[0], State.PENDING, 60)
        assert outbox.claim(30) == []
        assert keys(outbox.claim(60)) == ["a"]

    def test_a_mail_that_is_unknown_keeps_the_others_waiting(self, outbox: Any) -> None:
        outbox.put("a", ordering_key="user-7")
        outbox.put("b", ordering_key="user-7")
        end(outbox, outbox.claim()[0], State.UNKNOWN)
        assert outbox.claim(3_600) == []
        (docket,) = outbox.store.doubtful(now=NOW, limit=9)
        found = Decision(state=State.ACCEPTED, reason="found", provider_id="m1")
        assert outbox.store.resolve(docket, found, now=NOW)
        assert keys(outbox.claim(3_601)) == ["b"]

    @pytest.mark.parametrize("state", [State.FAILED, State.DEAD, State.EXPIRED])
    def test_a_mail_that_is_not_sent_does_not_stop_the_next(self, outbox: Any, state: State) -> None:
        outbox.put("a", ordering_key="user-7")
        outbox.put("b", ordering_key="user-7")
        end(outbox, outbox.claim()[0], state)
        assert [(each.key, each.bar) for each in outbox.claim()] == [("b", None)]

    def test_two_recipients_of_one_mail_are_two_in_the_order(self, outbox: Any) -> None:
        outbox.put("a", ordering_key="user-7", mail=TWO)
        (first,) = outbox.claim()
        end(outbox, first, State.ACCEPTED)
        (second,) = outbox.claim()
        assert [first.recipient, second.recipient] == ["ann@example.com", "bob@example.com"]

    def test_a_person_who_puts_one_back_does_not_make_two_go_at_once(self, outbox: Any) -> None:
        outbox.put("a", ordering_key="user-7")
        outbox.put("b", ordering_key="user-7")
        end(outbox, outbox.claim()[0], State.DEAD)
        assert keys(outbox.claim()) == ["b"]
        (docket,) = outbox.store.find(key="a")
        back = Decision(state=State.PENDING, reason="by hand", next_attempt_at=NOW)
        assert outbox.store.requeue(docket, back, now=NOW)
        assert [(each.key, each.bar) for each in outbox.claim()] == [("a", Bar.OUT_OF_TURN)]

    def test_of_two_that_are_taken_together_the_older_goes(self, outbox: Any) -> None:
        """Put back while the next one is due: each waiting for the other, neither would ever go."""
        outbox.put("a", ordering_key="user-7")
        outbox.put("b", ordering_key="user-7")
        end(outbox, outbox.claim()[0], State.DEAD)
        (docket,) = outbox.store.find(key="a")
        back = Decision(state=State.PENDING, reason="by hand", next_attempt_at=NOW)
        assert outbox.store.requeue(docket, back, now=NOW)
        bars = {each.key: each.bar for each in outbox.claim()}
        assert bars == {"a": None, "b": Bar.OUT_OF_TURN}
