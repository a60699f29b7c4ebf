"""What every command stands in: its options, an open outbox, and one sentence instead of a traceback.

Must not hold: any command.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar

import click
from click.core import ParameterSource
from sqlalchemy.exc import SQLAlchemyError

from reference_sender.message import InvalidMail
from reference_sender.option import Option, renamed
from reference_sender.outbox.columns import UnreadableValue
from reference_sender.outbox.engine import StoreTrouble, open_engine
from reference_sender.outbox.sealed import seal_with
from reference_sender.outbox.store import Store
from reference_sender.outbox.unreadable import whereabouts
from reference_sender.policy.classes import QueueFull
from reference_sender.policy.settings import InvalidSettings
from reference_sender.sealing import vault_of
from reference_sender.wiring import Parts

_Command = TypeVar("_Command", bound=Callable[..., Any])

OPERATOR = Option(
    name="operator",
    envvar="OUTBOX_OPERATOR",
    help="Who you are, for the access log [the name of your account on this machine].",
)


class Number(click.FloatRange):
    """A number within a range. What is no number (`nan`) is in none, though every comparison with a bound lets it pass."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


class SetUpError(click.ClickException):
    """Something outside the program is not as it must be; one sentence, exit code 2."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        click.echo(f"reference-sender: {self.format_message()}", err=True)


@contextmanager
def sentences() -> Iterator[None]:
    """Turn every expected trouble into one sentence."""
    try:
        yield
    except InvalidSettings as error:
        raise SetUpError(as_typed(str(error))) from error
    except (StoreTrouble, InvalidMail, QueueFull) as error:
        raise SetUpError(str(error)) from error
    except SQLAlchemyError as error:
        raise SetUpError(database_sentence(error)) from error


def as_typed(sentence: str) -> str:
    """The sentence, with a variable called by its option where the value was given on the command line."""
    context = click.get_current_context(silent=True)
    if context is None:
        return sentence
    given = {
        parameter.envvar: parameter.opts[0]
        for parameter in context.command.params
        if isinstance(parameter.envvar, str)
        and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
    }
    return renamed(sentence, given)


def database_sentence(error: SQLAlchemyError) -> str:
    """What a database said, in one sentence."""
    cause = getattr(error, "orig", None) or error
    lines = str(cause).strip().splitlines() or [type(cause).__name__]
    return f"the database cannot be used: {lines[0]}"


def with_options(*options: Option) -> Callable[[_Command], _Command]:
    """Give a command these options, each readable from its environment variable, too."""

    def decorate(command: _Command) -> _Command:
        for option in reversed(options):
            command = click.option(
                "--" + option.name.replace("_", "-"),
                envvar=option.envvar,
                show_envvar=True,
                type=click.Choice(option.choices) if option.choices else option.kind,
                default=_plain(option.default),
                show_default=option.default not in (None, ""),
                help=option.help,
            )(command)
        return command

    return decorate


def _plain(default: Any) -> Any:
    """A default as help is to have it: 60 and not 60.0."""
    return int(default) if isinstance(default, float) and default.is_integer() else default


@contextmanager
def opened(parts: Parts, database_url: str, *, check: bool = True) -> Iterator[Store]:
    """The outbox, looked at first: whether its tables are there in this version."""
    with sentences():
        # From the environment alone: keys do not belong on a command line, and a command that forgot to ask for them
        # would write words that anybody reads.
        vault = vault_of(os.environ.get("OUTBOX_BODY_KEYS"))
        store = parts.open_store(seal_with(open_engine(database_url), vault))
        try:
            if check:
                store.check()
            yield store
        except UnreadableValue as error:
            with store.engine.connect() as connection:
                raise SetUpError(whereabouts(connection) or str(error)) from error
        finally:
            store.engine.dispose()


def moment_of(parts: Parts, store: Store) -> datetime:
    """What time it is by the clock that everybody goes by: the database's, where it has one of its own.

    A purge by a wrong clock of this machine would take what must stay.
    """
    return parts.clock.now() if store.engine.dialect.name == "sqlite" else store.time()


def operator_of(given: str | None) -> str:
    """The name that goes into the access log."""
    name = given
    if not name:
        import getpass  # late: most commands are nobody's

        try:
            name = getpass.getuser()
        except (KeyError, OSError):  # a container with a number for a user
            raise SetUpError(
                "nobody knows who you are, and reads of mails are logged; say --operator NAME or set OUTBOX_OPERATOR"
            ) from None
    if not name.isprintable() or len(name) > 64:
        raise SetUpError(as_typed("OUTBOX_OPERATOR must be a name of at most 64 characters in one line"))
    return name
