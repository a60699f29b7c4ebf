"""`reference-sender suppress`: put on, taken off, shown."""

from __future__ import annotations

import json

from tests.reference_sender.commands.outboxes import Outbox


def test_who_is_put_on_is_shown_until_he_is_taken_off(outbox: Outbox) -> None:
    added = outbox.call("suppress", "add", "Ann <Ann@Example.com>", "bob@example.com", "--operator", "eve")
    assert (added.exit_code, added.stdout) == (0, "2 on the list\n")
    outbox.call(
        "suppress", "add", "bob@example.com", "--kind", "newsletter", "--days", "2", "--operator", "eve"
    )
    assert outbox.call("suppress", "list").stdout.splitlines() == [
        "ann@example.com  all  manual  by eve  for ever",
        "bob@example.com  all  manual  by eve  for ever",
        "bob@example.com  newsletter  manual  by eve  for 2 d",
    ]
    shown = [json.loads(line) for line in outbox.call("suppress", "list", "--json").stdout.splitlines()]
    assert [(each["address"], each["kind"], each["until"] is None) for each in shown] == [
        ("ann@example.com", "all", True),
        ("bob@example.com", "all", True),
        ("bob@example.com", "newsletter", False),
    ]
    assert outbox.call("suppress", "remove", "bob@example.com").stdout == "2 taken off the list\n"
    gone = outbox.call("suppress", "remove", "bob@example.com")
    assert (gone.exit_code, gone.stdout) == (1, "0 taken off the list\n")
    outbox.call("suppress", "remove", "ann@example.com")
    assert outbox.call("suppress", "list").stdout == "nobody is on the list\n"


def test_what_is_no_address_is_one_sentence(outbox: Outbox) -> None:
    said = outbox.call("suppress", "add", "nobody", "--operator", "eve")
    assert said.exit_code == 2
    assert "'nobody' is not an address" in said.stderr


def test_an_enqueue_says_whom_it_spares(outbox: Outbox) -> None:
    outbox.call("suppress", "add", "ann@example.com", "--operator", "eve")
    said = outbox.call(
        "enqueue", "--key", "k", "--from", "a@example.org", "--to", "ann@example.com", "--text", "x"
    )
    assert "k is not sent to ann@example.com, who is on the suppression list" in said.stdout
