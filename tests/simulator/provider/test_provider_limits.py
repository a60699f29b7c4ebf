"""The provider holds its limits where each wire can say so first, and never at another account's expense."""

from __future__ import annotations

from datetime import datetime

from simulator.provider.answer import Answer, Reason, Refused, RetryAfter, RetryAfterKind
from simulator.provider.faults import ReplyWith, SlowDown
from simulator.provider.ledger import Advice, Booked, Sent, ToldBy
from simulator.provider.limits import Limit, Limits, Scope
from simulator.provider.plan import Plan
from simulator.provider.provider import Detail, Provider, Setup
from simulator.provider.rule import Rule
from tests.simulator.provider.mails import ANN, BOB, NOW, after, mail, provider, send


def smtp(
    it: Provider, *stages: tuple[str, Detail], now: datetime = NOW, peer: str = "10.0.0.1:5"
) -> Answer | None:
    """Walk a dialogue until something goes wrong; return what."""
    attempt = it.open("smtp", peer, now)
    for stage, detail in stages:
        answer = it.step(attempt, stage, detail, now)
        if answer is not None:
            it.close(attempt, now)
            return answer
    return None


FROM = ("mail", Detail(sender="shop@example.org"))


def test_smtp_says_so_at_mail_and_lets_nobody_in_there() -> None:
    it = provider(Setup(limits=Limits(rate_per_s=0.1)))
    assert smtp(it, FROM) is None
    assert smtp(it, FROM) is None, "nothing was taken by one who only came by"
    send(it, mail())
    refused = smtp(it, FROM)

    assert isinstance(refused, Refused)
    assert refused.smtp == (451, "4.7.0")
    assert smtp(it, FROM, now=after(10)) is None


def test_whoever_was_slower_hears_it_at_the_dot() -> None:
    it = provider(Setup(limits=Limits(rate_per_s=0.1)))
    slower = it.open("smtp", "10.0.0.1:5", NOW)
    assert it.step(slower, *FROM, NOW) is None
    send(it, mail())
    verdict = it.submit(slower, mail(), NOW)

    assert isinstance(verdict.answer, Refused)
    assert verdict.answer.reason is Reason.RATE_LIMITED
    assert len(it.account("default", NOW).ledger.acceptances) == 1


def test_a_domain_is_refused_recipient_by_recipient_over_smtp() -> None:
    it = provider(Setup(limit=(Limit(name="d", per=Scope.RECIPIENT_DOMAIN, rate_per_s=0.1),)))
    attempt = it.open("smtp", "10.0.0.1:5", NOW)

    def rcpt(recipient: str) -> Answer | None:
        return it.step(attempt, "rcpt", Detail(recipient=recipient), NOW)

    assert rcpt("a@one.test") is None
    refused = rcpt("b@one.test")
    assert isinstance(refused, Refused)
    assert (refused.smtp, refused.detail) == ((450, "4.7.1"), "too many mails to one.test just now")
    assert rcpt("c@two.test") is None


def test_http_holds_every_limit_when_the_mail_is_there() -> None:
    it = provider(Setup(limit=(Limit(name="d", per=Scope.RECIPIENT_DOMAIN, rate_per_s=0.1),)))
    _, first = send(it, mail(BOB, dialect="native"))
    _, second = send(it, mail(ANN, dialect="native"))
    _, elsewhere = send(it, mail("x@two.test", dialect="native"))

    assert first is not None
    assert second is not None
    assert elsewhere is not None
    assert (bool(first.accepted), bool(second.accepted), bool(elsewhere.accepted)) == (True, False, True)


def test_a_rule_comes_before_a_limit_and_what_it_refuses_costs_nothing() -> None:
    broken = Rule(name="r", fault=ReplyWith(code=503), stages=frozenset({("http", "accept")}))
    it = provider(Setup(plan=Plan(rules=(broken,)), limits=Limits(rate_per_s=0.1)))
    for _ in range(3):
        _, verdict = send(it, mail(dialect="native"))
        assert verdict is None
    it.heal("default", NOW)
    _, verdict = send(it, mail(dialect="native"))

    assert verdict is not None
    assert verdict.accepted


def test_a_slow_rule_delays_what_a_limit_says() -> None:
    slow = Rule(name="r", fault=SlowDown(delay_s=2), stages=frozenset({("smtp", "mail")}))
    it = provider(Setup(plan=Plan(rules=(slow,)), limits=Limits(rate_per_s=0.1)))
    it.submit(it.open("smtp", "p", NOW), mail(), NOW)
    answer = smtp(it, FROM)

    assert "slow" in str(answer).lower()
    assert "too many mails" in str(answer)


def test_connections_are_counted_from_the_greeting_on() -> None:
    it = provider(Setup(limits=Limits(connections=2, connections_per_ip=1)))
    first = it.open("smtp", "10.0.0.1:1", NOW)
    assert it.step(first, "connect", Detail(), NOW) is None
    by_address = smtp(it, ("connect", Detail()), peer="10.0.0.1:2")
    assert isinstance(by_address, Refused)
    assert by_address.smtp == (421, "4.7.0")
    second = it.open("smtp", "[::1]:1", NOW)
    assert it.step(second, "connect", Detail(), NOW) is None
    assert isinstance(smtp(it, ("connect", Detail()), peer="10.0.0.3:1"), Refused)

    it.gone(first.connection)
    it.gone(first.connection)
    assert smtp(it, ("connect", Detail()), peer="10.0.0.3:1") is None


def test_a_connection_that_names_itself_counts_in_its_account() -> None:
    it = provider(Setup(limits=Limits(connections=1)))
    it.account("shop", NOW)
    first = it.open("smtp", "10.0.0.1:1", NOW)
    it.step(first, "connect", Detail(), NOW)
    it.step(first, "auth", Detail(credential="shop"), NOW)
    second = it.open("smtp", "10.0.0.1:2", NOW)

    assert it.step(second, "connect", Detail(), NOW) is None, "the first one is not here any more"
    assert isinstance(it.step(second, "auth", Detail(credential="shop"), NOW), Refused)
    it.gone(first.connection)
    third = it.open("smtp", "10.0.0.1:3", NOW)
    it.step(third, "connect", Detail(), NOW)
    assert it.step(third, "auth", Detail(credential="shop"), NOW) is None


def test_over_http_it_is_the_requests_that_count() -> None:
    it = provider(Setup(limits=Limits(connections=1)))
    first = it.open("native", "10.0.0.1:1", NOW, connection="a")
    assert it.step(first, "request", Detail(), NOW) is None
    second = it.open("native", "10.0.0.1:2", NOW, connection="b")
    refused = it.step(second, "request", Detail(), NOW)
    assert isinstance(refused, Refused)
    assert refused.reason is Reason.TOO_MANY_CONNECTIONS
    it.close(second, NOW)

    it.close(first, NOW)
    third = it.open("native", "10.0.0.1:2", NOW, connection="b")
    assert it.step(third, "request", Detail(), NOW) is None


def test_a_reset_forgets_counts_and_not_who_is_connected() -> None:
    it = provider(Setup(limits=Limits(connections=1, per_day=1)))
    first = it.open("smtp", "10.0.0.1:1", NOW)
    it.step(first, "connect", Detail(), NOW)
    send(it, mail(dialect="native"))
    it.reset("default", NOW)

    assert isinstance(smtp(it, ("connect", Detail())), Refused)
    it.gone(first.connection)
    _, verdict = send(it, mail(dialect="native"))
    assert verdict is not None
    assert verdict.accepted


def test_limits_of_one_account_are_nobody_elses() -> None:
    it = provider()
    it.set_up("a", Setup(limits=Limits(per_day=1)), NOW)

    def let_in(account: str) -> bool:
        _, verdict = send(it, mail(dialect="native"), account=account)
        return verdict is not None and bool(verdict.accepted)

    assert [let_in("a"), let_in("a"), let_in("b"), let_in("b")] == [True, False, True, True]


def test_a_quota_that_was_used_up_is_used_up_after_a_restart() -> None:
    setup = Setup(limits=Limits(per_day=2), limit=(Limit(name="s", per=Scope.SENDER, per_hour=2),))
    it = provider(setup)
    for _ in range(2):
        send(it, mail(dialect="native"))
    again = Provider(setup=setup, now=after(60))
    again.restore([each for each in it.records() if isinstance(each, Booked)], after(60))

    attempt = again.open("native", "p", after(60))
    verdict = again.submit(attempt, mail(dialect="native"), after(60))
    assert isinstance(verdict.answer, Refused)
    assert [each.remaining for each in again.standings(attempt, after(60))] == [0]
    again.told(attempt, Sent.COMPLETE, after(60))
    tomorrow = again.open("native", "p", after(86_400))
    assert again.submit(tomorrow, mail(dialect="native"), after(86_400)).accepted


# --- what a sender was told about coming back -------------------------------------------------------


def test_what_was_told_and_heard_is_written_down_with_the_limit_that_said_so() -> None:
    it = provider(Setup(limit=(Limit(name="s", per=Scope.SENDER, rate_per_s=0.1),)))
    first, _ = send(it, mail(dialect="native"))
    second, _ = send(it, mail(dialect="native"), after(2))

    assert first.advice == ()
    assert second.advice == (
        Advice(wait_s=8.0, at=after(2), by=ToldBy.HEADER, limit="s", per="sender", scope="shop@example.org"),
    )


def test_what_was_not_heard_was_not_told() -> None:
    it = provider(Setup(limits=Limits(rate_per_s=0.1)))
    send(it, mail(dialect="native"))
    attempt, _ = send(it, mail(dialect="native"), end=False)
    it.told(attempt, Sent.NOTHING, NOW)
    it.told(attempt, Sent.COMPLETE, NOW)

    assert attempt.advice == ()


def test_over_smtp_it_is_words_and_at_rcpt_it_is_about_one_recipient() -> None:
    later = RetryAfter(kind=RetryAfterKind.SECONDS, seconds=30)
    greylist = Rule(
        name="r", fault=ReplyWith(code=451, retry_after=later), stages=frozenset({("smtp", "rcpt")})
    )
    it = provider(Setup(plan=Plan(rules=(greylist,))))
    attempt = it.open("smtp", "p", NOW)
    it.step(attempt, "rcpt", Detail(recipient=BOB), NOW)
    it.told(attempt, Sent.COMPLETE, NOW)
    it.step(attempt, "rset", Detail(), NOW)
    it.told(attempt, Sent.COMPLETE, NOW)

    assert attempt.advice == (Advice(wait_s=30, at=NOW, by=ToldBy.TEXT, recipient=BOB),)


def test_it_is_told_in_the_time_of_the_account() -> None:
    it = provider(Setup(limits=Limits(rate_per_s=0.1)))
    it.advance("default", 1000, NOW)
    send(it, mail(dialect="native"))
    attempt, _ = send(it, mail(dialect="native"))

    assert [each.at for each in attempt.advice] == [after(1000)]
