"""Who plays a part in the world: senders by their names, so that a file can say who it was.

    reference                        the reference sender
    python:MODULE:FACTORY            anybody's asyncio sender, see `scenarios.simulation.python_sender`
    FILE.toml                        the same, named by [world] factory of its sender.toml
    MODULE:FUNCTION                  FUNCTION(disk, profile) makes a sender of the world

Nothing here knows what a sender does.
"""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

from scenarios.simulation.intake import ListeningSender
from scenarios.simulation.profiles import Profile
from scenarios.simulation.python_sender import PythonSender, PythonSenderError, factory_of
from scenarios.simulation.senders import Disk, ReferenceSender, WorldSender

REFERENCE = "reference"
_SPELLED = re.compile(r"(python:)?([A-Za-z_][\w.]*):([A-Za-z_]\w*)")


class CastError(Exception):
    """No such sender. The message is one sentence that says what would be right."""


def cast(name: str, disk: Disk, profile: Profile) -> WorldSender:
    """Make the sender of this name. Raises `CastError`."""
    if name == REFERENCE:
        return (ListeningSender if profile.hears else ReferenceSender)(disk=disk, profile=profile)
    if name.endswith(".toml"):
        path = Path(name)
        try:
            factory, env = factory_of(path)
        except PythonSenderError as error:
            raise CastError(str(error)) from error
        if (here := str(path.resolve().parent)) not in sys.path:
            sys.path.append(here)
        return PythonSender(disk=disk, profile=profile, factory=look_up(*factory.split(":")), env=env)
    found = _SPELLED.fullmatch(name)
    if found is None:
        raise CastError(
            f"no sender is called {name!r}; right would be reference, a sender.toml, python:module:factory "
            "or module:function"
        )
    make = look_up(found[2], found[3])
    if found[1]:
        return PythonSender(disk=disk, profile=profile, factory=make)
    made: WorldSender = make(disk, profile)
    return made


def look_up(module: str, name: str) -> Any:
    """Import what `module:name` means. Raises `CastError` with a sentence."""
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError as error:
        raise CastError(f"{module}:{name} cannot be imported: {error}") from error
    except AttributeError as error:
        raise CastError(f"{module}:{name}: the module {module} has nothing called {name}") from error
