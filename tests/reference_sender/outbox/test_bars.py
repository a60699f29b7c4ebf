"""What speaks against sending a claimed row; the rest of it is in the contract."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import insert, update

from reference_sender.life import Bar, State
from reference_sender.outbox.bars import bar_of_dependency, bar_of_waiting
from reference_sender.outbox.schema import campaign, outgoing_email
from tests.reference_sender.outbox.benches import SqlBench
from tests.reference_sender.samples import NOW

SOON = NOW + timedelta(seconds=1)

CAMPAIGN: dict[str, Any] = {
    "name": "318",
    "state": "running",
    "sender": "shop@example.org",
    "mail_class": "newsletter",
    "template": "news",
    "parameters": "{}",
    "audience": "{}",
    "page_rows": 10,
    "gap_s": 0.0,
    "begins_at": NOW,
    "next_at": NOW,
    **dict.fromkeys(("pages", "members", "enqueued", "known", "suppressed", "refused"), 0),
    "created_at": NOW,
    "updated_at": NOW,
}


@pytest.mark.parametrize(
    ("states", "until", "expected"),
    [
        ({State.ACCEPTED}, SOON, None),
        ({State.ACCEPTED, State.FAILED}, SOON, Bar.ORPHANED),
        ({State.ACCEPTED, State.DEAD}, SOON, Bar.OUT_OF_TURN),
        ({State.UNKNOWN}, NOW, Bar.OVERSLEPT),
        (set(), NOW, Bar.OVERSLEPT),
        ({State.PENDING}, None, None),
        ({State.EXPIRED}, None, Bar.ORPHANED),
    ],
)
def test_what_a_mail_says_about_one_that_depends_on_it(
    states: set[State], until: Any, expected: Bar | None
) -> None:
    assert bar_of_dependency(states, until, NOW) is expected


def test_who_waits_may_oversleep() -> None:
    assert bar_of_waiting(None, NOW) is Bar.OUT_OF_TURN
    assert bar_of_waiting(SOON, NOW) is Bar.OUT_OF_TURN
    assert bar_of_waiting(NOW, NOW) is Bar.OVERSLEPT


@pytest.mark.parametrize(
    ("state", "bar"),
    [("running", None), ("done", None), ("paused", Bar.PAUSED), ("cancelled", Bar.CANCELLED)],
)
def test_a_campaign_bars_its_mails(outbox: SqlBench, state: str, bar: Bar | None) -> None:
    with outbox.store.engine.begin() as connection:
        connection.execute(insert(campaign), CAMPAIGN)
        connection.execute(update(campaign).values(state=state))
    outbox.put("a", campaign="318")
    outbox.put("b")
    assert {each.key: each.bar for each in outbox.claim()} == {"a": bar, "b": None}


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("idempotency_key", "order-1\n"),
        ("idempotency_key", "order-1\x7f"),
        ("recipient", "ann@example.com\r\nRCPT TO:<eve@example.com>"),
        ("recipient", "ann@example.com> SIZE=1"),
        ("recipient", "ann @example.com"),
        ("sender", "shop@example.org\nRSET"),
    ],
)
def test_what_no_wire_can_carry_is_barred_and_the_others_flow(
    outbox: SqlBench, column: str, value: str
) -> None:
    """Each attempt would look like trouble of the channel, and one row would shut it for all."""
    outbox.put("a")
    outbox.put("b")
    with outbox.store.engine.begin() as connection:
        connection.execute(
            update(outgoing_email).where(outgoing_email.c.dedupe_key == "a").values({column: value})
        )
    assert {each.key: each.bar for each in outbox.claim()} == {"a": Bar.UNFIT, "b": None}


def test_letters_beyond_ascii_are_for_the_wire_to_judge(outbox: SqlBench) -> None:
    outbox.put("a")
    with outbox.store.engine.begin() as connection:
        connection.execute(update(outgoing_email).values(recipient="ann@exämple.com"))
    assert [each.bar for each in outbox.claim()] == [None]


def test_a_suppressed_recipient_counts_before_everything_else(outbox: SqlBench) -> None:
    outbox.put("a", slot="user-7")
    outbox.put("b", slot="user-7")
    outbox.store.suppress("ann@example.com", reason="manual", source="bob", now=NOW)
    assert [each.bar for each in outbox.claim()] == [Bar.SUPPRESSED, Bar.SUPPRESSED]


def test_a_mail_without_a_word_in_it_is_not_sent(outbox: SqlBench) -> None:
    """Somebody has put a row back by hand whose words were purged: its recipient would get nothing, once."""
    outbox.put("a")
    outbox.put("b")
    outbox.edit(1, raw=b"", content_hash="00")
    assert {each.key: each.bar for each in outbox.claim()} == {"a": Bar.WORDLESS, "b": None}
