"""What the sender was told: values in, checked `Options` out, or one sentence that says what is wrong.

Must not hold: which options there are (`option_table`), what is built of them (`wiring`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from reference_sender.gate_options import gate_rules, pace_rules
from reference_sender.option import renamed
from reference_sender.option_table import OF_ONE, OPTIONS
from reference_sender.policy.evidence import Wire
from reference_sender.policy.gate import GateRules
from reference_sender.policy.pace import PaceRules
from reference_sender.policy.routes import Route
from reference_sender.policy.settings import InvalidSettings, Policy, Settings
from reference_sender.providers import Providers, read_providers
from reference_sender.sealing import Vault, vault_of

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
#: What the settings call a value → its variable, by which it is called here.
_VARIABLES = {
    option.name: option.envvar for option in OPTIONS if option.name in _SETTINGS and not option.choices
}


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
    batch_octets: int
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

    Raises InvalidSettings with one sentence. It calls a value by its variable, or by its key where a file of providers has it.
    """
    if not values.get("providers"):
        return _options_of_one(values)
    told = values["providers"]
    if not isinstance(told, Providers):
        told = read_providers(Path(told), OF_ONE, os.environ)
    names = tuple(told.options)
    each = []
    for name, options in told.options.items():
        try:
            each.append(
                _options_of_one({**values, **options, "provider": name}, providers=names, routes=told.routes)
            )
        except InvalidSettings as error:
            keys = {each.envvar: each.name for each in OF_ONE if each.name in options}
            sentence = renamed(str(error), {**keys, "OUTBOX_PROVIDER": "name"})
            raise InvalidSettings(f"provider {name!r}: {sentence}") from error
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
    if wire is Wire.SMTP and bool(told["smtp_user"]) != bool(told["smtp_password"]):
        given, missing = ("USER", "PASSWORD") if told["smtp_user"] else ("PASSWORD", "USER")
        raise InvalidSettings(f"SMTP_{given} is set and SMTP_{missing} is not; to log in takes both")
    settings = {name: value for name, value in chosen.items() if name in _SETTINGS}
    if "total_timeout_s" in settings:
        # Who sets only the total means the parts to fit into it.
        for part in ("connect_timeout_s", "read_timeout_s"):
            if told[part] is None:
                preset = _DEFAULTS[wire].get(part, Settings.__dataclass_fields__[part].default)
                settings[part] = min(preset, settings["total_timeout_s"])
    settings["policy"] = Policy(settings["policy"])
    try:
        checked = Settings(**settings)
    except InvalidSettings as error:
        raise InvalidSettings(renamed(str(error), _VARIABLES)) from error
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
        batch_octets=_batch_octets(told["batch_octets"]),
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


def _batch_octets(most: int) -> int:
    if most < 1:
        raise InvalidSettings(
            f"OUTBOX_BATCH_OCTETS is {most}; it must be at least 1, and three quarters of what a request to the provider "
            "may have"
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
