"""`reference-sender enqueue` with a single mail: how it is to be treated, and what is said about it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from reference_sender.life import State
from reference_sender.outbox import migrations
from tests.reference_sender.commands.outboxes import Outbox
from tests.reference_sender.samples import NOW

MAIL = ("--from", "shop@example.org", "--to", "ann@example.com", "--text", "x")


def test_a_mail_is_treated_as_its_class_and_the_caller_say(outbox: Outbox) -> None:
    outbox.call("enqueue", "--key", "code-1", *MAIL, "--class", "code", "--slot", "user-7")
    outbox.call(
        "enqueue", "--key", "code-2", *MAIL, "--class", "code", "--slot", "user-7", "--expires-in", "60"
    )
    outbox.call("enqueue", "--key", "bye", *MAIL, "--depends-on", "code-2", "--priority", "500")
    found = outbox.store.claim(now=NOW, limit=9, lease_s=60, dedupes=True)
    assert [(each.key, each.mail_class, each.bar) for each in found] == [
        ("code-1", "code", "superseded"),
        ("code-2", "code", None),
    ]
    assert found[1].expires_at == NOW + timedelta(seconds=60)


def test_another_mail_under_the_same_key_is_said(outbox: Outbox) -> None:
    outbox.call("enqueue", "--key", "k", *MAIL)
    assert "k was there already: <" in outbox.call("enqueue", "--key", "k", *MAIL).stdout
    said = outbox.call("enqueue", "--key", "k", *MAIL, "--subject", "New").stdout
    assert "k was there already, with other content, which stays: <" in said


def test_a_full_queue_is_one_sentence_and_nothing_is_put_in(outbox: Outbox) -> None:
    outbox.call("enqueue", "--key", "a", *MAIL)
    said = outbox.call("enqueue", "--key", "b", *MAIL, "--class", "newsletter", "--queue-cap", "2")
    assert said.exit_code == 2
    assert "1 mails are waiting, and a newsletter is let in up to 1 (the queue cap is 2)" in said.stderr
    assert [each.state for each in outbox.store.standings()] == [State.PENDING]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--queue-cap", "0"), "--queue-cap is 0"),
        (("--class", "gossip"), "gossip"),
        (("--param", "number=7"), "--param is for a template"),
        (("--depends-on", "k"), "the mail itself"),
        (("--ordering-key", "x" * 256), "ordering_key has 256 characters"),
    ],
)
def test_what_cannot_be_is_one_sentence(outbox: Outbox, arguments: tuple[str, ...], words: str) -> None:
    said = outbox.call("enqueue", "--key", "k", *MAIL, *arguments)
    assert said.exit_code == 2
    assert words in said.stderr + said.output


def test_in_an_upgrade_an_old_command_is_refused_and_an_old_program_goes_on(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As docs/outbox.md says: a command looks for the version of the tables, `enqueue()` does not."""
    newer = migrations.VERSION
    monkeypatch.setattr(migrations, "VERSION", newer - 1)
    said = outbox.call("enqueue", "--key", "old-command", *MAIL)
    assert (said.exit_code, said.stdout) == (2, "")
    assert f"has version {newer} of its tables and this program knows up to {newer - 1}" in said.stderr
    outbox.put("old-program")
    monkeypatch.setattr(migrations, "VERSION", newer + 1)
    said = outbox.call("enqueue", "--key", "new-command", *MAIL)
    assert (said.exit_code, said.stdout) == (2, "")
    assert "run `reference-sender init`" in said.stderr
    assert [each.key for each in outbox.store.standings()] == ["old-program"]
