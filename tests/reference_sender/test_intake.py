"""The intake as a whole: from a signed request to a mail that is accepted, and from a report to a suppressed address."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from sqlalchemy import text

from reference_sender.intake import Intake, IntakeParts, build_intake
from reference_sender.intake_options import intake_options_from
from reference_sender.life import State
from reference_sender.outbox.engine import open_engine
from reference_sender.outbox.store import Store, enqueue
from reference_sender.policy.settings import InvalidSettings
from reference_sender.sealing import is_sealed
from tests.reference_sender.doors.knocks import SECRET, signed
from tests.reference_sender.events.test_reports import POSTFIX
from tests.reference_sender.outbox.contract import ACCEPTED, UNKNOWN
from tests.reference_sender.samples import MAIL, NOW, ManualClock


@pytest.fixture
def url(tmp_path: Path) -> str:
    """An outbox with two mails: the first one unknown, the second one accepted."""
    url = f"sqlite:///{tmp_path / 'outbox.db'}"
    store = Store(open_engine(url))
    store.create()
    with store.engine.begin() as connection:
        for key in ("order-1", "order-2"):
            enqueue(connection, MAIL, key=key, now=NOW)
    first, second = store.claim(now=NOW, limit=2, lease_s=60, dedupes=True)
    store.settle(first, UNKNOWN, now=NOW)
    store.settle(second, ACCEPTED, now=NOW)
    store.engine.dispose()
    return url


class Ticks(ManualClock):
    """The time stands still and rests are short."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0.01)


def run(url: str, story: Callable[[Intake, str], Awaitable[None]], **told: Any) -> list[tuple[str, Any]]:
    """Run an intake while a story goes on; the events that were settled."""
    settled: list[tuple[str, Any]] = []
    changed = asyncio.Event()

    def log(name: str, /, **facts: Any) -> None:
        if name == "event":
            settled.append((facts["event_id"], facts["state"]))
            changed.set()

    options = intake_options_from({"database_url": url, "look_s": 0.01, **told})
    intake = build_intake(options, IntakeParts(clock=Ticks(), log=log))

    async def play() -> None:
        stop, where = asyncio.Event(), asyncio.get_running_loop().create_future()
        running = asyncio.create_task(intake.run(stop, ready=where.set_result))
        done, _ = await asyncio.wait({running, where}, return_when=asyncio.FIRST_COMPLETED)
        if running in done:
            await running
        await story(intake, where.result())
        await asyncio.wait_for(changed.wait(), 10)
        stop.set()
        await asyncio.wait_for(running, 10)

    asyncio.run(play())
    return settled


def look(url: str) -> tuple[list[State], list[str], list[str]]:
    """States, kinds of facts and suppressed addresses."""
    store = Store(open_engine(url))
    states = [each.state for each in store.standings()]
    facts = [fact.kind for each in store.facts([1, 2]).values() for fact in each]
    listed = [each.address for each in store.suppressions()]
    store.engine.dispose()
    return states, facts, listed


def test_a_webhook_settles_an_unknown_mail(url: str) -> None:
    store = Store(open_engine(url))
    message_id = store.standings()[0].message_id
    store.engine.dispose()
    event = {
        "id": "evt_1",
        "type": "email.bounced",
        "timestamp": NOW.isoformat(),
        "data": {"message_id": message_id, "recipient": "ann@example.com", "bounce": "hard"},
    }

    async def story(_intake: Intake, where: str) -> None:
        kind, address = where.split(" ")
        assert kind == "http"
        body = json.dumps(event).encode()
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"http://{address}/webhooks", data=body, headers=signed(body)) as response,
        ):
            assert response.status == 204

    assert run(url, story, listen="127.0.0.1:0", webhook_secret=SECRET) == [("evt_1", "applied")]
    assert look(url) == ([State.ACCEPTED, State.ACCEPTED], ["hard_bounce"], ["ann@example.com"])


def test_a_report_in_a_maildir_is_an_event_like_any_other(url: str, tmp_path: Path) -> None:
    for name in ("new", "cur"):
        (tmp_path / "box" / name).mkdir(parents=True)
    (tmp_path / "box" / "new" / "1").write_bytes(POSTFIX)

    async def story(_intake: Intake, where: str) -> None:
        assert where == f"maildir {tmp_path / 'box'}"

    settled = run(url, story, bounces=str(tmp_path / "box"))
    assert {state for _, state in settled} == {"waiting"}
    assert look(url)[2] == ["gone@example.com"]


def test_both_doors_are_told_where_they_are(url: str) -> None:
    async def story(intake: Intake, where: str) -> None:
        assert [each.split(" ")[0] for each in where.split(", ")] == ["http", "lmtp"]
        intake.store.receive([("evt_1", b"null")], source="webhook", now=NOW)

    assert run(url, story, listen="127.0.0.1:0", webhook_secret=SECRET, bounces="lmtp:127.0.0.1:0") == [
        ("evt_1", "parked")
    ]


def test_a_folder_that_is_no_maildir_is_told_before_anything_begins(tmp_path: Path, url: str) -> None:
    with pytest.raises(InvalidSettings, match=r"WEBHOOK_BOUNCES: .* is no Maildir"):
        build_intake(intake_options_from({"database_url": url, "bounces": str(tmp_path)}))


def test_what_is_told_is_sealed_where_there_are_keys(url: str) -> None:
    key = "a:" + base64.b64encode(b"a" * 32).decode()
    body = json.dumps(
        {"id": "e1", "type": "email.delivered", "timestamp": NOW.isoformat(), "data": {"email_id": "m1"}}
    ).encode()

    async def story(intake: Intake, where: str) -> None:
        async with aiohttp.ClientSession() as session:
            target = f"http://{where.split()[1]}/webhooks"
            async with session.post(target, data=body, headers=signed(body)) as answer:
                assert answer.status == 204

    assert run(url, story, listen="127.0.0.1:0", webhook_secret=SECRET, body_keys=key) == [("e1", "applied")]
    store = Store(open_engine(url))
    with store.engine.connect() as connection:
        (at_rest,) = connection.execute(text("SELECT raw FROM webhook_event")).scalars()
    store.engine.dispose()
    assert (is_sealed(at_rest), b"delivered" in at_rest) == (True, False)


def test_an_intake_that_is_watched_counts_what_it_does(url: str) -> None:
    seen: list[bytes] = []

    async def story(intake: Intake, where: str) -> None:
        assert intake.watch is not None
        body = json.dumps({"id": "e1", "type": "x"}).encode()
        async with aiohttp.ClientSession() as session:
            async with session.post(f"http://{where.split()[1]}/webhooks", data=body, headers=signed(body)):
                pass
            async with session.post(f"http://{where.split()[1]}/webhooks", data=body) as answer:
                assert answer.status == 401
        seen.append(intake.watch.metrics.text())

    told = {"listen": "127.0.0.1:0", "webhook_secret": SECRET, "metrics": "127.0.0.1:0"}
    assert run(url, story, **told) == [("e1", "ignored")]
    assert b'outbox_webhook_requests_total{answer="204"} 1.0' in seen[0]
    assert b'outbox_webhook_requests_total{answer="401"} 1.0' in seen[0]


def test_where_nobody_wants_metrics_none_are_loaded(url: str) -> None:
    assert (
        build_intake(intake_options_from({"database_url": url, "bounces": "lmtp:127.0.0.1:0"})).watch is None
    )
