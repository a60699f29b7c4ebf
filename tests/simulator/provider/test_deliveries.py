"""Tests of deliveries: what is due when, what an answer means, what is bounded."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.provider.deliveries import (
    Batching,
    Deliveries,
    Delivery,
    Schedule,
    State,
    Try,
    delivery_as_facts,
    delivery_from,
    keyed,
)
from simulator.provider.events import Event
from simulator.provider.notices import Flaw, Notice, Spoilt
from tests.simulator.provider.mails import BOB, NOW, after

SINGLE = Batching()
SCHEDULE = Schedule(delays_s=(5.0, 60.0))


def notice(name: str, due_s: float = 0.0, mail: str | None = None, **more: Any) -> Notice:
    event = Event(
        id=f"evt_{name}",
        type="email.opened",
        account="default",
        at=after(due_s),
        order=(),
        given={"email_id": mail, "recipient": BOB},
    )
    (made,) = keyed([Notice(source=event.id, event=event, due_at=after(due_s))])
    return dataclasses.replace(made, **more)


def answered(status: int | None, at: datetime = NOW, *, pause_s: float | None = None) -> Try:
    error = None if status is not None else "connection refused"
    return Try(at=at, took_s=0.1, status=status, error=error, retry_after_s=pause_s)


def names(deliveries: list[Delivery]) -> list[str]:
    return [delivery.key.removesuffix(".0") for delivery in deliveries]


def test_what_is_due_goes_out_in_order_and_no_more_than_there_is_room_for() -> None:
    it = Deliveries()
    for name, due_s in (("late", 9), ("second", 1), ("first", 0), ("third", 2)):
        it.add([notice(name, due_s)], SINGLE)

    assert it.next_at(SINGLE) == NOW
    assert names(it.due(after(2), 2, SINGLE)) == ["evt_first", "evt_second"]
    assert names(it.due(after(2), 9, SINGLE)) == ["evt_third"]
    assert it.due(after(2), 9, SINGLE) == []
    assert it.next_at(SINGLE) == after(9)


def test_events_of_one_mail_go_one_after_the_other_the_first_time() -> None:
    """Others do not wait for them, and a retry does not hold up what comes behind."""
    it = Deliveries()
    for name, mail in (("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b")):
        it.add([notice(name, mail=mail)], SINGLE)
    first, other = it.due(NOW, 9, SINGLE)
    assert names([first, other]) == ["evt_a1", "evt_b1"]

    it.done(first, answered(500), NOW, SCHEDULE)
    (second,) = it.due(NOW, 9, SINGLE)
    assert names([second]) == ["evt_a2"]
    it.done(second, answered(200), NOW, SCHEDULE)
    assert names(it.due(NOW, 9, SINGLE)) == ["evt_a3"]
    assert names(it.due(after(6), 9, SINGLE)) == ["evt_a1"]


def test_a_failure_is_tried_again_by_the_schedule_and_given_up_after_it() -> None:
    it = Deliveries()
    it.add([notice("x")], SINGLE)
    now = NOW
    for delay_s in (*SCHEDULE.delays_s, None):
        (delivery,) = it.due(now, 9, SINGLE)
        it.done(delivery, answered(None, now), now, SCHEDULE)
        if delay_s is not None:
            assert (delivery.state, delivery.due_at) == (
                State.WAITING,
                after((now - NOW).total_seconds() + delay_s),
            )
            assert it.due(now, 9, SINGLE) == []
            now = delivery.due_at

    assert (delivery.state, delivery.why) == (State.FAILED, "the receiver did not take it")
    assert it.next_at(SINGLE) is None
    assert len(delivery.tries) == 3


@pytest.mark.parametrize(
    ("status", "schedule", "state"),
    [
        (200, SCHEDULE, State.DELIVERED),
        (299, SCHEDULE, State.DELIVERED),
        (302, SCHEDULE, State.WAITING),
        (404, SCHEDULE, State.WAITING),
        (406, Schedule(delays_s=(5.0,), give_up_on=(406,)), State.FAILED),
        (500, Schedule(delays_s=()), State.FAILED),
    ],
)
def test_what_an_answer_means(status: int, schedule: Schedule, state: State) -> None:
    it = Deliveries()
    it.add([notice("x")], SINGLE)
    (delivery,) = it.due(NOW, 1, SINGLE)
    it.done(delivery, answered(status), NOW, schedule)

    assert delivery.state is state


def test_the_receivers_wish_to_be_left_alone_is_kept_up_to_a_day() -> None:
    for pause_s, expected_s in ((1.0, 5.0), (60.0, 60.0), (1e9, 86_400.0)):
        it = Deliveries()
        it.add([notice("x")], SINGLE)
        (delivery,) = it.due(NOW, 1, SINGLE)
        it.done(delivery, answered(429, pause_s=pause_s), NOW, SCHEDULE)
        assert delivery.due_at == after(expected_s)


@settings(max_examples=50, deadline=None)
@given(jitter=st.floats(0, 0.9), seed=st.integers(), key=st.text(max_size=5))
def test_jitter_stays_in_its_bounds_and_follows_the_seed(jitter: float, seed: int, key: str) -> None:
    schedule = Schedule(delays_s=(100.0,), jitter=jitter, seed=seed)
    delivery = Delivery(key=key, webhook_id="w", notices=(), due_at=NOW, tries=[answered(500)])
    again = schedule.again_at(delivery, NOW)

    assert again is not None
    assert abs((again - NOW).total_seconds() - 100.0) <= 100.0 * jitter + 1e-5
    assert again == schedule.again_at(delivery, NOW)


def test_what_is_told_once_and_what_is_lost() -> None:
    """Nonsense is not repeated; a lost event is never sent, and can be seen."""
    it = Deliveries()
    it.add([notice("nonsense", once=True, flaws=(Flaw(what=Spoilt.BODY, how="null"),))], SINGLE)
    (lost,) = it.add([notice("lost", lost=True)], SINGLE)
    (delivery,) = it.due(NOW, 9, SINGLE)
    assert delivery.flaws == ("malformed",)
    it.done(delivery, answered(400), NOW, SCHEDULE)

    assert (delivery.state, lost.state) == (State.FAILED, State.LOST)
    assert list(it.open()) == []


# --- batches ----------------------------------------------------------------------------------------

THREE = Batching(size=3, wait_s=2.0)


def test_a_batch_goes_out_when_it_is_full_or_its_first_has_waited() -> None:
    it = Deliveries()
    for number in range(4):
        it.add([notice(f"n{number}", number * 0.1)], THREE)

    assert it.due(after(0.15), 9, THREE) == []
    assert it.next_at(THREE) == after(0.2)
    (full,) = it.due(after(0.3), 9, THREE)
    assert [each.event.id for each in full.notices] == ["evt_n0", "evt_n1", "evt_n2"]
    assert it.due(after(0.3), 9, THREE) == []
    assert it.next_at(THREE) == after(2.3)
    (rest,) = it.due(after(2.3), 9, THREE)
    assert [each.event.id for each in rest.notices] == ["evt_n3"]
    assert full.webhook_id.startswith("bat_")
    assert rest.webhook_id == "evt_n3"


def test_what_must_be_alone_does_not_join_a_batch() -> None:
    it = Deliveries()
    it.add([notice("a", flaws=(Flaw(what=Spoilt.SIGNATURE, how="missing"),))], THREE)
    it.add([notice("b")], THREE)

    assert names(it.due(NOW, 9, THREE)) == ["evt_a"]
    assert names(it.due(after(2), 9, THREE)) == ["evt_b"]


# --- bounds, and the end ----------------------------------------------------------------------------


def test_an_endpoint_that_is_away_does_not_cost_memory_without_end() -> None:
    it = Deliveries(limit=20)
    for number in range(100):
        it.add([notice(f"n{number:03}")], SINGLE)
        it.overflow()

    waiting = list(it.open())
    assert len(waiting) <= 20
    assert names(waiting)[-1] == "evt_n099"
    assert {each.state for each in it.all.values()} == {State.WAITING, State.DROPPED}


def test_what_is_over_is_kept_for_a_while() -> None:
    it = Deliveries(kept=3)
    for number in range(10):
        it.add([notice(f"n{number}")], SINGLE)
        (delivery,) = it.due(NOW, 1, SINGLE)
        it.done(delivery, answered(200), NOW, SCHEDULE)
    gone = it.forget()

    assert names(gone) == [f"evt_n{number}" for number in range(7)]
    assert names(list(it.all.values())) == ["evt_n7", "evt_n8", "evt_n9"]


def test_dropping_leaves_nothing_to_send_and_what_is_under_way_ends_quietly() -> None:
    it = Deliveries()
    for name in ("a", "b"):
        it.add([notice(name, mail="m")], SINGLE)
    it.add([notice("c")], THREE)
    (under_way,) = it.due(NOW, 9, THREE)
    dropped = it.drop("the webhook was taken away")

    assert names(dropped) == ["evt_a", "evt_b", "evt_c"]
    assert {each.state for each in dropped} == {State.DROPPED}
    it.done(under_way, answered(200), NOW, SCHEDULE)
    assert under_way.state is State.DROPPED
    assert it.next_at(SINGLE) is None
    assert it.due(after(99), 9, SINGLE) == []


def test_what_is_untold_about_a_mail() -> None:
    it = Deliveries()
    it.add([notice("a", mail="m"), notice("b", 50, mail="m")], SINGLE)
    it.add([notice("c", mail="other")], THREE)

    assert it.untold(lambda each: each.event.email_id == "m", NOW)
    assert it.untold(lambda each: each.event.email_id == "other", NOW)
    (delivery,) = it.due(NOW, 1, SINGLE)
    assert it.untold(lambda each: each.event.email_id == "m", NOW)
    it.done(delivery, answered(500), NOW, SCHEDULE)
    assert not it.untold(lambda each: each.event.email_id == "m", NOW)


def test_a_delivery_can_be_written_and_taken_up() -> None:
    """What was being sent when the process died is sent again, under the same id."""
    it = Deliveries()
    it.add([notice("a"), notice("b")], SINGLE)
    sending, other = it.due(NOW, 9, SINGLE)
    sending.tries.append(answered(503))
    it.done(other, answered(204), NOW, SCHEDULE)
    again = Deliveries()
    for each in (sending, other):
        again.restore(delivery_from("default", each.key, delivery_as_facts(each)))

    assert names(again.due(NOW, 9, SINGLE)) == ["evt_a"]
    taken_up = again.all["evt_a.0"]
    assert (taken_up.webhook_id, taken_up.tries) == (sending.webhook_id, sending.tries)
    assert again.all["evt_b.0"].state is State.DELIVERED
