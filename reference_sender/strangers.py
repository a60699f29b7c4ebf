"""Variables of the environment that look like ours and are none: a misspelt one does nothing, and should not do so silently."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator

import click

#: What all of ours begin with.
PREFIX = "OUTBOX_"


def known_variables(command: click.Command, context: click.Context) -> frozenset[str]:
    """The variables that this command, and every one below it, reads."""
    names = {
        name
        for parameter in command.params
        for name in ([parameter.envvar] if isinstance(parameter.envvar, str) else parameter.envvar or ())
    }
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            below = command.get_command(context, each)
            if below is not None:
                names |= known_variables(below, context)
    return frozenset(names)


def strangers(environment: Iterable[str], known: frozenset[str]) -> Iterator[str]:
    """A sentence for each variable that begins as ours do and is none of them."""
    for name in sorted(environment):
        if name.startswith(PREFIX) and name not in known:
            # Without what all have in common, by which each is near to any other.
            ends = sorted(each.removeprefix(PREFIX) for each in known if each.startswith(PREFIX))
            near = difflib.get_close_matches(name.removeprefix(PREFIX), ends, n=1)
            meant = f"did you mean {PREFIX}{near[0]}?" if near else "--help has those that there are"
            yield f"there is no variable {name}, so it does nothing; {meant}"
