"""Campaigns: everybody once, at the pace, whoever dies, pauses or runs it twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import select, update
from sqlalchemy.exc import OperationalError, ProgrammingError

from reference_sender.audience import CsvFile, Member
from reference_sender.campaigns import AHEAD_S, LOOK_S, Runner, key_of
from reference_sender.life import Bar, State
from reference_sender.outbox.campaigns import Campaign, CampaignState, Written, planned
from reference_sender.outbox.engine import StoreTrouble, open_engine
from reference_sender.outbox.schema import campaign, outgoing_email
from reference_sender.outbox.store import Store
from reference_sender.policy.classes import MailClass
from reference_sender.policy.decision import Decision
from reference_sender.policy.suppression import Kind
from reference_sender.templates import BrokenTemplate, Templates
from tests.reference_sender.samples import NOW, ManualClock


class Bureau:
    """A campaign to ten people in pages of three, and whoever runs it."""

    def __init__(self, folder: Path, store: Store) -> None:
        self.store, self.clock = store, ManualClock()
        (folder / "news").mkdir()
        (folder / "news" / "subject.txt").write_text("News for {{ name }}")
        (folder / "news" / "text.txt").write_text("{{ greeting }} {{ name }}")
        self.audience = folder / "audience.csv"
        self.templates = Templates(folder)

    def create(self, *, gap_s: float = 0.0, addresses: list[str] | None = None, **more: Any) -> None:
        rows = addresses or [f"u{n}@example.com" for n in range(10)]
        lines = (f"{n},{address},N{n}\n" for n, address in enumerate(rows))
        self.audience.write_text("id,address,name\n" + "".join(lines))
        told = CsvFile(path=str(self.audience), key="id").told()
        made = planned(
            "318",
            sender="Shop <shop@example.org>",
            mail_class=MailClass.NEWSLETTER,
            template="news",
            parameters={"greeting": "Hello"},
            audience=told,
            page_rows=3,
            gap_s=gap_s,
            now=NOW,
        )
        # It runs already.
        campaign = replace(made, **({"state": CampaignState.RUNNING} | more))
        assert self.store.create_campaign(campaign)

    def runner(self, store: Any = None) -> Runner:
        return Runner(store=store or self.store, name="318", templates=self.templates, clock=self.clock)

    def run(self) -> str:
        """Step until it ends, and let time pass where it waits."""
        runner = self.runner()
        while (step := runner.step()).wait_s is not None:
            self.send()
            self.clock.advance(step.wait_s)
        return step.why

    def send(self) -> list[str]:
        """Send what is due; who got mail."""
        found = self.store.claim(now=self.clock.now(), limit=100, lease_s=60, dedupes=True)
        for each in found:
            accepted = Decision(state=State.ACCEPTED, reason="yes", provider_id=f"m{each.id}")
            self.store.settle(each, accepted, now=self.clock.now())
        return [each.recipient for each in found if each.bar is None]

    def rows(self) -> list[Any]:
        with self.store.engine.connect() as connection:
            return list(connection.execute(select(outgoing_email).order_by(outgoing_email.c.id)))

    @property
    def campaign(self) -> Campaign:
        return self.store.campaign("318")


@pytest.fixture
def bureau(tmp_path: Path) -> Iterator[Bureau]:
    store = Store(open_engine(f"sqlite:///{tmp_path / 'outbox.db'}"))
    store.create()
    yield Bureau(tmp_path, store)
    store.engine.dispose()


def everybody_once(rows: list[Any], count: int = 10) -> bool:
    return Counter(row.recipient for row in rows) == {f"u{n}@example.com": 1 for n in range(count)}


class Away(Store):
    """A store whose database is away, or says something else, whenever a campaign is looked at for the first times."""

    def __init__(self, bureau: Bureau, *errors: Exception) -> None:
        super().__init__(bureau.store.engine)
        self.errors = list(errors)

    def campaign(self, name: str) -> Campaign:
        if self.errors:
            raise self.errors.pop(0)
        return super().campaign(name)


class Hasty(ManualClock):
    """A clock on which every wait is over at once."""

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds)


def running(bureau: Bureau, store: Store, said: list[str]) -> str:
    def log(event: str, /, **_: object) -> None:
        said.append(event)

    runner = Runner(store=store, name="318", templates=bureau.templates, clock=Hasty(), log=log)
    return asyncio.run(runner.run())


def test_a_database_that_is_away_for_a_moment_ends_no_campaign(bureau: Bureau) -> None:
    """It runs for hours; workers go on as well."""
    bureau.create(gap_s=1.0)
    said: list[str] = []
    gone = OperationalError("SELECT 1", {}, psycopg.OperationalError("the connection is lost"))
    assert running(bureau, Away(bureau, gone, StoreTrouble("it does not let us in"), gone), said) == "done"
    assert said.count("campaign_failed") == 3
    assert everybody_once(bureau.rows())


def test_a_mistake_ends_it(bureau: Bureau) -> None:
    bureau.create()
    wrong = ProgrammingError("SELECT 1", {}, psycopg.errors.UndefinedColumn("no such column"))
    with pytest.raises(ProgrammingError):
        running(bureau, Away(bureau, wrong), [])


def test_everybody_gets_his_own_mail_once(bureau: Bureau) -> None:
    bureau.create()
    assert bureau.run() == "done"
    rows = bureau.rows()
    assert everybody_once(rows)
    assert rows[4].dedupe_key == "campaign-318-user-4" == key_of("318", Member(key="4", address="x"))
    assert b"Subject: News for N4" in rows[4].raw
    assert {(row.mail_class, row.campaign, row.priority) for row in rows} == {("newsletter", "318", -100)}
    found = bureau.campaign
    assert (found.state, found.pages, found.members, found.enqueued) == (CampaignState.DONE, 4, 10, 10)


def test_mails_are_paced(bureau: Bureau) -> None:
    bureau.create(gap_s=60.0)
    bureau.run()
    assert [(row.queued_at - NOW).total_seconds() for row in bureau.rows()] == [60.0 * n for n in range(10)]


def test_mails_are_due_by_the_time_that_the_workers_go_by(bureau: Bureau) -> None:
    bureau.create()
    theirs = NOW + timedelta(minutes=5)
    runner = Runner(
        store=bureau.store, name="318", templates=bureau.templates, clock=bureau.clock, now=lambda: theirs
    )
    runner.step()
    assert {row.next_attempt_at for row in bureau.rows()} == {theirs}


def test_a_page_is_written_shortly_before_its_time(bureau: Bureau) -> None:
    bureau.create(gap_s=600.0)
    runner = bureau.runner()
    assert runner.step().wait_s == 0.0
    step = runner.step()
    assert (step.wait_s, step.why) == (1_800.0 - AHEAD_S, "the next mail is not due yet")
    assert len(bureau.rows()) == 3


def test_a_campaign_does_not_rush_to_catch_up(bureau: Bureau) -> None:
    bureau.create(gap_s=60.0)
    runner = bureau.runner()
    runner.step()
    bureau.send()
    bureau.clock.advance(10_000)  # nobody ran it for hours
    bureau.send()
    runner.step()
    late = [row.queued_at for row in bureau.rows()][3:]
    assert late == [NOW + timedelta(seconds=10_000 + 60 * n) for n in range(3)]


def test_while_its_mails_do_not_leave_it_puts_in_no_more(bureau: Bureau) -> None:
    bureau.create()
    runner = bureau.runner()
    assert [runner.step().wait_s for _ in range(3)] == [0.0, 0.0, LOOK_S]
    assert len(bureau.rows()) == 6
    bureau.send()
    assert runner.step().why == "a page was written"


def test_that_its_mails_do_not_leave_is_said_once(bureau: Bureau) -> None:
    """Whoever runs it without a worker would look at a silent terminal; but a night without one is one line."""
    bureau.create()
    said: list[str] = []

    def log(event: str, /, **facts: object) -> None:
        said.append(event)

    runner = Runner(store=bureau.store, name="318", templates=bureau.templates, clock=bureau.clock, log=log)
    for _ in range(4):
        runner.step()
    bureau.send()
    runner.step()

    assert said == ["campaign_page", "campaign_page", "campaign_waits", "campaign_page"]


def test_who_is_suppressed_gets_no_row(bureau: Bureau) -> None:
    bureau.store.suppress("U3@example.com", reason="unsubscribe", source="x", now=NOW, kind=Kind.NEWSLETTER)
    bureau.create()
    bureau.run()
    assert "u3@example.com" not in {row.recipient for row in bureau.rows()}
    assert (bureau.campaign.suppressed, bureau.campaign.enqueued) == (1, 9)


def test_who_unsubscribes_between_the_page_and_the_sending_gets_none_either(bureau: Bureau) -> None:
    bureau.create()
    bureau.runner().step()
    bureau.store.suppress("u1@example.com", reason="unsubscribe", source="x", now=NOW, kind=Kind.NEWSLETTER)
    assert bureau.send() == ["u0@example.com", "u2@example.com"]


def test_a_wrong_address_does_not_end_it(bureau: Bureau) -> None:
    bureau.create(addresses=["u0@example.com", "nobody", "u1@example.com", "U1@example.com"])
    assert bureau.run() == "done"
    assert bureau.campaign.refused == 1
    assert bureau.campaign.members == 4


def test_a_mistake_in_the_template_refuses_nobody(bureau: Bureau) -> None:
    """Of one in the middle of a campaign nobody behind it would have got anything."""
    bureau.create()
    runner = bureau.runner()
    runner.step()
    words = bureau.templates.folder / "news" / "text.txt"
    right = words.read_text()
    for wrong in (b"{% if %}", b"{{ name | no_such_filter }}", b"\xff", b"{% include 'nowhere' %}"):
        words.write_bytes(wrong)
        with pytest.raises(BrokenTemplate):
            bureau.runner().step()
        assert (bureau.campaign.pages, bureau.campaign.refused) == (1, 0)
    words.write_text(right)
    assert bureau.run() == "done"
    assert everybody_once(bureau.rows())


def test_where_a_refused_member_stands_is_logged_and_not_what(bureau: Bureau) -> None:
    bureau.create(addresses=["u0@example.com", "nobody", "u1@example.com"])
    said: list[dict[str, object]] = []

    def log(event: str, /, **facts: object) -> None:
        said.extend([facts] if event == "campaign_member_refused" else [])

    runner = Runner(store=bureau.store, name="318", templates=bureau.templates, clock=bureau.clock, log=log)
    runner.step()
    assert said == [{"campaign": "318", "where": f"{bureau.audience}, line 3", "error": "InvalidMail"}]


# --- killed, twice, stopped -------------------------------------------------------------------------------


def test_a_kill_in_the_middle_of_a_page_leaves_nothing_of_it(
    bureau: Bureau, monkeypatch: pytest.MonkeyPatch
) -> None:
    bureau.create()
    runner = bureau.runner()
    runner.step()
    put: Callable[..., int] = Store._put_page

    def killed(connection: Any, rows: Any) -> int:
        put(connection, rows)
        raise KeyboardInterrupt

    monkeypatch.setattr(Store, "_put_page", staticmethod(killed))
    with pytest.raises(KeyboardInterrupt):
        runner.step()
    monkeypatch.undo()
    assert (len(bureau.rows()), bureau.campaign.pages) == (3, 1)
    assert bureau.run() == "done"
    assert everybody_once(bureau.rows())


def test_two_runners_with_the_same_page_write_it_once(bureau: Bureau) -> None:
    bureau.create()
    pages: list[tuple[Campaign, Written]] = []

    class Late:
        """A store through which a page comes late."""

        def __getattr__(self, name: str) -> Any:
            return getattr(bureau.store, name)

        def write_page(self, seen: Campaign, page: Written, *, now: Any) -> bool:
            pages.append((seen, page))
            return False

    bureau.runner(Late()).step()
    bureau.runner().step()
    assert not bureau.store.write_page(*pages[0], now=NOW)
    assert (len(bureau.rows()), bureau.campaign.members) == (3, 3)


def test_a_paused_campaign_sends_nothing_and_goes_on_where_it_was(bureau: Bureau) -> None:
    bureau.create(gap_s=10.0)
    runner = bureau.runner()
    runner.step()
    assert bureau.send() == ["u0@example.com"]
    assert bureau.store.move_campaign("318", CampaignState.PAUSED, now=bureau.clock.now())
    assert (runner.step().wait_s, runner.step().why) == (None, "paused")
    bureau.clock.advance(3_600)
    assert bureau.send() == []
    assert bureau.store.move_campaign("318", CampaignState.RUNNING, now=bureau.clock.now())
    assert bureau.send() == ["u1@example.com"]  # the next one at its pace, and not all at once
    bureau.clock.advance(10)
    assert bureau.send() == ["u2@example.com"]
    assert bureau.run() == "done"
    assert everybody_once(bureau.rows())


def test_a_pause_does_not_age_the_mails(bureau: Bureau) -> None:
    bureau.create(gap_s=10.0)
    bureau.runner().step()
    bureau.store.move_campaign("318", CampaignState.PAUSED, now=NOW)
    later = NOW + timedelta(days=30)
    bureau.store.move_campaign("318", CampaignState.RUNNING, now=later)
    assert [docket.queued_at for docket in bureau.store.find(ids=[1, 2])] == [
        later,
        later + timedelta(seconds=10),
    ]


def test_a_mail_under_way_when_the_pause_came_waits_when_it_comes_back(bureau: Bureau) -> None:
    bureau.create()
    bureau.runner().step()
    (parcel, *_) = bureau.store.claim(now=NOW, limit=1, lease_s=60, dedupes=True)
    bureau.store.move_campaign("318", CampaignState.PAUSED, now=NOW)
    later = Decision(state=State.PENDING, reason="later", next_attempt_at=NOW)
    assert bureau.store.settle(parcel, later, now=NOW)
    assert [each.bar for each in bureau.store.claim(now=NOW, limit=9, lease_s=60, dedupes=True)] == [
        Bar.PAUSED
    ]


def test_a_cancelled_campaign_ends_what_waits_and_leaves_what_may_have_gone(bureau: Bureau) -> None:
    bureau.create()
    bureau.runner().step()
    with bureau.store.engine.begin() as connection:
        connection.execute(update(outgoing_email).where(outgoing_email.c.id == 2).values(doubted_at=NOW))
    assert bureau.store.move_campaign("318", CampaignState.CANCELLED, now=NOW)
    assert [(row.state, row.token) for row in bureau.rows()] == [
        (State.EXPIRED, 1),
        (State.PENDING, 0),
        (State.EXPIRED, 1),
    ]
    assert bureau.runner().step().wait_s is None
    assert [each.bar for each in bureau.store.claim(now=NOW, limit=9, lease_s=60, dedupes=True)] == [
        Bar.CANCELLED
    ]
    for state in CampaignState:
        assert not bureau.store.move_campaign("318", state, now=NOW)


def test_a_campaign_whose_time_is_over_ends(bureau: Bureau) -> None:
    bureau.create(ends_at=NOW + timedelta(seconds=5))
    bureau.clock.advance(5)
    assert bureau.runner().step().why == "its time is over"
    assert bureau.campaign.state is CampaignState.CANCELLED


# --- runners with a sin: each repeats somebody, or misses him ------------------------------------------------


class CursorApart(Store):
    """The mails are committed, and then the cursor; and the key says where in the audience, not who."""

    def write_page(self, seen: Campaign, page: Written, *, now: Any) -> bool:
        rows = [
            row | {name: f"{row[name]}-{seen.updated_at}" for name in ("dedupe_key", "idempotency_key")}
            for row in page.rows
        ]
        with self.engine.begin() as connection:
            self._put_page(connection, rows)
        if self.dies:
            self.dies = False
            raise KeyboardInterrupt
        return super().write_page(seen, Written(**{**_facts(page), "rows": []}), now=now)

    dies = True


class CursorFirst(Store):
    """The cursor is committed, and then the mails."""

    def write_page(self, seen: Campaign, page: Written, *, now: Any) -> bool:
        super().write_page(seen, Written(**{**_facts(page), "rows": []}), now=now)
        if self.dies:
            self.dies = False
            raise KeyboardInterrupt
        with self.engine.begin() as connection:
            self._put_page(connection, page.rows)
        return True

    dies = True


def _facts(page: Written) -> dict[str, Any]:
    return {name: getattr(page, name) for name in Written.__dataclass_fields__}


@pytest.mark.parametrize(("sin", "copies"), [(CursorApart, 2), (CursorFirst, 0)])
def test_a_runner_that_dies_between_page_and_cursor_is_caught(
    bureau: Bureau, sin: type[Store], copies: int
) -> None:
    bureau.create()
    runner = bureau.runner(sin(bureau.store.engine))
    with pytest.raises(KeyboardInterrupt):
        runner.step()
    with bureau.store.engine.begin() as connection:
        # The one that took over looks at another moment.
        connection.execute(update(campaign).values(updated_at=NOW + timedelta(seconds=1)))
    while runner.step().wait_s is not None:
        bureau.send()
        bureau.clock.advance(10)
    rows = bureau.rows()
    assert not everybody_once(rows)
    assert Counter(row.recipient for row in rows)["u0@example.com"] == copies
