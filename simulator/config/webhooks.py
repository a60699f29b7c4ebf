"""The table `[webhooks]`: where an account's events are told, how they are signed, and when they are told again."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from simulator.config.forms import (
    read_choice,
    read_flag,
    read_number,
    read_text,
    read_whole,
)
from simulator.config.place import Place, refuse_unknown, shown
from simulator.provider.fate import Happening
from simulator.provider.signing import Scheme, SecretError, read_secret
from simulator.provider.webhooks import Reach, TargetError, WebhookRules, check_target

MAX_CONNECTIONS = 100
MAX_BATCH = 10_000
MAX_TRIES = 100


def _url(place: Place, key: str, value: object) -> str:
    url = read_text(place, key, value)
    try:
        # Whether it may go so far is the business of whoever runs the simulator.
        check_target(url, Reach.ANY)
    except TargetError as problem:
        raise place.wrong(f'"{key}": {problem}') from problem
    return url


def _list(place: Place, key: str, value: object, what: str) -> Sequence[Any]:
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise place.wrong(f'"{key}" is {shown(value)}; it must be a list of {what}')
    return value


def _secrets(place: Place, key: str, value: object) -> tuple[str, ...]:
    some = [value] if isinstance(value, str) else _list(place, key, value, "secrets, the newest first")
    return tuple(read_text(place, key, each) for each in some)


def _events(place: Place, key: str, value: object) -> tuple[str, ...]:
    types = [happening.value for happening in Happening]
    wanted = []
    for each in _list(place, key, value, "types of events"):
        pattern = read_text(place, key, each)
        wanted.append(pattern if "*" in pattern else read_choice(place, key, pattern, types))
    return tuple(wanted)


def read_schedule(place: Place, key: str, value: object) -> tuple[float, ...]:
    """Read the delays after the first, second, … attempt that failed."""
    delays = tuple(read_number(place, key, each) for each in _list(place, key, value, "seconds"))
    if len(delays) > MAX_TRIES:
        raise place.wrong(f'"{key}" has {len(delays)} delays; there may be {MAX_TRIES}')
    return delays


def _statuses(place: Place, key: str, value: object) -> tuple[int, ...]:
    statuses = tuple(read_whole(place, key, each) for each in _list(place, key, value, "statuses"))
    for status in statuses:
        if not 300 <= status <= 599:
            raise place.wrong(f'"{key}" holds {status}; it must be a status from 300 to 599')
    return statuses


#: A second one beside ours, or another one, would break every delivery: how long it is, and what signs it.
_OURS = frozenset(
    [
        "content-length",
        "transfer-encoding",
        *("webhook-id", "webhook-timestamp", "webhook-signature"),
        *("x-webhook-id", "x-webhook-timestamp", "x-webhook-signature"),
    ]
)


def _headers(place: Place, key: str, value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, Mapping):
        raise place.wrong(
            f'"{key}" is {shown(value)}; it must be a table of header names and values, '
            'like { Authorization = "Bearer x" }'
        )
    headers = []
    for name, text in value.items():
        if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}", name):
            raise place.wrong(f'"{key}" names {shown(name)}, which is no header name')
        if name.lower() in _OURS:
            raise place.wrong(f'"{key}" names {shown(name)}, which each delivery has by itself')
        if not re.fullmatch(r"[\t\x20-\x7e]{0,4000}", read_text(place, f"{key}.{name}", text)):
            raise place.wrong(f'"{key}.{name}" has characters that no header has; printable ASCII is right')
        headers.append((name, str(text)))
    return tuple(headers)


def _part(place: Place, key: str, value: object) -> float:
    number = read_number(place, key, value)
    if number >= 1:
        raise place.wrong(f'"{key}" is {shown(value)}; it must be a number from 0 to below 1')
    return number


def _some(most: int) -> Callable[[Place, str, object], int]:
    def read(place: Place, key: str, value: object) -> int:
        number = read_whole(place, key, value, least=1)
        if number > most:
            raise place.wrong(f'"{key}" is {number}; it must be a whole number from 1 to {most}')
        return number

    return read


#: How each key is read; a test holds that every setting stands here.
WEBHOOK_KEYS: dict[str, Callable[[Place, str, object], Any]] = {
    "url": _url,
    "secret": _secrets,
    "scheme": lambda place, key, value: Scheme(read_choice(place, key, value, [*Scheme])),
    "events": _events,
    "headers": _headers,
    "batch": _some(MAX_BATCH),
    "batch_wait_s": read_number,
    "connections": _some(MAX_CONNECTIONS),
    "timeout_s": lambda place, key, value: read_number(place, key, value, above_zero=True),
    "schedule_s": read_schedule,
    "jitter": _part,
    "give_up_on": _statuses,
    "disable_after_s": read_number,
    "verify_tls": read_flag,
}
#: What JSON may say is not there.
_MAY_BE_NULL = ("url", "batch", "disable_after_s")
#: Settings whose key reads better in another form.
_FIELDS: dict[str, str] = {"secret": "secrets"}


def read_webhooks(data: object, place: Place) -> WebhookRules:
    """Read the table `[webhooks]`, or the body of `PUT webhook`. Raise `PlanError`."""
    if not isinstance(data, Mapping):
        raise place.wrong(f"this must be a table of settings, not {shown(data)}")
    refuse_unknown(place, data, WEBHOOK_KEYS)
    given: dict[str, Any] = {
        _FIELDS.get(key, key): read(place, key, data[key])
        for key, read in WEBHOOK_KEYS.items()
        if key in data and not (data[key] is None and key in _MAY_BE_NULL)
    }
    rules = WebhookRules(**given)
    for secret in rules.secrets:
        try:
            read_secret(secret, rules.scheme)
        except SecretError as problem:
            raise place.wrong(f'"secret": {problem}') from problem
    return rules


def webhooks_as_json(rules: WebhookRules) -> dict[str, Any]:
    """Return settings as somebody would write them."""
    names = {field: key for key, field in _FIELDS.items()}
    written: dict[str, Any] = {}
    for field in dataclasses.fields(WebhookRules):
        value = getattr(rules, field.name)
        if field.name == "headers":
            value = dict(value)
        elif isinstance(value, tuple):
            value = list(value)
        written[names.get(field.name, field.name)] = value
    return written
