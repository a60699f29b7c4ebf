"""Somebody's sender as a black box: what its sender.toml says, and how it is driven.

`read_sender` turns the file into a `SenderFile` or says in one sentence what is wrong with it. `Sender` runs
it: workers in process groups of their own, killed with SIGKILL to the group; mails handed over by command,
HTTP or JSON lines. Nothing here knows what is right or wrong about the mails.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import tomllib
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import httpx

from scenarios.clock import monotonic_s, wait_until
from scenarios.promises import PROFILES

#: How much of a process's output is kept in its file; the end is always kept in memory.
OUTPUT_LIMIT_BYTES = 1_000_000
#: The longest line that is understood; the rest of a longer one is left out.
LINE_LIMIT_BYTES = 16_000_000
#: Characters of a line that are kept to be shown.
LINE_SHOWN = 2000
_PIECE_BYTES = 65_536
#: How long an enqueue or a status may take. Generous: it says "hangs", never "slow".
ANSWER_WITHIN_S = 30.0


#: Environment variable with a folder: each process group that is started leaves a file with its id there.
GROUPS = "MAILPROOF_GROUPS"
#: Environment variable that is in everything a sender starts: what left its process group is found by it.
RUN = "MAILPROOF_RUN"
PROCESSES = Path("/proc")


class SenderError(Exception):
    """The sender cannot be judged: its file is wrong, or it does not start, or it answers garbage.

    The message is one sentence that says what was given and what would be right; `str` of it is shown as is.
    """


# --- the file ---------------------------------------------------------------------------------------


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
#: How shells and interpreters say that they do not find a file or a module.
_NOT_FOUND = re.compile(
    r"no such file|not found|cannot find|can't open|can't find|cannot open|no module", re.I
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


def free_port() -> int:
    """Return a port of this machine that nobody listens on just now."""
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        port: int = asked.getsockname()[1]
        return port


def kill_groups(notes: Path) -> None:
    """End the process groups that left a note and did not take it back, and what left them."""
    for note in notes.iterdir():
        try:
            os.killpg(int(note.name), signal.SIGKILL)
        except (ProcessLookupError, PermissionError, ValueError):
            pass  # It is gone, or it is no group of ours.
    kill_marked(GROUPS, str(notes))


def can_find_escaped() -> bool:
    """Tell whether this platform shows the environment of processes, by which those that left are found."""
    return (PROCESSES / "self" / "environ").exists()


def kill_marked(name: str, value: str, *, below: bool = False) -> None:
    """SIGKILL to every process that has this in its environment, until there is none; `below`: also longer values.

    A process that left its group still has the environment it was started with. Not found is one that was started
    with another; and none at all where there is no /proc.
    """
    wanted = f"\0{name}={value}".encode() + (b"/" if below else b"\0")

    def killed() -> bool | None:
        # A dead process shows no environment, and what was being started meanwhile is met in the next round.
        marked = [pid for pid, facts in _environments() if wanted in facts]
        for pid in marked:
            _kill(pid)
        return None if marked else True

    wait_until(killed, timeout_s=3.0, every_s=0.01)


def descendants(pid: int) -> list[int]:
    """Return the processes below a living one, in whatever group they are; empty where there is no /proc."""
    children: dict[int, list[int]] = {}
    for entry in _processes():
        try:
            # pid (command) state parent …; the command may have blanks and brackets in it.
            parent = int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue  # It ended meanwhile.
        children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    todo = children.get(pid, [])
    while todo:
        found += todo
        todo = [child for each in todo for child in children.get(each, [])]
    return found


def _processes() -> list[Path]:
    try:
        return [entry for entry in PROCESSES.iterdir() if entry.name.isdigit()]
    except OSError:
        return []


def _environments() -> list[tuple[int, bytes]]:
    return [
        (pid, facts)
        for entry in _processes()
        if (pid := int(entry.name)) != os.getpid() and (facts := _environment(pid))
    ]


def _environment(pid: int) -> bytes:
    try:
        facts = (PROCESSES / str(pid) / "environ").read_bytes()
    except OSError:
        return b""  # It ended, or it is somebody else's.
    return b"\0" + facts if facts else b""


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # It is gone, or it is none of ours.


# --- processes --------------------------------------------------------------------------------------


class Output:
    """What a process says: kept in a file of bounded size, its end in memory; lines can be waited for.

    `awaited`: a text that is looked for in everything that is said, however much that is. `answers`: whole lines
    are wanted, by `next_line`; else only their beginnings are kept.
    """

    def __init__(
        self, stream: IO[bytes], file: Path, *, awaited: str | None = None, answers: bool = False
    ) -> None:
        self._lines: deque[str] = deque(maxlen=500)
        self._answers = answers
        self._unread: deque[str] = deque(maxlen=10_000)
        self._awaited = awaited.encode() if awaited is not None else None
        self._said_it = awaited == ""
        self._changed = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._pump, args=(stream, file), daemon=True)
        self._thread.start()

    def _pump(self, stream: IO[bytes], file: Path) -> None:
        left = OUTPUT_LIMIT_BYTES
        try:
            with stream, file.open("ab") as kept:
                line, seen = bytearray(), b""
                longest = LINE_LIMIT_BYTES if self._answers else 4 * LINE_SHOWN
                while piece := os.read(stream.fileno(), _PIECE_BYTES):
                    kept.write(piece[:left])
                    kept.flush()
                    left = max(0, left - len(piece))
                    if self._awaited and not self._said_it:
                        seen += piece
                        self._said_it = self._awaited in seen
                        seen = seen[-len(self._awaited) :]
                    rest, *more = piece.split(b"\n")
                    line += rest[: longest - len(line)]
                    for part in more:
                        self._add(line)
                        line = bytearray(part[:longest])
                if line:
                    self._add(line)
        except (OSError, ValueError):
            pass  # The pipe broke or the work directory is gone: there is nothing more to keep.
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _add(self, raw: bytearray) -> None:
        line = raw.decode("utf-8", "replace").rstrip("\r")
        with self._changed:
            self._lines.append(line[:LINE_SHOWN])
            if self._answers:
                self._unread.append(line)
            self._changed.notify_all()

    def tail(self, count: int = 5) -> str:
        """Return the last lines, for an error sentence."""
        with self._changed:
            lines = [line for line in self._lines if line.strip()][-count:]
        return " / ".join(line.strip()[:300] for line in lines)

    @property
    def said_it(self) -> bool:
        """True once the text that is awaited was said."""
        return self._said_it

    def next_line(self, timeout_s: float) -> str | None:
        """Return the next line nobody read yet; None if there is none in time or the process is silent for good."""
        with self._changed:
            self._changed.wait_for(lambda: self._unread or self._ended, timeout_s)
            return self._unread.popleft() if self._unread else None

    def end(self) -> None:
        """Wait a moment for what is still in the pipe."""
        self._thread.join(timeout=1.0)


@dataclass(slots=True, kw_only=True)
class Running:
    """One process of the sender, leader of its own group."""

    what: str
    process: subprocess.Popen[bytes]
    out: Output
    err: Output
    mark: str = ""
    """Value of `RUN` in the environment of everything it starts; empty: what leaves its group may live on."""

    def __post_init__(self) -> None:
        self._note(True)

    def kill(self) -> None:
        """SIGKILL to the whole group, and to what left it: no handler, no `finally`, no goodbye."""
        below = descendants(self.process.pid) if self.mark else []
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # All of them are gone already.
        for each in below:
            _kill(each)
        self.process.wait()
        if self.mark:
            kill_marked(RUN, self.mark)
        self._note(False)
        if self.process.stdin is not None:
            try:
                self.process.stdin.close()
            except OSError:
                pass  # Half a line was still to be written to a dead process.
        self.out.end()
        self.err.end()

    def _note(self, alive: bool) -> None:
        notes = os.environ.get(GROUPS)
        if notes is None:
            return
        note = Path(notes) / str(self.process.pid)
        try:
            note.touch() if alive else note.unlink(missing_ok=True)
        except OSError:
            pass  # Whoever wanted the notes has cleared up already.

    def last_words(self) -> str:
        """Return what it said last, for an error sentence."""
        self.err.end() if self.process.poll() is not None else None
        words = self.err.tail() or self.out.tail()
        return f"; its last lines: {words}" if words else "; it said nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """How a worker reacted to the stop signal."""

    in_time: bool
    code: int | None


@dataclass(slots=True, kw_only=True)
class Sender:
    """A sender at work in one scenario. Use as a context manager: on leaving nothing of it is alive."""

    file: SenderFile
    places: Mapping[str, str]
    workdir: Path
    workers: list[Running] = field(default_factory=list)
    _talker: Running | None = None
    _ear: Running | None = None
    _started: int = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def reset(self) -> None:
        """Make it new: run the reset command, if there is one."""
        if self.file.reset:
            self._run("reset", self.file.reset, None)

    def start(self, count: int = 1) -> None:
        """Start workers and return when they are ready. Raises `SenderError` if one does not come up."""
        fresh = [self._spawn("worker", self.file.start, lives_on=True) for _ in range(count)]
        self.workers += fresh
        deadline = monotonic_s() + self.file.timing.start_s
        for worker in fresh:
            self._await_ready(worker, deadline)

    def start_hearing(self) -> None:
        """Start the process that takes webhooks in, if there is one besides the workers."""
        hooks = self.file.webhooks
        if hooks is not None and hooks.command and self._ear is None:
            self._ear = self._spawn("webhooks", hooks.command, lives_on=True)
            self._await_ready(self._ear, monotonic_s() + self.file.timing.start_s, hooks)

    def kill_hearing(self) -> None:
        """kill -9 for whoever takes webhooks in."""
        hooks = self.file.webhooks
        if self._ear is not None:
            self._ear.kill()
            self._ear = None
        elif hooks is not None and not hooks.command:
            self.kill()

    def _await_ready(self, worker: Running, deadline: float, hooks: Hooks | None = None) -> None:
        command, wanted, table = self.file.start, self.file.ready_line, "start"
        if hooks is not None:
            command, wanted, table = hooks.command, hooks.ready_line, "webhooks"
        up = wait_until(
            lambda: (
                True
                if wanted is not None and (worker.out.said_it or worker.err.said_it)
                else False
                if worker.process.poll() is not None
                else None
            ),
            # Without a ready line only a worker that ends at once can be told from a good one.
            timeout_s=max(0.0, deadline - monotonic_s()) if wanted is not None else 0.2,
        )
        if up or (wanted is None and up is None):
            return
        words = " ".join(command)
        what = "the worker" if table == "start" else "the process"
        if up is False:
            code = worker.process.returncode
            last = worker.last_words()
            last += self._not_found(last, command)
            sentence = f"{what} {words!r} ended at once with exit code {code}"
        else:
            last = worker.last_words()
            sentence = f"{what} {words!r} did not say {wanted!r} within {self.file.timing.start_s:g} s"
        self.kill()
        raise SenderError(f"{self.file.path}: [{table}] {sentence}{last}")

    def kill(self) -> None:
        """kill -9 for every worker and everything they started."""
        for worker in self.workers:
            worker.kill()
        self.workers.clear()

    def kill_talker(self) -> None:
        """kill -9 for the process that enqueues, if it is one that lives on."""
        if self._talker is not None:
            self._talker.kill()
            self._talker = None

    def signal_stop(self) -> None:
        """Ask the workers to stop; do not wait for them."""
        for worker in self.workers:
            try:
                worker.process.send_signal(self.file.stop_signal)
            except ProcessLookupError:
                pass  # It went by itself.

    def await_stop(self) -> list[Stopped]:
        """Wait for workers that were asked to stop; kill those that do not come to an end in time."""
        deadline = monotonic_s() + self.file.stop_timeout_s
        stopped = []
        for worker in self.workers:
            try:
                code = worker.process.wait(timeout=max(0.0, deadline - monotonic_s()))
                stopped.append(Stopped(in_time=True, code=code))
            except subprocess.TimeoutExpired:
                stopped.append(Stopped(in_time=False, code=None))
        self.kill()
        return stopped

    def enqueue(self, mail: Mapping[str, Any]) -> dict[str, Any]:
        """Hand over one mail; return the sender's word that its business transaction is over."""
        answer = self._ask("enqueue", self.file.enqueue, {"op": "enqueue", **mail})
        if answer.get("ok") is not True:
            error = answer.get("error", "no reason given")
            raise SenderError(f"{self.file.path}: [enqueue] refused mail {mail['key']!r}: {error}")
        return answer

    def status(self) -> list[dict[str, Any]] | None:
        """Return the sender's rows; None if it cannot be asked."""
        if self.file.status is None:
            return None
        answer = self._ask("status", self.file.status, {"op": "status"})
        mails = answer.get("mails")
        if not isinstance(mails, list) or not all(isinstance(each, dict) for each in mails):
            raise SenderError(
                f"{self.file.path}: [status] answered without a list 'mails': {json.dumps(answer)[:200]}"
            )
        return mails

    def close(self) -> None:
        """End everything that was started here."""
        self.kill()
        self.kill_hearing()
        self.kill_talker()
        kill_marked(RUN, str(self.workdir), below=True)

    # --- inside -------------------------------------------------------------------------------------

    def _ask(self, table: str, door: Door, question: Mapping[str, Any]) -> dict[str, Any]:
        line = json.dumps(question, ensure_ascii=False)
        if door.process:
            text = self._ask_process(table, door.process, line)
        elif door.http is not None:
            text = self._ask_http(table, fill(door.http, self.places), line)
        else:
            text = self._run(table, door.command, line)
        if table == "enqueue" and not door.process and not text.strip():
            # It said by its exit code (or its 2xx) that the mail is committed; there may be nothing to add.
            return {"ok": True}
        try:
            answer = json.loads(text)
        except ValueError as error:
            given = text.strip()[:200]
            said = f"answered {given!r}, which is no JSON" if given else "answered nothing"
            extra = self._talker.last_words() if self._talker is not None and door.process else ""
            raise SenderError(
                f'{self.file.path}: [{table}] {said}; right would be one line like {{"ok": true}}{extra}'
            ) from error
        if not isinstance(answer, dict):
            raise SenderError(
                f"{self.file.path}: [{table}] answered {text.strip()[:200]!r}; right would be a JSON object"
            )
        return answer

    def _ask_process(self, table: str, command: tuple[str, ...], line: str) -> str:
        if self._talker is None:
            self._talker = self._spawn(table, command, talks=True, lives_on=True)
        talker = self._talker
        assert talker.process.stdin is not None
        asked_s = monotonic_s()
        # Who is gone by now may have said something all the same.
        with contextlib.suppress(OSError):
            talker.process.stdin.write(line.encode() + b"\n")
            talker.process.stdin.flush()
        answer = talker.out.next_line(ANSWER_WITHIN_S)
        if answer is not None:
            return answer
        if monotonic_s() - asked_s < ANSWER_WITHIN_S:
            # Its output ended or its input broke, so it is about to be gone; that may be known a moment later.
            with contextlib.suppress(subprocess.TimeoutExpired):
                talker.process.wait(timeout=1.0)
        code = talker.process.poll()
        happened = (
            f"ended with exit code {code}" if code is not None else f"was silent for {ANSWER_WITHIN_S:g} s"
        )
        last = talker.last_words()
        last += self._not_found(last, command)
        self.kill_talker()
        raise SenderError(
            f"{self.file.path}: [{table}] process {' '.join(command)!r} {happened} instead of answering{last}"
        )

    def _ask_http(self, table: str, url: str, line: str) -> str:
        try:
            reply = httpx.post(
                url, content=line, headers={"Content-Type": "application/json"}, timeout=ANSWER_WITHIN_S
            )
        except httpx.HTTPError as error:
            raise SenderError(f"{self.file.path}: [{table}] http {url!r} cannot be asked: {error}") from error
        if reply.is_error:
            raise SenderError(
                f"{self.file.path}: [{table}] http {url!r} answered {reply.status_code}: {reply.text[:200]}"
            )
        return reply.text

    def _run(self, table: str, command: tuple[str, ...], line: str | None) -> str:
        running = self._spawn(table, command, talks=line is not None)
        process = running.process
        try:
            if line is not None:
                assert process.stdin is not None
                try:
                    process.stdin.write(line.encode() + b"\n")
                    process.stdin.close()
                except BrokenPipeError:
                    pass  # It ended without reading; its exit code says more.
            code = process.wait(timeout=ANSWER_WITHIN_S)
        except subprocess.TimeoutExpired as error:
            raise SenderError(
                f"{self.file.path}: [{table}] {' '.join(command)!r} did not end within {ANSWER_WITHIN_S:g} s"
                f"{running.last_words()}"
            ) from error
        finally:
            running.kill()
        if code != 0:
            last = running.last_words()
            raise SenderError(
                f"{self.file.path}: [{table}] {' '.join(command)!r} ended with exit code {code}"
                f"{last}{self._not_found(last, command)}"
            )
        last = ""
        while (said := running.out.next_line(0.0)) is not None:
            last = said if said.strip() else last
        return last

    def _spawn(
        self, what: str, command: tuple[str, ...], *, talks: bool = False, lives_on: bool = False
    ) -> Running:
        self._started += 1
        words = [fill(word, self.places) for word in command]
        env = dict(os.environ)
        # Commands that were installed beside this interpreter are found without an activated environment.
        env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), env.get("PATH", os.defpath)])
        env |= {name: fill(value, self.places) for name, value in self.file.env}
        name = f"{what}-{self._started}"
        env[RUN] = f"{self.workdir}/{name}"
        awaited = self.file.ready_line if what == "worker" else None
        if what == "webhooks" and self.file.webhooks is not None:
            awaited = self.file.webhooks.ready_line
        try:
            process = subprocess.Popen(
                words,
                cwd=self.workdir,
                env=env,
                stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            table = "start" if what == "worker" else what
            raise SenderError(
                f"{self.file.path}: [{table}] cannot start {' '.join(words)!r}: {error.strerror or error}"
                f"{self._not_found(error.strerror or '', command)}"
            ) from error
        assert process.stdout is not None
        assert process.stderr is not None
        return Running(
            what=what,
            process=process,
            out=Output(process.stdout, self.workdir / f"{name}.out", awaited=awaited, answers=talks),
            err=Output(process.stderr, self.workdir / f"{name}.err", awaited=awaited),
            mark=env[RUN] if lives_on else "",
        )

    def _not_found(self, said: str, command: tuple[str, ...]) -> str:
        """Return what to write if a command was meant to be looked for beside the sender file, and was not there."""
        if not _NOT_FOUND.search(said):
            return ""
        here = self.file.path.resolve().parent
        for before, word in pairwise(("", *command)):
            if before == "-m":
                module = word.split(".")[0]
                if any((here / name).exists() for name in (f"{module}.py", module)):
                    return f"; commands run in a folder of their own: for {word!r} write PYTHONPATH = '{{here}}' in [env]"
            elif word and not word.startswith(("-", "/", "{")) and (here / word).is_file():
                return f"; commands run in a folder of their own: for {word!r} write '{{here}}/{word.removeprefix('./')}'"
        return ""
