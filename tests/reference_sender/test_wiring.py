"""Wiring: options in, a built sender out, each part replaceable by itself."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine

from reference_sender.life import Parcel
from reference_sender.outbox.engine import open_engine
from reference_sender.outbox.store import Store
from reference_sender.policy.evidence import Evidence, Refused
from reference_sender.policy.settings import InvalidSettings
from reference_sender.wiring import Parts, build, options_from
from reference_sender.worker import Transport
from tests.reference_sender.samples import ManualClock

URL = {"provider_url": "http://127.0.0.1:1"}


def test_a_broker_that_is_none_is_refused_before_anything_starts(tmp_path: Path) -> None:
    options = options_from(URL | {"database_url": f"sqlite:///{tmp_path / 'o.db'}", "wake_from": "localhost"})
    with pytest.raises(InvalidSettings, match="the broker's URL is 'localhost'; write it like amqp://"):
        build(options)


@pytest.mark.parametrize("wire", ["http", "smtp"])
def test_a_built_sender_runs_and_stops(wire: str, tmp_path: Path) -> None:
    options = options_from(URL | {"transport": wire, "database_url": f"sqlite:///{tmp_path / 'o.db'}"})

    async def steps() -> None:
        sender = build(options)
        sender.store.create()
        stop = asyncio.Event()
        await asyncio.wait_for(sender.run(stop, ready=stop.set), 20)

    asyncio.run(steps())


def test_one_part_can_be_replaced(tmp_path: Path) -> None:
    seen: list[str] = []

    class Wrapped:
        def __init__(self, inner: Transport) -> None:
            self.inner = inner

        async def send(self, parcel: Parcel, **rest: object) -> Evidence:
            raise NotImplementedError

    class MyStore(Store):
        pass

    def around(inner: Transport) -> Transport:
        seen.append(type(inner).__name__)
        return Wrapped(inner)

    parts = Parts(
        clock=ManualClock(),
        open_store=MyStore,
        around_transport=around,
        classify=lambda evidence: Refused(reason="always"),
    )
    options = options_from(URL | {"database_url": f"sqlite:///{tmp_path / 'o.db'}"})
    sender = build(options, parts)
    assert isinstance(sender.store, MyStore)
    assert seen == ["HttpTransport"]
    sender.store.engine.dispose()


def test_the_engine_can_be_given(tmp_path: Path) -> None:
    """Who brings an engine of his own gets a store on that one, and no other is made."""
    mine = open_engine(f"sqlite:///{tmp_path / 'mine.db'}")
    asked: list[str] = []

    def open_mine(url: str) -> Engine:
        asked.append(url)
        return mine

    sender = build(options_from(URL), Parts(open_engine=open_mine))
    assert sender.store.engine is mine
    assert asked == ["sqlite:///outbox.db"]
    mine.dispose()


def test_the_same_seed_makes_the_same_dice(tmp_path: Path) -> None:
    options = options_from(URL | {"database_url": f"sqlite:///{tmp_path / 'o.db'}", "seed": 7})
    first, second, other = build(options), build(options), build(replace(options, seed=8))
    assert first.rng.random() == second.rng.random() != other.rng.random()


def test_what_a_command_needs_is_loaded_by_that_command() -> None:
    """No client of a wire, no words of a database, no template engine, nothing for pictures or people."""
    code = (
        "import sys; from reference_sender import cli; heavy = {'aiohttp', 'aiosmtplib', 'rich', 'jinja2', 'psycopg', "
        "'sqlalchemy.dialects.sqlite', 'sqlalchemy.dialects.postgresql', 'sqlalchemy.dialects.mysql', "
        "'prometheus_client', 'opentelemetry', 'cryptography', 'pika', 'aio_pika'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
