"""The command line: parse, build, run, report. Exit codes: 0 done, 1 nothing to requeue, 2 usage or set-up.

Must not hold: rules of sending. What a mail's fate depends on is below this floor.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import click

from reference_sender import __version__
from reference_sender.commands.frame import (
    OPERATOR,
    SetUpError,
    moment_of,
    opened,
    operator_of,
    sentences,
    with_options,
)
from reference_sender.life import State
from reference_sender.log import JsonLog
from reference_sender.message import check_event_key
from reference_sender.option_table import DATABASE, OPTIONS
from reference_sender.outbox.store import Store
from reference_sender.policy.decision import Decision, Doubt
from reference_sender.reconciler import Reconciled
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
    "webhooks": "reference_sender.commands.webhooks:webhooks",
    "purge": "reference_sender.commands.keeping:purge",
    "erase": "reference_sender.commands.keeping:erase",
    "accesses": "reference_sender.commands.keeping:accesses",
    "reseal": "reference_sender.commands.keeping:reseal",
}


class _Commands(click.Group):
    """The commands of this module and those that live elsewhere."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *_ELSEWHERE})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _ELSEWHERE:
            return super().get_command(ctx, cmd_name)
        module, _, name = _ELSEWHERE[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="reference-sender")
@click.pass_context
def cli(context: click.Context) -> None:
    """A transactional-outbox sender for e-mail."""
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
    """Send what is in the outbox, until SIGTERM."""
    with sentences():
        asyncio.run(_work(_built(parts, values)))


@cli.command()
@with_options(*OPTIONS)
@click.pass_obj
def reconcile(parts: Parts, /, **values: Any) -> None:
    """Look once after mails whose outcome is unknown. (`work` does it all the time.)"""
    with sentences():
        done = asyncio.run(_reconcile(_built(parts, values)))
    click.echo(f"{done.looked_at} looked at, {done.resolved} resolved, {done.parked} newly parked")


@cli.command()
@with_options(DATABASE, OPERATOR)
@click.option("--key", help="The mails of this business event.")
@click.option(
    "--id",
    "ids",
    type=click.IntRange(1, 2**63 - 1),
    multiple=True,
    help="This mail. May be given several times.",
)
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([State.FAILED.value, State.DEAD.value, State.UNKNOWN.value]),
    help="All mails in this state. May be given several times.",
)
@click.option("--i-checked", is_flag=True, help="Also unknown mails: I made sure that they were not sent.")
@click.option(
    "--accepted", "provider_id", help="Unknown mails were sent: note this provider id as the proof."
)
@click.pass_obj
def requeue(
    parts: Parts,
    database_url: str,
    operator: str | None,
    key: str | None,
    ids: tuple[int, ...],
    states: tuple[str, ...],
    i_checked: bool,
    provider_id: str | None,
) -> None:
    """Send failed, dead or unknown mails again, by hand."""
    if key is None and not ids and not states:
        raise click.UsageError("say which mails: --key, --id or --state")
    if i_checked and provider_id is not None:
        raise click.UsageError("--i-checked says it was not sent, --accepted says it was; give one of them")
    with opened(parts, database_url) as store:
        if key is not None:
            check_event_key(key)
        if provider_id is not None and not (
            provider_id.isprintable() and 1 <= len(provider_id.strip()) <= 255
        ):
            raise click.UsageError(
                "--accepted wants the id that the provider gave the mail, at most 255 characters"
            )
        moved = _requeue(parts, store, operator, key, ids, states, i_checked, provider_id)
    click.echo(f"{moved} moved")
    if not moved:
        raise click.exceptions.Exit(1)


# -- what the commands do -------------------------------------------------------------------------------------


def _built(parts: Parts, values: Mapping[str, Any]) -> Sender:
    with sentences():
        sender = build(options_from(values), replace(parts, log=JsonLog(sys.stderr, parts.clock)))
        sender.store.check()
        return sender


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


def _requeue(
    parts: Parts,
    store: Store,
    operator: str | None,
    key: str | None,
    ids: Sequence[int],
    states: Sequence[str],
    i_checked: bool,
    provider_id: str | None,
) -> int:
    wanted = [State(s) for s in states] or [State.FAILED, State.DEAD, State.UNKNOWN]
    dockets = store.find(key=key, ids=ids, states=wanted)
    if provider_id is not None:
        dockets = [d for d in dockets if d.state is State.UNKNOWN]
    elif not i_checked and any(d.state is State.UNKNOWN for d in dockets):
        raise SetUpError(
            "some of these mails are unknown: they may have been accepted, and sending them again may repeat them; "
            "say --i-checked if you made sure that they were not sent, or --accepted ID if they were"
        )
    if provider_id is None and (gone := store.wordless([docket.id for docket in dockets])):
        raise SetUpError(
            f"{', '.join(f'#{number}' for number in gone[:5])} cannot be sent again: what they said is purged or "
            "erased; enqueue them anew under another key, or leave them out"
        )
    now = moment_of(parts, store)
    if dockets:
        detail = "as accepted" if provider_id is not None else "to be sent again"
        store.note_access(
            operator_of(operator), "requeue", now=now, email_ids=[each.id for each in dockets], detail=detail
        )
    if provider_id is not None:
        decision = Decision(state=State.ACCEPTED, reason="found out by hand", provider_id=provider_id)
    else:
        decision = Decision(
            state=State.PENDING, reason="requeued by hand", next_attempt_at=now, doubt=Doubt.CLEAR
        )
    return sum(store.requeue(docket, decision, now=now) for docket in dockets)
