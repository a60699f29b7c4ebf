"""`purge`, `erase` and `accesses`: what is kept for how long, a person taken out, and who looked.

Each is written into the access log before it happens.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

import click

from reference_sender import retention
from reference_sender.commands.frame import (
    OPERATOR,
    SetUpError,
    moment_of,
    opened,
    operator_of,
    sentences,
    with_options,
)
from reference_sender.commands.spelling import spelled_count
from reference_sender.option import Option
from reference_sender.option_table import DATABASE
from reference_sender.outbox.accesses import Access
from reference_sender.outbox.sealed import vault_behind
from reference_sender.policy.suppression import canonical
from reference_sender.retention import DEFAULT_DAYS, Periods
from reference_sender.wiring import Parts

KEEP = Option(
    name="keep",
    envvar="OUTBOX_KEEP",
    help=(
        "Days by name, like accepted=183,answers=14,words=30. Without it: "
        + ", ".join(f"{name}={days:g}" for name, days in DEFAULT_DAYS.items())
        + "."
    ),
    default="",
)


@click.command()
@with_options(DATABASE, OPERATOR, KEEP)
@click.option(
    "--batch", type=click.IntRange(1, 10_000), default=500, show_default=True, help="Rows in a step."
)
@click.option("--steps", type=click.IntRange(1), help="End after so many steps that changed something.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for programs.")
@click.pass_obj
def purge(
    parts: Parts,
    database_url: str,
    operator: str | None,
    keep: str,
    batch: int,
    steps: int | None,
    as_json: bool,
) -> None:
    """Delete what has outlived its period. Mail that is not finished is never touched.

    It works in small steps: who stops it and starts it again goes on, and workers go on meanwhile. Once a day is enough.
    """
    with opened(parts, database_url) as store, sentences():
        periods = Periods.parse(keep)
        now = moment_of(parts, store)
        store.note_access(operator_of(operator), "purge", now=now, detail=keep or "the usual periods")
        gone: Counter[str] = Counter()
        for number, step in enumerate(retention.purge(store, periods, now=now, limit=batch), start=1):
            gone[step.what] += step.count
            if number == steps:
                break
        if as_json:
            click.echo(json.dumps({"ok": True, "purged": dict(gone)}))
        elif not gone:
            click.echo("nothing is older than it may be")
        else:
            click.echo("purged: " + ", ".join(f"{count:,} {what}" for what, count in gone.items()))


@click.command()
@with_options(DATABASE, OPERATOR)
@click.argument("address")
@click.option(
    "--keep-suppression",
    is_flag=True,
    help="Leave the address on the suppression list, so that nobody writes to it again.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for programs.")
@click.pass_obj
def erase(
    parts: Parts,
    database_url: str,
    operator: str | None,
    address: str,
    keep_suppression: bool,
    as_json: bool,
) -> None:
    """Take a person out: the ADDRESS, what was written to it and what was answered go. That it was written stays:
    numbers, times, outcomes, and a hash of each mail.

    What is still to be sent is withheld. Exit code 1: some mails are under way or in doubt and have to end first, or
    something that the provider told is not dealt with yet.
    """
    with opened(parts, database_url) as store, sentences():
        wanted = canonical(address)
        now = moment_of(parts, store)
        found = [number for number, _, _ in store.mails_to(wanted)]
        # By number only: the log must not keep the address that is to be gone.
        store.note_access(operator_of(operator), "erase", now=now, email_ids=found)
        done = retention.erase(store, wanted, now=now, keep_suppression=keep_suppression)
    if as_json:
        click.echo(
            json.dumps(
                {
                    "ok": not done.open and not done.events_left,
                    "mails": done.mails,
                    "withheld": done.withheld,
                    "events": done.events,
                    "events_left": done.events_left,
                    "suppressions": done.suppressions,
                    "open": list(done.open),
                }
            )
        )
    else:
        click.echo(
            f"{spelled_count(done.mails, 'mail')} erased ({done.withheld} of them withheld), "
            f"{spelled_count(done.events, 'event')}, {spelled_count(done.suppressions, 'suppression')}"
        )
        if done.open:
            click.echo(
                f"reference-sender: {', '.join(f'#{number}' for number in done.open)} cannot be erased yet: under way or "
                "in doubt; settle what is unknown (see `requeue`) and run this again",
                err=True,
            )
        if done.events_left:
            click.echo(
                f"reference-sender: {spelled_count(done.events_left, 'event')} cannot be erased yet: not dealt with (is "
                "`reference-sender webhooks` running?), or sealed with a key that OUTBOX_BODY_KEYS does not name; run this again then",
                err=True,
            )
    if done.open or done.events_left:
        raise click.exceptions.Exit(1)


@click.command()
@with_options(DATABASE, OPERATOR)
@click.option(
    "--batch", type=click.IntRange(1, 10_000), default=200, show_default=True, help="Rows in a step."
)
@click.pass_obj
def reseal(parts: Parts, database_url: str, operator: str | None, batch: int) -> None:
    """Seal what is stored with the newest of OUTBOX_BODY_KEYS: what an older key sealed, and what nobody did.

    After it the older keys are needed no more. Exit code 1: some words cannot be opened, because their key is not named.
    """
    with opened(parts, database_url) as store:
        if vault_behind(store.engine) is None:
            raise SetUpError("OUTBOX_BODY_KEYS is not set; there is nothing to seal with")
        store.note_access(operator_of(operator), "reseal", now=moment_of(parts, store))
        mails, shut = _walked(store.reseal_mails, 0, batch)
        contents, shut_contents = _walked(store.reseal_attachments, "", batch)
        events, shut_events = _walked(store.reseal_events, 0, batch)
    click.echo(
        f"{spelled_count(mails, 'mail')}, {spelled_count(contents, 'attachment')} and {spelled_count(events, 'event')} "
        "sealed anew"
    )
    if shut or shut_contents or shut_events:
        names = ", ".join(
            [
                *(f"#{number}" for number in shut[:5]),
                *shut_contents[:5],
                *(f"event {number}" for number in shut_events[:5]),
            ]
        )
        click.echo(
            f"reference-sender: {len(shut) + len(shut_contents) + len(shut_events)} cannot be opened (like {names}); name their key in "
            "OUTBOX_BODY_KEYS, too, behind the newest",
            err=True,
        )
        raise click.exceptions.Exit(1)


_Place = TypeVar("_Place", int, str)


def _walked(
    step: Callable[..., tuple[int, list[_Place], _Place | None]], begin: _Place, batch: int
) -> tuple[int, list[_Place]]:
    total, shut, after = 0, list[_Place](), begin
    while True:
        done, closed, further = step(after=after, limit=batch)
        total += done
        shut += closed
        if further is None:
            return total, shut
        after = further


@click.command()
@with_options(DATABASE)
@click.option("--mail", "word", help="Of these mails only: event key, Message-ID, provider id or #number.")
@click.option("--by", "operator", help="Of this operator only.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000_000), default=100, show_default=True, help="So many of them."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, for programs.")
@click.pass_obj
def accesses(
    parts: Parts, database_url: str, word: str | None, operator: str | None, limit: int, as_json: bool
) -> None:
    """Show who looked at whose mail, newest first."""
    with opened(parts, database_url) as store:
        ids = None
        if word is not None:
            # The log outlives the mails; a number is still good then.
            number = word.removeprefix("#")
            known = number.isascii() and number.isdigit() and len(number) < 19  # as in `Histories`
            ids = [int(number)] if known else [each.id for each in store.histories(word)]
        found = store.accesses(email_ids=ids, limit=limit, operator=operator)
        if not found and not as_json:
            click.echo("nobody has looked")
        for access in found:
            click.echo(_line(access, as_json))


def _line(access: Access, as_json: bool) -> str:
    if as_json:
        return json.dumps(
            {
                "at": access.at.isoformat(),
                "operator": access.operator,
                "action": access.action,
                "id": access.email_id,
                "detail": access.detail,
            },
            ensure_ascii=False,
        )
    mail = "" if access.email_id is None else f" #{access.email_id}"
    detail = f" ({access.detail})" if access.detail else ""
    return f"{access.at:%Y-%m-%d %H:%M:%S} {access.operator}: {access.action}{mail}{detail}"
