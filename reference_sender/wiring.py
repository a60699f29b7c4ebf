"""Where promises meet databases and protocols: options in, a built sender out.

The only place that knows both sides, and the only one that names environment variables. `Parts` are the seams:
each can be replaced by itself, which is how a test makes a sender with exactly one sin.
Must not hold: anything that happens after start-up.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from sqlalchemy import Engine

from reference_sender.clock import Clock, SystemClock, random_source
from reference_sender.gate_options import GATE_OPTIONS, gate_rules, pace_rules
from reference_sender.gatekeeper import Gatekeeper
from reference_sender.life import Parcel
from reference_sender.log import Both, Log, quiet
from reference_sender.message import idempotency_key_for
from reference_sender.option import Option
from reference_sender.outbox.engine import open_engine
from reference_sender.outbox.sealed import seal_with
from reference_sender.outbox.store import Store
from reference_sender.policy.backoff import backoff_s
from reference_sender.policy.classify import classify
from reference_sender.policy.decision import Backoff
from reference_sender.policy.evidence import Evidence, Outcome, Refused, Wire
from reference_sender.policy.gate import GateRules
from reference_sender.policy.pace import PaceRules
from reference_sender.policy.routes import Mine, Route
from reference_sender.policy.settings import InvalidSettings, Policy, Settings
from reference_sender.providers import Providers, read_providers
from reference_sender.reconciler import Lookup, Reconciler
from reference_sender.sealing import Vault, vault_of
from reference_sender.worker import Transport, Worker, frozen_key

if TYPE_CHECKING:
    from reference_sender.alarms import Alarms
    from reference_sender.tracing import Traces
    from reference_sender.watch import Watch


DATABASE = Option(
    name="database_url",
    envvar="OUTBOX_DATABASE_URL",
    help="The database with the outbox: sqlite:///FILE, postgresql://USER:PASSWORD@HOST/NAME or mysql://… for MySQL and MariaDB.",
    default="sqlite:///outbox.db",
)

QUEUE_CAP = Option(
    name="queue_cap",
    envvar="OUTBOX_QUEUE_CAP",
    help="So many mails may wait; newsletters are refused from half of it on, notices from four fifths, codes never [no cap].",
    kind=int,
)

ALARM_OPTIONS: tuple[Option, ...] = (
    Option(
        name="alarm_url",
        envvar="OUTBOX_ALARM_URL",
        help="Alarms go there as a POST with JSON, not through the outbox.",
    ),
    Option(
        name="alarm_smtp",
        envvar="OUTBOX_ALARM_SMTP",
        help="Or as a mail through smtp:// or smtps://USER:PASSWORD@HOST:PORT, better of another provider.",
    ),
    Option(name="alarm_from", envvar="OUTBOX_ALARM_FROM", help="The sender of such a mail."),
    Option(name="alarm_to", envvar="OUTBOX_ALARM_TO", help="Its recipients, with commas between."),
    Option(
        name="alarm_every_s",
        envvar="OUTBOX_ALARM_EVERY_S",
        help="The same alarm at most once in so many seconds.",
        kind=float,
        default=300.0,
    ),
)

OPTIONS: tuple[Option, ...] = (
    DATABASE,
    Option(
        name="transport",
        envvar="OUTBOX_TRANSPORT",
        help="The wire that is spoken to the provider.",
        choices=("http", "smtp"),
        default="http",
    ),
    Option(
        name="provider_url",
        envvar="PROVIDER_URL",
        help="Where the HTTP API is, like https://api.example.com.",
    ),
    Option(name="provider_api_key", envvar="PROVIDER_API_KEY", help="The key of the HTTP API."),
    Option(
        name="provider_path",
        envvar="PROVIDER_PATH",
        help="The path that takes mail.",
        default="/v1/emails",
    ),
    Option(
        name="provider_key_header",
        envvar="PROVIDER_KEY_HEADER",
        help="The header that carries the idempotency key.",
        default="Idempotency-Key",
    ),
    Option(
        name="batch",
        envvar="OUTBOX_BATCH",
        help="So many mails of one class go in one HTTP request at most, each with its own key.",
        kind=int,
        default=1,
    ),
    Option(
        name="provider_batch_path",
        envvar="PROVIDER_BATCH_PATH",
        help="The path that takes several mails.",
        default="/v1/emails/batch",
    ),
    Option(name="smtp_host", envvar="SMTP_HOST", help="The mail server.", default="127.0.0.1"),
    Option(name="smtp_port", envvar="SMTP_PORT", help="Its port.", kind=int, default=587),
    Option(name="smtp_user", envvar="SMTP_USER", help="User name for AUTH; without it nobody logs in."),
    Option(name="smtp_password", envvar="SMTP_PASSWORD", help="Password for AUTH."),
    Option(
        name="smtp_tls",
        envvar="SMTP_TLS",
        help="auto: none on this machine, implicit on port 465, STARTTLS required elsewhere.",
        choices=("auto", "off", "starttls", "implicit"),
        default="auto",
    ),
    Option(
        name="policy",
        envvar="OUTBOX_POLICY",
        help="What to do when nobody can know whether a mail was accepted [http: resend-same-key, smtp: at-most-once].",
        choices=tuple(p.value for p in Policy),
    ),
    Option(
        name="lookup",
        envvar="OUTBOX_LOOKUP",
        help="Whether the reconciler may ask the HTTP API about doubtful mail [http: http, smtp: none].",
        choices=("http", "none"),
    ),
    Option(name="concurrency", envvar="OUTBOX_CONCURRENCY", help="Mails under way at a time [8].", kind=int),
    Option(
        name="connect_timeout_s", envvar="OUTBOX_CONNECT_TIMEOUT_S", help="[http: 5, smtp: 30]", kind=float
    ),
    Option(
        name="read_timeout_s",
        envvar="OUTBOX_READ_TIMEOUT_S",
        help="The longest silence [http: 30, smtp: 600, as RFC 5321 wants it].",
        kind=float,
    ),
    Option(
        name="total_timeout_s",
        envvar="OUTBOX_TOTAL_TIMEOUT_S",
        help="The longest attempt; must be shorter than the lease [http: 60, smtp: 660].",
        kind=float,
    ),
    Option(
        name="lease_s",
        envvar="OUTBOX_LEASE_S",
        help="How long a claimed mail belongs to its worker [http: 120, smtp: 720].",
        kind=float,
    ),
    Option(
        name="backoff_base_s", envvar="OUTBOX_BACKOFF_BASE_S", help="First wait, at most [2].", kind=float
    ),
    Option(name="backoff_cap_s", envvar="OUTBOX_BACKOFF_CAP_S", help="Any wait, at most [600].", kind=float),
    Option(
        name="max_attempts",
        envvar="OUTBOX_MAX_ATTEMPTS",
        help="Attempts before a mail is dead; trouble of the provider or the line does not count [12].",
        kind=int,
    ),
    Option(
        name="max_age_s", envvar="OUTBOX_MAX_AGE_S", help="Age at which a mail is dead [172800].", kind=float
    ),
    Option(name="poll_s", envvar="OUTBOX_POLL_S", help="How often to look for due mail [1].", kind=float),
    Option(
        name="reconcile_s",
        envvar="OUTBOX_RECONCILE_S",
        help="How often to look after doubtful mail [15].",
        kind=float,
    ),
    Option(
        name="drain_s",
        envvar="OUTBOX_DRAIN_S",
        help="How long to finish what is in flight after SIGTERM [30].",
        kind=float,
    ),
    Option(
        name="key_window_s",
        envvar="OUTBOX_KEY_WINDOW_S",
        help="How long the provider surely remembers a key [82800].",
        kind=float,
    ),
    Option(
        name="lookup_lag_s",
        envvar="OUTBOX_LOOKUP_LAG_S",
        help="How far the look-up may lag behind [60].",
        kind=float,
    ),
    Option(
        name="in_flight_s",
        envvar="OUTBOX_IN_FLIGHT_S",
        help="How long a request that we gave up may still be under way [300].",
        kind=float,
    ),
    Option(
        name="metrics",
        envvar="OUTBOX_METRICS",
        help="HOST:PORT for Prometheus' /metrics and for /health; without it nothing listens. Port 0: any free one.",
    ),
    Option(
        name="health_s",
        envvar="OUTBOX_HEALTH_S",
        help="/health turns red when a loop has not looked for so long, or for ten of its turns.",
        kind=float,
        default=60.0,
    ),
    Option(
        name="wake_from",
        envvar="OUTBOX_WAKE_FROM",
        help="amqp://… of a RabbitMQ: look for mail as soon as somebody notifies, not only at the next poll.",
    ),
    Option(
        name="traces",
        envvar="OUTBOX_TRACES",
        help="Attempts as spans of the trace in which their mail was enqueued (OpenTelemetry); OTEL_… say where to.",
        choices=("none", "otlp", "console"),
        default="none",
    ),
    Option(
        name="body_keys",
        envvar="OUTBOX_BODY_KEYS",
        help="Seal what mails say in the database: NAME:BASE64 of 32 octets, several with commas, newest first.",
    ),
    Option(
        name="seed", envvar="OUTBOX_SEED", help="Seed of the jitter; without it each run differs.", kind=int
    ),
    *GATE_OPTIONS,
    *ALARM_OPTIONS,
    Option(
        name="providers",
        envvar="OUTBOX_PROVIDERS",
        help="A TOML file with several providers and the routes to them; its tables hold options by their names.",
    ),
)

#: Options of the whole sender, which a provider of a file cannot have for itself.
_OF_ALL = frozenset(
    {
        "database_url",
        "body_keys",
        "traces",
        "metrics",
        "health_s",
        "wake_from",
        "seed",
        "provider",
        "providers",
    }
    | {option.name for option in ALARM_OPTIONS}
)
_OF_ONE = tuple(option for option in OPTIONS if option.name not in _OF_ALL)

_DEFAULTS: dict[Wire, dict[str, Any]] = {
    Wire.HTTP: {"policy": Policy.RESEND_SAME_KEY.value, "lookup": "http"},
    Wire.SMTP: {
        "policy": Policy.AT_MOST_ONCE.value,
        "lookup": "none",
        "connect_timeout_s": 30.0,
        "read_timeout_s": 600.0,
        "total_timeout_s": 660.0,
        "lease_s": 720.0,
    },
}

_SETTINGS = frozenset(Settings.__dataclass_fields__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Everything the sender was told, checked."""

    transport: Wire
    lookup: bool
    seed: int | None
    settings: Settings
    gate: GateRules
    pace: PaceRules
    database_url: str = field(repr=False)
    provider_url: str | None
    provider_api_key: str = field(repr=False)
    provider_path: str
    provider_key_header: str
    smtp_host: str
    smtp_port: int
    smtp_user: str | None
    smtp_password: str | None = field(repr=False)
    smtp_tls: str
    batch: int
    provider_batch_path: str
    metrics: tuple[str, int] | None
    health_s: float
    wake_from: str | None = field(repr=False)
    alarm_url: str | None = field(repr=False)
    alarm_smtp: str | None = field(repr=False)
    alarm_from: str | None
    alarm_to: tuple[str, ...]
    alarm_every_s: float
    others: tuple[Options, ...] = ()
    """The further providers; what they say about the whole sender is not looked at."""
    vault: Vault | None = None
    traces: str = "none"


def options_from(values: Mapping[str, Any]) -> Options:
    """Check values (by option name; missing ones get their default) and put them together.

    Raises InvalidSettings with one sentence.
    """
    if not values.get("providers"):
        return _options_of_one(values)
    told = values["providers"]
    if not isinstance(told, Providers):
        told = read_providers(Path(told), _OF_ONE, os.environ)
    names = tuple(told.options)
    each = []
    for name, options in told.options.items():
        try:
            each.append(
                _options_of_one({**values, **options, "provider": name}, providers=names, routes=told.routes)
            )
        except InvalidSettings as error:
            raise InvalidSettings(f"provider {name!r}: {error}") from error
    return replace(each[0], others=tuple(each[1:]))


def _options_of_one(
    values: Mapping[str, Any], *, providers: tuple[str, ...] = (), routes: tuple[Route, ...] = ()
) -> Options:
    told: dict[str, Any] = {}
    for option in OPTIONS:
        value = values.get(option.name)
        told[option.name] = option.default if value is None else value
    wire = Wire(told["transport"])
    chosen = _DEFAULTS[wire] | {name: value for name, value in told.items() if value is not None}
    if chosen["policy"] == Policy.RESEND_SAME_KEY and wire is Wire.SMTP:
        raise InvalidSettings(
            "OUTBOX_POLICY=resend-same-key needs a provider that dedupes by key, and SMTP has no place for a key; "
            "use at-most-once or at-least-once"
        )
    if (wire is Wire.HTTP or chosen["lookup"] == "http") and not told["provider_url"]:
        raise InvalidSettings("PROVIDER_URL is not set; it says where the HTTP API is")
    _check_texts(told)
    if told["provider_url"]:
        _check_url(told["provider_url"], with_key=bool(told["provider_api_key"]))
    _check_http_words(told["provider_path"], told["provider_key_header"])
    if not _PATH.match(told["provider_batch_path"]):
        raise InvalidSettings(
            f"PROVIDER_BATCH_PATH is {told['provider_batch_path']!r}; it must begin with / and hold no space, ? or #"
        )
    if not told["smtp_host"].strip():
        raise InvalidSettings("SMTP_HOST is empty; it must name the mail server")
    if not 1 <= told["smtp_port"] <= 65_535:
        raise InvalidSettings(f"SMTP_PORT is {told['smtp_port']}; it must be between 1 and 65535")
    settings = {name: value for name, value in chosen.items() if name in _SETTINGS}
    if "total_timeout_s" in settings:
        # Who sets only the total means the parts to fit into it.
        for part in ("connect_timeout_s", "read_timeout_s"):
            if told[part] is None:
                preset = _DEFAULTS[wire].get(part, Settings.__dataclass_fields__[part].default)
                settings[part] = min(preset, settings["total_timeout_s"])
    settings["policy"] = Policy(settings["policy"])
    checked = Settings(**settings)
    _check_alarms(told)
    return Options(
        transport=wire,
        lookup=chosen["lookup"] == "http",
        seed=told["seed"],
        settings=checked,
        gate=gate_rules(told, checked, providers=providers, routes=routes),
        pace=pace_rules(told, checked),
        database_url=told["database_url"],
        provider_url=told["provider_url"],
        provider_api_key=told["provider_api_key"] or "",
        provider_path=told["provider_path"],
        provider_key_header=told["provider_key_header"],
        smtp_host=told["smtp_host"],
        smtp_port=told["smtp_port"],
        smtp_user=told["smtp_user"] or None,
        smtp_password=told["smtp_password"],
        smtp_tls=told["smtp_tls"],
        batch=_batch(told["batch"], wire, chosen.get("concurrency")),
        provider_batch_path=told["provider_batch_path"],
        metrics=None if told["metrics"] is None else _place(told["metrics"]),
        health_s=_positive("OUTBOX_HEALTH_S", told["health_s"]),
        wake_from=told["wake_from"] or None,
        vault=vault_of(told["body_keys"]),
        traces=told["traces"],
        alarm_url=told["alarm_url"] or None,
        alarm_smtp=told["alarm_smtp"] or None,
        alarm_from=told["alarm_from"] or None,
        alarm_to=tuple(filter(None, (each.strip() for each in (told["alarm_to"] or "").split(",")))),
        alarm_every_s=_positive("OUTBOX_ALARM_EVERY_S", told["alarm_every_s"]),
    )


# Control characters (a line end from a file, above all), and bytes of the environment that are no UTF-8.
_UNSENDABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+\Z")  # a header name, RFC 9110 section 5.6.2
_PATH = re.compile(r"/[!-\"$->@-~]*\Z")  # printable ASCII without ? and #
# What the HTTP client writes itself, or what would change the meaning of the request.
_OWN_HEADERS = frozenset(
    {"authorization", "connection", "content-encoding", "content-length", "content-type", "cookie", "expect"}
    | {"host", "te", "trailer", "transfer-encoding", "upgrade", "user-agent", "accept", "accept-encoding"}
)


def _batch(most: int, wire: Wire, concurrency: int | None) -> int:
    if most > 1 and wire is Wire.SMTP:
        raise InvalidSettings(
            f"OUTBOX_BATCH is {most} and SMTP has no batches; leave it out, mails share a connection there anyway"
        )
    at_a_time = concurrency or Settings(policy=Policy.AT_MOST_ONCE).concurrency
    if not 1 <= most <= at_a_time:
        raise InvalidSettings(
            f"OUTBOX_BATCH is {most}; it must be at least 1 and at most OUTBOX_CONCURRENCY ({at_a_time}), "
            "because more mails than that are never under way at a time"
        )
    return most


def _check_texts(told: Mapping[str, Any]) -> None:
    """Refuse what cannot be sent, without saying it: some of it is secret."""
    for option in OPTIONS:
        value = told[option.name]
        if isinstance(value, str) and _UNSENDABLE.search(value):
            raise InvalidSettings(
                f"{option.envvar} holds a line break or another control character; it must be plain text"
            )


def _check_alarms(told: Mapping[str, Any]) -> None:
    url, smtp = told["alarm_url"], told["alarm_smtp"]
    # Not repeated in a sentence: both may hold a secret.
    if url and not re.match(r"https?://[^/\s]+", url):
        raise InvalidSettings("OUTBOX_ALARM_URL must begin with http:// or https:// and name a host")
    if smtp and not re.match(r"smtps?://([^@/\s]+@)?[^@/:\s]+(:\d{1,5})?/?\Z", smtp):
        raise InvalidSettings("OUTBOX_ALARM_SMTP must be written like smtp://USER:PASSWORD@HOST:PORT")
    if smtp and not (told["alarm_from"] and told["alarm_to"]):
        raise InvalidSettings("OUTBOX_ALARM_SMTP is set; OUTBOX_ALARM_FROM and OUTBOX_ALARM_TO must be, too")


def _check_url(url: str, *, with_key: bool) -> None:
    # Never repeated in a sentence where it holds a password.
    shown = "a URL with a password" if "@" in url else repr(url)
    if not url.startswith(("http://", "https://")):
        raise InvalidSettings(f"PROVIDER_URL is {shown}; it must begin with http:// or https://")
    try:
        parts = urlsplit(url)
        usable = bool(parts.hostname) and parts.port != 0 and " " not in url
    except ValueError:
        usable = False
    if not usable:
        raise InvalidSettings(
            f"PROVIDER_URL is {shown}; it must name a host, like https://api.example.com or http://127.0.0.1:8025"
        )
    if parts.query or parts.fragment:
        raise InvalidSettings(f"PROVIDER_URL is {shown}; it must end before any ? or #")
    if with_key and "@" in parts.netloc:
        raise InvalidSettings(
            "PROVIDER_URL holds a user name and PROVIDER_API_KEY is set, and a request can carry only one of them"
        )


def _place(text: str) -> tuple[str, int]:
    """Read HOST:PORT, with brackets around an IPv6 address."""
    host, _, port = text.rpartition(":")
    if not host.strip("[]") or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise InvalidSettings(f"OUTBOX_METRICS is {text!r}; write it like 127.0.0.1:9464")
    return host.strip("[]"), int(port)


def _positive(name: str, value: float) -> float:
    if not 0 < value < float("inf"):
        raise InvalidSettings(f"{name} is {value:g}; it must be a number of seconds greater than zero")
    return value


def _check_http_words(path: str, key_header: str) -> None:
    if not _PATH.match(path):
        raise InvalidSettings(f"PROVIDER_PATH is {path!r}; it must begin with / and hold no space, ? or #")
    if not _TOKEN.match(key_header):
        raise InvalidSettings(
            f"PROVIDER_KEY_HEADER is {key_header!r}; it must be a header name like Idempotency-Key"
        )
    if key_header.lower() in _OWN_HEADERS:
        raise InvalidSettings(
            f"PROVIDER_KEY_HEADER is {key_header!r}, which has a meaning of its own; use a name like Idempotency-Key"
        )


def options_from_environment(environment: Mapping[str, str]) -> Options:
    """The same from environment variables, for programs that do without the command line."""
    values: dict[str, Any] = {}
    for option in OPTIONS:
        text = environment.get(option.envvar)
        if not text:
            continue
        try:
            values[option.name] = option.kind(text)
        except ValueError as error:
            raise InvalidSettings(f"{option.envvar} is {text!r}; it must be a number") from error
        if option.choices and text not in option.choices:
            raise InvalidSettings(
                f"{option.envvar} is {text!r}; it must be one of {', '.join(option.choices)}"
            )
    return options_from(values)


class ClosableTransport(Transport, Protocol):
    """A transport as it is built here: with an end."""

    async def close(self) -> None: ...


class ClosableLookup(Lookup, Protocol):
    """A look-up as it is built here: with an end."""

    async def close(self) -> None: ...


def _as_it_is(transport: Transport) -> Transport:
    return transport


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the sender is made of. Replace one to get a sender that differs in exactly that."""

    clock: Clock = field(default_factory=SystemClock)
    log: Log = quiet
    open_engine: Callable[[str], Engine] = open_engine
    open_store: Callable[[Engine], Store] = Store
    transport: Callable[[Options], ClosableTransport] | None = (
        None  # instead of the one that the options name
    )
    lookup: Callable[[Options], ClosableLookup | None] | None = None
    around_transport: Callable[[Transport], Transport] = _as_it_is
    classify: Callable[[Evidence], Outcome] = classify
    backoff: Backoff = backoff_s
    key_of: Callable[[Parcel], str] = frozen_key
    key_for: Callable[[str, str], str] = idempotency_key_for  # used by enqueue
    gatekeeper: type[Gatekeeper] = Gatekeeper
    worker: type[Worker] = Worker
    reconciler: type[Reconciler] = Reconciler


class Companion(Protocol):
    """Something that goes along while the sender works."""

    def start(self) -> None: ...

    def close(self) -> None:
        """End it; may take a moment."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """The built sender."""

    store: Store
    workers: tuple[Worker, ...]
    """One for each provider, and so are the reconcilers."""
    reconcilers: tuple[Reconciler, ...]
    rng: random.Random
    providers: tuple[str, ...]
    """What they are called, in their order."""
    closers: tuple[Callable[[], Awaitable[None]], ...]
    companions: tuple[Companion, ...] = ()

    @property
    def worker(self) -> Worker:
        """The worker of the first provider."""
        return self.workers[0]

    @property
    def reconciler(self) -> Reconciler:
        """The reconciler of the first provider."""
        return self.reconcilers[0]

    def wake(self) -> None:
        """Let every worker look for mail now."""
        for worker in self.workers:
            worker.wake()

    async def run(self, stop: asyncio.Event, *, ready: Callable[[], None] = lambda: None) -> None:
        """Work and reconcile until `stop`, then drain and close."""
        started: list[Companion] = []
        beside: list[asyncio.Task[None]] = []
        try:
            for companion in self.companions:
                companion.start()
                started.append(companion)
            beside = [asyncio.create_task(each.run(stop)) for each in self.reconcilers]
            if len(self.workers) == 1:
                await self.worker.run(stop, ready=ready)
            else:
                await _side_by_side(self.workers, stop, ready)
        finally:
            stop.set()
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            for companion in reversed(started):
                await asyncio.to_thread(companion.close)
            await self.close()

    async def close(self) -> None:
        """Close connections to the provider and to the database."""
        for close in self.closers:
            await close()
        self.store.engine.dispose()


async def _side_by_side(workers: Sequence[Worker], stop: asyncio.Event, ready: Callable[[], None]) -> None:
    """Run all of them until `stop`. If one dies of an error, the others end as if stopped, and the error is raised."""
    waiting = len(workers)

    def one_is_ready() -> None:
        nonlocal waiting
        waiting -= 1
        if not waiting:
            ready()

    tasks = [asyncio.create_task(each.run(stop, ready=one_is_ready)) for each in workers]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        stop.set()
    await asyncio.gather(*tasks)


def build(options: Options, parts: Parts | None = None) -> Sender:
    """Put the sender together. Nothing is connected and nothing is started yet."""
    parts = parts or Parts()
    rng = random_source(options.seed)
    engine = parts.open_engine(options.database_url)
    store = parts.open_store(engine if options.vault is None else seal_with(engine, options.vault))
    watch = _watch(options, parts, store)
    traces = _traces(options, parts)
    alarms = _alarms(options, parts)
    also = (None if watch is None else watch.metrics, traces, alarms)
    heard_by: list[Log] = [parts.log, *(each for each in also if each is not None)]
    log = Both(*heard_by) if len(heard_by) > 1 else parts.log
    clock, kept = _time(options, parts, store, log)
    workers, reconcilers, closers = [], [], []
    for one in (options, *options.others):
        transport = (parts.transport or _transport)(one)
        lookup = (parts.lookup or _lookup)(one)
        keeper = parts.gatekeeper(store=store, rules=one.gate, pace=one.pace, clock=clock, log=log)
        workers.append(
            parts.worker(
                store=store,
                transport=parts.around_transport(transport),
                settings=one.settings,
                clock=clock,
                rng=rng,
                classify=parts.classify,
                backoff=parts.backoff,
                key_of=parts.key_of,
                log=log,
                keeper=keeper,
                **kept,
                **_beat(watch, "worker", one, one.settings.poll_s),
            )
        )
        reconcilers.append(
            parts.reconciler(
                store=store,
                settings=one.settings,
                clock=clock,
                lookup=lookup,
                log=log,
                mine=Mine(provider=one.gate.provider, providers=one.gate.providers),
                **kept,
                **_beat(watch, "reconciler", one, one.settings.reconcile_s),
            )
        )
        closers += [transport.close, *([lookup.close] if lookup else [])]
    if watch is not None:
        watch.go_by(clock)
        watch.in_flight = lambda: sum(worker.in_flight for worker in workers)
        watch.concurrency = sum(one.settings.concurrency for one in (options, *options.others))
    sender = Sender(
        store=store,
        workers=tuple(workers),
        reconcilers=tuple(reconcilers),
        rng=rng,
        providers=options.gate.providers,
        closers=tuple(closers),
        companions=(),
    )
    companions = (
        watch,
        alarms,
        _from_broker(options, sender, log),
        _from_database(options, sender, log),
        traces,
    )
    return replace(sender, companions=tuple(each for each in companions if each is not None))


# The imports below are late on purpose: a sender that speaks SMTP does not load an HTTP client, and the other way
# round; enqueuing loads neither. It halves the time to the first mail after a start.


def _traces(options: Options, parts: Parts) -> Traces | None:
    if options.traces == "none":
        return None
    from reference_sender.tracing import Traces, exporting

    return Traces(exporting(options.traces), now=parts.clock.now)


def _beat(watch: Watch | None, loop: str, one: Options, turn_s: float) -> dict[str, Any]:
    """The pulse of a loop, where somebody watches it."""
    return {} if watch is None else {"beat": watch.beat_of(f"{loop} of {one.gate.provider}", turn_s)}


def _watch(options: Options, parts: Parts, store: Store) -> Watch | None:
    if options.metrics is None:
        return None
    from reference_sender.watch import Watch

    return Watch(
        place=options.metrics,
        store=store,
        providers=[one.gate.provider for one in (options, *options.others)],
        patience_s=options.health_s,
        clock=parts.clock,
        log=parts.log,
    )


def _alarms(options: Options, parts: Parts) -> Alarms | None:
    if options.alarm_url is None and options.alarm_smtp is None:
        return None
    from reference_sender.alarms import Alarms, to_smtp, to_webhook

    sinks = []
    if options.alarm_url is not None:
        sinks.append(to_webhook(options.alarm_url))
    if options.alarm_smtp is not None:
        assert options.alarm_from is not None, "options_from has checked this"
        sinks.append(
            to_smtp(
                options.alarm_smtp, sender=options.alarm_from, recipients=options.alarm_to, clock=parts.clock
            )
        )
    return Alarms(sinks, every_s=options.alarm_every_s, clock=parts.clock, log=parts.log)


class _Waking:
    """Passes wake-ups on to the workers, in their loop."""

    def __init__(self, listener: Callable[[Callable[[], None]], Companion], sender: Sender) -> None:
        self._sender = sender
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listener = listener(self._wake)

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener.start()

    def _wake(self) -> None:
        assert self._loop is not None, "it listens only after its start"
        # The loop may have ended while the thread that calls was not told yet.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._sender.wake)

    def close(self) -> None:
        self._listener.close()


def _from_broker(options: Options, sender: Sender, log: Log) -> _Waking | None:
    url = options.wake_from
    if url is None:
        return None
    try:
        from reference_sender.wakeups import Listener

        return _Waking(lambda wake: Listener(url, wake, log=log), sender)
    except ImportError as error:
        raise InvalidSettings(_missing("OUTBOX_WAKE_FROM", error, "rabbitmq")) from error


def _from_database(options: Options, sender: Sender, log: Log) -> _Waking | None:
    if not options.database_url.startswith("postgres"):
        return None
    from reference_sender.outbox.listening import Listener

    return _Waking(lambda wake: Listener(sender.store.engine, wake, log=log), sender)


def _time(options: Options, parts: Parts, store: Store, log: Log) -> tuple[Clock, dict[str, Any]]:
    """The clock that everybody goes by, and what keeps it right."""
    if options.database_url.startswith("sqlite"):
        # Whoever opens the file is on the same machine.
        return parts.clock, {}
    from reference_sender.timekeeping import SharedClock

    clock = SharedClock(parts.clock, store.time, log=log)
    return clock, {"keep_time": clock.check}


def _missing(envvar: str, error: ImportError, extra: str) -> str:
    return f"{envvar} is set and {error.name} is not installed; install mailproof[{extra}]"


def _transport(options: Options) -> ClosableTransport:
    if options.transport is Wire.HTTP:
        return _batches(options) if options.batch > 1 else _singles(options)
    from reference_sender.transports.smtp import SmtpOptions, SmtpTransport, Tls

    return SmtpTransport(
        SmtpOptions(
            host=options.smtp_host,
            port=options.smtp_port,
            user=options.smtp_user,
            password=options.smtp_password,
            tls=Tls(options.smtp_tls),
            connect_timeout_s=options.settings.connect_timeout_s,
            read_timeout_s=options.settings.read_timeout_s,
            total_timeout_s=options.settings.total_timeout_s,
        )
    )


def _singles(options: Options) -> ClosableTransport:
    from reference_sender.transports.http import HttpTransport

    return HttpTransport(_http_options(options))


def _batches(options: Options) -> ClosableTransport:
    from reference_sender.transports.gathering import GatheringTransport
    from reference_sender.transports.http_batch import HttpBatchTransport

    settings = options.settings
    return GatheringTransport(
        HttpBatchTransport(_http_options(options), most=options.batch, path=options.provider_batch_path),
        refuses=lambda evidence: isinstance(classify(evidence), Refused),
        patience_s=settings.lease_s - settings.total_timeout_s,
    )


def _lookup(options: Options) -> ClosableLookup | None:
    if not options.lookup:
        return None
    from reference_sender.transports.http import HttpLookup

    return HttpLookup(_http_options(options))


def _http_options(options: Options) -> Any:
    from reference_sender.transports.http import HttpOptions

    assert options.provider_url is not None, "options_from has checked this"
    return HttpOptions(
        url=options.provider_url,
        api_key=options.provider_api_key,
        path=options.provider_path,
        key_header=options.provider_key_header,
        connect_timeout_s=options.settings.connect_timeout_s,
        read_timeout_s=options.settings.read_timeout_s,
        total_timeout_s=options.settings.total_timeout_s,
        connections=options.settings.concurrency,
        keep_alive=options.settings.policy.dedupes,
    )
