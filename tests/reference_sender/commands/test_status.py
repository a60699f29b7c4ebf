"""`status`: what a person has to do comes first, and programs get the same numbers."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert
from sqlalchemy.exc import OperationalError

from reference_sender.life import State
from reference_sender.outbox.depths import Depth
from reference_sender.outbox.engine import StoreTrouble
from reference_sender.outbox.schema import outbox_gate, webhook_event
from reference_sender.outbox.store import Store
from tests.reference_sender.commands.outboxes import Outbox
from tests.reference_sender.samples import NOW


def told(outbox: Outbox, *arguments: str) -> Any:
    done = outbox.call("status", "--json", *arguments)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_an_empty_outbox_says_so(outbox: Outbox) -> None:
    done = outbox.call("status")
    assert done.exit_code == 0
    assert "The outbox is empty." in done.stdout


def test_unknown_and_dead_come_first_with_what_to_do(outbox: Outbox) -> None:
    outbox.bring("order-1", State.ACCEPTED, age_s=7200, provider_id="m1")
    for number in range(2, 9):
        outbox.bring(f"order-{number}", State.UNKNOWN, age_s=3600 - number, reason="no reply after the dot")
    outbox.bring("order-9", State.DEAD, age_s=3600, reason="12 attempts spent")
    outbox.put("login-1", age_s=47, mail_class="code")
    lines = outbox.call("status").stdout.splitlines()
    shown = "\n".join(lines)
    where = {
        words: next(n for n, line in enumerate(lines) if words in line)
        for words in (
            "7 unknown",
            "#2",
            "… and 2 more",
            "1 dead",
            "12 attempts spent",
            "of it due",
            "finished",
        )
    }
    assert list(where) == sorted(where, key=lambda words: where[words])
    assert "has it not: requeue --id N --i-checked" in shown
    assert "59 min 58 s" in shown
    code = next(line for line in lines if line.strip().startswith("code"))
    assert code.split() == ["code", "1", "1", "late,", "due", "for", "47", "s", "–", "–", "47", "s"]
    assert "1 accepted" in shown
    assert "@" not in shown, "a person sees no addresses here"


def test_of_the_dead_each_cause_is_told_with_what_to_do(outbox: Outbox) -> None:
    """The most frequent first; numbers in a sentence make no other cause."""
    reasons = ["12 attempts spent", "older than 5 seconds", "no route; 3 attempts spent", "[/red] the moon"]
    for number, reason in enumerate(reasons):
        outbox.bring(f"order-{number}", State.DEAD, reason=reason)
    lines = outbox.call("status").stdout.splitlines()
    first = next(number for number, line in enumerate(lines) if "4 dead" in line)
    assert [" ".join(line.split()) for line in lines[first : first + 4]] == [
        "● 4 dead – nobody sends them any more",
        "2 attempts are spent mend the cause, then requeue --state dead",
        "1 [/red] the moon mend the cause, then requeue --id N",
        "1 it is too old still wanted? mend the cause, then requeue --state dead",
    ]
    assert told(outbox, "--no-mails")["dead"] == {
        "attempts are spent": 2,
        "[/red] the moon": 1,
        "it is too old": 1,
    }


def test_of_many_causes_the_rare_ones_are_counted_together(outbox: Outbox) -> None:
    for number in range(8):
        outbox.bring(f"order-{number}", State.DEAD, reason=f"reason {number}")
    shown = [" ".join(line.split()) for line in outbox.call("status").stdout.splitlines()]
    assert "1 reason 4 mend the cause, then requeue --id N" in shown
    assert "3 for other reasons" in shown
    assert not any("reason 5" in line and "mend" in line for line in shown)


def test_brackets_in_a_key_or_a_reason_are_shown_as_they_are(outbox: Outbox) -> None:
    outbox.bring("order[/1]", State.DEAD, reason="[/red] 12 attempts")
    for command in (("status",), ("trace", "order[/1]")):
        done = outbox.call(*command)
        assert (done.exit_code, "order[/1]" in done.stdout) == (0, True)
        assert "[/red] 12 attempts" in done.stdout


def test_a_healthy_outbox_says_that_nobody_has_to_do_anything(outbox: Outbox) -> None:
    outbox.put("order-1")
    outbox.bring("order-2", State.ACCEPTED, age_s=10, provider_id="m")
    assert "nobody has to do anything" in outbox.call("status").stdout


def test_what_was_refused_lately_is_shown_to_somebody(outbox: Outbox) -> None:
    """A wrong address or a mistake of ours: only a person can tell."""
    for number in range(1, 8):
        outbox.bring(f"order-{number}", State.FAILED, age_s=3600 - 60 * number, reason="550 no such user")
    shown = outbox.call("status").stdout
    assert "nobody has to do anything" not in shown
    assert "● 7 failed – refused for good, the last one 53 min ago" in shown
    assert "was it a mistake of ours, mend it, then requeue --state failed" in shown
    numbers = [line.split()[0] for line in shown.splitlines() if "550 no such user" in line]
    assert numbers == ["#7", "#6", "#5", "#4", "#3"]
    assert "… and 2 more" in shown


def test_what_was_refused_days_ago_asks_nothing_and_is_not_hidden(outbox: Outbox) -> None:
    outbox.bring("order-1", State.FAILED, age_s=2 * 86_400)
    shown = outbox.call("status").stdout
    assert "● nobody has to do anything; 1 failed, refused for good, the last one 2 d ago" in shown
    outbox.bring("order-2", State.DEAD)
    shown = outbox.call("status").stdout
    assert "● 1 dead – nobody sends them any more" in shown
    assert "nobody has to do anything" not in shown
    assert "finished: 1 failed, 1 dead" in shown


def test_mail_that_is_planned_for_later_is_not_overdue(outbox: Outbox) -> None:
    """A paced campaign: the next one in so many seconds, and nobody is late."""
    for number in range(3):
        outbox.put(f"user-{number}", age_s=-60 * (number + 1), mail_class="newsletter")
    shown = outbox.call("status").stdout
    line = next(x for x in shown.splitlines() if x.strip().startswith("newsletter"))
    assert line.split() == ["newsletter", "3", "–", "in", "1", "min", "–", "–", "0", "ms"]
    assert ("overdue" in shown, "late" in shown) == (False, False)
    (queue,) = told(outbox, "--no-mails")["queues"]
    assert (queue["due"], queue["overdue_s"], queue["next_in_s"]) == (0, 0.0, 60.0)


@pytest.mark.parametrize(
    ("mail_class", "due_s", "words"),
    [
        ("code", 29, "due for 29 s"),
        ("code", 30, "late, due for 30 s"),
        ("confirmation", 299, "due for 4 min 59 s"),
        ("confirmation", 300, "late, due for 5 min"),
        ("newsletter", 3_599, "due for 59 min 59 s"),
        ("newsletter", 3_600, "late, due for 1 h"),
        ("by-hand", 300, "late, due for 5 min"),
        ("notice", 0.5, "now"),
    ],
)
def test_when_mail_that_is_due_is_late_is_a_matter_of_its_class(
    outbox: Outbox, mail_class: str, due_s: float, words: str
) -> None:
    outbox.put("one", age_s=due_s, mail_class=mail_class)
    line = next(x for x in outbox.call("status").stdout.splitlines() if x.strip().startswith(mail_class))
    assert " ".join(line.split()).startswith(f"{mail_class} 1 1 {words} –")


def test_mail_that_waits_for_other_mail_is_not_due_at_all(outbox: Outbox) -> None:
    outbox.put("second", depends_on="first")
    line = next(x for x in outbox.call("status").stdout.splitlines() if x.strip().startswith("confirmation"))
    assert line.split()[1:4] == ["1", "–", "waits"]


def test_programs_get_states_queues_and_every_mail(outbox: Outbox) -> None:
    outbox.bring("order-1", State.ACCEPTED, age_s=7200, provider_id="m1")
    outbox.put("login-1", age_s=47, mail_class="code")
    answer = told(outbox)
    assert [mail["state"] for mail in answer["mails"]] == ["accepted", "pending"]
    assert answer["states"]["accepted"] == {"count": 1, "oldest_age_s": 7200.0}
    assert answer["queues"] == [
        {
            "state": "pending",
            "class": "code",
            "count": 1,
            "oldest_age_s": 47.0,
            "due": 1,
            "overdue_s": 47.0,
            "next_in_s": None,
        }
    ]


def test_a_list_of_everybodys_mail_is_a_look_that_is_logged_and_numbers_are_none(outbox: Outbox) -> None:
    told(outbox, "--no-mails")
    outbox.call("status")
    assert outbox.store.accesses() == []
    told(outbox)
    ((operator, action, email),) = [(a.operator, a.action, a.email_id) for a in outbox.store.accesses()]
    assert (operator, action, email) == ("anna", "status", None)


def test_watching_looks_again_and_again(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        outbox.put(f"order-{len(slept)}")

    monkeypatch.setattr(outbox.clock, "sleep", sleep)
    done = outbox.call("status", "--watch", "--looks", "3", "--every", "5")
    assert (done.exit_code, slept) == (0, [5.0, 5.0])
    last = [line for line in done.stdout.splitlines() if line.strip().startswith("confirmation")][-1]
    assert last.split()[1] == "2"


@pytest.mark.parametrize(
    "trouble",
    [OperationalError("SELECT", {}, Exception("it was restarted")), StoreTrouble("it was restarted")],
)
def test_a_database_that_goes_away_and_comes_back_does_not_end_the_watch(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    seen: list[int] = []
    depths = Store.depths

    def sometimes(store: Store, *, now: datetime) -> list[Depth]:
        seen.append(1)
        if len(seen) == 2:
            raise trouble
        return depths(store, now=now)

    async def sleep(_seconds: float) -> None:
        pass

    outbox.put("order-1")
    monkeypatch.setattr(Store, "depths", sometimes)
    monkeypatch.setattr(outbox.clock, "sleep", sleep)
    # What is no terminal is shown the last look alone.
    away = outbox.call("status", "--watch", "--looks", "2")
    assert (away.exit_code, "it was restarted; it is looked again" in away.stdout) == (0, True)
    seen.clear()
    back = outbox.call("status", "--watch", "--looks", "3")
    assert (back.exit_code, len(seen), "confirmation" in back.stdout) == (0, 3, True)


def test_who_stops_watching_has_done_nothing_wrong(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    async def sleep(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(outbox.clock, "sleep", sleep)
    assert outbox.call("status", "--watch").exit_code == 0


def test_a_provider_that_nobody_asks_and_events_that_wait_are_told(outbox: Outbox) -> None:
    outbox.put("order-1")
    with outbox.store.engine.begin() as connection:
        connection.execute(
            insert(outbox_gate).values(
                provider="primary",
                position="open",
                in_a_row=5,
                good=0,
                bad=5,
                until=NOW + timedelta(seconds=42),
                trips=1,
                probes=0,
                passed=0,
                throttles=0,
                reason="HTTP 503",
                updated_at=NOW,
            )
        )
        connection.execute(
            insert(webhook_event).values(
                source="webhook",
                event_id="e1",
                raw=b"{}",
                received_at=NOW - timedelta(seconds=90),
                state="new",
                looks=0,
                next_look_at=NOW,
            )
        )
    shown = outbox.call("status").stdout
    assert "primary: breaker open, nobody asks for 42 s  HTTP 503" in shown
    assert "1 event not dealt with, the oldest for 1 min 30 s" in shown
    answer = told(outbox, "--no-mails")
    assert answer["providers"] == {"primary": {"breaker": "open", "paused_until": None, "reason": "HTTP 503"}}
    assert answer["events"] == {"waiting": 1, "oldest_age_s": 90.0}


def test_programs_do_not_watch(outbox: Outbox) -> None:
    done = outbox.call("status", "--watch", "--json")
    assert (done.exit_code, "--json tells once" in done.stderr) == (2, True)
