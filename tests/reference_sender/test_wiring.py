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
from reference_sender.outbox.engine import open_engine
from reference_sender.outbox.store import Store
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


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"provider_api_key": "secret\n"}, "PROVIDER_API_KEY holds a line break"),
        ({"provider_api_key": "sec\udcffret"}, "PROVIDER_API_KEY holds"),
        ({"smtp_user": "secret\r\nRSET"}, "SMTP_USER holds a line break"),
        ({"smtp_password": "sec\x00ret"}, "SMTP_PASSWORD holds a line break or another control character"),
        ({"smtp_host": "mail\n"}, "SMTP_HOST holds"),
        ({"smtp_host": " "}, "SMTP_HOST is empty"),
        ({"metrics": "9464"}, "OUTBOX_METRICS is '9464'; write it like"),
        ({"metrics": "127.0.0.1:x"}, "OUTBOX_METRICS is '127.0.0.1:x'"),
        ({"metrics": "127.0.0.1:70000"}, "OUTBOX_METRICS is"),
        ({"metrics": ":1"}, "OUTBOX_METRICS is ':1'"),
        ({"health_s": 0.0}, "OUTBOX_HEALTH_S is 0; it must be a number of seconds greater than zero"),
        ({"batch": 0}, "OUTBOX_BATCH is 0; it must be at least 1"),
        ({"batch": 9}, r"OUTBOX_BATCH is 9; .* at most OUTBOX_CONCURRENCY \(8\)"),
        ({"batch": 2, "transport": "smtp"}, "SMTP has no batches"),
        ({"provider_batch_path": "v1"}, "PROVIDER_BATCH_PATH is 'v1'; it must begin with /"),
        ({"smtp_port": 0}, "SMTP_PORT is 0; it must be between 1 and 65535"),
        ({"smtp_port": 65_536}, "SMTP_PORT is 65536"),
        ({"smtp_port": -1}, "SMTP_PORT is -1"),
        ({"provider_url": "http://"}, "must name a host"),
        ({"provider_url": "https:///v1"}, "must name a host"),
        ({"provider_url": "http://:8025"}, "must name a host"),
        ({"provider_url": "http://host:99999"}, "must name a host"),
        ({"provider_url": "http://[::1"}, "must name a host"),
        ({"provider_url": "http://a b"}, "must name a host"),
        ({"provider_url": "http://host\n/"}, "PROVIDER_URL holds a line break"),
        ({"provider_url": "http://host/?a=b"}, "must end before any"),
        ({"provider_url": "http://u:secret@host", "provider_api_key": "k"}, "only one of them"),
        ({"provider_url": "ftp://u:secret@host"}, "must begin with http"),
        ({"provider_path": "v1/emails"}, "PROVIDER_PATH is 'v1/emails'; it must begin with /"),
        ({"provider_path": "/v1 emails"}, "PROVIDER_PATH"),
        ({"provider_path": "/v1?x"}, "PROVIDER_PATH"),
        ({"provider_key_header": "Idempotency Key"}, "PROVIDER_KEY_HEADER is 'Idempotency Key'; it must be"),
        ({"provider_key_header": "Key:"}, "must be a header name"),
        ({"provider_key_header": "Schlüssel"}, "must be a header name"),
        ({"provider_key_header": ""}, "must be a header name"),
        ({"provider_key_header": "Content-Length"}, "has a meaning of its own"),
        ({"lease_s": 1e300}, "lease_s is 1e\\+300"),
        ({"poll_s": float("inf")}, "poll_s is inf"),
    ],
)
def test_what_could_never_be_sent_is_refused_at_start_and_no_secret_is_told(
    values: dict[str, object], word: str
) -> None:
    with pytest.raises(InvalidSettings, match=word) as caught:
        options_from(URL | values)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "values",
    [
        {"provider_url": "http://[::1]:8025/base/"},
        {"provider_url": "http://user:password@host"},
        {"provider_key_header": "X-Dedupe-Key", "provider_path": "/send"},
        {"smtp_password": "pässword with spaces", "smtp_port": 65_535},
    ],
)
def test_what_is_only_unusual_is_taken(values: dict[str, object]) -> None:
    assert options_from(URL | values).transport is Wire.HTTP


def test_a_broker_that_is_none_is_refused_before_anything_starts(tmp_path: Path) -> None:
    options = options_from(URL | {"database_url": f"sqlite:///{tmp_path / 'o.db'}", "wake_from": "localhost"})
    with pytest.raises(InvalidSettings, match="the broker's URL is 'localhost'; write it like amqp://"):
        build(options)


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
