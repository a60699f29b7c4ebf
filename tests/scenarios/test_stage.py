"""The stage: what it waits for, when it refuses to judge, and what it leaves in a certificate."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import scenarios
from scenarios.checks import Policy
from scenarios.clock import monotonic_s
from scenarios.sender_file import SenderFile, Timing, read_sender
from scenarios.service import Service
from scenarios.stage import Broken, Invalid, Rehearsal, Stage

SENDERS = Path(scenarios.__file__).parent / "senders"
TINY = read_sender(SENDERS / "tiny.toml")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("simulator")) as running:
        yield running


def staged(
    service: Service,
    tmp_path: Path,
    file: SenderFile = TINY,
    profile: str = "http",
    settle_s: float = 4.0,
) -> Stage:
    quick = replace(file, timing=replace(file.timing, settle_s=settle_s))
    return Stage(service, Rehearsal(file=quick, profile=profile, seed=1, name="test-stage"), tmp_path)


def test_a_mail_and_its_bystander_arrive(service: Service, tmp_path: Path) -> None:
    """The plainest scenario: no fault, two mails, each once."""
    with staged(service, tmp_path) as stage:
        mail = stage.mail("order-1")
        stage.start()
        stage.enqueue(mail)
        history = stage.calm()
        stage.judge(arrive=[mail])

    assert len(history.acceptances) == len(history.obligations) == 2
    assert not history.moving
    assert stage.sender.workers == []


def test_a_fault_that_never_struck_makes_the_scenario_invalid(service: Service, tmp_path: Path) -> None:
    """Green would be a lie: nothing was put to the test."""
    with staged(service, tmp_path) as stage:
        mail = stage.mail("order-1")
        stage.plan({"name": "elsewhere", "fault": "accept_then_hang_up", "recipient": "nobody@example.com"})
        stage.start()
        stage.enqueue(mail)
        stage.calm()

        with pytest.raises(Invalid, match="'elsewhere' never struck"):
            stage.judge(arrive=[mail])


def test_a_fault_that_may_stay_idle_is_no_trouble(service: Service, tmp_path: Path) -> None:
    """Some faults meet only senders that try again."""
    with staged(service, tmp_path) as stage:
        mail = stage.mail("order-1")
        stage.plan(
            {"name": "maybe", "fault": "hang_up", "recipient": "nobody@example.com"}, optional=["maybe"]
        )
        stage.start()
        stage.enqueue(mail)
        stage.calm()
        stage.judge(arrive=[mail])


def test_waiting_for_what_never_comes_ends(service: Service, tmp_path: Path) -> None:
    """Each wait has a deadline, and goes into the story when nothing came."""
    with staged(service, tmp_path) as stage:
        mail = stage.mail("order-1")
        stage.owe(mail.obligation, mail.recipient)
        stage.plan({"name": "held", "fault": "accept_then_hold"})

        stage.await_held(mail)
        stage.await_struck("held")
        stage.await_struck("held", at_most_s=0.1)
        told = [moment["text"] for moment in stage.evidence()["timeline"]]

    assert "no attempt came whose answer could be held back" in told
    assert "'held' did not strike 1 times within 4 s" in told


def test_a_mail_nobody_sends_is_found_stuck_or_lost(service: Service, tmp_path: Path) -> None:
    """A worker that lives and does nothing: the calm ends at its deadline, and each mail is named."""
    idle = replace(TINY, start=("{python}", "-c", "print('ready', flush=True); input()"), ready_line=None)
    idle = replace(idle, start=("{python}", "-c", "import time; time.sleep(60)"))
    with staged(service, tmp_path, idle) as stage:
        mail = stage.mail("order-1")
        stage.start()
        stage.enqueue(mail)
        assert stage.calm().moving

        with pytest.raises(Broken) as caught:
            stage.judge(arrive=[mail])
        evidence = json.loads(json.dumps(stage.evidence()))

    assert [(each.kind, each.recipient) for each in caught.value.findings] == [
        ("stuck", "bystander.test-stage@example.com"),
        ("stuck", mail.recipient),
    ]
    assert [each["recipient"] for each in evidence["mails"]] == [
        "bystander.test-stage@example.com",
        mail.recipient,
    ]
    assert any("committed" in moment["text"] for moment in evidence["timeline"])


def test_without_a_status_the_ledger_alone_is_asked(service: Service, tmp_path: Path) -> None:
    """It takes longer, for nobody says when it is over."""
    silent = replace(
        TINY,
        status=None,
        timing=Timing(timeout_s=0.5, retry_cap_s=0.3, lease_s=0.5),
    )
    with staged(service, tmp_path, silent) as stage:
        mail = stage.mail("order-1")
        stage.start()
        stage.enqueue(mail)
        history = stage.calm()
        stage.judge(arrive=[mail])

    assert not history.knows_states


SILENT = replace(TINY, status=None, timing=Timing(timeout_s=0.5, retry_cap_s=0.3, lease_s=0.5))


def test_of_who_cannot_be_asked_a_refusal_is_the_end(service: Service, tmp_path: Path) -> None:
    """Tried once is judged; that it is reported is not, and the result says so. Nobody waits for more."""
    with staged(service, tmp_path, SILENT, "smtp", settle_s=60.0) as stage:
        mail = stage.mail("order-1")
        stage.plan(
            {"name": "no", "fault": "reply", "stage": "rcpt", "code": 550, "recipient": mail.recipient}
        )
        stage.start()
        stage.enqueue(mail)
        stage.await_struck("no")
        began_s = monotonic_s()
        stage.calm()
        stage.judge(refused=[mail.recipient])

    assert monotonic_s() - began_s < 15.0
    assert stage.evidence()["not_judged"] == "whether it is reported as failed was not judged: no [status]"


def test_a_mail_that_may_be_parked_unseen_is_no_loss(service: Service, tmp_path: Path) -> None:
    """At most once, and nobody to ask: the bystander must arrive all the same."""
    with staged(service, tmp_path, SILENT, "smtp", settle_s=60.0) as stage:
        mail = stage.mail("order-1")
        stage.plan({"name": "gone", "fault": "hang_up", "stage": "message", "recipient": mail.recipient})
        stage.start()
        stage.enqueue(mail)
        stage.await_struck("gone")
        began_s = monotonic_s()
        stage.calm()

        assert monotonic_s() - began_s < 15.0
        stage.judge(may_park=[mail])
        assert stage.unseen(mail)
        with pytest.raises(Broken, match=r"lost: order-1\.test-stage@example\.com: 1 promised"):
            stage.judge()


def test_a_recipient_refused_beside_others_has_ended(service: Service, tmp_path: Path) -> None:
    """Over SMTP no attempt says so of itself; the scenario that planned it does."""
    with staged(service, tmp_path, SILENT, "smtp", settle_s=60.0) as stage:
        ann, bob = stage.address("ann"), stage.address("bob")
        mail = stage.mail("order-1", to=[ann, bob])
        stage.plan({"name": "no", "fault": "refuse_recipients", "recipient": bob, "code": 550})
        stage.start()
        stage.enqueue(mail)
        stage.await_struck("no")
        began_s = monotonic_s()
        stage.calm(refused=[bob])
        stage.judge(refused=[bob])

    assert monotonic_s() - began_s < 15.0


def test_what_does_not_come_to_rest_is_found(service: Service, tmp_path: Path) -> None:
    """Even if nothing else is wrong with it."""
    with staged(service, tmp_path) as stage:
        mail = stage.mail("order-1")
        stage.start()
        stage.enqueue(mail)
        stage.history = replace(stage.calm(), moving=True)

        with pytest.raises(Broken, match="not quiescent: "):
            stage.judge(arrive=[mail])


def test_the_bystander_is_told_apart(service: Service, tmp_path: Path) -> None:
    """Who reads "2 promised" must be able to see which of them is not the scenario's."""
    with staged(service, tmp_path) as stage:
        stage.start()
        stage.enqueue(stage.mail("order-1"))
        stage.calm()

    assert [each["bystander"] for each in stage.evidence()["mails"]] == [True, False]


@pytest.mark.parametrize(
    ("name", "profile", "policy"),
    [
        ("tiny", "http", Policy.EXACTLY_ONCE),
        ("tiny", "smtp", Policy.AT_MOST_ONCE),
        ("tiny_at_least_once", "http", Policy.AT_LEAST_ONCE),
        ("tiny_at_least_once", "smtp", Policy.AT_LEAST_ONCE),
        ("tiny_without_keys", "http", Policy.AT_MOST_ONCE),
    ],
)
def test_the_policy_follows_from_wire_and_abilities(
    service: Service, tmp_path: Path, name: str, profile: str, policy: Policy
) -> None:
    """Exactly once only where a key makes it possible."""
    stage = staged(service, tmp_path, read_sender(SENDERS / f"{name}.toml"), profile)

    assert stage.policy is policy


def test_the_same_seed_gives_the_same_contents(service: Service, tmp_path: Path) -> None:
    """Dice belong to the scenario, not to the run."""
    assert staged(service, tmp_path).rng.random() == staged(service, tmp_path).rng.random()
