"""`enqueue --jsonl`: what a line may say about how its mail is to be treated."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reference_sender.commands import lines
from reference_sender.outbox.engine import StoreTrouble
from reference_sender.outbox.store import enqueue
from tests.reference_sender.commands.outboxes import Outbox
from tests.reference_sender.samples import NOW

MAIL: dict[str, Any] = {"key": "k", "from": "shop@example.org", "to": ["ann@example.com"], "text": "x"}


def answers(outbox: Outbox, *lines: dict[str, Any], cap: int | None = None) -> list[dict[str, Any]]:
    more = () if cap is None else ("--queue-cap", str(cap))
    said = outbox.call("enqueue", "--jsonl", *more, stdin="".join(json.dumps(each) + "\n" for each in lines))
    return [json.loads(line) for line in said.stdout.splitlines()]


def test_a_line_may_say_everything_about_its_mail(outbox: Outbox) -> None:
    manner = {"class": "notice", "priority": 3, "expires_in_s": 60, "send_in_s": 5, "ordering_key": "user-7"}
    assert answers(outbox, MAIL | manner | {"slot": "s", "depends_on": "other"}) == [
        {"ok": True, "key": "k", "created": True}
    ]
    (docket,) = outbox.store.find(key="k")
    assert (docket.mail_class, docket.ordering_key) == ("notice", "user-7")
    assert docket.expires_at is not None
    assert (docket.expires_at - NOW).total_seconds() == 60
    assert (docket.queued_at - NOW).total_seconds() == 5


def test_a_repetition_with_another_mail_says_that_it_differs(outbox: Outbox) -> None:
    assert answers(outbox, MAIL, MAIL, MAIL | {"text": "y"}) == [
        {"ok": True, "key": "k", "created": True},
        {"ok": True, "key": "k", "created": False},
        {"ok": True, "key": "k", "created": False, "differs": True},
    ]


def test_who_is_suppressed_is_named(outbox: Outbox) -> None:
    outbox.store.suppress("ann@example.com", reason="manual", source="eve", now=NOW)
    assert answers(outbox, MAIL)[0]["suppressed"] == ["ann@example.com"]


def test_a_full_queue_refuses_a_line_and_takes_the_next_code(outbox: Outbox) -> None:
    lines = [
        MAIL | {"key": f"k{n}", "class": kind} for n, kind in enumerate(("notice", "newsletter", "code"))
    ]
    assert [each["ok"] for each in answers(outbox, *lines, cap=2)] == [True, False, True]


def test_a_database_that_lets_nobody_in_costs_a_line_and_not_the_next(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    trouble = [StoreTrouble("the database has not let us in within 10 s")]

    def enqueued(*arguments: Any, **more: Any) -> Any:
        if trouble:
            raise trouble.pop()
        return enqueue(*arguments, **more)

    monkeypatch.setattr(lines, "enqueue", enqueued)
    first, second = answers(outbox, MAIL, MAIL)
    assert (first["ok"], first["error"]) == (False, "the database has not let us in within 10 s")
    assert second["created"]


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ({"class": "gossip"}, "there is no mail class 'gossip'; there are alarm, code"),
        ({"class": 3}, '"class" must be a string'),
        ({"slot": ""}, "slot has 0 characters"),
        ({"priority": True}, '"priority" must be a whole number'),
        ({"priority": 2**31}, "priority is 2147483648; it must be from -2147483648 to 2147483647"),
        ({"send_in_s": -1}, '"send_in_s" must be a number of seconds'),
        ({"depends_on": "k"}, "the mail itself"),
    ],
)
def test_what_cannot_be_is_one_sentence(outbox: Outbox, field: dict[str, Any], words: str) -> None:
    (answer,) = answers(outbox, MAIL | field)
    assert not answer["ok"]
    assert words in answer["error"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"key": "order-1", "key": "order-2"}', "the field 'key' is there twice; give it once"),
        ('{"parameters": {"name": 1, "name": 2}}', "the field 'name' is there twice; give it once"),
    ],
)
def test_what_is_said_twice_is_not_guessed(outbox: Outbox, line: str, words: str) -> None:
    """Which of two keys was meant, nobody can know: the other mail would be missing without a word."""
    said = outbox.call("enqueue", "--jsonl", stdin=line + "\n")
    assert json.loads(said.stdout) == {"ok": False, "error": words}


def test_one_line_that_is_refused_is_an_exit_code_and_says_where(outbox: Outbox) -> None:
    """The others are taken all the same; which line it was is told by its place among the answers."""
    good = json.dumps(MAIL)
    said = outbox.call("enqueue", "--jsonl", stdin=f'{good}\n{{"key": }}\n')
    answers = [json.loads(line) for line in said.stdout.splitlines()]

    assert said.exit_code == 1
    assert [answer["ok"] for answer in answers] == [True, False]
    assert answers[1]["error"] == "the line is not JSON: Expecting value at character 9"
    assert outbox.call("enqueue", "--jsonl", stdin=good + "\n").exit_code == 0
