"""The command line: parse, build, run, report. Exit codes: 0 done, 1 in part or nothing to do, 2 usage or set-up.

Must not hold: rules of sending. What a mail's fate depends on is below this floor.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import click

from reference_sender import __version__
from reference_sender.commands.frame import (
    opened,
    sentences,
    with_options,
)
from reference_sender.log import JsonLog
from reference_sender.option_table import DATABASE, OPTIONS
from reference_sender.reconciler import Reconciled
from reference_sender.strangers import known_variables, strangers
from reference_sender.wiring import Parts, Sender, build, options_from


def main(argv: Sequence[str] | None = None, *, parts: Parts | None = None) -> NoReturn:
    """Run the command line and exit with its code; with `parts` it is the same program with a part replaced."""
    sys.exit(run(argv, parts=parts))


def run(argv: Sequence[str] | None = None, *, parts: Parts | None = None) -> int:
    """Run the command line; return the exit code. What was asked wrongly is answered with one sentence."""
    try:
        result = cli.main(
            args=None if argv is None else list(argv),
            prog_name="reference-sender",
            obj=parts,
            standalone_mode=False,
        )
    except click.UsageError as problem:
        if type(problem).__name__ == "NoArgsIsHelpError":  # click 8.2 and later; the help is no sentence
            problem.show()
            return 2
        command = problem.ctx.command_path if problem.ctx is not None else "reference-sender"
        said = " ".join(problem.format_message().split()).rstrip(".")
        click.echo(f"reference-sender: {said} (see: {command} --help)", err=True)
        return 2
    except click.ClickException as problem:
        problem.show()
        return problem.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    return result if isinstance(result, int) else 0


#: Commands that are loaded when they are called: name → where it is.
_ELSEWHERE = {
    "enqueue": "reference_sender.commands.enqueue:enqueue_command",
    "suppress": "reference_sender.commands.suppress:suppress",
    "campaign": "reference_sender.commands.campaign:campaign",
    "status": "reference_sender.commands.status:status",
    "trace": "reference_sender.commands.trace:trace",
    "requeue": "reference_sender.commands.requeue:requeue",
    "webhooks": "reference_sender.commands.webhooks:webhooks",
    "purge": "reference_sender.commands.keeping:purge",
    "erase": "reference_sender.commands.keeping:erase",
    "accesses": "reference_sender.commands.keeping:accesses",
    "reseal": "reference_sender.commands.keeping:reseal",
}


#: In what order the help has them: by what they are for, and there as they are needed.
_SHELVES = {
    "Sending": ("init", "enqueue", "work", "campaign", "suppress"),
    "Hearing and looking": ("webhooks", "status", "trace"),
    "Settling by hand": ("requeue", "reconcile"),
    "Keeping": ("purge", "erase", "accesses", "reseal"),
}


class _Commands(click.Group):
    """The commands of this module and those that live elsewhere."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for shelf, names in _SHELVES.items():
            commands = ((name, self.get_command(ctx, name)) for name in names)
            with formatter.section(shelf):
                formatter.write_dl([(name, _summary(command)) for name, command in commands if command])

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *_ELSEWHERE})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _ELSEWHERE:
            return super().get_command(ctx, cmd_name)
        module, _, name = _ELSEWHERE[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command


def _summary(command: click.Command) -> str:
    """The first sentence of a help, whole."""
    paragraph = " ".join((command.help or "").split("\n\n")[0].split())
    return re.split(r"(?<=[.:]) ", paragraph, maxsplit=1)[0].rstrip(".:")


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="reference-sender")
@click.pass_context
def cli(context: click.Context) -> None:
    """A transactional-outbox sender for e-mail: a mail is written down with the business, and sent from there.

    First `init`, then `enqueue` a mail, let `work` run, and look with `status`. Every option with an [env var] is also read from
    there; what the command line says goes before. Names that end in -s are times in seconds.

    Exit codes: 0 done, 1 done in part or nothing to do, as the command says, 2 asked wrongly or not set up.
    """
    context.obj = context.obj or Parts()


@cli.command()
@with_options(DATABASE)
@click.option("--recreate", is_flag=True, help="Drop the tables first. Deletes every mail in the outbox.")
@click.pass_obj
def init(parts: Parts, database_url: str, recreate: bool) -> None:
    """Create the tables of the outbox, or bring older ones up to this version. Mails stay as they are."""
    with opened(parts, database_url, check=False) as store:
        made = store.create(recreate=recreate)
        store.check()
        where = store.engine.url.render_as_string(hide_password=True)
        if recreate:
            click.echo(f"created {', '.join(made.created)} anew, empty, in {where}")
        elif made.created:
            click.echo(f"created {', '.join(made.created)} in {where}")
        elif made.steps:
            for step in made.steps:
                click.echo(f"brought up to version {step.version}: {step.what}")
        else:
            click.echo(f"nothing to do: the outbox is there already in {where}")


@cli.command()
@with_options(*OPTIONS)
@click.pass_obj
def work(parts: Parts, /, **values: Any) -> None:
    """Send what is in the outbox, until SIGTERM or Ctrl-C: then what is under way is finished, for --drain-s.

    Over HTTP it needs --provider-url, over SMTP --transport smtp and --smtp-host. It says `ready` when it looks for mail, and writes
    one JSON line for each decision to stderr. Several may work on one outbox. Numbers in [ ] are what holds without the option.
    """
    with sentences():
        sender = _built(parts, values)
        _warn_of_strangers()
        asyncio.run(_work(sender))


@cli.command()
@with_options(*OPTIONS)
@click.pass_obj
def reconcile(parts: Parts, /, **values: Any) -> None:
    """Look once after mails whose outcome is unknown. `work` does it all the time; both take the same options."""
    with sentences():
        done = asyncio.run(_reconcile(_built(parts, values)))
    click.echo(f"{done.looked_at} looked at, {done.resolved} resolved, {done.parked} newly parked")


# -- what the commands do -------------------------------------------------------------------------------------


def _built(parts: Parts, values: Mapping[str, Any]) -> Sender:
    with sentences():
        sender = build(options_from(values), replace(parts, log=JsonLog(sys.stderr, parts.clock)))
        sender.store.check()
        return sender


def _warn_of_strangers() -> None:
    for sentence in strangers(os.environ, known_variables(cli, click.get_current_context())):
        click.echo(f"reference-sender: {sentence}", err=True)


def _warn_of_homeless(sender: Sender) -> None:
    """Say what nobody will look after: it is a decision of the operator, and easily made by mistake."""
    for name, count in sender.store.homeless(sender.providers).items():
        click.echo(
            f"reference-sender: {count} mails are in doubt at the provider {name!r}, which is not configured; "
            "only there can they be looked up: configure it until they are settled",
            err=True,
        )


def keep_for_good() -> None:
    """Let the collector of rubbish look no more at what has been made so far: modules, tables, the sender itself.

    It would go through all of that again whenever some hundred mails have come and gone: a fifth of what they cost.
    """
    gc.collect()
    gc.freeze()


async def _work(sender: Sender) -> None:
    keep_for_good()
    await asyncio.to_thread(_warn_of_homeless, sender)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await sender.run(stop, ready=lambda: click.echo("ready"))


async def _reconcile(sender: Sender) -> Any:
    try:
        passes = [await each.run_once() for each in sender.reconcilers]
        return Reconciled(
            parked=sum(each.parked for each in passes),
            looked_at=sum(each.looked_at for each in passes),
            resolved=sum(each.resolved for each in passes),
        )
    finally:
        await sender.close()
