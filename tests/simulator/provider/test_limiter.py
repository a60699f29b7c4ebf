"""Limits: whoever waits as told is not refused again, and nobody pays for what somebody else has sent."""

from __future__ import annotations

import pytest

from simulator.provider import limiter as room
from simulator.provider.answer import Reason, RetryAfter, RetryAfterKind
from simulator.provider.limiter import Kind, Limiter, Occasion, refusal
from simulator.provider.limits import Counts, Limit, Scope, Told
from simulator.provider.meters import Standing
from simulator.provider.rule import Pattern
from tests.simulator.provider.limiters import EVERY, SOMEBODY, limiter, waits
from tests.simulator.provider.mails import ANN, BOB, NOW, after

# --- whose limit it is ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("per", "same", "other"),
    [
        (Scope.IP, Occasion(ip="10.0.0.1"), Occasion(ip="10.0.0.2")),
        (Scope.SENDER, Occasion(ip="x", sender="SHOP@example.org"), Occasion(ip="x", sender="b@example.org")),
        (
            Scope.RECIPIENT_DOMAIN,
            Occasion(ip="x", recipients=(ANN,)),
            Occasion(ip="x", recipients=("a@b.c",)),
        ),
    ],
)
def test_each_scope_counts_for_itself(per: Scope, same: Occasion, other: Occasion) -> None:
    it = limiter(Limit(name="l", per=per, rate_per_s=1))

    assert waits(it) is None
    assert waits(it, 0, same) == 1.0
    assert waits(it, 0, other) is None


def test_a_limit_may_be_meant_for_some_only() -> None:
    it = limiter(Limit(name="l", per=Scope.RECIPIENT_DOMAIN, only=Pattern("*.org"), rate_per_s=1))

    assert [waits(it), waits(it)] == [None, 1.0]
    assert [waits(it, 0, Occasion(ip="x", recipients=("a@b.com",))) for _ in range(3)] == [None] * 3


def test_what_one_limit_refuses_costs_nothing_at_another() -> None:
    it = limiter(Limit(name="a", rate_per_s=1, burst=9), Limit(name="b", per=Scope.IP, rate_per_s=1, burst=1))
    for _ in range(5):
        it.take(EVERY, SOMEBODY, NOW)

    assert [each.remaining for each in it.standings(SOMEBODY, NOW)] == [8, 0]


def test_the_longest_wait_is_told() -> None:
    it = limiter(
        Limit(name="a", rate_per_s=1), Limit(name="b", per_minute=1), Limit(name="c", rate_per_s=0.5)
    )
    it.take(EVERY, SOMEBODY, NOW)
    excess = it.take(EVERY, SOMEBODY, NOW)

    assert excess is not None
    assert (excess.limit.name, excess.kind, excess.wait_s) == ("b", Kind.QUOTA, 60.0)


def test_a_look_takes_nothing() -> None:
    it = limiter(Limit(name="a", rate_per_s=1))

    assert [it.look(EVERY, SOMEBODY, NOW) for _ in range(5)] == [None] * 5
    assert waits(it) is None


def test_one_mail_to_many_passes_and_is_owed() -> None:
    """As some providers do: any budget left lets it through, the next ones pay."""
    it = limiter(Limit(name="a", rate_per_s=1, burst=2, counts=Counts.RECIPIENTS))
    many = Occasion(ip="x", recipients=(BOB,) * 5)

    assert waits(it, 0, many) is None
    assert waits(it, 0) == 4.0
    assert waits(it, 4) is None


def test_domains_of_one_mail_are_counted_apart() -> None:
    it = limiter(Limit(name="a", per=Scope.RECIPIENT_DOMAIN, rate_per_s=1, burst=2))
    mixed = Occasion(ip="x", recipients=("a@one.test", "b@ONE.test", "c@two.test"))

    assert waits(it, 0, mixed) is None
    assert waits(it, 0, Occasion(ip="x", recipients=("a@one.test",))) == 1.0
    assert waits(it, 0, Occasion(ip="x", recipients=("c@two.test",))) is None


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those longest quiet are forgotten first."""
    monkeypatch.setattr(room, "MOST_SCOPES", 2)
    it = limiter(Limit(name="l", per=Scope.SENDER, rate_per_s=1))

    def sends(name: str) -> float | None:
        return waits(it, 0, Occasion(ip="x", sender=name))

    assert [sends(name) for name in ("a", "b", "a", "c", "a", "b")] == [None, None, 1.0, None, 1.0, None]


# --- connections ------------------------------------------------------------------------------------


def test_connections_are_counted_until_they_leave() -> None:
    it = limiter(Limit(name="l", connections=2), Limit(name="i", per=Scope.IP, connections=1))

    assert it.enter("c1", "a") is None
    assert it.enter("c1", "a") is None, "the same connection counts once"
    by_address = it.enter("c2", "a")
    assert by_address is not None
    assert (by_address.limit.name, by_address.kind, by_address.wait_s) == ("i", Kind.CONNECTIONS, None)
    assert it.enter("c3", "b") is None
    by_account = it.enter("c4", "c")
    assert by_account is not None
    assert by_account.limit.name == "l"
    it.leave("c1")
    it.leave("c1")
    it.leave("never here")
    assert it.enter("c5", "a") is None


def test_other_limits_keep_who_is_here() -> None:
    it = Limiter()
    it.enter("c1", "a")
    later = it.renewed((Limit(name="l", connections=1),))

    assert later.enter("c2", "b") is not None
    later.leave("c1")
    assert later.enter("c2", "b") is None


# --- what is said -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "smtp", "reason", "detail"),
    [
        (Limit(name="l", rate_per_s=1), (451, "4.7.0"), Reason.RATE_LIMITED, "too many mails just now"),
        (Limit(name="l", per=Scope.IP, rate_per_s=1), (421, "4.7.0"), Reason.RATE_LIMITED, "too many mails from this address just now"),
        (Limit(name="l", per=Scope.SENDER, rate_per_s=1), (450, "4.7.1"), Reason.RATE_LIMITED, "too many mails from this sender just now"),
        (Limit(name="l", per=Scope.RECIPIENT_DOMAIN, rate_per_s=1), (450, "4.7.1"), Reason.RATE_LIMITED, "too many mails to example.org just now"),
        (Limit(name="l", per_day=1), (452, "4.5.3"), Reason.QUOTA_EXCEEDED, "the quota of mails is used up"),
        (Limit(name="l", rate_per_s=1, smtp=550, text="no"), (550, "5.7.0"), Reason.RATE_LIMITED, "no"),
        (Limit(name="l", rate_per_s=1, smtp=421, enhanced="4.7.28"), (421, "4.7.28"), Reason.RATE_LIMITED, "too many mails just now"),
    ],
    ids=str,
)  # fmt: skip
def test_each_excess_has_its_words(limit: Limit, smtp: tuple[int, str], reason: Reason, detail: str) -> None:
    it = limiter(limit)
    it.take(EVERY, SOMEBODY, NOW)
    excess = it.take(EVERY, SOMEBODY, NOW)

    assert excess is not None
    said = refusal(excess)
    assert (said.smtp, said.reason, said.detail) == (smtp, reason, detail)


def test_when_to_come_back_is_told_in_whole_seconds_or_as_the_limit_says() -> None:
    def told(how: Told) -> RetryAfter | None:
        it = limiter(Limit(name="l", rate_per_s=0.4, retry_after=how))
        it.take(EVERY, SOMEBODY, NOW)
        excess = it.take(EVERY, SOMEBODY, NOW)
        assert excess is not None
        return refusal(excess).retry_after

    assert told(Told.SECONDS) == RetryAfter(kind=RetryAfterKind.SECONDS, seconds=3.0)
    assert told(Told.DATE) == RetryAfter(kind=RetryAfterKind.DATE, seconds=3.0)
    assert told(Told.NOTHING) is None


def test_nobody_knows_when_a_connection_ends() -> None:
    it = limiter(Limit(name="l", connections=1, http=503))
    it.enter("c1", "a")
    excess = it.enter("c2", "a")

    assert excess is not None
    said = refusal(excess)
    assert (said.smtp, said.code, said.reason, said.retry_after) == (
        (421, "4.7.0"),
        503,
        Reason.TOO_MANY_CONNECTIONS,
        None,
    )


def test_how_limits_stand() -> None:
    it = limiter(Limit(name="fast", rate_per_s=2, burst=4), Limit(name="slow", per_minute=9, per_day=50))
    assert it.standings(SOMEBODY, NOW) == [
        Standing(name="fast", quota=4, window_s=2.0, remaining=4, reset_s=0.0),
        Standing(name="slow-per_minute", quota=9, window_s=60.0, remaining=9, reset_s=0.0),
        Standing(name="slow-per_day", quota=50, window_s=86_400.0, remaining=50, reset_s=0.0),
    ]
    for _ in range(4):
        it.take(EVERY, SOMEBODY, NOW)

    assert it.standings(SOMEBODY, after(0.25)) == [
        Standing(name="fast", quota=4, window_s=2.0, remaining=0, reset_s=0.25),
        Standing(name="slow-per_minute", quota=9, window_s=60.0, remaining=5, reset_s=59.75),
        Standing(name="slow-per_day", quota=50, window_s=86_400.0, remaining=46, reset_s=86_399.75),
    ]
