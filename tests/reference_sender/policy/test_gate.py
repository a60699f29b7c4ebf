"""The gate: everything that may hold mail back, and what an attempt changes for everybody."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from reference_sender.policy import gate
from reference_sender.policy.breaker import CLOSED, BreakerRules, Position
from reference_sender.policy.bucket import Bucket, Rate
from reference_sender.policy.classify import classify
from reference_sender.policy.evidence import Evidence, Phase, Wire
from reference_sender.policy.gate import NOTHING_KNOWN, GateRules, Shared
from reference_sender.policy.routes import Route
from tests.reference_sender.samples import NOW

YES = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=200, provider_id="m1")
NO = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=422)
DOWN = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=503)
FAST = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=429)
LOCKED = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=401)

RULES = GateRules(breaker=BreakerRules(failures=2, pause_s=10, probes=1), patient_s=60)


def at(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


def after(shared: Shared, *seen: Evidence, at_s: float = 0.0, rules: GateRules = RULES) -> Shared:
    for each in seen:
        shared = gate.after(rules, shared, classify(each), each, now=NOW + at(at_s), began_at=NOW + at(at_s))
    return shared


def allow(shared: Shared, rules: GateRules = RULES, at_s: float = 0.0, **more: Any) -> gate.Allowance:
    given: dict[str, Any] = {"filled": {}, "under_way": 0, "room": 8, "bulk": 6} | more
    return gate.allow(rules, shared, now=NOW + at(at_s), **given)


def test_in_good_times_everything_passes() -> None:
    allowed = allow(NOTHING_KNOWN)
    assert (allowed.most, allowed.bulk) == (8, 6)
    assert gate.again_at(RULES, NOTHING_KNOWN, {}, NOW) is None


def test_a_success_and_a_refusal_of_one_mail_change_nothing() -> None:
    for seen in (YES, NO):
        assert not gate.matters(RULES, NOTHING_KNOWN, classify(seen), seen, NOW)
        assert after(NOTHING_KNOWN, seen) == NOTHING_KNOWN


def test_trouble_matters_and_so_does_the_success_that_ends_it() -> None:
    assert gate.matters(RULES, NOTHING_KNOWN, classify(DOWN), DOWN, NOW)
    once = after(NOTHING_KNOWN, DOWN)
    assert gate.matters(RULES, once, classify(YES), YES, NOW)
    assert after(once, YES).breaker.clean


def test_an_open_breaker_lets_nobody_pass_and_says_when_to_come_back() -> None:
    shared = after(NOTHING_KNOWN, DOWN, DOWN)
    assert allow(shared).most == 0
    assert gate.again_at(RULES, shared, {}, NOW) == NOW + at(10)
    assert shared.reason == "the provider is not available"
    assert (allow(shared, at_s=10).most, allow(shared, at_s=10).bulk) == (1, 1)


def test_a_wrong_password_shuts_it_at_once() -> None:
    assert after(NOTHING_KNOWN, LOCKED).breaker.position is Position.OPEN


def test_a_pause_that_was_asked_for_holds_for_everybody_and_is_never_shortened() -> None:
    shared = after(NOTHING_KNOWN, replace(FAST, retry_after="30"), replace(FAST, retry_after="5"))
    assert gate.again_at(RULES, shared, {}, NOW) == NOW + at(30)
    assert allow(shared, at_s=29.9).most == 0
    assert allow(shared, at_s=30).most == 8
    assert shared.breaker == CLOSED, "being too fast is no outage"


def test_a_pause_that_was_asked_for_holds_no_longer_than_the_operator_says() -> None:
    rules = replace(RULES, retry_after_max_s=3_600.0)
    for seen in (replace(DOWN, retry_after="7200"), replace(YES, limits=(("RateLimit", '"d";r=0;t=7200'),))):
        assert after(NOTHING_KNOWN, seen, rules=rules).paused_until == NOW + at(3_600)
        assert after(NOTHING_KNOWN, seen).paused_until == NOW + at(7_200)


def test_too_fast_without_a_time_pauses_longer_each_time_in_a_row() -> None:
    rules = replace(RULES, throttle_pause_s=2.0)
    shared, paused_s = NOTHING_KNOWN, []
    for at_s in (0.0, 100.0, 200.0):
        shared = after(shared, FAST, at_s=at_s, rules=rules)
        assert shared.paused_until is not None
        paused_s.append((shared.paused_until - NOW - at(at_s)).total_seconds())
    assert paused_s == [2.0, 4.0, 8.0]


def test_a_bucket_holds_back_bulk_before_it_holds_back_codes() -> None:
    rules = replace(RULES, rates=(("main", Rate(per_s=1.0, burst=4, reserve=3.0)),))
    filled = {"main": Bucket(tokens=3.0, at=NOW)}
    allowed = allow(NOTHING_KNOWN, rules, filled=filled)
    assert (allowed.most, allowed.bulk) == (3, 0)
    assert gate.again_at(rules, NOTHING_KNOWN, filled, NOW) == NOW + at(1)


def test_the_tightest_of_several_buckets_counts() -> None:
    rules = replace(RULES, rates=(("main", Rate(per_s=1.0, burst=9)), ("account", Rate(per_s=0.1, burst=2))))
    filled = {"main": Bucket(tokens=9.0, at=NOW), "account": Bucket(tokens=1.0, at=NOW)}
    assert allow(NOTHING_KNOWN, rules, filled=filled).most == 1
    filled["account"] = Bucket(tokens=0.0, at=NOW)
    assert gate.again_at(rules, NOTHING_KNOWN, filled, NOW) == NOW + at(10)


def test_what_is_under_way_elsewhere_counts() -> None:
    rules = replace(RULES, in_flight=10)
    assert allow(NOTHING_KNOWN, rules, under_way=7).most == 3
    assert allow(NOTHING_KNOWN, rules, under_way=11).most == 0


def test_patient_mail_waits_until_the_provider_has_been_well_for_a_while() -> None:
    shared = after(NOTHING_KNOWN, DOWN, DOWN)
    assert gate.patient_waits(RULES, shared, NOW)
    probing = gate.after_claim(RULES, shared, 1, NOW + at(10))
    assert gate.patient_waits(RULES, probing, NOW + at(10))
    well = after(probing, YES, at_s=11)
    assert well.breaker == CLOSED
    assert (well.reason, well.well_since) == (None, NOW + at(11))
    assert gate.patient_waits(RULES, well, NOW + at(70))
    assert not gate.patient_waits(RULES, well, NOW + at(71))
    assert not gate.patient_waits(RULES, NOTHING_KNOWN, NOW)


def test_others_stand_in_while_it_is_shut() -> None:
    opened = after(NOTHING_KNOWN, DOWN, DOWN)
    assert gate.shut(RULES, opened, NOW)
    assert gate.shut(RULES, after(NOTHING_KNOWN, replace(FAST, retry_after="90")), NOW)
    assert not gate.shut(RULES, after(NOTHING_KNOWN, replace(FAST, retry_after="9")), NOW)
    assert not gate.shut(RULES, after(NOTHING_KNOWN, DOWN), NOW)
    assert gate.shut(RULES, gate.after_claim(RULES, opened, 1, NOW + at(10)), NOW + at(11))


def test_who_is_shut_still_takes_his_own_mail_to_probe_with() -> None:
    rules = replace(RULES, providers=("main", "spare"), routes=(Route(to=("main", "spare")),))
    known = {"main": after(NOTHING_KNOWN, DOWN, DOWN)}
    mail = {"mail_class": "code", "sender": "a@b.c", "recipient": "a@b.c", "provider": "main"}
    for mine, theirs in (("main", True), ("spare", True)):
        taken = gate.takes_now(replace(rules, provider=mine), known, NOW)
        assert taken.takes(**mail, doubted=False) is theirs
    assert not gate.takes_now(replace(rules, provider="spare"), known, NOW).takes(**mail, doubted=True)


def test_two_may_not_count_the_same_thing_at_a_time() -> None:
    assert not gate.counts(RULES, NOTHING_KNOWN)
    assert gate.counts(RULES, after(NOTHING_KNOWN, DOWN, DOWN))
    assert gate.counts(replace(RULES, in_flight=5), NOTHING_KNOWN)
    assert gate.counts(replace(RULES, domains={"a.test": 1}), NOTHING_KNOWN)


def test_without_a_breaker_trouble_is_nobodys_business_but_a_pause_is() -> None:
    rules = replace(RULES, breaker=BreakerRules(failures=0))
    assert not gate.matters(rules, NOTHING_KNOWN, classify(DOWN), DOWN, NOW)
    asked = replace(DOWN, retry_after="7")
    assert gate.matters(rules, NOTHING_KNOWN, classify(asked), asked, NOW)


def test_whoever_switches_the_breaker_off_forgets_where_it_stood() -> None:
    off = replace(RULES, breaker=BreakerRules(failures=0))
    opened = after(NOTHING_KNOWN, DOWN, DOWN)
    assert opened.reason is not None
    assert gate.after_claim(off, opened, 0, NOW) == NOTHING_KNOWN
    assert gate.after_claim(off, NOTHING_KNOWN, 3, NOW) == NOTHING_KNOWN


def test_who_was_held_back_knows_when_to_come_again() -> None:
    view = gate.Gate(RULES)
    shared = after(NOTHING_KNOWN, replace(FAST, retry_after="30"))
    view.saw(shared, {}, now=NOW, limited=True, is_full=True)
    assert (view.seen, view.again_at, view.is_full) == (shared, NOW + at(30), True)
    assert (view.is_shut(NOW + at(29)), view.is_shut(NOW + at(31))) == (True, False)
    view.saw(shared, {}, now=NOW + at(31), limited=False, is_full=True)
    assert (view.again_at, view.is_full) == (None, True)
    view.saw_nothing()
    assert (view.again_at, view.is_full) == (None, False)


def test_every_other_round_asks_with_mail_that_was_tried() -> None:
    asked = []
    shared = after(NOTHING_KNOWN, DOWN, DOWN)
    for _ in range(4):
        asked.append(gate.asks_with_tried(shared))
        assert shared.breaker.until is not None
        begun = gate.after_claim(RULES, shared, 1, shared.breaker.until)
        assert gate.asks_with_tried(begun) is asked[-1]
        since = (shared.breaker.until - NOW).total_seconds()
        shared = after(begun, DOWN, at_s=since)
    assert asked == [False, True, False, True]
    assert not gate.asks_with_tried(NOTHING_KNOWN)


def test_a_probe_that_did_not_come_to_an_attempt_leaves_its_place() -> None:
    probing = gate.after_claim(RULES, after(NOTHING_KNOWN, DOWN, DOWN), 1, NOW + at(10))
    assert allow(probing, at_s=11).most == 0
    unused = gate.after(RULES, probing, None, None, now=NOW + at(11), began_at=NOW + at(11))
    assert allow(unused, at_s=11).most == 1
    assert not gate.matters(RULES, NOTHING_KNOWN, None, None, NOW)
    assert gate.matters(RULES, probing, None, None, NOW + at(11))


def test_who_has_been_told_that_nobody_may_come_does_not_ask_the_database() -> None:
    """While it is paused, and while the breaker wants no probe; until the very moment."""
    open_ = after(NOTHING_KNOWN, DOWN, DOWN)
    assert open_.breaker.until is not None
    until_s = (open_.breaker.until - NOW).total_seconds()
    paused = replace(NOTHING_KNOWN, paused_until=NOW + at(5))
    for shared, over_s in ((paused, 5.0), (open_, until_s)):
        seen = gate.Gate(replace(RULES, rates=(("all", Rate(per_s=1, burst=4)),)))
        assert not seen.lets_in(shared, NOW + at(over_s - 0.001))
        # As a claim that could take nothing: there may be more, and it is known when to ask again.
        assert (seen.seen, seen.is_full, seen.again_at) == (shared, True, NOW + at(over_s))
        fresh = gate.Gate(RULES)
        assert fresh.lets_in(shared, NOW + at(over_s))
        assert (fresh.seen, fresh.is_full, fresh.again_at) == (NOTHING_KNOWN, False, None)


def test_in_good_times_everybody_is_let_in() -> None:
    seen = gate.Gate(RULES)
    assert seen.lets_in(NOTHING_KNOWN, NOW)
    assert not gate.lets_nobody_in(RULES, NOTHING_KNOWN, NOW)
    probing = replace(CLOSED, position=Position.HALF_OPEN, probes=1, until=NOW + at(10))
    assert gate.lets_nobody_in(RULES, replace(NOTHING_KNOWN, breaker=probing), NOW)
