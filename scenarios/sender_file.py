"""What a sender.toml says: who a sender is, how it is talked to, what it can, how long it takes.

`read_sender` turns the file into a `SenderFile` or says in one sentence what is wrong with it.
"""

from __future__ import annotations

import difflib
import re
import signal
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scenarios.promises import PROFILES


class SenderError(Exception):
    """The sender cannot be judged: its file is wrong, or it does not start, or it answers garbage.

    The message is one sentence that says what was given and what would be right; `str` of it is shown as is.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """How a sender is talked to: one of a command, an HTTP address, or its JSON-lines process."""

    command: tuple[str, ...] = ()
    http: str | None = None
    process: tuple[str, ...] = ()
    """For a status with `process = true`: the same words as those of enqueue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Where a sender hears what became of its mails (`[webhooks]`)."""

    url: str
    command: tuple[str, ...] = ()
    """A process of its own that takes them in; empty: the workers do."""
    ready_line: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long the sender takes for things, so that waiting for it is bounded. All in seconds."""

    timeout_s: float = 5.0
    """Its own time limit for an answer of the provider."""
    retry_cap_s: float = 5.0
    """The longest pause between two attempts of one mail."""
    lease_s: float = 10.0
    """How long a mail stays with a worker that died."""
    settle_s: float = 60.0
    """Once faults stop, everything must have come to rest within this time."""
    start_s: float = 30.0
    """How long a worker may take to be ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the sender is told to keep, by its own configuration (`[limits]`)."""

    rate_per_s: float | None = None
    """Mails a second, of all workers together."""
    burst: int = 1
    """So many may go at once."""
    breaker_failures: int = 5
    """So many failures in a row, and nobody asks the provider any more but a probe now and then."""
    breaker_pause_s: float | None = None
    """The shortest time between two probes, in seconds."""
    in_flight: int = 10
    """Mails that one worker has under way at a time, at most."""
    urgent_s: float = 1.0
    """How long an urgent mail takes while mail that can wait fills every place it may fill, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderFile:
    """A sender.toml, read and checked."""

    path: Path
    name: str
    version: str | None
    profiles: tuple[str, ...]
    start: tuple[str, ...]
    ready_line: str | None
    enqueue: Door
    status: Door | None
    stop_signal: signal.Signals
    stop_timeout_s: float
    reset: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    abilities: frozenset[str]
    policy: str
    timing: Timing
    limits: Limits = Limits()
    broken: tuple[str, ...] = ()
    """Promise ids that a known-bad sender is expected to break (`[expect] broken`)."""
    webhooks: Hooks | None = None
    timed: bool = True
    """False if the file has no [timing]: all waits are then those of a slow sender."""

    @property
    def hints(self) -> tuple[str, ...]:
        """What would make a certification say more or take less time, in a sentence each."""
        hints = []
        if self.status is None:
            hints.append(
                "no [status]: what the sender reports cannot be judged, and each scenario waits "
                f"{self.timing.lease_s + self.timing.timeout_s + self.timing.retry_cap_s:g} s to be sure that "
                "nothing comes any more (lease_s + timeout_s + retry_cap_s)"
            )
        if not self.timed:
            hints.append(
                "no [timing]: waits are those of a slow sender "
                f"(timeout_s {self.timing.timeout_s:g}, retry_cap_s {self.timing.retry_cap_s:g}, "
                f"lease_s {self.timing.lease_s:g}, settle_s {self.timing.settle_s:g}); give short times and say them"
            )
        return tuple(hints)


#: Table -> its keys, and for each the type it must have.
_SHAPE: dict[str, dict[str, type | tuple[type, ...]]] = {
    "sender": {"name": str, "version": str, "profiles": list},
    "start": {"command": list, "ready_line": str},
    "enqueue": {"command": list, "http": str, "process": list},
    "status": {"command": list, "http": str, "process": (bool, list)},
    "webhooks": {"url": str, "command": list, "ready_line": str},
    "stop": {"signal": str, "timeout_s": (int, float)},
    "reset": {"command": list},
    "env": {},
    "abilities": {
        "http-idempotency": bool,
        "smtp": bool,
        "multi-recipient": bool,
        "rollback": bool,
        "reconcile": bool,
        "drain": bool,
        "dedupe": bool,
        "status": bool,
        "policy": str,
        "batch": bool,
        "priority": bool,
        "expiry": bool,
        "webhooks": bool,
        "rate-limit": bool,
        "breaker": bool,
        "suppression": bool,
        "python-world": bool,
    },
    "timing": dict.fromkeys(("timeout_s", "retry_cap_s", "lease_s", "settle_s", "start_s"), (int, float)),
    "limits": {
        "rate_per_s": (int, float),
        "burst": int,
        "breaker_failures": int,
        "breaker_pause_s": (int, float),
        "in_flight": int,
        "urgent_s": (int, float),
    },
    "expect": {"broken": list},
    # Read by `scenarios.simulation.python_sender`.
    "world": {"factory": str, "profiles": list},
}
_NEEDED = (("sender", "name"), ("start", "command"))
_WORDS: dict[type, str] = {
    str: "a text in quotes",
    list: 'a list of texts like ["my-sender", "work"]',
    bool: "true or false",
    int: "a number",
    float: "a number",
}
POLICIES = ("at-most-once", "at-least-once")

#: What may stand in braces in commands, addresses and [env].
PLACEHOLDERS = (
    "http_url",
    "smtp_host",
    "smtp_port",
    "api_key",
    "smtp_user",
    "smtp_password",
    "database_url",
    "workdir",
    "webhook_secret",
    "webhook_port",
    "profile",
    "python",
    "here",
)
_PLACEHOLDER = re.compile(r"\{([a-z][a-z_]*)\}")


def read_sender(path: Path) -> SenderFile:
    """Read and check a sender.toml. Raises `SenderError` with one sentence."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SenderError(f"{path}: cannot read the sender file: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise SenderError(f"{path}: not UTF-8 text (byte {error.start}); TOML must be") from error
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SenderError(f"{path}: no valid TOML: {error}") from error
    _check_shape(path, tables)
    sender, start, abilities = tables["sender"], tables["start"], tables.get("abilities", {})
    profiles = _texts(path, "sender", "profiles", sender.get("profiles", ["http"]))
    if not profiles:
        raise SenderError(
            f"{path}: [sender] profiles is an empty list; right would be {' or '.join(map(repr, PROFILES))} or both"
        )
    if not sender["name"].strip():
        raise SenderError(f"{path}: [sender] name is empty; right would be a name for the certificate")
    for profile in profiles:
        if profile not in PROFILES:
            raise SenderError(
                f"{path}: [sender] profiles names {profile!r}; "
                f"right would be {' or '.join(map(repr, PROFILES))}{_meant(profile, PROFILES)}"
            )
    enqueue = _door(path, "enqueue", tables.get("enqueue", {}), ())
    status = _door(path, "status", tables["status"], enqueue.process) if "status" in tables else None
    policy = abilities.get("policy", "at-most-once")
    if policy not in POLICIES:
        raise SenderError(
            f"{path}: [abilities] policy is {policy!r}; right would be {' or '.join(map(repr, POLICIES))}"
            f"{_meant(policy, POLICIES)} (exactly once is not a policy: see http-idempotency)"
        )
    if abilities.get("status", status is not None) and status is None:
        raise SenderError(f"{path}: [abilities] status = true needs a table [status] that says how to ask")
    hooks = _hooks(path, tables.get("webhooks"), wanted=abilities.get("webhooks", False))
    env = tables.get("env", {})
    for name, value in env.items():
        if not isinstance(value, str):
            raise SenderError(f"{path}: [env] {name} is {value!r}; right would be a text in quotes")
    stop = tables.get("stop", {})
    file = SenderFile(
        path=path,
        name=sender["name"],
        version=sender.get("version"),
        profiles=profiles,
        start=_texts(path, "start", "command", start["command"], filled=True),
        ready_line=start.get("ready_line"),
        enqueue=enqueue,
        status=status if abilities.get("status", True) else None,
        stop_signal=_signal(path, stop.get("signal", "SIGTERM")),
        stop_timeout_s=float(stop.get("timeout_s", 10.0)),
        reset=_texts(path, "reset", "command", tables.get("reset", {}).get("command", [])),
        env=tuple(env.items()),
        abilities=frozenset(name for name, value in abilities.items() if value is True)
        | ({"status"} if status is not None and abilities.get("status", True) else set()),
        policy=policy,
        timing=_timing(path, tables.get("timing", {})),
        limits=_limits(path, tables.get("limits", {}), abilities, tables.get("timing", {})),
        broken=_texts(path, "expect", "broken", tables.get("expect", {}).get("broken", [])),
        webhooks=hooks,
        timed=bool(tables.get("timing")),
    )
    for where, texts in (
        ("[start] command", file.start),
        ("[enqueue]", (*enqueue.command, *enqueue.process, enqueue.http or "")),
        ("[status]", (*status.command, *status.process, status.http or "") if status else ()),
        ("[reset] command", file.reset),
        ("[webhooks]", (hooks.url, *hooks.command) if hooks else ()),
        *((f"[env] {name}", (value,)) for name, value in file.env),
    ):
        for each in texts:
            _check_placeholders(path, where, each)
    return file


def _check_shape(path: Path, tables: Mapping[str, Any]) -> None:
    for table, content in tables.items():
        if table not in _SHAPE:
            raise SenderError(
                f"{path}: unknown table [{table}]; right would be one of {', '.join(f'[{t}]' for t in _SHAPE)}"
                f"{_meant(table, _SHAPE)}"
            )
        if not isinstance(content, dict):
            raise SenderError(f"{path}: {table} is {content!r}; right would be a table [{table}]")
        if table == "env":
            continue
        for key, value in content.items():
            wanted = _SHAPE[table].get(key)
            if wanted is None:
                raise SenderError(
                    f"{path}: [{table}] has an unknown key {key!r}; right would be one of "
                    f"{', '.join(_SHAPE[table])}{_meant(key, _SHAPE[table])}"
                )
            kinds = wanted if isinstance(wanted, tuple) else (wanted,)
            if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
                raise SenderError(f"{path}: [{table}] {key} is {value!r}; right would be {_WORDS[kinds[0]]}")
    for table, key in _NEEDED:
        if key not in tables.get(table, {}):
            raise SenderError(
                f"{path}: [{table}] {key} is missing; right would be {_WORDS[_kind(table, key)]}"
            )


def _kind(table: str, key: str) -> type:
    kind = _SHAPE[table][key]
    return kind[0] if isinstance(kind, tuple) else kind


def _door(path: Path, table: str, content: Mapping[str, Any], of_enqueue: tuple[str, ...]) -> Door:
    given = [key for key in ("command", "http", "process") if content.get(key)]
    if len(given) != 1:
        raise SenderError(
            f"{path}: [{table}] has {' and '.join(given) if given else 'none of command, http, process'}; "
            "right would be exactly one of them"
        )
    process = content.get("process")
    if process is True:
        if not of_enqueue:
            raise SenderError(
                f"{path}: [{table}] process = true asks the enqueue process, but [enqueue] has no process"
            )
        return Door(process=of_enqueue)
    http = content.get("http")
    if http is not None and not re.match(r"https?://|\{", http):
        raise SenderError(f"{path}: [{table}] http is {http!r}; right would be an address like 'http://…'")
    return Door(
        command=_texts(path, table, "command", content.get("command", [])),
        http=http,
        process=_texts(path, table, "process", process or []),
    )


def _hooks(path: Path, content: Mapping[str, Any] | None, *, wanted: bool) -> Hooks | None:
    if content is None:
        if wanted:
            raise SenderError(
                f"{path}: [abilities] webhooks = true needs a table [webhooks] with the url where events are told"
            )
        return None
    url = content.get("url", "")
    if not re.match(r"https?://", url):
        raise SenderError(
            f"{path}: [webhooks] url is {url!r}; right would be an address like 'http://127.0.0.1:{{webhook_port}}/hooks'"
        )
    return Hooks(
        url=url,
        command=_texts(path, "webhooks", "command", content.get("command", [])),
        ready_line=content.get("ready_line"),
    )


def _texts(
    path: Path, table: str, key: str, value: Sequence[Any], *, filled: bool = False
) -> tuple[str, ...]:
    wrong = next((each for each in value if not isinstance(each, str)), None)
    if wrong is not None or (filled and not value):
        given = "an empty list" if wrong is None else f"a list with {wrong!r} in it"
        raise SenderError(f"{path}: [{table}] {key} is {given}; right would be {_WORDS[list]}")
    return tuple(value)


def _timing(path: Path, content: Mapping[str, Any]) -> Timing:
    for key, value in content.items():
        if not 0 < value < 86_400:
            raise SenderError(f"{path}: [timing] {key} is {value!r}; right would be seconds above 0")
    return Timing(**{key: float(value) for key, value in content.items()})


#: An ability → what must be said of it in [limits], or nobody could tell whether it is kept.
_LIMITED = {"rate-limit": "rate_per_s", "breaker": "breaker_pause_s"}


def _limits(
    path: Path, content: Mapping[str, Any], abilities: Mapping[str, Any], timing: Mapping[str, Any]
) -> Limits:
    for key, value in content.items():
        if not 0 < value < 86_400:
            raise SenderError(f"{path}: [limits] {key} is {value!r}; right would be a number above 0")
    for ability, key in _LIMITED.items():
        if abilities.get(ability) and key not in content:
            raise SenderError(
                f"{path}: [abilities] {ability} = true needs [limits] {key}, the number that the sender is told to keep"
            )
    limits = Limits(**content)
    most_s = timing.get("timeout_s", Timing().timeout_s) / 2
    if abilities.get("priority") and limits.urgent_s >= most_s:
        raise SenderError(
            f"{path}: [limits] urgent_s is {limits.urgent_s:g}; right would be less than half of [timing] timeout_s, "
            f"{most_s:g}: what is slower cannot be told from waiting for bulk mail"
        )
    return limits


def _signal(path: Path, name: str) -> signal.Signals:
    try:
        return signal.Signals[name]
    except KeyError as error:
        known = [each.name for each in signal.Signals]
        raise SenderError(
            f"{path}: [stop] signal is {name!r}; right would be a name like 'SIGTERM'{_meant(name, known)}"
        ) from error


def _check_placeholders(path: Path, where: str, text: str) -> None:
    for name in _PLACEHOLDER.findall(text):
        if name not in PLACEHOLDERS:
            raise SenderError(
                f"{path}: {where} has an unknown placeholder {{{name}}}; right would be one of "
                f"{', '.join(f'{{{each}}}' for each in PLACEHOLDERS)}{_meant(name, PLACEHOLDERS)}"
            )


def _meant(word: str, known: Sequence[str] | Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def fill(text: str, places: Mapping[str, str]) -> str:
    """Put values in the places of their names; anything else in braces stays as it is (JSON, shell)."""
    return _PLACEHOLDER.sub(lambda found: places.get(found[1], found[0]), text)
