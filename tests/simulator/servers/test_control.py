"""The control API over the wire: what it shows, what it waits for, and whom it lets in."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from simulator.client import ControlClient
from simulator.servers.control import PREFIX, is_loopback
from simulator.servers.serve import Address
from tests.simulator.running import Running, Sender, ask, mail, raw_mail, request, running

DOCS = Path(__file__).parents[3] / "docs" / "control-api.md"


@pytest.fixture(scope="module")
def simulator() -> Iterator[Running]:
    with running() as service:
        yield service


@pytest.fixture
def control(simulator: Running) -> Iterator[ControlClient]:
    with simulator.control() as control:
        control.release()
        control.reset()
        yield control
        control.release()


@pytest.fixture
def web(simulator: Running) -> Iterator[httpx.Client]:
    """A plain client, for what the typed one would never ask."""
    with httpx.Client(base_url=simulator.service.ready["control"], trust_env=False) as client:
        yield client


def send(simulator: Running, to: str, **more: Any) -> dict[str, Any]:
    told: dict[str, Any] = ask(simulator, request(mail(to=[to], **more))).json
    return told


# --- documented -------------------------------------------------------------------------------------


def test_every_endpoint_is_documented_with_an_example(simulator: Running) -> None:
    """docs/control-api.md has a heading and an example for each, and speaks of none that is not there."""
    endpoints = set(simulator.service.control.endpoints())
    text = DOCS.read_text(encoding="utf-8")
    sections = re.split(r"^### ", text, flags=re.MULTILINE)[1:]
    documented = set()
    for section in sections:
        heading = section.partition("\n")[0]
        for method, path in re.findall(r"`(GET|PUT|POST|DELETE) ([^`?[]+)[^`]*`", heading):
            documented.add((method, f"{PREFIX}/{path}"))
            assert "```" in section, f"{method} {path} has no example"

    assert documented == endpoints


# --- what it shows ----------------------------------------------------------------------------------


def test_health_names_version_and_seed(control: ControlClient) -> None:
    """What a harness asks first."""
    health = control.health()

    assert (health["status"], health["seed"], health["trouble"]) == ("ok", 7, None)
    assert health["version"]


def test_a_message_shows_what_was_accepted(simulator: Running, control: ControlClient) -> None:
    """One entry per acceptance, with everything but the bytes; those are next door."""
    raw = b"Message-ID: <m1@example.org>\r\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\nX-Obligation: ref-1\r\n\r\n.\r\n"
    body = raw_mail(raw, "ada@example.com", "bob@example.com")
    told = ask(simulator, request(body, key="order-1")).json

    (message,) = control.messages()
    assert message.pop("accepted_at")
    assert message == {
        "id": told["id"],
        "account": "default",
        "dialect": "native",
        "sender": "shop@example.org",
        "recipients": ["ada@example.com", "bob@example.com"],
        "message_id": "<m1@example.org>",
        "key": "order-1",
        "subject": "Grüße",
        "size_bytes": len(raw),
        "sha256": message["sha256"],
        "obligation": "ref-1",
        "fate": "delivered",
        "copies_of_body": 1,
        "attempt": control.attempts()[0]["id"],
    }
    assert control.message(told["id"])["id"] == told["id"]
    assert control.raw(told["id"]) == raw


def test_messages_are_found_by_recipient_key_message_id_and_text(
    simulator: Running, control: ControlClient
) -> None:
    """Filters narrow each other."""
    ask(simulator, request(mail(to=["ada@example.com"], message_id="<1@x>", subject="Red"), key="k1"))
    ask(simulator, request(mail(to=["bob@example.com"], message_id="<2@x>", subject="Green"), key="k2"))

    for filters in ({"to": "BOB@example.com"}, {"key": "k2"}, {"message_id": "2@x"}, {"q": "green"}):
        assert [each["key"] for each in control.messages(**filters)] == ["k2"], filters
    assert control.messages(to="bob@example.com", key="k1") == []


def test_equal_bodies_are_counted(simulator: Running, control: ControlClient) -> None:
    """Two acceptances of the same bytes say so."""
    for key in ("k1", "k2"):
        ask(simulator, request(raw_mail(b"Subject: x\r\n\r\n", "ada@example.com"), key=key))

    assert [each["copies_of_body"] for each in control.messages()] == [2, 2]


def test_attempts_are_filtered(simulator: Running, control: ControlClient) -> None:
    """By stage, state, recipient, key, rule and what was said."""
    control.set_plan({"rules": [{"name": "no", "fault": "reply", "code": 503, "times": 1}]})
    ask(simulator, request(mail(to=["ada@example.com"]), key="k1"))
    ask(simulator, request(mail(to=["bob@example.com"]), key="k2"))
    control.wait_for_attempts(state="closed", count=2)

    for filters in (
        {"stage": "accept"},
        {"to": "ada@example.com"},
        {"key": "k1"},
        {"rule": "no"},
        {"answer": "503"},
    ):
        assert [each["key"] for each in control.attempts(**filters)] == ["k1"], filters
    assert control.attempts(state="open") == []


# --- what it waits for ------------------------------------------------------------------------------


def test_waiting_for_a_message_ends_when_it_comes(simulator: Running, control: ControlClient) -> None:
    """Not at the next tick, and not with somebody else's mail."""
    send(simulator, "somebody@example.com")
    found: list[Any] = []

    def wait() -> None:
        with simulator.control() as other:
            found.extend(other.wait_for_messages(to="ada@example.com", count=2))

    waiting = threading.Thread(target=wait)
    waiting.start()
    for _ in range(2):
        send(simulator, "ada@example.com")
    waiting.join(10)
    assert len(found) == 2


def test_waiting_in_vain_gives_what_there_is(
    simulator: Running, control: ControlClient, web: httpx.Client
) -> None:
    """200 with `complete: false`; the client makes an exception of it."""
    send(simulator, "ada@example.com")

    answer = web.get("messages/wait", params={"to": "ada@example.com", "count": 2, "timeout_s": 0.05})

    assert (answer.status_code, len(answer.json()["messages"])) == (200, 1)
    assert answer.json()["complete"] is False
    with pytest.raises(
        TimeoutError, match=r"only 1 of 2 messages came within 0\.05 s \(to=ada@example\.com\)"
    ):
        control.wait_for_messages(to="ada@example.com", count=2, timeout_s=0.05)


def test_waiting_for_a_held_attempt_and_releasing_it(simulator: Running, control: ControlClient) -> None:
    """The harness's way to catch a sender between acceptance and answer."""
    control.set_plan({"rules": [{"fault": "accept_then_hold"}]})
    with Sender(simulator.http) as sender:
        sender.say(request(mail()))
        (attempt,) = control.wait_for_attempts(state="held", stage="reply")
        assert attempt["accepted"] == ["ada@example.com"]
        assert attempt["answer"] == "held, then accepted"
        assert control.release() == 1
        assert sender.see().status == 200
    assert control.release() == 0


def test_releasing_one_account_leaves_the_others_waiting(simulator: Running, control: ControlClient) -> None:
    """Parallel runs do not meet."""
    with simulator.control("shop") as shop:
        shop.reset()
        shop.set_plan({"rules": [{"fault": "hold"}]})
        with Sender(simulator.http) as sender:
            sender.say(request(mail(), headers={"Authorization": "Bearer shop"}))
            shop.wait_for_attempts(state="held")
            assert control.release() == 0
            assert shop.release() == 1
            assert sender.see().status == 200


# --- the plan ---------------------------------------------------------------------------------------


def test_a_plan_is_set_shown_appended_to_and_cleared(simulator: Running, control: ControlClient) -> None:
    """Clearing heals; only `all` also takes the treatment of keys and the limits back."""
    control.set_plan(
        {
            "seed": 3,
            "rule": [{"name": "a", "fault": "reply", "code": 503, "times": 1}],
            "limits": {"max_recipients": 5},
        }
    )
    assert ask(simulator, request(mail())).status == 503
    shown = control.add_rules({"fault": "reset", "times": 1}, {"name": "c", "fault": "hang_up"})

    assert [(rule["name"], rule["fired"]) for rule in shown["rules"]] == [("a", 1), ("rule 2", 0), ("c", 0)]
    assert shown["seed"] == 3
    assert control.heal()["limits"]["max_recipients"] == 5
    assert control.plan()["rules"] == []
    assert control.heal(all=True)["limits"]["max_recipients"] == 1000


BAD_PLANS: dict[str, tuple[str, Any, str]] = {
    "unknown fault": ("PUT", {"rules": [{"fault": "explode"}]}, 'PUT plan: rule 1: "fault" is "explode"'),
    "impossible stage": ("PUT", {"rules": [{"fault": "hold", "stage": "tea"}]}, 'rule 1: "stage" is "tea"'),
    "no object": ("PUT", [], "PUT plan: a plan is an object"),
    "bad appended rule": ("POST", {"rules": [{"fault": "reply"}]}, 'needs the key "code"'),
    "appended limits": ("POST", {"limits": {}}, '"limits" can be changed with PUT plan'),
}


@pytest.mark.parametrize("name", BAD_PLANS)
def test_a_bad_plan_is_refused_whole_with_one_sentence(
    control: ControlClient, web: httpx.Client, name: str
) -> None:
    """422, and the former plan stays in force."""
    control.set_plan({"rules": [{"name": "kept", "fault": "reset"}]})
    method, plan, says = BAD_PLANS[name]

    answer = web.request(method, "plan", json=plan)

    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert says in answer.json()["detail"]
    assert "\n" not in answer.json()["detail"]
    assert [rule["name"] for rule in control.plan()["rules"]] == ["kept"]


# --- promises ---------------------------------------------------------------------------------------


def test_the_verdict_compares_obligations_with_the_ledger(simulator: Running, control: ControlClient) -> None:
    """Once, twice, never, and never promised; what is open is lost when the calm is over."""
    control.owe([{"ref": name, "recipient": f"{name}@example.com"} for name in ("once", "twice", "never")])
    for to in ("once", "twice", "twice", "stranger"):
        send(simulator, f"{to}@example.com")

    verdict = control.verdict()
    assert (verdict["valid"], verdict["obligations"], verdict["accepted_once"]) == (False, 3, 1)
    assert [each["ref"] for each in verdict["duplicated"]] == ["twice"]
    assert [each["recipient"] for each in verdict["phantom"]] == ["stranger@example.com"]
    assert [each["ref"] for each in verdict["open"]] == ["never"]
    assert [each["ref"] for each in control.verdict(final=True)["lost"]] == ["never"]


def test_an_obligation_is_replaced_by_ref_and_recipient(control: ControlClient) -> None:
    """What the sender says of itself may change."""
    control.owe([{"ref": "r", "recipient": "ada@example.com"}])
    control.owe([{"ref": "r", "recipient": "ADA@example.com", "state": "unknown", "copies": 2}])

    assert control.obligations() == [
        {"ref": "r", "recipient": "ADA@example.com", "copies": 2, "sha256": None, "state": "unknown"}
    ]
    assert [each["ref"] for each in control.verdict()["parked"]] == ["r"]


BAD_OBLIGATIONS = {
    "no list": {"obligations": {}},
    "no object": {"obligations": [1]},
    "no ref": {"obligations": [{"recipient": "a@x"}]},
    "unknown key": {"obligations": [{"ref": "r", "recipient": "a@x", "due": 1}]},
    "unknown state": {"obligations": [{"ref": "r", "recipient": "a@x", "state": "lost"}]},
    "negative copies": {"obligations": [{"ref": "r", "recipient": "a@x", "copies": -1}]},
    "short digest": {"obligations": [{"ref": "r", "recipient": "a@x", "sha256": "abc"}]},
}


@pytest.mark.parametrize("name", BAD_OBLIGATIONS)
def test_a_bad_obligation_is_refused_with_one_sentence(
    control: ControlClient, web: httpx.Client, name: str
) -> None:
    """And none of its companions is entered."""
    answer = web.post("obligations", json=BAD_OBLIGATIONS[name])

    assert answer.status_code == 422
    assert answer.json()["detail"]
    assert control.obligations() == []


def test_a_reset_forgets_everything_of_one_account(simulator: Running, control: ControlClient) -> None:
    """Ledger, attempts, obligations, keys and plan; another account keeps its own."""
    with simulator.control("shop") as shop:
        shop.reset()
        for account in ("shop", "nobody"):
            ask(simulator, request(mail(), key="k", headers={"Authorization": f"Bearer {account}"}))
        control.owe([{"ref": "r", "recipient": "ada@example.com"}])
        control.set_plan({"rules": [{"fault": "slow", "delay_s": 0}]})

        control.reset()

        assert (control.messages(), control.attempts(), control.obligations()) == ([], [], [])
        assert control.plan()["rules"] == []
        again = ask(simulator, request(mail(), key="k"))
        assert "idempotency-replayed" not in again.headers
        assert len(shop.messages()) == 1


# --- mistakes and strangers -------------------------------------------------------------------------

MISTAKES = {
    "unknown path": ("GET", "nothing", {}, 404),
    "unknown message": ("GET", "messages/msg_none", {}, 404),
    "unknown raw": ("GET", "messages/msg_none/raw", {}, 404),
    "wrong method": ("POST", "health", {}, 405),
    "unknown parameter": ("GET", "messages", {"recipient": "a@x"}, 400),
    "empty account": ("GET", "messages", {"account": ""}, 400),
    "endless account": ("GET", "messages", {"account": "x" * 201}, 400),
    "unprintable account": ("GET", "messages", {"account": "a\nb"}, 400),
    "bad count": ("GET", "messages/wait", {"count": "-1"}, 400),
    "bad timeout": ("GET", "messages/wait", {"timeout_s": "soon"}, 400),
    "endless timeout": ("GET", "messages/wait", {"timeout_s": "inf"}, 400),
    "unknown state": ("GET", "attempts", {"state": "gone"}, 400),
    "bad flag": ("GET", "verdict", {"final": "maybe"}, 400),
    "no JSON": ("PUT", "plan", {}, 400),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_answered_with_one_sentence(web: httpx.Client, name: str) -> None:
    """As problem+json."""
    method, path, parameters, status = MISTAKES[name]

    answer = web.request(method, path, params=parameters, content=b"{" if method == "PUT" else None)

    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == status
    assert answer.json()["detail"]


def test_a_wrong_method_names_the_right_ones(web: httpx.Client) -> None:
    """RFC 9110, section 15.5.6: 405 carries Allow."""
    assert web.patch("plan").headers["allow"] == "GET, PUT, POST, DELETE"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "10.0.0.1"])
def test_a_rebound_host_name_is_kept_out(web: httpx.Client, host: str) -> None:
    """A page whose name resolves to this machine still says its own name."""
    answer = web.get("health", headers={"Host": host})

    assert answer.status_code == 403


@pytest.mark.parametrize("host", ["localhost", "localhost:1", "127.0.0.1:99", "[::1]:99", "127.9.9.9"])
def test_the_machines_own_names_are_let_in(web: httpx.Client, host: str) -> None:
    """Whatever the port."""
    assert web.get("health", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:3000"])
def test_another_sites_page_is_kept_out(simulator: Running, web: httpx.Client, origin: str) -> None:
    """Browsers send Origin with what could change something."""
    assert web.post("reset", headers={"Origin": origin}).status_code == 403
    assert web.post("reset", headers={"Origin": simulator.service.ready["http"]}).status_code == 200


def test_an_admin_token_is_asked_of_everybody() -> None:
    """With a token the host name does not matter any more, without it nobody gets in."""
    with running(admin_token="s3cret", http=Address(host="0.0.0.0", port=0)) as service:
        url = f"http://127.0.0.1:{service.service.http_port}{PREFIX}"
        with httpx.Client(base_url=url, trust_env=False) as web:
            assert web.get("health").status_code == 401
            assert web.get("health", headers={"Authorization": "Bearer wrong"}).status_code == 401
            assert web.get("health", headers={b"Authorization": b"Bearer gr\xfc\xdfe"}).status_code == 401
            known = {"Authorization": "Bearer s3cret", "Host": "simulator:8025"}
            assert web.get("health", headers=known).status_code == 200
            assert web.get("health", headers={**known, "Origin": "https://evil.example"}).status_code == 403


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("LOCALHOST.", True),
        ("0.0.0.0", False),
        ("", False),
        ("localhost.evil.example", False),
        ("10.0.0.1", False),
    ],
)
def test_loopback_is_recognised(host: str, expected: bool) -> None:
    """By name or by address, and nothing that only looks like it."""
    assert is_loopback(host) is expected
