"""The edges of the policy's rules: the very number, the very second, the very words on which a decision turns.

Each case here is one that a small change of a rule would decide otherwise.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from reference_sender.life import Bar, State
from reference_sender.message import InvalidMail
from reference_sender.policy import gate
from reference_sender.policy.bars import BARRED
from reference_sender.policy.batches import together
from reference_sender.policy.breaker import (
    CLOSED,
    Breaker,
    BreakerRules,
    Position,
    Standing,
    standing,
    taken,
    went,
)
from reference_sender.policy.bucket import Bucket, Rate
from reference_sender.policy.classify import classify
from reference_sender.policy.decision import before_sending
from reference_sender.policy.domains import choose, count
from reference_sender.policy.evidence import Evidence, Phase, TryLater, Wire
from reference_sender.policy.gate import NOTHING_KNOWN, Gate, GateRules, Shared
from reference_sender.policy.hearing import look_again_at, on_event
from reference_sender.policy.pace import Pace, PaceRules, answered, troubled
from reference_sender.policy.pauses import pause_s, used_up_s
from reference_sender.policy.routes import Mine, Route
from reference_sender.policy.suppression import canonical
from tests.reference_sender.samples import NOW, docket, parcel, settings

EPOCH = int(NOW.timestamp())
YES = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=200, provider_id="m1")
DOWN = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=503)


def at(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


# --- SMTP replies: the first digit is the class, also of the lowest code of a class ----------------------


@pytest.mark.parametrize(
    ("phase", "code", "enhanced", "answer", "expected"),
    [
        (Phase.CONNECT, 500, None, "", TryLater(reason="the server does not let us in", channel=True, lasting=True)),
        (Phase.CONNECT, 400, None, "", TryLater(reason="the server does not let us in", channel=True)),
        (Phase.RCPT, 400, "4.3.2", "", TryLater(reason="the whole system takes no mail now", channel=True)),
        (Phase.RCPT, 500, "4.3.2", "", classify(Evidence(wire=Wire.SMTP, phase=Phase.RCPT, code=500))),
        (Phase.RCPT, 400, None, "too many", TryLater(reason="too much for now, says the server", throttled=True)),
        (Phase.SENT, 250, None, "too many", classify(Evidence(wire=Wire.SMTP, phase=Phase.SENT, code=250))),
        (Phase.SENT, 550, "5.7.0", "daily quota exceeded",
         TryLater(reason="a refusal whose words say: too much for now")),
    ],
)  # fmt: skip
def test_an_smtp_reply(
    phase: Phase, code: int, enhanced: str | None, answer: str, expected: TryLater
) -> None:
    seen = Evidence(wire=Wire.SMTP, phase=phase, code=code, enhanced=enhanced, answer=answer)
    assert classify(seen) == expected


# --- the breaker ------------------------------------------------------------------------------------------

RULES = BreakerRules(
    failures=3, rate=0.5, least=4, window_s=60, pause_s=5, pause_cap_s=18, probes=2, probe_s=30
)


def told(breaker: Breaker, news: Standing, at_s: float = 0.0, rules: BreakerRules = RULES) -> Breaker:
    return went(breaker, rules, news, now=NOW + at(at_s), began_at=NOW + at(at_s))


def test_a_window_begins_with_its_first_failure_and_ends_in_its_last_second() -> None:
    first = told(CLOSED, Standing.BAD)
    again = told(told(first, Standing.GOOD, 30.0), Standing.BAD, 59.0)
    assert (again.since, again.bad, again.good) == (NOW, 2, 1)
    assert (told(again, Standing.GOOD, 60.0).since, told(again, Standing.GOOD, 60.0).good) == (
        NOW + at(60),
        1,
    )


def test_half_of_four_is_enough_and_less_is_not() -> None:
    one = Breaker(bad=1, good=2, since=NOW)
    assert told(one, Standing.BAD).position is Position.OPEN
    assert told(replace(one, good=3), Standing.BAD).position is Position.CLOSED
    assert told(replace(one, good=1), Standing.BAD).position is Position.CLOSED


def test_nothing_is_taken_from_a_breaker_that_is_closed_or_off_or_by_nobody() -> None:
    opened = Breaker(position=Position.OPEN, until=NOW)
    assert taken(CLOSED, RULES, 1, NOW) == CLOSED
    assert taken(opened, RULES, 0, NOW) == opened
    assert taken(opened, replace(RULES, failures=0), 1, NOW) == opened


def test_a_new_round_of_probes_forgets_the_last_one() -> None:
    lost = Breaker(position=Position.HALF_OPEN, until=NOW, probes=2, passed=1)
    begun = taken(lost, RULES, 1, NOW)
    assert (begun.probes, begun.passed, begun.since, begun.until) == (1, 0, NOW, NOW + at(30))


def test_each_good_probe_counts_once_and_leaves_its_place() -> None:
    rules = replace(RULES, probes=3)
    half = Breaker(position=Position.HALF_OPEN, until=NOW + at(30), probes=1)
    once = told(half, Standing.GOOD, rules=rules)
    assert (once.position, once.probes, once.passed) == (Position.HALF_OPEN, 0, 1)
    twice = told(once, Standing.GOOD, rules=rules)
    assert (twice.position, twice.passed) == (Position.HALF_OPEN, 2)
    assert told(twice, Standing.GOOD, rules=rules) == CLOSED


def test_of_two_probes_one_leaves_its_place_whatever_came_of_it() -> None:
    rules = replace(RULES, probes=4)
    half = Breaker(position=Position.HALF_OPEN, until=NOW + at(30), probes=2)
    assert told(half, Standing.NONE, rules=rules).probes == 1
    assert told(half, Standing.GOOD, rules=rules).probes == 1


# --- the gate -----------------------------------------------------------------------------------------------

GATE = GateRules(breaker=BreakerRules(failures=2, pause_s=10), throttle_pause_s=0.5)
OPENED = Shared(breaker=Breaker(position=Position.OPEN, until=NOW + at(10), trips=1), reason="down")


def test_a_gate_knows_nothing_at_first() -> None:
    new = Gate(GATE)
    assert (new.seen, new.again_at, new.is_full, new.good) == (NOTHING_KNOWN, None, False, 0)


def test_a_gate_is_shut_until_the_second_in_which_the_pause_ends() -> None:
    one = Gate(GATE)
    one.seen = Shared(paused_until=NOW + at(5))
    assert one.is_shut(NOW + at(4.999))
    assert not one.is_shut(NOW + at(5))


def test_when_to_come_again_is_asked_only_where_less_was_allowed() -> None:
    rate = Rate(per_s=1.0, burst=1)
    one = Gate(replace(GATE, rates=(("main", rate),)))
    empty = {"main": Bucket(tokens=0.0, at=NOW)}
    one.saw(NOTHING_KNOWN, empty, now=NOW, limited=True, is_full=False)
    assert one.again_at is not None
    one.saw(NOTHING_KNOWN, empty, now=NOW, limited=False, is_full=False)
    assert one.again_at is None


def test_a_pause_lets_nothing_pass() -> None:
    paused = Shared(paused_until=NOW + at(1))
    allowed = gate.allow(GATE, paused, {}, under_way=0, room=8, bulk=8, now=NOW)
    assert (allowed.most, allowed.bulk) == (0, 0)


def test_of_a_bucket_bulk_gets_less_than_a_code_and_comes_again_later() -> None:
    rate = Rate(per_s=1.0, burst=4, reserve=2.0)
    rules = replace(GATE, rates=(("main", rate),))
    filled = {"main": Bucket(tokens=3.0, at=NOW)}
    allowed = gate.allow(rules, NOTHING_KNOWN, filled, under_way=0, room=8, bulk=8, now=NOW)
    assert (allowed.most, allowed.bulk) == (3, 1)  # two are kept
    drained = {"main": Bucket(tokens=0.0, at=NOW)}
    # One mail and the two that are kept for urgent ones.
    assert gate.again_at(rules, NOTHING_KNOWN, drained, NOW) == NOW + at(3)


def test_a_half_open_breaker_names_no_time() -> None:
    """Its `until` is when lost probes are given up, not when it is worth asking."""
    half = Shared(breaker=Breaker(position=Position.HALF_OPEN, until=NOW + at(30)))
    assert gate.again_at(GATE, half, {}, NOW) is None


def test_others_stand_in_only_for_a_pause_that_is_longer_than_told() -> None:
    rules = replace(GATE, fallback_from_s=60.0)
    assert not gate.shut(rules, Shared(paused_until=NOW + at(60)), NOW)
    assert gate.shut(rules, Shared(paused_until=NOW + at(60.001)), NOW)


def test_who_stands_in_is_asked_of_the_time_and_the_rules() -> None:
    rules = GateRules(
        provider="spare",
        providers=("main", "spare"),
        routes=(Route(to=("main", "spare")),),
        fallback_from_s=60.0,
    )
    mail = {"mail_class": "notice", "sender": "a@example.org", "recipient": "b@example.com"}
    for pause, takes in ((61.0, True), (59.0, False)):
        known = {"main": Shared(paused_until=NOW + at(pause)), "spare": NOTHING_KNOWN}
        assert gate.takes_now(rules, known, NOW).takes(**mail, provider=None, doubted=False) is takes


def test_without_a_breaker_nobody_waits_for_the_provider_to_be_well() -> None:
    rules = GateRules(breaker=BreakerRules(failures=0))
    assert not gate.patient_waits(rules, Shared(well_since=NOW), NOW)


def test_a_success_matters_while_there_is_trouble_or_news_in_its_fields() -> None:
    spent = replace(YES, limits=(("RateLimit", '"default";r=0;t=30'),))
    throttled = replace(NOTHING_KNOWN, throttles=2)
    assert gate.matters(GATE, throttled, classify(YES), YES, NOW)
    assert gate.matters(GATE, NOTHING_KNOWN, classify(spent), spent, NOW)
    assert not gate.matters(GATE, NOTHING_KNOWN, classify(YES), YES, NOW)


def test_in_good_times_no_arithmetic_is_made() -> None:
    """Nearly every attempt comes this way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(gate, "after")
        assert not gate.matters(GATE, NOTHING_KNOWN, classify(YES), YES, NOW)


def test_what_is_known_of_an_attempt_is_all_of_it_or_nothing() -> None:
    half = replace(
        OPENED, breaker=Breaker(position=Position.HALF_OPEN, since=NOW, until=NOW + at(30), probes=1)
    )
    for outcome, evidence in ((None, None), (classify(DOWN), None), (None, DOWN)):
        left = gate.after(GATE, half, outcome, evidence, now=NOW + at(1), began_at=NOW + at(1))
        assert (left.breaker.position, left.breaker.probes, left.reason) == (Position.HALF_OPEN, 0, "down")


def test_successes_that_nobody_has_told_yet_count_with_the_next_failure() -> None:
    for good_before in (0, 7):
        after = gate.after(
            GATE, NOTHING_KNOWN, classify(DOWN), DOWN, now=NOW, began_at=NOW, good_before=good_before
        )
        assert (after.breaker.good, after.breaker.bad) == (good_before, 1)
    silent = gate.after(GATE, NOTHING_KNOWN, classify(DOWN), DOWN, now=NOW, began_at=NOW)
    assert silent.breaker.good == 0


def test_a_short_pause_is_a_pause_and_says_why() -> None:
    fast = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=429)
    after = gate.after(GATE, NOTHING_KNOWN, classify(fast), fast, now=NOW, began_at=NOW)
    assert after.paused_until == NOW + at(0.5)
    assert after.reason == classify(fast).reason


def test_a_date_to_come_back_is_counted_from_now() -> None:
    dated = replace(DOWN, retry_after="Sun, 29 Nov 2026 12:00:30 GMT")
    after = gate.after(GATE, NOTHING_KNOWN, classify(dated), dated, now=NOW, began_at=NOW)
    assert after.paused_until == NOW + at(30)


def test_why_it_is_as_it_is_stays_until_it_is_well() -> None:
    refused = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=422)
    troubled_once = Shared(breaker=Breaker(in_a_row=1, bad=1, since=NOW), reason="down")
    assert gate.after(GATE, troubled_once, classify(refused), refused, now=NOW, began_at=NOW).reason == "down"


# --- what else is shared ----------------------------------------------------------------------------------


def test_of_a_domain_as_many_go_as_may_and_of_all_as_many_as_there_is_room_for() -> None:
    mails = [(1, "a"), (2, "a"), (3, "a"), (4, "b"), (5, "b")]
    assert choose(mails, {}, {"a": 2}, most=9).ids == (1, 2, 4, 5)
    assert choose(mails, {"a": 1}, {"a": 2}, most=9).ids == (1, 4, 5)
    assert choose(mails, {}, {}, most=3).ids == (1, 2, 3)
    assert choose(mails, {}, {"a": 2}, most=9).full == {"a"}


def test_domains_are_counted() -> None:
    assert count(["a", "b", "a", "a"]) == {"a": 3, "b": 1}


PACE = PaceRules(most=8, samples=1, tolerance=2.0, floor_s=0.0, memory=0.5)


def test_twice_what_is_usual_is_not_slow_and_more_is() -> None:
    pace = Pace(limit=4.0, usual_s=1.0)
    steady = answered(pace, PACE, 2.0)
    assert (steady.limit, steady.usual_s) == (5.0, 1.5)
    assert answered(pace, PACE, 2.001).limit < 4.0


def test_trouble_forgets_the_answers_of_this_round() -> None:
    assert troubled(Pace(limit=8.0, usual_s=1.0, seen_s=(1.0, 2.0)), PACE) == Pace(limit=1.0, usual_s=1.0)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ([("RateLimit", '"a";r=0;t=7,"b";r=0;t=9')], 9),
        ([("RateLimit", 'a;r=5;t=7,b;r=0;t=9')], 9),
        ([("RateLimit", 'A;r=5;t=7,B;r=0;t=9')], 9),
        ([("RateLimit", f'"a";r=0;t={EPOCH + 40}')], 40),
        # Just now, and in the second from which on a number is a time.
        ([("RateLimit-Remaining", "0"), ("RateLimit-Reset", str(EPOCH))], 0),
        ([("RateLimit-Remaining", "0"), ("RateLimit-Reset", str(EPOCH - 1))], 0),
        ([("RateLimit-Remaining", "0"), ("RateLimit-Reset", "1000000000")], 0),
        ([("RateLimit-Remaining", "0"), ("RateLimit-Reset", "999999999")], 86_400),
        ([("RateLimit-Remaining", "0"), ("RateLimit-Reset", "soon")], 0),
        ([("RateLimit-Remaining", "0")], 0),
    ],
)  # fmt: skip
def test_when_quota_comes_again(fields: list[tuple[str, str]], expected: float) -> None:
    assert used_up_s(tuple(fields), NOW, most_s=86_400.0) == expected


def test_a_field_with_a_time_since_1970_is_a_pause_from_now() -> None:
    fields = (("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", str(EPOCH + 40)))
    seen = replace(YES, limits=fields)
    assert pause_s(classify(seen), seen, NOW, throttles=0, base_s=1.0, cap_s=9.0, most_s=86_400.0) == 40


def test_an_address_is_not_the_end_of_another() -> None:
    """`ann@example.org` is no pattern for `joann@example.org`; `@example.org` is one for both."""
    one, all_ = (
        Route(to=("main",), senders=("ann@example.org",)),
        Route(to=("main",), senders=("@example.org",)),
    )
    for sender, fits in (("ann@example.org", True), ("joann@example.org", False)):
        assert one.fits(mail_class="notice", sender=sender, recipient="b@example.com") is fits
        assert all_.fits(mail_class="notice", sender=sender, recipient="b@example.com")


@pytest.mark.parametrize(
    ("provider", "mine", "nobodys"),
    [("main", True, False), ("spare", False, False), (None, True, False), ("gone", False, True)],
)
def test_whose_doubt_it_is(provider: str | None, mine: bool, nobodys: bool) -> None:
    first = Mine(provider="main", providers=("main", "spare"))
    assert (first.is_mine(provider), first.is_nobodys(provider)) == (mine, nobodys)
    second = Mine(provider="spare", providers=("main", "spare"))
    assert second.is_mine(provider) is (provider == "spare")


def test_a_request_is_filled_to_the_last_octet() -> None:
    half = b"x" * 50
    one, two = parcel(half, id=1), parcel(half, id=2)
    assert together([one, two], 10, 100) == [(one, two)]
    more = parcel(half + b"x", id=2)
    assert together([one, more], 10, 100) == [(one,), (more,)]


def test_what_is_no_address_is_said_to_be_none() -> None:
    with pytest.raises(InvalidMail, match=r"^the address 'nobody'"):
        canonical("nobody")


# --- what people read ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "doubted", "reason", "provider_id"),
    [
        (State.ACCEPTED, False, "about an accepted mail", None),
        (State.UNKNOWN, True, "it was the evidence that was missing", "m9"),
        (State.SENDING, True, "the mail is being sent", None),
        (State.PENDING, True, "an attempt in doubt was accepted: no other one", "m9"),
        (State.PENDING, False, "no attempt of ours can have been accepted", None),
    ],
)
def test_what_an_event_says_to_a_row(
    state: State, doubted: bool, reason: str, provider_id: str | None
) -> None:
    row = docket(state=state, doubted_at=NOW if doubted else None, provider_id="m0")
    heard = on_event(row, "m9")
    assert heard.reason == reason
    if provider_id is None:
        assert heard.move is None
        return
    assert heard.move is not None
    assert (heard.move.reason, heard.move.provider_id) == ("an event proves that it was accepted", "m9")
    untold = on_event(row, None).move
    assert untold is not None
    assert untold.provider_id == "m0"


@pytest.mark.parametrize("bar", list(Bar))
def test_a_barred_mail_says_why(bar: Bar) -> None:
    decision = before_sending(docket(bar=bar), settings(), NOW)
    assert decision is not None
    assert decision.reason == BARRED[bar].reason
    waits = decision.state is State.PENDING
    assert (decision.next_attempt_at is not None) is waits
    assert before_sending(docket(bar=bar), settings(), NOW + at(5)) != decision or not waits


def test_our_own_trouble_says_nothing_about_the_provider() -> None:
    """Not even that it has stopped to throttle."""
    shared = Shared(throttles=3, paused_until=NOW + at(9), reason="too fast")
    ours = Evidence(wire=Wire.HTTP, phase=Phase.CONNECT, trouble="withdrawn")
    assert standing(TryLater(reason="ours"), ours) is Standing.NONE
    assert gate.after(GATE, shared, TryLater(reason="ours"), ours, now=NOW, began_at=NOW) == shared


@pytest.mark.parametrize(
    ("value", "resets"),
    [
        ('"a";r=0;t=7, "b";r=0;t=8', ["7", "8"]),
        ("a;r=0;t=7,b;r=5;t=8", ["7"]),
        ("A;r=5;t=7,B;r=0;t=8", ["8"]),
        ("a;r=0;t=7, *x;r=0;t=9", ["7", "9"]),
    ],
)
def test_each_item_of_a_list_has_a_rest_of_its_own(value: str, resets: list[str]) -> None:
    assert used_up_s((("ratelimit", value),), NOW, most_s=86_400.0) == max(float(each) for each in resets)


@pytest.mark.parametrize("bar", [bar for bar in Bar if BARRED[bar].state is not State.PENDING])
def test_what_is_barred_and_in_doubt_is_looked_at_now(bar: Bar) -> None:
    decision = before_sending(docket(bar=bar, doubted_at=NOW - at(5)), settings(), NOW)
    assert decision is not None
    assert (decision.state, decision.next_attempt_at) == (State.UNKNOWN, NOW)


def test_what_has_just_come_in_is_waited_for() -> None:
    """Also where patience is short, and where it was received by a clock that is ahead."""
    assert look_again_at(NOW, NOW + at(0.4), patience_s=0.5) == NOW + at(1.4)
    assert look_again_at(NOW + at(5), NOW, patience_s=0.5) == NOW + at(1)
