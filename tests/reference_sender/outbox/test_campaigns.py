"""Campaigns as rows on every database; how they are run is tested on one (tests/reference_sender/test_campaigns.py)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from reference_sender.life import Bar, State
from reference_sender.outbox.campaigns import CampaignState, NoSuchCampaign, Written, planned
from reference_sender.outbox.enqueueing import rows_of
from reference_sender.policy.classes import MailClass
from reference_sender.policy.decision import Decision, Doubt, before_sending
from tests.reference_sender.outbox.benches import SqlBench
from tests.reference_sender.samples import MAIL, NOW, settings

CAMPAIGN = planned(
    "Neuigkeiten 318 ü",
    sender="Shop <shop@example.org>",
    mail_class=MailClass.NEWSLETTER,
    template="news",
    parameters={"greeting": "Grüß Gott"},
    audience={"kind": "csv", "path": "/a.csv"},
    page_rows=3,
    gap_s=0.1,
    now=NOW,
)


def page(*numbers: int, last: bool = False) -> Written:
    rows: list[dict[str, Any]] = []
    for number in numbers:
        mail = replace(MAIL, recipients=(f"u{number}@example.com",))
        rows += rows_of(
            mail,
            key=f"campaign-318-user-{number}",
            now=NOW,
            mail_class="newsletter",
            campaign=CAMPAIGN.name,
            not_before=NOW + timedelta(seconds=number),
        )
    return Written(
        rows=rows, members=len(numbers) + 1, refused=1, cursor=max(numbers), last=last, next_at=NOW
    )


def move(outbox: SqlBench, state: CampaignState, at_s: float = 0.0) -> bool:
    return outbox.store.move_campaign(CAMPAIGN.name, state, now=NOW + timedelta(seconds=at_s))


def recipients(outbox: SqlBench, at_s: float) -> list[str]:
    return [each.recipient for each in outbox.claim(at_s)]


def test_one_that_was_just_planned_has_read_nobody_and_is_due_at_once() -> None:
    assert (CAMPAIGN.state, CAMPAIGN.cursor, CAMPAIGN.whole) == (CampaignState.READY, None, False)
    counted = ("pages", "members", "enqueued", "known", "suppressed", "refused")
    assert {getattr(CAMPAIGN, each) for each in counted} == {0}
    moments = ("begins_at", "next_at", "created_at", "updated_at")
    assert {getattr(CAMPAIGN, each) for each in moments} == {NOW}
    assert CAMPAIGN.ends_at is None


def test_a_campaign_comes_back_as_it_was_written_down(outbox: SqlBench) -> None:
    assert outbox.store.create_campaign(CAMPAIGN)
    assert not outbox.store.create_campaign(replace(CAMPAIGN, template="other"))
    assert outbox.store.campaign(CAMPAIGN.name) == CAMPAIGN
    with pytest.raises(NoSuchCampaign, match="there is no campaign '319'"):
        outbox.store.campaign("319")


def test_pages_are_counted_and_written_once(outbox: SqlBench) -> None:
    store = outbox.store
    store.create_campaign(CAMPAIGN)
    first = store.campaign(CAMPAIGN.name)
    assert not store.write_page(first, page(1), now=NOW)  # not begun yet
    assert move(outbox, CampaignState.RUNNING)
    store.suppress("u2@example.com", reason="manual", source="x", now=NOW)
    assert store.write_page(first, page(1, 2), now=NOW)
    assert not store.write_page(first, page(1, 2), now=NOW)
    second = store.campaign(CAMPAIGN.name)
    assert (second.pages, second.behind, second.whole) == (1, 2, False)
    assert store.write_page(second, page(1, 3, last=True), now=NOW)  # the first one again, under his key
    (standing,) = store.campaigns()
    found = standing.campaign
    assert (found.state, found.whole) == (CampaignState.DONE, True)
    assert (found.members, found.enqueued, found.known, found.suppressed, found.refused) == (6, 2, 1, 1, 2)
    assert standing.mails == {State.PENDING: 2}
    due = NOW + timedelta(seconds=2)
    assert store.waiting_of_campaign(CAMPAIGN.name, now=due, most=9) == 1
    assert store.waiting_of_campaign(CAMPAIGN.name, now=due + timedelta(seconds=9), most=1) == 1


def test_a_member_gets_one_mail_whatever_address_he_has_meanwhile(outbox: SqlBench) -> None:
    """Twice on one page, and on a later one: the key is the member's, the address is where he is just now."""
    store = outbox.store
    store.create_campaign(CAMPAIGN)
    move(outbox, CampaignState.RUNNING)

    def moved_to(domain: str) -> list[dict[str, Any]]:
        mail = replace(MAIL, recipients=(f"u1@{domain}",))
        return rows_of(
            mail,
            key="campaign-318-user-1",
            now=NOW,
            mail_class="newsletter",
            campaign=CAMPAIGN.name,
            not_before=NOW,
        )

    first = page(1, 2)
    store.write_page(
        store.campaign(CAMPAIGN.name), replace(first, rows=[*first.rows, *moved_to("example.net")]), now=NOW
    )
    later = page(3, last=True)
    store.write_page(
        store.campaign(CAMPAIGN.name), replace(later, rows=[*moved_to("example.org"), *later.rows]), now=NOW
    )

    assert recipients(outbox, 9) == ["u1@example.com", "u2@example.com", "u3@example.com"]
    found = store.campaign(CAMPAIGN.name)
    assert (found.enqueued, found.known) == (3, 2)


def test_it_is_paused_resumed_and_cancelled_with_its_mails(outbox: SqlBench) -> None:
    store = outbox.store
    store.create_campaign(CAMPAIGN)
    move(outbox, CampaignState.RUNNING)
    store.write_page(store.campaign(CAMPAIGN.name), page(1, 2, 3), now=NOW)
    outbox.put("order-1")
    assert recipients(outbox, 1) == ["ann@example.com", "u1@example.com"]
    assert move(outbox, CampaignState.PAUSED)
    assert recipients(outbox, 50) == []
    assert move(outbox, CampaignState.RUNNING, 50)
    assert recipients(outbox, 50) == ["u2@example.com"]
    assert move(outbox, CampaignState.CANCELLED, 51)
    assert not move(outbox, CampaignState.RUNNING, 51)
    assert recipients(outbox, 55) == []
    assert store.campaigns()[0].mails == {State.SENDING: 2, State.EXPIRED: 1}
    assert outbox.attempts()[-1].reason == "person: its campaign was cancelled"


def test_a_pause_however_long_leaves_its_mails_pending(outbox: SqlBench) -> None:
    """Without a next attempt they look like rows that somebody edited by hand."""
    store = outbox.store
    store.create_campaign(CAMPAIGN)
    move(outbox, CampaignState.RUNNING)
    store.write_page(store.campaign(CAMPAIGN.name), page(1, 2, 3), now=NOW)
    outbox.put("order-1")
    outbox.edit(4, next_attempt_at=None)
    assert move(outbox, CampaignState.PAUSED)
    later = NOW + timedelta(hours=1)
    assert store.park_lost(now=later, dedupes=True) == [4], "this one waits for nothing"
    assert store.campaigns()[0].mails == {State.PENDING: 3}
    assert move(outbox, CampaignState.RUNNING, 3_600)
    assert len(recipients(outbox, 3_610)) == 3


@pytest.mark.parametrize(
    ("stop", "bar", "ends"),
    [
        (CampaignState.PAUSED, Bar.PAUSED, [State.ACCEPTED, State.PENDING, State.UNKNOWN, State.PENDING]),
        (
            CampaignState.CANCELLED,
            Bar.CANCELLED,
            [State.ACCEPTED, State.EXPIRED, State.UNKNOWN, State.UNKNOWN],
        ),
    ],
)
def test_what_is_under_way_goes_and_what_comes_back_of_it_goes_no_more(
    outbox: SqlBench, stop: CampaignState, bar: Bar, ends: list[State]
) -> None:
    """Four in a worker's hands: accepted, told to come later, in doubt, and one whose worker died."""
    store = outbox.store
    store.create_campaign(CAMPAIGN)
    move(outbox, CampaignState.RUNNING)
    store.write_page(store.campaign(CAMPAIGN.name), page(1, 2, 3, 4), now=NOW)
    goes, later, doubtful, died = outbox.claim(4)
    assert move(outbox, stop, 5)
    assert store.under_way_of_campaign(CAMPAIGN.name) == {State.SENDING: 4}
    for parcel, told in (
        (goes, Decision(state=State.ACCEPTED, reason="yes", provider_id="m1")),
        (later, Decision(state=State.PENDING, reason="HTTP 503", next_attempt_at=NOW)),
        (doubtful, Decision(state=State.UNKNOWN, reason="silence", next_attempt_at=NOW, doubt=Doubt.NEW)),
    ):
        assert store.settle(parcel, told, now=NOW + timedelta(seconds=6)), "what had begun is written down"
    over = 4 + 61  # the lease of the one that died
    back = outbox.claim(over)
    assert [(each.id, each.bar, each.doubted) for each in back] == [
        (died.id, bar, True),
        (later.id, bar, False),
    ]
    for parcel in back:
        decision = before_sending(parcel, settings(), NOW + timedelta(seconds=over))
        assert decision is not None, "nothing is sent"
        assert store.settle(parcel, decision, now=NOW + timedelta(seconds=over))
    assert [outbox.row(each.id).state for each in (goes, later, doubtful, died)] == ends
    assert outbox.row(died.id).doubted_at is not None
    assert store.under_way_of_campaign(CAMPAIGN.name) == {State.UNKNOWN: ends.count(State.UNKNOWN)}
