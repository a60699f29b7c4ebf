"""Webhooks, end to end: a simulator, a sender, and a receiver that verifies as an intake does."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from simulator.client import ControlClient
from simulator.config import read_plan
from simulator.provider.signing import Scheme, secret_of
from simulator.provider.tenancy import Tenancy, Tenant
from simulator.provider.webhooks import WebhookRules
from simulator.servers.webhooks import rules_as_facts, rules_from
from tests.simulator.receiver import Answer, Got, Receiver, receiving
from tests.simulator.running import Running, Sender, ask, mail, request, running

ADA = "ada@example.com"
BOB = "bob@example.com"
SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()
OTHER = "whsec_" + base64.b64encode(b"fedcba9876543210fedcba9876543210").decode()


@pytest.fixture(scope="module")
def simulator() -> Iterator[Running]:
    with running() as service:
        yield service


@pytest.fixture
def control(simulator: Running) -> Iterator[ControlClient]:
    with simulator.control() as control:
        yield control
        control.reset()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


def send(simulator: Running, to: str = ADA, **more: Any) -> str:
    told: dict[str, Any] = ask(simulator, request(mail(to=[to]), **more)).json
    return str(told["id"])


def verified(got: Got, secret: str = SECRET) -> Any:
    return Webhook(secret).verify(got.body, dict(got.headers))


def types(got: list[Got]) -> list[str]:
    return [each.json["type"] for each in got]


# --- telling ----------------------------------------------------------------------------------------


def test_an_intake_that_verifies_accepts_what_is_told(
    simulator: Running, control: ControlClient, receiver: Receiver
) -> None:
    """By the library of Standard Webhooks; in order, each once, the shape of `GET events`."""
    control.set_webhook(receiver.url, secret=SECRET)
    control.add_rules({"fault": "fate", "fate": "complaint"})
    send(simulator, key="order-1")
    receiver.wait(1)
    control.advance(2 * 3600)
    told = [verified(got) for got in receiver.wait(3)]

    assert [event["type"] for event in told] == ["email.accepted", "email.delivered", "email.complained"]
    assert told == [
        {name: value for name, value in event.items() if name != "number"} for event in control.events()
    ]
    assert [event["id"] for event in told] == [got.id for got in receiver.got]
    (*_, last) = control.wait_for_deliveries(count=3, state="delivered")
    assert last["tries"][0]["status"] == 200


def test_mail_over_smtp_is_told_of_too(
    simulator: Running, control: ControlClient, receiver: Receiver
) -> None:
    import smtplib

    control.set_webhook(receiver.url, secret=SECRET)
    with smtplib.SMTP(*simulator.smtp, timeout=10) as client:
        client.sendmail("shop@example.org", [ADA, BOB], b"Subject: x\r\n\r\nhello\r\n")

    assert {verified(got)["data"]["recipient"] for got in receiver.wait(2)} == {ADA, BOB}


def test_while_secrets_are_rotated_either_verifies(
    simulator: Running, control: ControlClient, receiver: Receiver
) -> None:
    control.set_webhook(receiver.url, secret=[OTHER, SECRET])
    send(simulator)
    (got,) = receiver.wait(1)

    assert verified(got, SECRET) == verified(got, OTHER)


def test_the_plain_scheme_is_verified_by_hand(
    simulator: Running, control: ControlClient, receiver: Receiver
) -> None:
    control.set_webhook(receiver.url, secret="a key", scheme="hmac", headers={"Authorization": "Bearer me"})
    send(simulator)
    (got,) = receiver.wait(1)
    signed = f"{got.headers['x-webhook-timestamp']}.".encode() + got.body

    assert (
        got.headers["x-webhook-signature"]
        == f"sha256={hmac.new(b'a key', signed, hashlib.sha256).hexdigest()}"
    )
    assert got.headers["authorization"] == "Bearer me"


def test_only_what_is_wanted_is_told_and_nothing_from_before(
    simulator: Running, control: ControlClient, receiver: Receiver
) -> None:
    send(simulator)
    control.advance(60)
    control.set_webhook(receiver.url, secret=SECRET, events=["*.delivered", "email.bounced"])
    send(simulator, BOB)
    control.advance(60)
    (got,) = receiver.wait(1)

    assert (got.json["type"], got.json["data"]["recipient"]) == ("email.delivered", BOB)
    assert len(control.wait_for_deliveries(state="delivered")) == 1


def test_a_rule_about_events_that_nobody_wants_is_minded(control: ControlClient, receiver: Receiver) -> None:
    """Whoever sets the webhook by hand says what is wanted, whatever the plan says."""
    rule = {"fault": "webhook_lose", "event": "email.opened"}
    (doubt,) = control.set_plan({"rules": [rule], "webhooks": {"events": ["email.bounced"]}})["doubts"]
    assert 'leaves "email.opened" out' in doubt

    control.set_webhook(receiver.url, secret=SECRET, events=["email.opened"])

    assert control.plan()["doubts"] == []


def test_events_come_in_batches_if_they_shall(
    simulator: Running, control: ControlClient, receiver: Receiver
) -> None:
    """Full ones at once, the rest when its first has waited."""
    control.set_webhook(receiver.url, secret=SECRET, batch=3, batch_wait_s=1, events=["email.accepted"])
    ids = [send(simulator) for _ in range(4)]
    first = verified(receiver.wait(1)[0])
    control.advance(1)
    second = verified(receiver.wait(2)[1])

    assert [event["data"]["email_id"] for event in (*first, *second)] == ids
    assert [len(first), len(second)] == [3, 1]
    assert [len(each["events"]) for each in control.wait_for_deliveries(count=2, state="delivered")] == [3, 1]


# --- failures ---------------------------------------------------------------------------------------


def test_what_was_not_taken_is_told_again_by_the_schedule_under_the_same_id(
    simulator: Running, control: ControlClient, receiver: Receiver
) -> None:
    """On the provider's clock: hours pass in a moment; then it is given up, and said so."""
    receiver.answers = [Answer(status=500), Answer(status=503), Answer(status=404)]
    control.set_webhook(
        receiver.url, secret=SECRET, schedule_s=[60, 7200], jitter=0.5, events=["email.accepted"]
    )
    send(simulator)
    for number, seconds in ((1, 90), (2, 10_800), (3, 0)):
        receiver.wait(number)
        control.wait_for_deliveries(tries=str(number))
        control.advance(seconds)
    (delivery,) = control.wait_for_deliveries(state="failed")

    assert [tried["status"] for tried in delivery["tries"]] == [500, 503, 404]
    assert len({got.id for got in receiver.got}) == 1
    assert {got.body for got in receiver.got} == {receiver.got[0].body}
    assert delivery["why"] == "the receiver did not take it"
    assert all(verified(got) for got in receiver.got)


def test_gone_disables_the_endpoint_until_it_is_set_again(
    simulator: Running, control: ControlClient, receiver: Receiver
) -> None:
    receiver.answers = [Answer(status=410), Answer()]
    control.set_webhook(receiver.url, secret=SECRET)
    send(simulator)
    receiver.wait(1)
    (delivery, *_) = control.wait_for_deliveries(state="dropped")
    assert delivery["why"] == "the endpoint is disabled: it answered 410 Gone"
    assert control.webhook()["disabled_because"] == "it answered 410 Gone"
    send(simulator)
    control.advance(60)

    control.set_webhook(receiver.url, secret=SECRET)
    assert control.webhook()["disabled_at"] is None
    id_ = send(simulator)
    assert receiver.wait(2)[1].json["data"]["email_id"] == id_


def test_an_endpoint_that_fails_for_too_long_is_disabled(
    simulator: Running, control: ControlClient, receiver: Receiver
) -> None:
    receiver.answers = [Answer(status=500)]
    control.set_webhook(
        receiver.url,
        secret=SECRET,
        schedule_s=[100, 100],
        jitter=0,
        disable_after_s=90,
        events=["email.accepted"],
    )
    send(simulator)
    control.wait_for_deliveries(tries="1")
    assert control.webhook()["failing_since"] is not None
    control.advance(100)
    (delivery,) = control.wait_for_deliveries(state="dropped")

    assert delivery["why"] == "the endpoint is disabled: nothing has got through for 90 s"
    assert len(receiver.got) == 2


def test_a_receiver_that_hangs_does_not_keep_the_sender_waiting(
    simulator: Running, control: ControlClient, receiver: Receiver
) -> None:
    enough = threading.Event()
    receiver.answers = [Answer(before=enough.wait)]
    control.set_webhook(receiver.url, secret=SECRET, connections=2)
    try:
        for _ in range(5):
            send(simulator)
        assert len(receiver.wait(2)) == 2  # no more at once
        assert len(control.messages()) == 5
    finally:
        enough.set()
    assert len(receiver.wait(5)) >= 5


# --- what a plan makes of it ------------------------------------------------------------------------


def test_an_event_is_told_before_the_sender_has_its_answer(
    simulator: Running, control: ControlClient, receiver: Receiver
) -> None:
    """The receiver has answered both events before the sender reads a byte."""
    control.set_webhook(receiver.url, secret=SECRET)
    control.add_rules({"fault": "webhook_early"})
    with Sender(simulator.http) as sender:
        sender.say(request(mail()))
        told = receiver.wait(2)
        answer = sender.see()

    assert types(told) == ["email.accepted", "email.delivered"]
    assert told[0].json["data"]["email_id"] == answer.json["id"]
    assert [each["state"] for each in control.deliveries()] == ["delivered", "delivered"]


def test_the_answer_to_a_batch_waits_for_the_events_of_its_mails(
    simulator: Running, control: ControlClient, receiver: Receiver
) -> None:
    """Those of every mail that a rule means."""
    control.set_webhook(receiver.url, secret=SECRET, events=["email.accepted"])
    control.add_rules({"fault": "webhook_early", "recipient": "early*"})
    mails = [mail(to=[f"{name}@example.com"]) for name in ("early-1", "late", "early-2")]
    batch = json.dumps(mails).encode()
    with Sender(simulator.http) as sender:
        assert sender.say(request(batch, path="/v1/emails/batch")).see().status == 200
        told = {each.json["data"]["recipient"] for each in receiver.got}

    assert {"early-1@example.com", "early-2@example.com"} <= told


def test_an_answer_waits_for_its_events_only_so_long(
    simulator: Running, control: ControlClient, receiver: Receiver
) -> None:
    enough = threading.Event()
    receiver.answers = [Answer(before=enough.wait)]
    control.set_webhook(receiver.url, secret=SECRET)
    control.add_rules({"fault": "webhook_early", "within_s": 0.1})
    try:
        assert ask(simulator, request(mail())).status == 200
        assert len(receiver.got) == 1
    finally:
        enough.set()


def test_duplicates_forgeries_and_strangers_are_told_as_the_plan_wants(
    simulator: Running, control: ControlClient, receiver: Receiver
) -> None:
    """Each of them once over the wire, with what the rules say about it in the list of deliveries."""
    receiver.answers = [Answer()]
    control.set_webhook(receiver.url, secret=SECRET, events=["email.accepted"])
    control.add_rules(
        {"name": "twice", "fault": "webhook_duplicate", "recipient": "twice@*"},
        {"name": "again", "fault": "webhook_duplicate_new_id", "recipient": "again@*"},
        {"name": "stranger", "fault": "webhook_unknown", "recipient": "stranger@*"},
        {"name": "contrary", "fault": "webhook_conflict", "recipient": "contrary@*"},
        {"name": "nonsense", "fault": "webhook_malformed", "damage": "null", "recipient": "nonsense@*"},
        {"name": "lost", "fault": "webhook_lose", "recipient": "lost@*"},
    )
    seen: dict[str, list[Got]] = {}
    for name in ("twice", "again", "stranger", "contrary", "nonsense"):
        before = len(receiver.got)
        send(simulator, f"{name}@example.com")
        seen[name] = receiver.wait(before + 2)[before:]
    send(simulator, "lost@example.com")
    (lost,) = control.wait_for_deliveries(state="lost")

    assert [got.id for got in seen["twice"]] == [seen["twice"][0].id] * 2
    assert len({got.id for got in seen["again"]}) == 2
    assert {got.json["data"]["recipient"] for got in seen["stranger"]} > {"stranger@example.com"}
    assert {got.json["type"] for got in seen["contrary"]} == {"email.accepted", "email.bounced"}
    assert b"null" in {got.body for got in seen["nonsense"]}
    assert all(verified(got) is None or verified(got) for name in seen for got in seen[name])
    assert (lost["rules"], lost["tries"]) == (["lost"], [])
    assert {rule for each in control.deliveries(rule="twice") for rule in each["rules"]} == {"twice"}


@pytest.mark.parametrize(
    "rule",
    [
        {"fault": "webhook_bad_signature"},
        {"fault": "webhook_bad_signature", "forgery": "tampered"},
        {"fault": "webhook_stale", "age_s": 600},
    ],
    ids=str,
)
def test_a_spoilt_request_is_refused_and_told_again_soundly(
    simulator: Running, control: ControlClient, receiver: Receiver, rule: dict[str, Any]
) -> None:
    """A receiver that takes the first one does not verify: the delivery says so."""
    receiver.answers = [Answer(status=401), Answer()]
    control.set_webhook(receiver.url, secret=SECRET, schedule_s=[5], events=["email.accepted"])
    control.add_rules(rule)
    send(simulator)
    control.wait_for_deliveries(tries="1")
    control.advance(10)
    first, second = receiver.wait(2)
    (delivery,) = control.wait_for_deliveries(state="delivered")

    with pytest.raises(WebhookVerificationError):
        verified(first)
    assert verified(second)
    assert [(tried["status"], bool(tried["flaws"])) for tried in delivery["tries"]] == [
        (401, True),
        (200, False),
    ]


def test_out_of_order_late_and_the_same_again_with_the_same_seed(receiver: Receiver) -> None:
    """Two simulators with one seed tell the same story in the same order."""
    plan = {
        "seed": 5,
        "webhooks": {"url": receiver.url, "secret": SECRET},
        "rule": [
            {"fault": "fate", "fate": "clicked"},
            {"fault": "webhook_reorder", "event": "email.delivered"},
            {"fault": "webhook_duplicate", "probability": 0.5, "delay_s": 30},
            {"fault": "webhook_late", "event": "email.accepted", "delay_s": 1000},
        ],
    }
    stories = []
    for _ in range(2):
        receiver.got.clear()
        with running(plan) as simulator, simulator.control() as control:
            send(simulator, key="k")
            control.advance(100_000)
            control.wait_for_deliveries(count=8, state="delivered")
            assert {each["state"] for each in control.deliveries()} == {"delivered"}
            told = [(got.json["type"], got.id) for got in receiver.wait(8)]
        stories.append(told)

    assert stories[0] == stories[1]
    assert len(set(stories[0])) == 4
    order = [type_ for type_, _ in stories[0]]
    assert order.index("email.opened") < order.index("email.delivered") < order.index("email.clicked")
    assert order.index("email.accepted") > order.index("email.opened")


# --- settings, accounts, restarts -------------------------------------------------------------------


def test_accounts_have_their_own_receivers(simulator: Running) -> None:
    with receiving() as one, receiving() as two:
        for name, receiver in (("one", one), ("two", two)):
            with simulator.control(name) as control:
                control.set_webhook(receiver.url, secret=SECRET, events=["email.accepted"])
        for name in ("one", "two", "one"):
            ask(simulator, request(mail(), headers={"Authorization": f"Bearer {name}"}))

        assert [got.json["account"] for got in one.wait(2)] == ["one", "one"]
        assert [got.json["account"] for got in two.wait(1)] == ["two"]
        for name in ("one", "two"):
            with simulator.control(name) as control:
                control.reset()
                assert control.webhook()["url"] is None


def test_a_new_account_is_told_of_its_first_mail() -> None:
    """Where to is known before it is made."""
    with receiving() as receiver, running({"webhooks": {"url": receiver.url, "secret": SECRET}}) as simulator:
        with simulator.control("new") as control:
            control.make_account()
        ask(simulator, request(mail(), headers={"Authorization": "Bearer new"}))

        assert receiver.wait(1)[0].json["account"] == "new"


def test_the_hand_comes_before_the_plan_and_the_plan_before_serve() -> None:
    with (
        receiving() as usual,
        receiving() as planned,
        receiving() as by_hand,
        running(webhook_url=usual.url) as simulator,
        simulator.control() as control,
    ):
        assert control.webhook()["url"] == usual.url
        send(simulator)
        assert verified(usual.wait(1)[0], secret_of(7))
        control.set_plan({"webhooks": {"url": planned.url, "secret": SECRET}})
        send(simulator)
        assert verified(planned.wait(1)[0])
        control.set_webhook(by_hand.url, secret=OTHER)
        send(simulator)
        assert verified(by_hand.wait(1)[0], OTHER)
        control.forget_webhook()
        assert control.webhook()["url"] == planned.url
        control.heal(all=True)
        assert control.webhook()["url"] == usual.url


def test_an_account_signs_with_a_secret_of_its_own_else_with_that_of_serve() -> None:
    """Whether it has a receiver of its own or that of everybody; to sign nothing is its own decision, too."""
    own = Tenant(setup=read_plan({"webhooks": {"secret": SECRET, "events": ["email.accepted"]}}, "own"))
    with (
        receiving() as usual,
        receiving() as elsewhere,
        running(
            webhook_url=usual.url, webhook_secret=OTHER, tenancy=Tenancy(tenants=(("own", own),))
        ) as simulator,
    ):

        def told(account: str, receiver: Receiver, count: int, **webhooks: Any) -> Got:
            with simulator.control(account) as control:
                if webhooks:
                    control.set_plan({"webhooks": webhooks | {"events": ["email.accepted"]}})
                else:
                    control.make_account()
            ask(simulator, request(mail(), headers={"Authorization": f"Bearer {account}"}))
            return receiver.wait(count)[-1]

        assert verified(told("own", usual, 1), SECRET)
        assert verified(told("by plan", usual, 2, secret=SECRET), SECRET)
        assert verified(told("elsewhere", elsewhere, 1, url=elsewhere.url), OTHER)
        got = told("hmac", elsewhere, 2, url=elsewhere.url, scheme="hmac", secret="a key")
        signed = f"{got.headers['x-webhook-timestamp']}.".encode() + got.body
        assert (
            got.headers["x-webhook-signature"]
            == f"sha256={hmac.new(b'a key', signed, hashlib.sha256).hexdigest()}"
        )
        assert (
            "webhook-signature"
            not in told("unsigned", elsewhere, 3, url=elsewhere.url, scheme="none").headers
        )
        assert verified(told("everybody", usual, 3, events=["email.accepted"]), OTHER)


def test_what_was_not_told_when_the_simulator_died_is_told_by_the_next_one(tmp_path: Path) -> None:
    """Nothing twice that was taken, nothing lost that was not, the attempts before are remembered."""
    ledger = str(tmp_path / "l.db")
    with receiving(Answer(), Answer(status=500)) as receiver:
        with running(ledger=ledger) as simulator, simulator.control() as control:
            control.set_webhook(receiver.url, secret=SECRET, schedule_s=[3600], events=["email.accepted"])
            taken = send(simulator, ADA)
            receiver.wait(1)
            control.wait_for_deliveries(state="delivered")
            refused = send(simulator, BOB)
            receiver.wait(2)
            control.wait_for_deliveries(count=1, state="waiting")
        receiver.answers = [Answer()]
        with running(ledger=ledger) as simulator, simulator.control() as control:
            assert [(each["state"], len(each["tries"])) for each in control.deliveries()] == [
                ("delivered", 1),
                ("waiting", 1),
            ]
            control.advance(4000)
            receiver.wait(3)
            (*_, told) = control.wait_for_deliveries(count=2, state="delivered")
            late = send(simulator)
            receiver.wait(4)

    assert [got.json["data"]["email_id"] for got in receiver.got] == [taken, refused, refused, late]
    assert [tried["status"] for tried in told["tries"]] == [500, 200]


@pytest.mark.parametrize(
    "rules",
    [
        WebhookRules(),
        WebhookRules(
            url="http://127.0.0.1/",
            secrets=(SECRET, OTHER),
            scheme=Scheme.HMAC,
            events=("email.*",),
            headers=(("A", "b"),),
            batch=3,
            schedule_s=(1.0,),
            give_up_on=(406,),
            disable_after_s=9.0,
            verify_tls=False,
        ),
    ],
)
def test_settings_can_be_written_and_read(rules: WebhookRules) -> None:
    assert rules_from(rules_as_facts(rules)) == rules
