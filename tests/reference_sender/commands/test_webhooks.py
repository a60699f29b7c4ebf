"""`reference-sender webhooks`: what it says when it cannot begin, and what status says of what was told."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from click.testing import CliRunner, Result

from reference_sender.cli import cli
from reference_sender.life import State
from reference_sender.policy.hearing import Fact, Fate, Settled
from reference_sender.wiring import Parts
from tests.reference_sender.commands.outboxes import Outbox
from tests.reference_sender.samples import NOW


def call(outbox: Outbox, *arguments: str) -> Result:
    parts = Parts(clock=outbox.clock)
    return CliRunner().invoke(cli, arguments, env={"OUTBOX_DATABASE_URL": outbox.url}, obj=parts)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "there is no door"),
        (["--listen", "127.0.0.1:0"], "WEBHOOK_SECRET: there is no webhook secret"),
        (["--bounces", "nowhere"], "is no Maildir"),
        (["--bounces", "lmtp:203.0.113.1:25"], "nobody can listen there"),
    ],
)
def test_an_intake_that_cannot_begin_says_why(outbox: Outbox, arguments: list[str], sentence: str) -> None:
    done = call(outbox, "webhooks", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert sentence in done.stderr


def test_what_was_told_of_a_mail_is_in_its_status(outbox: Outbox) -> None:
    outbox.put("order-1")
    outbox.put("order-2")
    for parcel in outbox.store.claim(now=NOW, limit=2, lease_s=60, dedupes=True):
        outbox.end(parcel, State.ACCEPTED)
    docket = outbox.store.find(key="order-1")[0]
    outbox.store.receive([("a", b"{}"), ("b", b"{}")], source="webhook", now=NOW)
    for told, kind in zip(
        outbox.store.due_events(now=NOW, limit=2), ("hard_bounce", "delivered"), strict=True
    ):
        fact = Fact(kind=kind, happened_at=NOW + timedelta(seconds=told.id))
        outbox.store.conclude(told, Settled(fate=Fate.APPLIED, reason="x", docket=docket, fact=fact), now=NOW)
    first, second = json.loads(call(outbox, "status", "--json").stdout)["mails"]
    assert (first["delivery"], first["events"]) == ("hard_bounce", ["hard_bounce", "delivered"])
    assert (second["delivery"], second["events"]) == (None, [])
