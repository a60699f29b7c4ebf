"""What is logged, and what never is."""

from __future__ import annotations

import io
import json
import logging
import re
import signal
import smtplib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from simulator import logs
from tests.simulator.running import PATIENCE_S, Sender, mail, request
from tests.simulator.servers.test_serve import Process
from tests.simulator.test_metrics import NOW, attempt


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """A test run has handlers of its own."""
    root, ours = logging.getLogger(), logging.getLogger("simulator")
    before = root.handlers[:], root.level, ours.level
    yield
    root.handlers[:], root.level, ours.level = before
    logging.getLogger("simulator").setLevel(before[2])


def lines(form: str, level: str = "info", **changes: Any) -> list[str]:
    """Log an attempt and a word of somebody else's; return what came out."""
    stream = io.StringIO()
    logs.begin(form, level, stream)
    logs.ended(attempt(**changes), hides_account=changes.get("account") == "re_live_secret")
    logging.getLogger("foreign").info("chatter")
    return stream.getvalue().splitlines()


FACTS: dict[str, Any] = {
    "recipients": ("ada@example.com", "bob.builder@example.org"),
    "accepted": ("ada@example.com",),
    "answer": "hang up",
    "rules": ("550 to mallory@example.com",),
    "closed_at": NOW + timedelta(milliseconds=12.34),
}


def test_json_is_one_object_a_line() -> None:
    """With the ids of the ledger."""
    (line,) = lines("json", **FACTS)
    said = json.loads(line)

    assert said.pop("at")
    assert said == {
        "level": "info",
        "logger": "simulator.attempts",
        "message": "attempt accepted",
        "attempt": "att_1",
        "account": "a",
        "dialect": "smtp",
        "connection": "c1",
        "peer": "127.0.0.1:1",
        "stage": "connect",
        "recipients": ["a…@example.com", "b…@example.org"],
        "recipients_count": 2,
        "accepted_count": 1,
        "answer": "hang up",
        "sent": "complete",
        "rules": ["550 to m…@example.com"],
        "took_ms": 12.3,
    }


def test_text_is_for_people() -> None:
    """What says nothing is left out."""
    (line,) = lines("text", **(FACTS | {"rules": (), "accepted": ()}))

    assert line[8:].endswith(
        " INFO    attempt not accepted attempt=att_1 account=a dialect=smtp connection=c1 peer=127.0.0.1:1"
        ' stage=connect recipients=a…@example.com,b…@example.org recipients_count=2 answer="hang up"'
        " sent=complete took_ms=12.3"
    )


def test_below_its_level_nothing_is_said() -> None:
    """Nor made ready to be said."""
    assert lines("text", "warning") == []


def test_an_account_that_may_be_a_credential_has_a_pseudonym() -> None:
    """The same each time, so that its lines are found."""
    (line,) = lines("json", account="re_live_secret")

    assert "re_live_secret" not in line
    assert json.loads(line)["account"] == logs.pseudonym("re_live_secret")


@pytest.mark.parametrize("form", logs.FORMATS)
def test_whatever_anybody_logs_is_scrubbed_and_stays_on_its_line(form: str) -> None:
    """Addresses in messages, arguments, facts and traces; line breaks that would forge a second line."""
    stream = io.StringIO()
    logs.begin(form, "info", stream)
    log = logging.getLogger("simulator.store")
    log.warning("to %s\r\n%s", "ada@example.com", "INFO forged", extra={"facts": {"to": ["bob@example.com"]}})
    try:
        raise ValueError("grace@example.com")
    except ValueError:
        log.exception("trouble")
    said = stream.getvalue()

    for name in ("ada@", "bob@", "grace@"):
        assert name not in said
    assert "g…@example.com" in said or "g\\u2026@example.com" in said
    assert "\nINFO forged" not in said
    if form == "json":
        assert [json.loads(line)["level"] for line in said.splitlines()] == ["warning", "error"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nobody", "nobody"),
        ("<ada@example.com>, Bob <bob@x>", "<a…@example.com>, Bob <b…@x>"),
        ("äda@exämple.com", "ä…@exämple.com"),
        ("@example.com", "@example.com"),
        ("a\x00b\u2028c", "a\\x00b\\u2028c"),
        ("x" * 500 + "@example.com", "x" * 244 + "x…@example.com"),
    ],
)
def test_scrubbing(text: str, expected: str) -> None:
    """The first letter and the domain are enough to know whom somebody talks about."""
    assert logs.scrubbed(text) == expected


@pytest.mark.parametrize("form", logs.FORMATS)
def test_a_switch_of_serve_says_in_which_form(form: str, tmp_path: Path) -> None:
    """A line for each attempt on both wires; neither what the mail says, nor a password, nor the unknown API key."""
    with Process(tmp_path, "--log-format", form, "--log-level", "info") as simulator:
        with smtplib.SMTP(*simulator.smtp, timeout=PATIENCE_S) as smtp:
            smtp.login("shop", "hush-password")
            smtp.sendmail("shop@example.org", ["ada@example.com"], "Subject: hush\r\n\r\nhush-hush\r\n")
        with Sender(simulator.http) as sender:
            data = request(
                mail(text="hush-hush", subject="hush"), headers={"Authorization": "Bearer hush-key"}
            )
            assert sender.say(data).see().status == 200
        code, said = simulator.end(signal.SIGTERM)

    told = [line for line in said.splitlines() if "attempt accepted" in line]
    assert (code, len(told), "hush" in said) == (0, 2, False)
    if form == "json":
        assert {json.loads(line)["dialect"] for line in told} == {"smtp", "native"}
    else:
        assert all(re.match(r"[\d:.]{12} INFO    attempt accepted ", line) for line in told)
