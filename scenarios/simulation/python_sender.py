"""Anybody's asyncio sender in the world: its own code and its own SQLite, unmodified, by four calls.

The factory is given a mapping of texts (where the provider is, where the database) and returns an object with

    init()                    make the tables
    enqueue(mail: dict)       the business transaction of one mail, committed when it returns
    async run(stop)           a worker's life, until the event is set (in the world it is killed)
    status() -> list[dict]    every mail: key, recipient, state, and attempts if counted

Each may be plain or `async`. Nothing here knows how the sender works.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import tomllib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scenarios.history import Said, said_from
from scenarios.sender_file import SenderError, fill
from scenarios.simulation.disks import owned_databases
from scenarios.simulation.loop import OWNER, VirtualLoop
from scenarios.simulation.network import Network
from scenarios.simulation.processes import Process
from scenarios.simulation.profiles import BY_ID, Profile
from scenarios.simulation.senders import Disk, Owed
from scenarios.simulation.world import HTTP_PORT, SMTP_PORT, World

CALLS = ("init", "enqueue", "run", "status")


class PythonSenderError(SenderError):
    """The sender is not what the world can play. The message is one sentence."""


@dataclass(slots=True, kw_only=True)
class PythonSender:
    """A sender of the world that is made by a factory."""

    disk: Disk
    profile: Profile
    factory: Callable[[Mapping[str, str]], Any]
    env: Mapping[str, str] = field(default_factory=dict)
    """The table [env] of its sender.toml; placeholders are filled in."""

    def prepare(self) -> None:
        self._apart(lambda sender: sender.init())

    def enqueue(self, world: World, owed: Owed) -> None:
        if OWNER.get() is None:
            self._apart(lambda sender: sender.enqueue(mail_of(owed)))
        else:
            _at_once(self._made().enqueue(mail_of(owed)))

    async def work(self, world: World) -> None:
        life = self._made().run(asyncio.Event())
        if not inspect.isawaitable(life):
            raise PythonSenderError(
                "run() of the sender must be `async`; it returned without anything to await"
            )
        await life

    def said(self) -> tuple[Said, ...]:
        rows = self._apart(lambda sender: sender.status())
        if not isinstance(rows, list):
            raise PythonSenderError(
                f"status() of the sender returned {type(rows).__name__}; right would be a list of mails, "
                'like [{"key": "order-1", "recipient": "ann@example.com", "state": "accepted"}]'
            )
        try:
            return said_from(rows)
        except ValueError as error:
            raise PythonSenderError(f"status() of the sender: {error}") from error

    def promised(self) -> tuple[tuple[str, str], ...]:
        """What is committed, as far as the outbox itself knows: the world sees no other table of the sender."""
        return tuple((each.key, each.recipient) for each in self.said())

    def places(self) -> dict[str, str]:
        """What stands for the placeholders of a sender.toml in the world."""
        return {
            "http_url": f"http://provider:{HTTP_PORT}",
            "smtp_host": "provider",
            "smtp_port": str(SMTP_PORT),
            "api_key": "world",
            "smtp_user": "world",
            "smtp_password": "world",
            "database_url": self.disk.url,
            "database_path": str(self.disk.path),
            "workdir": str(self.disk.path.parent),
            "webhook_secret": "world",
            "profile": self.profile.wire,
        }

    def _apart(self, call: Callable[[Any], Any]) -> Any:
        """Call a fresh sender in a process of its own: what it opened is closed afterwards, whatever it forgets."""
        loop = VirtualLoop()
        Network(loop)
        process = Process(loop, "onlooker")
        with owned_databases():
            try:
                return process.run(lambda: _at_once(call(self._made())))
            finally:
                process.kill()
                loop.dispose()

    def _made(self) -> Any:
        places = self.places()
        sender = self.factory(places | {name: fill(text, places) for name, text in self.env.items()})
        missing = [call for call in CALLS if not callable(getattr(sender, call, None))]
        if missing:
            raise PythonSenderError(
                f"the factory made a {type(sender).__name__} without {missing[0]}(); "
                f"right would be an object with {', '.join(f'{call}()' for call in CALLS)}"
            )
        return sender


def mail_of(owed: Owed) -> dict[str, Any]:
    """Return the mail JSON of `docs/certification.md` for what the application promises."""
    mail = owed.mail
    return {
        "op": "enqueue",
        "key": owed.ref,
        "from": mail.sender,
        "to": list(mail.recipients),
        "subject": mail.subject,
        "text": mail.text,
        "html": None,
        "attachments": [],
        "headers": dict(mail.headers),
        "rollback": False,
    }


def _at_once(result: Any) -> Any:
    """Wait for what a call of the sender gave, if it is to be waited for, in a loop of its own: it takes no time."""
    if not inspect.isawaitable(result):
        return result
    outer = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(_wait(result))
    finally:
        loop.dispose()
        asyncio._set_running_loop(outer)


async def _wait(result: Awaitable[Any]) -> Any:
    return await result


# --- sender.toml ------------------------------------------------------------------------------------

_FACTORY = re.compile(r"(?:python:)?([A-Za-z_][\w.]*:[A-Za-z_]\w*)")


def factory_of(path: Path) -> tuple[str, dict[str, str]]:
    """Return `module:factory` of a sender.toml and its [env]. Raises `PythonSenderError` with one sentence."""
    tables = _tables(path)
    name = tables.get("world", {}).get("factory")
    if not isinstance(name, str):
        raise PythonSenderError(
            f"{path}: [world] factory is missing; right would be a text like 'my_sender.outbox:make'"
        )
    found = _FACTORY.fullmatch(name)
    if found is None:
        raise PythonSenderError(
            f"{path}: [world] factory is {name!r}; right would be 'module:factory' (or 'python:module:factory')"
        )
    env = tables.get("env", {})
    return found[1], {
        key: value if isinstance(value, str) else json.dumps(value) for key, value in env.items()
    }


def world_profiles(path: Path) -> tuple[str, ...]:
    """Return the profiles of the world that a sender.toml claims; by default that of keys. Raises `PythonSenderError`."""
    given = _tables(path).get("world", {}).get("profiles", ["http-keys"])
    # Nobody from outside has a call for what is told afterwards.
    known = [name for name, profile in BY_ID.items() if not profile.hears]
    wrong = [each for each in given if each not in known] if isinstance(given, list) else [given]
    if wrong:
        raise PythonSenderError(
            f"{path}: [world] profiles names {wrong[0]!r}; right would be some of {', '.join(known)}"
        )
    return tuple(given)


def _tables(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PythonSenderError(f"{path}: cannot be read: {error}") from error
