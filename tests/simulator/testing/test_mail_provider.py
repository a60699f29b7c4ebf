"""The provider in a test: told to fail, asked what it really accepted."""

from __future__ import annotations

import json
import smtplib
import time
from collections.abc import Iterator
from datetime import timedelta
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import httpx
import pytest

from simulator.client import ControlError
from simulator.testing import MailProvider, NotYet
from simulator.testing.mail_provider import Plan, SmtpAddress, as_plan
from tests.simulator.running import Running, mail, running

ADA, BOB = "ada@example.com", "bob@example.com"


@pytest.fixture(scope="module")
def simulator() -> Iterator[Running]:
    with running() as service:
        yield service


@pytest.fixture
def provider(simulator: Running, request: pytest.FixtureRequest) -> Iterator[MailProvider]:
    ready = simulator.service.ready
    with MailProvider(ready["http"], ready["smtp"], request.node.name) as provider:
        yield provider
        provider.release()


def test_a_fault_that_can_never_strike_is_warned_of(provider: MailProvider) -> None:
    """A test whose fault never strikes proves nothing."""
    with pytest.warns(UserWarning, match=r"rule 1 .* can never strike: there no sender has named itself"):
        provider.fail("421 at connect")
    provider.fail("451 at rcpt")
    with pytest.warns(UserWarning, match="times = 0"):
        provider.plan(["451 times=0"])


def post(provider: MailProvider, to: str = ADA, *, key: str | None = None) -> int:
    """Send over HTTP as a sender of this account; return the status, 0 if there was no answer."""
    headers = provider.headers | ({} if key is None else {"Idempotency-Key": key})
    try:
        answer = httpx.post(f"{provider.url}/v1/emails", json=mail(to=[to]), headers=headers, trust_env=False)
    except httpx.TransportError:
        return 0
    return answer.status_code


def test_mail_comes_over_both_wires_and_is_waited_for(provider: MailProvider) -> None:
    """As the sender of one account."""
    message = EmailMessage()
    message["Subject"], message["From"], message["To"] = "Hello", "shop@example.org", ADA
    message.set_content("Over SMTP")
    with smtplib.SMTP(*provider.smtp, timeout=10) as smtp:
        smtp.login(provider.user, provider.password)
        smtp.send_message(message)
    assert post(provider, BOB) == 200

    first = provider.wait_for(to=ADA)
    assert (first.subject, first.text, first.dialect) == ("Hello", "Over SMTP\n", "smtp")
    assert [each.recipients for each in provider.wait_for_all(2)] == [(ADA,), (BOB,)]
    assert [each.dialect for each in provider.mails(to=BOB)] == ["native"]
    assert first.raw.startswith(b"Subject: Hello")


def test_what_does_not_come_is_an_assertion_that_says_what_came(provider: MailProvider) -> None:
    """A test that fails must say why."""
    post(provider, BOB)

    with pytest.raises(NotYet, match=r"accepted: not 1 with to='ada@example.com' within 0\.05 s") as missing:
        provider.wait_for(to=ADA, timeout_s=0.05)
    assert isinstance(missing.value, AssertionError)
    assert f"to {BOB}" in str(missing.value)
    with pytest.raises(NotYet, match="tried: not 1 with state='held'"):
        provider.wait_for_attempt(state="held", timeout_s=0.05)
    with pytest.raises(NotYet, match=r"events: not 1 with type='email\.bounced'"):
        provider.wait_for_event("email.bounced", timeout_s=0.05)


def test_failing_by_code_by_line_and_by_fault(provider: MailProvider) -> None:
    """Each says how often it struck."""
    busy = provider.fail(503, times=1)
    lost = provider.fail("lose 1 answer")
    bob = provider.fail("refuse_recipients", recipient=BOB)
    outage = provider.fail("outage for 1 minute")

    assert (busy.fired, lost.fired) == (0, 0)
    provider.heal()
    busy = provider.fail(503, times=1)
    assert [post(provider), post(provider)] == [503, 200]
    lost = provider.fail("lose 1 answer")
    assert [post(provider, key="k"), post(provider, key="k")] == [0, 200]
    bob = provider.fail("refuse_recipients", recipient=BOB)
    assert post(provider, BOB) >= 400
    assert (busy.fired, lost.fired, bob.fired) == (1, 1, 1)
    assert busy.seen >= 1
    assert "struck 1 times" in repr(busy)
    assert outage.name


def test_a_fault_that_is_none_is_one_sentence(provider: MailProvider) -> None:
    """The simulator's own."""
    with pytest.raises(ControlError, match="did you mean"):
        provider.fail("los 1 answer")
    with pytest.raises(ControlError, match="explode"):
        provider.fail("explode", times=1)


def test_a_line_takes_no_keys(provider: MailProvider) -> None:
    """Its words say all; the sentence says which keys are too many, and nothing is in force."""
    with pytest.raises(ControlError, match=r'"lose 1 answer" is a line.*\(times, recipient given\)'):
        provider.fail("lose 1 answer", times=2, recipient=BOB)
    assert provider.control.plan()["rules"] == []


def test_a_plan_is_put_in_force_and_taken_away(provider: MailProvider) -> None:
    """By name, in lines, or None."""
    provider.plan(["503"])
    assert post(provider) == 503
    provider.plan("black-hole")
    assert post(provider) == 200
    assert provider.mails()[0].fate == "dropped"
    provider.plan(None)
    assert provider.control.plan()["rules"] == []


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (None, None),
        ("greylist", {"plan": "greylist"}),
        (["503"], {"rules": ["503"]}),
        (({"fault": "reset"},), {"rules": [{"fault": "reset"}]}),
        ({"seed": 3}, {"seed": 3}),
    ],
    ids=str,
)
def test_a_plan_may_be_written_in_several_ways(plan: Plan, expected: object) -> None:
    """The control API takes one."""
    assert as_plan(plan) == expected


def test_a_plan_may_be_a_file(tmp_path: Path) -> None:
    """TOML or JSON, by path or by name."""
    toml, jsonic = tmp_path / "plan.toml", tmp_path / "plan.json"
    toml.write_text('rules = ["503"]', encoding="utf-8")
    jsonic.write_text(json.dumps({"rules": ["429"]}), encoding="utf-8")

    assert as_plan(toml) == as_plan(str(toml)) == {"rules": ["503"]}
    assert as_plan(jsonic) == {"rules": ["429"]}


def test_a_held_answer_is_caught_and_let_go(provider: MailProvider) -> None:
    """Between acceptance and answer."""
    provider.fail("lose answers by hold")
    with httpx.Client(trust_env=False, timeout=0.2) as impatient, pytest.raises(httpx.ReadTimeout):
        impatient.post(f"{provider.url}/v1/emails", json=mail(), headers=provider.headers)

    assert provider.wait_for_attempt(state="held")["accepted"] == [ADA]
    assert provider.release() == 1


def test_exactly_once_by_recipient(provider: MailProvider) -> None:
    """One is right; none and two say what there is."""
    post(provider)
    provider.assert_exactly_once(ADA)
    with pytest.raises(AssertionError, match=r"bob@example\.com got no mail, exactly one was expected"):
        provider.assert_exactly_once(ADA, BOB)
    post(provider)
    with pytest.raises(AssertionError, match=r"ada@example\.com got 2 mails") as twice:
        provider.assert_exactly_once(ADA)
    assert str(twice.value).count("over native to ada@example.com: reached body") == 2


@pytest.mark.parametrize("wrong", [[ADA, BOB], (ADA,), None, 1])
def test_recipients_are_given_one_by_one(provider: MailProvider, wrong: Any) -> None:
    """A list is no address, and nobody must wonder who did not get a mail."""
    with pytest.raises(TypeError, match=r"one by one, like assert_exactly_once\(\*addresses\); this is a"):
        provider.assert_exactly_once(wrong)


def test_exactly_once_by_promises(provider: MailProvider) -> None:
    """Every promise kept, and nothing else."""
    with pytest.raises(AssertionError, match="nothing was promised"):
        provider.assert_exactly_once()
    provider.owe(ADA, "order-1")
    with pytest.raises(AssertionError, match=r"ada@example.com \(order-1\), 0 of 1 copies: never accepted"):
        provider.assert_exactly_once()
    post(provider)
    provider.assert_exactly_once()
    assert provider.verdict()["valid"] is True
    post(provider, BOB)
    with pytest.raises(AssertionError, match="accepted, but nobody promised it"):
        provider.assert_exactly_once()


def test_nothing_sent(provider: MailProvider) -> None:
    """A test that a suppressed customer gets nothing."""
    provider.assert_nothing_sent()
    post(provider)
    provider.assert_nothing_sent(to=BOB)
    with pytest.raises(AssertionError, match="one mail came, none was expected"):
        provider.assert_nothing_sent()


def test_time_passes_for_the_provider_only(provider: MailProvider) -> None:
    """A key is forgotten after its window, without anybody waiting."""
    began = time.monotonic()
    assert post(provider, key="k") == 200
    provider.advance(timedelta(days=2))
    assert post(provider, key="k") == 200
    provider.advance(3600)

    assert len(provider.mails(key="k")) == 2
    assert time.monotonic() - began < 60


def test_an_event_is_waited_for(provider: MailProvider) -> None:
    """What became of the mail."""
    provider.fail(f"bounce to {ADA}")
    post(provider)
    provider.advance(3600)

    assert provider.wait_for_event("email.bounced", to=ADA)["data"]["recipient"] == ADA


def test_siblings_and_resets(provider: MailProvider) -> None:
    """Another account sees nothing of this one; a reset forgets one of them."""
    with provider.sibling(f"{provider.account}-other") as other:
        post(provider)
        post(other)
        provider.reset()
        assert (len(provider.mails()), len(other.mails())) == (0, 1)


def test_an_address_can_be_unpacked_and_read() -> None:
    """`smtplib.SMTP(*provider.smtp)`, and in a settings file."""
    address = SmtpAddress("127.0.0.1", 1025)

    assert str(address) == "127.0.0.1:1025"
    assert (*address,) == ("127.0.0.1", 1025)


def test_nobody_there_is_one_sentence() -> None:
    """At once, not at the first question."""
    with pytest.raises(ControlError, match="there is no simulator at"):
        MailProvider("http://127.0.0.1:9", "127.0.0.1:9")
