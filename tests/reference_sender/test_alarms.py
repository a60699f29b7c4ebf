"""Alarms: which lines of the log are worth one, and that they arrive by another way than the queue."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from reference_sender.alarms import Alarm, Alarms, alarm_of, to_smtp, to_webhook
from reference_sender.policy.settings import InvalidSettings
from reference_sender.wiring import build, options_from
from tests.reference_sender.samples import ManualClock

OPENS = {"provider": "main", "position": "open", "reason": "down", "until": None}


@pytest.mark.parametrize(
    ("event", "facts", "about"),
    [
        ("breaker", OPENS, "breaker main open"),
        ("breaker", OPENS | {"position": "closed"}, "breaker main closed"),
        ("breaker", OPENS | {"position": "half-open"}, None),
        ("decided", {"id": 7, "state": "dead", "reason": "12 attempts spent"}, "dead"),
        ("decided", {"id": 7, "state": "accepted"}, None),
        ("claim_failed", {"error": "OSError", "failures": 3}, "claim_failed"),
        ("claim_failed", {"error": "OSError", "failures": 2}, None),
        ("late", {"id": 7}, None),
    ],
)
def test_what_is_worth_an_alarm(event: str, facts: dict[str, Any], about: str | None) -> None:
    alarm = alarm_of(event, facts)
    assert (alarm and alarm.about) == about


def test_the_same_is_told_once_in_a_while_and_everything_is_told_before_the_end() -> None:
    clock, told = ManualClock(), []
    alarms = Alarms([lambda alarm, facts: told.append(alarm.about)], every_s=60.0, clock=clock, log=_quiet)
    alarms.start()
    for _ in range(3):
        alarms("breaker", **OPENS)
    clock.advance(61)
    alarms("breaker", **OPENS)
    alarms("decided", id=1, state="dead", reason="too old")
    alarms.close()
    assert told == ["breaker main open", "breaker main open", "dead"]


def test_a_way_that_fails_is_said_and_holds_up_no_other() -> None:
    said, told = [], []

    def fails(alarm: Alarm, facts: Any) -> None:
        raise ConnectionError("gone")

    alarms = Alarms(
        [fails, lambda alarm, facts: told.append(alarm.about)],
        every_s=1.0,
        clock=ManualClock(),
        log=lambda event, /, **facts: said.append((event, facts["error"])),
    )
    alarms.start()
    alarms("breaker", **OPENS)
    alarms.close()
    assert (said, told) == ([("alarm_failed", "ConnectionError")], ["breaker main open"])


def test_who_cannot_keep_up_loses_alarms_and_says_so() -> None:
    said: list[str] = []
    alarms = Alarms([], every_s=0.0, clock=ManualClock(), log=lambda event, /, **_: said.append(event))
    for number in range(101):
        alarms("breaker", **OPENS | {"provider": f"p{number}"})
    assert said == ["alarm_failed"]


@pytest.fixture
def hook() -> Iterator[tuple[str, queue.Queue[dict[str, Any]]]]:
    """A web server that takes one object after the other."""
    got: queue.Queue[dict[str, Any]] = queue.Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """No news."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/", got
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_webhook_gets_text_and_facts(hook: tuple[str, queue.Queue[dict[str, Any]]]) -> None:
    url, got = hook
    to_webhook(url)(Alarm(about="dead", text="mail 7 is dead"), {"id": 7})
    assert got.get(timeout=10) == {"text": "mail 7 is dead", "about": "dead", "facts": {"id": 7}}


def test_a_mail_goes_straight_to_the_other_server(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    class Line:
        def __init__(self, host: str, port: int, **_: Any) -> None:
            seen.append((host, port))

        def __enter__(self) -> Line:
            return self

        def __exit__(self, *_: object) -> None: ...

        def ehlo(self) -> None: ...

        def has_extn(self, name: str) -> bool:
            return False

        def login(self, user: str, password: str) -> None:
            seen.append((user, password))

        def send_message(self, mail: Any, sender: str, recipients: list[str]) -> None:
            seen.append((mail["Subject"], mail.get_content().splitlines()[0], sender, recipients))

    monkeypatch.setattr("smtplib.SMTP", Line)
    tell = to_smtp(
        "smtp://u%40x:p%3A@mail.example.net:2525",
        sender="a@b.c",
        recipients=("ops@b.c",),
        clock=ManualClock(),
    )
    tell(Alarm(about="dead", text="mail 7 is dead"), {"id": 7})
    assert seen == [
        ("mail.example.net", 2525),
        ("u@x", "p:"),
        ("[reference-sender] dead", "mail 7 is dead", "a@b.c", ["ops@b.c"]),
    ]


URL = {"provider_url": "http://127.0.0.1:1"}


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"alarm_url": "chat.example"}, "OUTBOX_ALARM_URL must begin with http"),
        ({"alarm_smtp": "mail.example"}, "OUTBOX_ALARM_SMTP must be written like"),
        ({"alarm_smtp": "smtp://mail.example"}, "OUTBOX_ALARM_FROM and OUTBOX_ALARM_TO"),
        ({"alarm_every_s": 0.0}, "OUTBOX_ALARM_EVERY_S is 0"),
    ],
)
def test_an_alarm_that_could_reach_nobody_is_refused(values: dict[str, Any], word: str) -> None:
    with pytest.raises(InvalidSettings, match=word):
        options_from(URL | values)


def test_a_sender_is_built_with_alarms_only_where_somebody_wants_them() -> None:
    kinds = {
        name: [type(each).__name__ for each in build(options_from(URL | values)).companions]
        for name, values in (("none", {}), ("url", {"alarm_url": "http://127.0.0.1:9/"}))
    }
    assert kinds == {"none": [], "url": ["Alarms"]}


def _quiet(event: str, /, **_: object) -> None:
    """Says nothing."""
