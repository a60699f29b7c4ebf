"""`reference-sender enqueue`: one mail from the command line, or many as JSON lines (`lines`)."""

from __future__ import annotations

import mimetypes
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import click

from reference_sender.clock import SystemClock
from reference_sender.commands.frame import Number, SetUpError, moment_of, opened, sentences, with_options
from reference_sender.commands.lines import TEN_YEARS_S, answer_lines, put
from reference_sender.log import JsonLog
from reference_sender.message import Attachment, Mail
from reference_sender.option_table import DATABASE, QUEUE_CAP
from reference_sender.outbox.room import QueueCap
from reference_sender.policy.classes import MailClass
from reference_sender.policy.settings import InvalidSettings
from reference_sender.templates import Templates
from reference_sender.wiring import Parts


@click.command("enqueue")
@with_options(DATABASE, QUEUE_CAP)
@click.option(
    "--jsonl",
    is_flag=True,
    help="Read mails as JSON lines from standard input, and answer each with one; then only the options above, --templates and "
    "--wake-to count.",
)
@click.option(
    "--key",
    help="Names the business event, like order-1234-confirmation: the same key is the same mail, once.",
)
@click.option("--from", "sender", help="Who sends it, like 'Shop <shop@example.org>'.")
@click.option(
    "--to",
    "recipients",
    multiple=True,
    help="Who gets it, each a mail of his own. May be given several times.",
)
@click.option("--subject", default="", help="The subject, in one line.")
@click.option("--text", help="What it says, as plain text.")
@click.option("--html", help="What it says, as HTML: besides --text, or in its place.")
@click.option("--template", help="Subject, text and HTML from this template instead.")
@click.option(
    "--param", "parameters", multiple=True, metavar="NAME=VALUE", help="A parameter of the template."
)
@click.option(
    "--templates",
    "folder",
    envvar="OUTBOX_TEMPLATES",
    show_envvar=True,
    type=click.Path(path_type=Path),
    default=Path("templates"),
    show_default=True,
    help="The folder with the templates: in it a folder for each, with subject.txt and text.txt, html.html or both.",
)
@click.option(
    "--attach",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A file that goes along. May be given several times.",
)
@click.option(
    "--class",
    "mail_class",
    type=click.Choice([each.value for each in MailClass]),
    default=MailClass.CONFIRMATION.value,
    show_default=True,
    help="What kind of mail it is: its priority, its end, and what becomes of it in an outage.",
)
@click.option("--priority", type=int, help="Higher goes first [that of the class].")
@click.option(
    "--expires-in",
    "expires_in_s",
    type=Number(min=0, min_open=True, max=TEN_YEARS_S),
    help="Seconds after which it is not worth sending [those of the class].",
)
@click.option("--depends-on", help="The event key of a mail that must be accepted before.")
@click.option("--ordering-key", help="Mails with the same one go one after the other.")
@click.option("--slot", help="Of mails with the same one only the newest is sent, like of login codes.")
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
    queue_cap: int | None,
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
    mail_class: str,
    priority: int | None,
    expires_in_s: float | None,
    depends_on: str | None,
    ordering_key: str | None,
    slot: str | None,
    wake_to: str | None,
) -> None:
    """Put a mail into the outbox. It is sent by `work`.

    One mail: --key, --from, --to, and --text, --html or --template. Many: --jsonl. Exit code 1: a line of --jsonl was refused.
    """
    with opened(parts, database_url) as store, notifying(wake_to) as notify:
        if jsonl:
            if not answer_lines(parts, store, Templates(folder), cap_of(queue_cap), notify):
                raise click.exceptions.Exit(1)
            return
        if not key or not sender or not recipients:
            raise click.UsageError("--key, --from and --to are needed (or --jsonl)")
        attachments = tuple(_attachment(file) for file in files)
        given = parameters_from(parameters)
        if given and template is None:
            raise click.UsageError("--param is for a template; name it with --template")
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
        now = moment_of(parts, store)
        expires = None if expires_in_s is None else now + timedelta(seconds=expires_in_s)
        done = put(
            parts,
            store,
            mail,
            key=key,
            now=now,
            template=template,
            parameters=given if template else None,
            mail_class=mail_class,
            priority=priority,
            expires_at=expires,
            depends_on=depends_on,
            ordering_key=ordering_key,
            slot=slot,
            cap=cap_of(queue_cap),
        )
        notify()
        what = "enqueued" if done.created else "was there already"
        if done.differs:
            what += ", with other content, which stays"
        for message_id in done.message_ids:
            click.echo(f"{key} {what}: {message_id}")
        for address in done.suppressed:
            click.echo(f"{key} is not sent to {address}, who is on the suppression list")


#: More mails than any table holds: what is meant by more is no cap, and that is said by leaving it out.
_MOST_CAP = 1_000_000_000


def cap_of(most: int | None) -> QueueCap | None:
    """The queue cap that was set, if any."""
    if most is None:
        return None
    if not 1 <= most <= _MOST_CAP:
        raise InvalidSettings(f"OUTBOX_QUEUE_CAP is {most}; it must be from 1 to {_MOST_CAP:,} mails")
    return QueueCap(most)


@contextmanager
def notifying(url: str | None) -> Iterator[Callable[[], None]]:
    """What to call after a commit, so that workers look at once."""
    if url is None:
        yield lambda: None
        return
    with sentences():
        try:
            from reference_sender.wakeups import Notifier
        except ImportError as error:
            raise InvalidSettings(
                f"OUTBOX_WAKE_TO is set and {error.name} is not installed; install mailproof[rabbitmq]"
            ) from error
        notifier = Notifier(url, log=JsonLog(sys.stderr, SystemClock()))
    try:
        yield notifier.notify
    finally:
        notifier.close()


def parameters_from(texts: Sequence[str]) -> dict[str, str]:
    """Read NAME=VALUE, each."""
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
