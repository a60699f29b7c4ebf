"""Wiring: environment in, a built sender out; contradictions are one sentence."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine

from reference_sender.life import Parcel
from reference_sender.outbox.store import Store, open_engine
from reference_sender.policy.evidence import Evidence, Refused, Wire
from reference_sender.policy.settings import InvalidSettings, Policy
from reference_sender.wiring import OPTIONS, Parts, build, options_from, options_from_environment
from reference_sender.worker import Transport
from tests.reference_sender.samples import ManualClock

URL = {"provider_url": "http://127.0.0.1:1"}


@pytest.mark.parametrize(
    ("environment", "word"),
    [
        ({}, "PROVIDER_URL is not set"),
        ({"PROVIDER_URL": "ftp://x"}, "must begin with http"),
        ({"OUTBOX_TRANSPORT": "smtp", "OUTBOX_POLICY": "resend-same-key"}, "SMTP has no place for a key"),
        ({"OUTBOX_TRANSPORT": "smtp", "OUTBOX_LOOKUP": "http"}, "PROVIDER_URL is not set"),
        ({"OUTBOX_TRANSPORT": "pigeon"}, "must be one of http, smtp"),
        ({"OUTBOX_TRANSPORT": "smtp", "OUTBOX_LEASE_S": "soon"}, "OUTBOX_LEASE_S is 'soon'"),
        ({"OUTBOX_TRANSPORT": "smtp", "OUTBOX_LEASE_S": "3"}, "must be shorter than lease_s"),
    ],
)
def test_a_contradiction_is_one_sentence(environment: dict[str, str], word: str) -> None:
    with pytest.raises(InvalidSettings, match=word):
        options_from_environment(environment)


def test_each_wire_has_defaults_of_its_own() -> None:
    http, smtp = options_from(URL), options_from({"transport": "smtp"})
    assert (http.transport, http.settings.policy, http.lookup) == (Wire.HTTP, Policy.RESEND_SAME_KEY, True)
    assert (smtp.transport, smtp.settings.policy, smtp.lookup) == (Wire.SMTP, Policy.AT_MOST_ONCE, False)
    # RFC 5321 section 4.5.3.2.6: less than ten minutes after the dot makes duplicates.
    assert smtp.settings.read_timeout_s == 600.0


def test_who_sets_only_the_total_gets_parts_that_fit() -> None:
    settings = options_from({"transport": "smtp", "total_timeout_s": 2.0, "lease_s": 3.0}).settings
    assert (settings.connect_timeout_s, settings.read_timeout_s) == (2.0, 2.0)


def test_every_option_has_a_variable_and_a_help() -> None:
    assert len({o.envvar for o in OPTIONS}) == len({o.name for o in OPTIONS}) == len(OPTIONS)
    assert all(o.help for o in OPTIONS)


def test_secrets_do_not_show() -> None:
    options = options_from(
        URL
        | {"provider_api_key": "hush1", "smtp_password": "hush2", "database_url": "postgresql://u:hush3@h/d"}
    )
    assert "hush" not in repr(options)


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


def test_only_the_client_of_the_chosen_wire_is_loaded() -> None:
    code = (
        "import sys; from reference_sender import cli; "
        "print([m for m in ('aiohttp', 'aiosmtplib', 'rich.console', 'psycopg') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
