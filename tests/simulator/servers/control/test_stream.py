"""What happens, as it happens."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

from simulator.client import ControlClient, Told
from simulator.servers import feed
from simulator.servers.control import stream as module
from simulator.servers.control.stream import EVENTS
from tests.simulator.running import Running, Sender, ask, mail, raw_mail, request
from tests.simulator.servers.control.test_app import sections


def until(events: Iterator[Told], name: str) -> list[Told]:
    """Return the events up to the first of this name."""
    found = []
    for each in events:
        found.append(each)
        if each.name == name:
            return found
    raise AssertionError(f"the stream ended before {name}, after {[each.name for each in found]}")


@pytest.fixture
def heard(simulator: Running) -> Iterator[Iterator[Told]]:
    """The events of the default account, listened to from before the test begins."""
    with simulator.control() as listener, listener.listen() as events:
        yield events


def test_a_mail_is_told_when_it_is_kept(
    simulator: Running, control: ControlClient, heard: Iterator[Told]
) -> None:
    """Attempt, acceptance and what struck, in the words of the lists; the attempt again when it ends."""
    control.set_plan({"rules": [{"name": "wait a bit", "fault": "slow", "delay_s": 0}]})
    ask(simulator, request(mail(), key="k1"))
    told = until(heard, "acceptance")
    while told[-1].data.get("state") != "closed":
        told += until(heard, "attempt")

    by_name = {each.name: each.data for each in told}
    assert by_name["acceptance"] == control.messages()[0]
    assert by_name["attempt"] == control.attempts()[0]
    assert (by_name["decision"]["rules"], by_name["decision"]["stage"]) == (["wait a bit"], "accept")
    assert "plan" in by_name


def test_bytes_that_are_no_characters_do_not_end_the_stream(
    simulator: Running, control: ControlClient, heard: Iterator[Told]
) -> None:
    """KOI8 without any encoding in subject and text, then a mail that shows that somebody still listens (mailcatcher#201)."""
    for subject in (b"\xcf\xf0\xe8\xe2\xe5\xf2", b"\xed\xa0\x80\xff", b"sound"):
        ask(simulator, request(raw_mail(b"Subject: " + subject + b"\r\n\r\n\xcf\xf0\r\n", "ada@example.com")))

    subjects = [until(heard, "acceptance")[-1].data["subject"] for _ in range(3)]
    assert [each.strip("\ufffd") for each in subjects] == ["", "", "sound"]


def test_what_is_changed_by_the_control_api_is_told(
    simulator: Running, control: ControlClient, heard: Iterator[Told]
) -> None:
    """So that a page need not ask again and again."""
    control.add_rules({"fault": "accept_then_hold"})
    control.owe([{"ref": str(n), "recipient": "ada@example.com"} for n in range(3)])
    with Sender(simulator.http) as sender:
        sender.say(request(mail()))
        assert [each.data for each in until(heard, "held")][-1] == {"held": 1}
        control.release()
        assert [each.data for each in until(heard, "held")][-1] == {"held": 0}
        sender.see()
    control.reset()

    assert until(heard, "reset")


def test_what_becomes_of_a_mail_is_told_when_it_does(
    simulator: Running, control: ControlClient, heard: Iterator[Told]
) -> None:
    """By the account's clock: what is moved ahead happens at once; what happened before is not told again."""
    control.add_rules({"fault": "fate", "fate": "complaint", "after_s": 3600})
    ask(simulator, request(mail()))
    assert [each.data["type"] for each in until(heard, "event") if each.name == "event"] == ["email.accepted"]
    with simulator.control() as late, late.listen() as later:
        control.advance(7200)
        for stream in (heard, later):
            types = [next(each for each in stream if each.name == "event").data["type"] for _ in range(2)]
            assert types == ["email.delivered", "email.complained"]
    control.reset()
    ask(simulator, request(mail()))
    until(heard, "reset")
    assert next(each for each in heard if each.name == "event").data["number"] == 1


def test_another_account_is_not_heard(simulator: Running, control: ControlClient) -> None:
    """Parallel runs do not meet."""
    with simulator.control("shop") as shop, shop.listen() as heard:
        ask(simulator, request(mail()))
        shop.set_plan({})
        assert [each.name for each in until(heard, "plan")] == ["plan"]


def test_a_listener_that_comes_back_goes_on_where_it_was(simulator: Running, control: ControlClient) -> None:
    """By the parameter, or by the header that browsers send."""
    with control.listen() as heard:
        control.add_rules({"fault": "reset", "times": 1})
        (last,) = until(heard, "plan")
    control.owe([{"ref": "r", "recipient": "ada@example.com"}])

    with control.listen(after=last.id) as heard:
        assert next(heard).name == "obligations"
    with control.listen(after="another-life-7") as heard:
        assert next(heard).name == "missed"


def test_a_header_says_where_to_go_on_too(web: httpx.Client, control: ControlClient) -> None:
    """Last-Event-ID (WHATWG HTML, section 9.2.4)."""
    with web.stream("GET", "stream", headers={"Last-Event-ID": "gone-1"}) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-store"
        lines = response.iter_lines()
        assert next(line for line in lines if line.startswith("event")) == "event: missed"


def test_events_are_told_to_whoever_accepts_nothing_else(web: httpx.Client, control: ControlClient) -> None:
    """An EventSource at `GET events` hears the stream; everybody else gets the list."""
    with web.stream("GET", "events", headers={"Accept": "text/event-stream"}) as response:
        assert next(line for line in response.iter_lines() if line.startswith("event")) == "event: ready"
    assert web.get("events").json() == {"events": [], "next": None}


def test_a_silent_line_is_kept_alive(web: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a comment, which no listener hears."""
    monkeypatch.setattr(module, "HEARTBEAT_S", 0.01)

    with web.stream("GET", "stream") as response:
        assert next(line for line in response.iter_lines() if line.startswith(":")) == ": still here"


def test_too_many_listeners_are_refused(
    simulator: Running, control: ControlClient, web: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """503, with one sentence."""
    monkeypatch.setattr(feed, "MAX_READERS", 1)
    with simulator.control() as first, first.listen():
        answer = web.get("stream")

    assert (answer.status_code, answer.json()["detail"]) == (
        503,
        "there are 1 readers already; close some of them",
    )


def test_the_page_names_every_event() -> None:
    """With what its data is, word for word."""
    text = sections()["GET", "/_simulator/v1/stream"]

    assert re.findall(r"^\| `(\w+)` \| (.*) \|$", text, flags=re.MULTILINE)[1:] == list(EVENTS.items())
