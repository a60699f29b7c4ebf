"""The command line: parse, build, run, report. Exit codes: 0 done, 1 nothing to requeue, 2 usage or set-up.

Must not hold: rules of sending. What a mail's fate depends on is below this floor.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import mimetypes
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

import click
from sqlalchemy.exc import SQLAlchemyError

from reference_sender import __version__
from reference_sender.clock import SystemClock
from reference_sender.commands.frame import (
    SetUpError,
    database_sentence,
    opened,
    sentences,
    with_options,
)
from reference_sender.life import State
from reference_sender.log import JsonLog
from reference_sender.message import Attachment, Mail, check_event_key, parse_mail
from reference_sender.outbox.store import Enqueued, Store, enqueue
from reference_sender.policy.decision import Decision, Doubt
from reference_sender.policy.settings import InvalidSettings
from reference_sender.templates import Templates
from reference_sender.wiring import DATABASE, OPTIONS, Parts, Sender, build, options_from


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
    "status": "reference_sender.commands.status:status",
    "trace": "reference_sender.commands.trace:trace",
    "webhooks": "reference_sender.commands.webhooks:webhooks",
    "purge": "reference_sender.commands.keeping:purge",
    "erase": "reference_sender.commands.keeping:erase",
    "accesses": "reference_sender.commands.keeping:accesses",
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


@cli.command("enqueue")
@with_options(DATABASE)
@click.option(
    "--jsonl", is_flag=True, help="Read mails as JSON lines from standard input, answer each with one."
)
@click.option("--key", help="The business event, like order-1234-confirmation.")
@click.option("--from", "sender", help="Like 'Shop <shop@example.org>'.")
@click.option("--to", "recipients", multiple=True, help="May be given several times.")
@click.option("--subject", default="", help="One line.")
@click.option("--text", help="The plain text.")
@click.option("--html", help="The HTML.")
@click.option("--template", help="Render the mail from this template instead.")
@click.option(
    "--param", "parameters", multiple=True, metavar="NAME=VALUE", help="A parameter of the template."
)
@click.option(
    "--templates",
    "folder",
    envvar="OUTBOX_TEMPLATES",
    type=click.Path(path_type=Path),
    default=Path("templates"),
    show_default=True,
    help="The folder with the templates.",
)
@click.option(
    "--attach",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A file that goes along. May be given several times.",
)
@click.option(
    "--wake-to",
    envvar="OUTBOX_WAKE_TO",
    show_envvar=True,
    help="amqp://… of a RabbitMQ: tell the workers that there is mail (see `work --wake-from`).",
)
@click.pass_obj
def enqueue_command(
    parts: Parts,
    database_url: str,
    jsonl: bool,
    key: str | None,
    sender: str | None,
    recipients: tuple[str, ...],
    subject: str,
    text: str | None,
    html: str | None,
    template: str | None,
    parameters: tuple[str, ...],
    folder: Path,
    files: tuple[Path, ...],
    wake_to: str | None,
) -> None:
    """Put a mail into the outbox. It is sent by `work`."""
    with opened(parts, database_url) as store, _notifying(wake_to) as notify:
        if jsonl:
            _answer_lines(parts, store, Templates(folder), notify)
            return
        if not key or not sender or not recipients:
            raise click.UsageError("--key, --from and --to are needed (or --jsonl)")
        attachments = tuple(_attachment(file) for file in files)
        given = _parameters(parameters)
        if template is None:
            mail = Mail(
                sender=sender,
                recipients=recipients,
                subject=subject,
                text=text,
                html=html,
                attachments=attachments,
            )
        elif subject or text is not None or html is not None:
            raise click.UsageError("--template brings subject, text and html; leave them out")
        else:
            mail = Templates(folder).mail(
                template, given, sender=sender, recipients=recipients, attachments=attachments
            )
        done = _enqueue(
            parts, store, mail, key=key, template=template, parameters=given if template else None
        )
        notify()
        what = "enqueued" if done.created else "was there already"
        for message_id in done.message_ids:
            click.echo(f"{key} {what}: {message_id}")


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
@with_options(DATABASE)
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
        moved = _requeue(parts, store, key, ids, states, i_checked, provider_id)
    click.echo(f"{moved} moved")
    if not moved:
        raise click.exceptions.Exit(1)


# -- what the commands do -------------------------------------------------------------------------------------


@contextmanager
def _notifying(url: str | None) -> Iterator[Callable[[], None]]:
    """What to call after a commit, so that workers look at once."""
    if url is None:
        yield lambda: None
        return
    with sentences():
        try:
            from reference_sender.wakeups import Notifier
        except ImportError as error:
            raise InvalidSettings(
                f"--wake-to is given and {error.name} is not installed; install mailproof[rabbitmq]"
            ) from error
        notifier = Notifier(url, log=JsonLog(sys.stderr, SystemClock()))
    try:
        yield notifier.notify
    finally:
        notifier.close()


def _built(parts: Parts, values: Mapping[str, Any]) -> Sender:
    with sentences():
        sender = build(options_from(values), replace(parts, log=JsonLog(sys.stderr, parts.clock)))
        sender.store.check()
        return sender


async def _work(sender: Sender) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await sender.run(stop, ready=lambda: click.echo("ready"))


async def _reconcile(sender: Sender) -> Any:
    try:
        return await sender.reconciler.run_once()
    finally:
        await sender.close()


def _enqueue(
    parts: Parts,
    store: Store,
    mail: Mail,
    *,
    key: str,
    priority: int = 0,
    expires_at: datetime | None = None,
    template: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    rollback: bool = False,
) -> Enqueued:
    """The business transaction of somebody who has no other business than this mail."""
    with store.engine.connect() as connection, connection.begin() as transaction:
        done = enqueue(
            connection,
            mail,
            key=key,
            now=parts.clock.now(),
            priority=priority,
            expires_at=expires_at,
            template=template,
            parameters=parameters,
            key_for=parts.key_for,
        )
        if rollback:
            transaction.rollback()
    return done


def _parameters(texts: Sequence[str]) -> dict[str, str]:
    given = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise click.UsageError(f"--param is {text!r}; write it like --param number=1234")
        given[name] = value
    return given


def _attachment(file: Path) -> Attachment:
    try:
        # Looked at first: a pipe or a device would be read for ever.
        if not file.is_file():
            what = "is not a file" if file.exists() else "does not exist"
            raise SetUpError(f"the attachment {str(file)!r} {what}; name a file that can be read")
        content = file.read_bytes()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise SetUpError(f"the attachment {str(file)!r} cannot be read: {why}") from error
    kind, encoding = mimetypes.guess_type(file.name)
    return Attachment(
        filename=file.name,
        content_type=kind if kind and not encoding else "application/octet-stream",
        content=content,
    )


_TEN_YEARS_S = 315_360_000

_FIELDS = frozenset(
    {"op", "key", "from", "to", "subject", "text", "html", "attachments", "headers", "rollback"}
    | {"priority", "expires_in_s", "template", "parameters"}
)


def _answer_lines(parts: Parts, store: Store, templates: Templates, notify: Callable[[], None]) -> None:
    """The JSON-lines process: one request a line, one answer a line, until the input ends."""
    for line in sys.stdin.buffer:
        if line.strip():
            answer = _answer(parts, store, templates, line)
            click.echo(json.dumps(answer, ensure_ascii=False))
            if answer.get("created"):
                notify()


def _answer(parts: Parts, store: Store, templates: Templates, line: bytes) -> dict[str, Any]:
    try:
        request = json.loads(line)
    except (ValueError, RecursionError) as error:
        return _wrong(f"the line is not JSON: {error}")
    if not isinstance(request, dict):
        return _wrong("the line must be a JSON object")
    try:
        match request.get("op", "enqueue"):
            case "enqueue":
                return _answer_enqueue(parts, store, templates, request)
            case "status":
                from reference_sender.commands.status import told

                return told(store, now=parts.clock.now(), mails=True, queues=False)
            case other:
                return _wrong(f"the op {other!r} does not exist; there are enqueue and status")
    except SQLAlchemyError as error:
        return _wrong(database_sentence(error))
    except (ValueError, OverflowError) as error:  # InvalidMail among them
        return _wrong(str(error))


def _answer_enqueue(
    parts: Parts, store: Store, templates: Templates, request: dict[str, Any]
) -> dict[str, Any]:
    if unknown := sorted(request.keys() - _FIELDS):
        return _wrong(f"the field {unknown[0]!r} does not exist; there are {', '.join(sorted(_FIELDS))}")
    key, priority, expires_in_s = request.get("key"), request.get("priority", 0), request.get("expires_in_s")
    if not isinstance(key, str) or not key:
        return _wrong('"key" must be a string that names the event')
    if not isinstance(priority, int) or not -(2**31) <= priority < 2**31:
        return _wrong('"priority" must be a whole number')
    if expires_in_s is not None and not (
        isinstance(expires_in_s, int | float) and 0 < expires_in_s <= _TEN_YEARS_S
    ):
        return _wrong('"expires_in_s" must be a number of seconds, greater than zero and at most ten years')
    template, parameters = request.get("template"), request.get("parameters")
    if template is not None and not isinstance(template, str):
        return _wrong('"template" must be the name of a template')
    if parameters is not None and (template is None or not isinstance(parameters, dict)):
        return _wrong('"parameters" must be an object, and "template" must say what for')
    if template is not None:
        if brought := sorted({"subject", "text", "html"} & request.keys()):
            return _wrong(f'"template" brings subject, text and html; leave out "{brought[0]}"')
        # Read as a mail with any text first, so that addresses and attachments are checked by the same rules.
        frame = parse_mail(request | {"text": "", "html": ""})
        mail = templates.mail(
            template,
            parameters or {},
            sender=frame.sender,
            recipients=frame.recipients,
            attachments=frame.attachments,
            headers=frame.headers,
        )
    else:
        mail = parse_mail(request)
    done = _enqueue(
        parts,
        store,
        mail,
        key=key,
        template=template,
        parameters=(parameters or {}) if template is not None else None,
        priority=priority,
        expires_at=None if expires_in_s is None else parts.clock.now() + timedelta(seconds=expires_in_s),
        rollback=bool(request.get("rollback", False)),
    )
    return {"ok": True, "key": key, "created": done.created}


def _wrong(sentence: str) -> dict[str, Any]:
    return {"ok": False, "error": sentence}


def _requeue(
    parts: Parts,
    store: Store,
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
    now = parts.clock.now()
    if provider_id is not None:
        decision = Decision(state=State.ACCEPTED, reason="found out by hand", provider_id=provider_id)
    else:
        decision = Decision(
            state=State.PENDING, reason="requeued by hand", next_attempt_at=now, doubt=Doubt.CLEAR
        )
    return sum(store.requeue(docket, decision, now=now) for docket in dockets)
