"""The breaker as a table of what happens to it, and what must hold whatever happens."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_sender.policy.breaker import (
    CLOSED,
    Breaker,
    BreakerRules,
    Position,
    Standing,
    room,
    standing,
    taken,
    went,
)
from reference_sender.policy.classify import classify
from reference_sender.policy.evidence import NO_LETTERS, Evidence, Phase, Wire
from tests.reference_sender.samples import NOW

RULES = BreakerRules(
    failures=3, rate=0.5, least=10, window_s=60, pause_s=5, pause_cap_s=18, probes=2, probe_s=30
)


def later(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


def tell(breaker: Breaker, news: str, at_s: float = 0.0, rules: BreakerRules = RULES, **more: int) -> Breaker:
    """`news`: g good, b bad, s shut, n nothing; each of an attempt that began just then."""
    names = {"g": Standing.GOOD, "b": Standing.BAD, "s": Standing.SHUT, "n": Standing.NONE}
    for each in news:
        now = NOW + later(at_s)
        breaker = went(breaker, rules, names[each], now=now, began_at=now, **more)
    return breaker


@pytest.mark.parametrize(
    ("news", "position"),
    [
        ("bb", Position.CLOSED),
        ("bbb", Position.OPEN),
        ("bbgbb", Position.CLOSED),
        ("bnbnb", Position.OPEN),
        ("s", Position.OPEN),
        ("bgbgbgbgb", Position.CLOSED),
        ("bgbgbgbgbb", Position.OPEN),  # half of ten
        ("ggggggggbgbgbgb", Position.CLOSED),
    ],
)
def test_it_opens_on_failures_in_a_row_or_on_their_share(news: str, position: Position) -> None:
    assert tell(CLOSED, news).position is position


def test_failures_of_an_earlier_window_do_not_count_for_the_share() -> None:
    breaker = tell(CLOSED, "bgbgbgbgb")
    assert tell(breaker, "b", at_s=61).position is Position.CLOSED
    assert tell(breaker, "b", at_s=59).position is Position.OPEN


def test_successes_that_were_not_told_count_when_a_failure_is() -> None:
    assert tell(tell(CLOSED, "bgbgbgbg"), "bb").position is Position.OPEN
    assert tell(tell(CLOSED, "bgbgbgbg"), "bb", good_before=10).position is Position.CLOSED


def test_failures_of_several_workers_are_no_row_if_mail_went_well_between_them() -> None:
    """One in eight fails, and each worker tells only of failures: with five workers that looks like a row of five."""
    breaker = CLOSED
    for _ in range(8):
        breaker = tell(breaker, "b", good_before=7)
    assert (breaker.position, breaker.in_a_row, breaker.bad) == (Position.CLOSED, 1, 8)
    assert tell(tell(breaker, "b", good_before=1), "bb").position is Position.OPEN


def test_nobody_asks_until_the_pause_is_over_and_then_a_few() -> None:
    breaker = tell(CLOSED, "bbb")
    assert room(breaker, RULES, NOW) == 0
    assert room(breaker, RULES, NOW + later(4.9)) == 0
    assert room(breaker, RULES, NOW + later(5)) == 2
    probing = taken(breaker, RULES, 1, NOW + later(5))
    assert probing.position is Position.HALF_OPEN
    assert room(probing, RULES, NOW + later(6)) == 1
    probing = taken(probing, RULES, 1, NOW + later(6))
    assert room(probing, RULES, NOW + later(7)) == 0


def test_it_closes_when_so_many_probes_went_well_and_forgets() -> None:
    probing = taken(tell(CLOSED, "bbb"), RULES, 2, NOW + later(5))
    one = tell(probing, "g", at_s=6)
    assert (one.position, room(one, RULES, NOW + later(6))) == (Position.HALF_OPEN, 1)
    assert tell(one, "g", at_s=7) == CLOSED


def test_a_probe_that_fails_opens_it_for_twice_as_long_up_to_a_cap() -> None:
    breaker, at_s = tell(CLOSED, "bbb"), 0.0
    for pause_s in (5.0, 10.0, 18.0, 18.0):
        assert breaker.until == NOW + later(at_s + pause_s)
        at_s += pause_s
        breaker = tell(taken(breaker, RULES, 1, NOW + later(at_s)), "b", at_s=at_s)
        assert breaker.position is Position.OPEN


def test_probes_that_were_lost_with_their_worker_are_sent_anew() -> None:
    probing = taken(tell(CLOSED, "bbb"), RULES, 2, NOW + later(5))
    assert room(probing, RULES, NOW + later(34.9)) == 0
    assert room(probing, RULES, NOW + later(35)) == 2
    again = taken(probing, RULES, 1, NOW + later(35))
    assert (again.probes, again.passed, again.until) == (1, 0, NOW + later(65))


def test_what_began_before_says_nothing_about_now() -> None:
    """Attempts that were under way when it opened end while it is open, or while others probe."""
    opened = tell(CLOSED, "bbb")
    assert tell(opened, "gbbs") == opened
    probing = taken(opened, RULES, 1, NOW + later(5))
    for news in (Standing.GOOD, Standing.BAD):
        assert went(probing, RULES, news, now=NOW + later(6), began_at=NOW + later(4)) == probing


def test_without_a_breaker_everything_passes() -> None:
    off = BreakerRules(failures=0)
    assert tell(CLOSED, "bbbbbs", rules=off) == CLOSED
    assert room(tell(CLOSED, "bbb"), off, NOW) is None


@pytest.mark.parametrize(
    ("wire", "phase", "code", "more", "expected"),
    [
        (Wire.HTTP, Phase.SENT, 200, {"provider_id": "m"}, Standing.GOOD),
        (Wire.HTTP, Phase.SENT, 200, {}, Standing.BAD),
        (Wire.HTTP, Phase.SENT, 422, {}, Standing.GOOD),
        (Wire.HTTP, Phase.SENT, 400, {}, Standing.GOOD),
        (Wire.HTTP, Phase.SENT, 409, {}, Standing.GOOD),
        (Wire.HTTP, Phase.SENT, 422, {"problem": "key_reused"}, Standing.GOOD),
        (Wire.HTTP, Phase.SENT, 409, {"problem": "key_done"}, Standing.GOOD),
        (Wire.HTTP, Phase.SENT, 429, {}, Standing.GOOD),
        (Wire.HTTP, Phase.SENT, 401, {}, Standing.SHUT),
        (Wire.HTTP, Phase.SENT, 403, {}, Standing.SHUT),
        (Wire.HTTP, Phase.SENT, 500, {}, Standing.BAD),
        (Wire.HTTP, Phase.SENT, 503, {}, Standing.BAD),
        (Wire.HTTP, Phase.SENT, None, {"trouble": "timeout"}, Standing.BAD),
        (Wire.HTTP, Phase.CONNECT, None, {"trouble": "no connection"}, Standing.BAD),
        (Wire.HTTP, Phase.BODY, None, {"trouble": "withdrawn"}, Standing.NONE),
        (Wire.HTTP, Phase.BODY, None, {"trouble": "no time left"}, Standing.NONE),
        (Wire.SMTP, Phase.AUTH, 535, {}, Standing.SHUT),
        (Wire.SMTP, Phase.MAIL, 421, {}, Standing.BAD),
        (Wire.SMTP, Phase.RCPT, 550, {}, Standing.GOOD),
        (Wire.SMTP, Phase.RCPT, 450, {}, Standing.GOOD),
        (Wire.SMTP, Phase.RCPT, None, {"trouble": "eof"}, Standing.BAD),
        (Wire.SMTP, Phase.DATA, None, {"trouble": "withdrawn"}, Standing.NONE),
        (Wire.SMTP, Phase.CONNECT, None, {"trouble": NO_LETTERS}, Standing.NONE),
    ],
)
def test_what_an_attempt_says_about_the_provider(
    wire: Wire, phase: Phase, code: int | None, more: dict[str, str], expected: Standing
) -> None:
    """Bad mail opens nothing, back-pressure is no outage, and a success that cannot be read is none."""
    evidence = Evidence(wire=wire, phase=phase, code=code, **more)  # type: ignore[arg-type] # words only
    assert standing(classify(evidence), evidence) is expected


@given(st.lists(st.tuples(st.sampled_from("gbsnt"), st.floats(0, 40)), max_size=60))
def test_it_always_comes_back_and_never_lets_more_than_its_probes_through(
    steps: list[tuple[str, float]],
) -> None:
    """Whatever happens: at most so many probes a round, and after the longest wait somebody may ask."""
    breaker, at_s, out, unused = CLOSED, 0.0, 0, 0
    for step, passed_s in steps:
        at_s += passed_s
        now = NOW + later(at_s)
        if step == "t":
            free = room(breaker, RULES, now)
            before = breaker
            breaker = taken(breaker, RULES, 5 if free is None else free, now)
            if breaker.since != before.since:
                out = unused = 0
            out += free or 0
            assert breaker.position is Position.CLOSED or out <= RULES.probes + breaker.passed + unused
        else:
            unused += step == "n"
            breaker = tell(breaker, step, at_s=at_s)
        longest = max(RULES.pause_cap_s, RULES.probe_s)
        assert room(breaker, RULES, now + later(longest)) != 0
