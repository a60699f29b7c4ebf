"""`reference-sender campaign`: one mail to many, at a pace, that can be stopped and taken up again."""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from reference_sender.audience import Audience, CsvFile, JsonLines, Query
from reference_sender.campaigns import Runner, rehearse
from reference_sender.commands.enqueue import parameters_from
from reference_sender.commands.frame import Number, SetUpError, moment_of, opened, with_options
from reference_sender.commands.lines import TEN_YEARS_S
from reference_sender.life import State
from reference_sender.log import JsonLog
from reference_sender.message import Mailbox, check_name
from reference_sender.option_table import DATABASE
from reference_sender.outbox.campaigns import Campaign, CampaignState, NoSuchCampaign, planned
from reference_sender.outbox.store import Store
from reference_sender.policy.classes import MailClass
from reference_sender.templates import Templates
from reference_sender.wiring import Parts

_TEMPLATES = click.option(
    "--templates",
    "folder",
    envvar="OUTBOX_TEMPLATES",
    show_envvar=True,
    type=click.Path(path_type=Path),
    default=Path("templates"),
    show_default=True,
    help="The folder with the templates: in it a folder for each, with subject.txt and text.txt, html.html or both.",
)


@click.group()
def campaign() -> None:
    """Send a template to an audience: read in pages, paced, safe to kill, nobody gets it twice."""


@campaign.command()
@with_options(DATABASE)
@click.argument("name")
@click.option("--from", "sender", required=True, help="Who sends it, like 'Shop <shop@example.org>'.")
@click.option("--template", required=True, help="The name of the template that everybody gets.")
@click.option(
    "--param",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter of the template that is the same for all. May be given several times.",
)
@_TEMPLATES
@click.option(
    "--csv", "csv_file", type=click.Path(), help="The audience: a CSV file whose first line names columns."
)
@click.option(
    "--jsonl", "jsonl_file", type=click.Path(), help="The audience: a file with one JSON object a line."
)
@click.option(
    "--sql",
    "query",
    help="The audience: a query of this database, like SELECT id, email AS address FROM users "
    "WHERE id > :after ORDER BY id LIMIT :limit.",
)
@click.option(
    "--after", default="0", show_default=True, help="With --sql: what :after is for the first page."
)
@click.option("--address", default="address", show_default=True, help="The column with the address.")
@click.option(
    "--key",
    help="The column that names a member for ever, like the number of a user [--address; with --sql the first column].",
)
@click.option(
    "--class",
    "mail_class",
    type=click.Choice([each.value for each in MailClass]),
    default=MailClass.NEWSLETTER.value,
    show_default=True,
    help="What kind of mail it is.",
)
@click.option("--over", "over_s", type=Number(min=0, max=TEN_YEARS_S), help="Spread it over so many seconds.")
@click.option("--per-hour", type=Number(min=0.0001), help="At most so many mails an hour.")
@click.option(
    "--ends-in",
    "ends_in_s",
    type=Number(min=0, min_open=True, max=TEN_YEARS_S),
    help="Seconds after which what is left is not sent.",
)
@click.option(
    "--page",
    "page_rows",
    type=click.IntRange(1, 10_000),
    default=200,
    show_default=True,
    help="So many members are read and put in at a time.",
)
@click.pass_obj
def create(
    parts: Parts,
    /,
    database_url: str,
    name: str,
    sender: str,
    template: str,
    parameters: tuple[str, ...],
    folder: Path,
    over_s: float | None,
    per_hour: float | None,
    ends_in_s: float | None,
    page_rows: int,
    mail_class: str,
    **audience: Any,
) -> None:
    """Write a campaign down. Nothing is sent before `campaign run`.

    It needs --from, --template and an audience: --csv, --jsonl or --sql.
    """
    if over_s is not None and per_hour is not None:
        raise click.UsageError("--over and --per-hour both set the pace; give one of them")
    with opened(parts, database_url) as store:
        chosen = _audience(**audience)
        check_name(name, "the name of a campaign", most=80)
        Mailbox.parse(sender, "sender")
        with store.engine.connect() as connection:
            members = chosen.count(connection)
        now = moment_of(parts, store)
        gap_s = 3_600.0 / per_hour if per_hour is not None else (over_s or 0.0) / max(members, 1)
        made = planned(
            name,
            sender=sender,
            mail_class=MailClass(mail_class),
            template=template,
            parameters=parameters_from(parameters),
            audience=chosen.told(),
            page_rows=page_rows,
            gap_s=gap_s,
            now=now,
            ends_at=None if ends_in_s is None else now + timedelta(seconds=ends_in_s),
        )
        with store.engine.connect() as connection:
            rehearse(made, chosen, Templates(folder), connection)
        is_new = store.create_campaign(made)
    if not is_new:
        raise SetUpError(f"there is a campaign {name!r} already; it stays as it is")
    pace = f", one mail every {gap_s:g} s" if gap_s else ""
    click.echo(f"created {name}: {members} members{pace}")


@campaign.command()
@with_options(DATABASE)
@click.argument("name")
@_TEMPLATES
@click.pass_obj
def run(parts: Parts, database_url: str, name: str, folder: Path) -> None:
    """Put the mails of a campaign into the outbox, until all are in it or somebody pauses or cancels it.

    `work` sends them meanwhile. It may be killed and started again: nobody gets a second mail.
    """
    with opened(parts, database_url) as store:
        runner = Runner(
            store=store,
            name=name,
            templates=Templates(folder),
            clock=parts.clock,
            now=lambda: moment_of(parts, store),
            log=JsonLog(sys.stderr, parts.clock),
            key_for=parts.key_for,
        )
        if _campaign(store, name).state is CampaignState.READY:
            store.move_campaign(name, CampaignState.RUNNING, now=moment_of(parts, store))
        why = asyncio.run(runner.run())
    click.echo(f"{name}: {why}")


@campaign.command()
@with_options(DATABASE)
@click.argument("name")
@click.pass_obj
def pause(parts: Parts, database_url: str, name: str) -> None:
    """Stop a campaign; what is in a worker's hands just now still goes, and comes back into the pause if it has to."""
    _move(parts, database_url, name, CampaignState.PAUSED)


@campaign.command()
@with_options(DATABASE)
@click.argument("name")
@click.pass_obj
def resume(parts: Parts, database_url: str, name: str) -> None:
    """Let a paused campaign go on where it was, at its pace (and start `campaign run` again)."""
    with opened(parts, database_url) as store:
        whole = _campaign(store, name).whole
    _move(parts, database_url, name, CampaignState.DONE if whole else CampaignState.RUNNING)


@campaign.command()
@with_options(DATABASE)
@click.argument("name")
@click.pass_obj
def cancel(parts: Parts, database_url: str, name: str) -> None:
    """End a campaign: what waits is not sent, what is in a worker's hands goes once more at most. There is no way back."""
    _move(parts, database_url, name, CampaignState.CANCELLED)


@campaign.command()
@with_options(DATABASE)
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.pass_obj
def status(parts: Parts, database_url: str, name: str | None, as_json: bool) -> None:
    """Show how far campaigns are, and what became of their mails."""
    with opened(parts, database_url) as store:
        if name is not None:
            _campaign(store, name)
        found_all = store.campaigns()
        if not found_all and not as_json:
            click.echo("there is no campaign")
        for each in found_all:
            if name is not None and each.campaign.name != name:
                continue
            found = each.campaign
            numbers = {
                "members": found.members,
                "enqueued": found.enqueued,
                "known": found.known,
                "suppressed": found.suppressed,
                "refused": found.refused,
            }
            mails = {state.value: count for state, count in sorted(each.mails.items())}
            if as_json:
                click.echo(
                    json.dumps({"name": found.name, "state": found.state.value, **numbers, "mails": mails})
                )
                continue
            read = ", ".join(
                f"{count} {what}" for what, count in numbers.items() if count or what == "members"
            )
            click.echo(f"{found.name}: {found.state.value}; read: {read}")
            if mails:
                click.echo("  mails: " + ", ".join(f"{count} {state}" for state, count in mails.items()))


def _audience(
    *,
    csv_file: str | None,
    jsonl_file: str | None,
    query: str | None,
    after: str,
    address: str,
    key: str | None,
) -> Audience:
    given = [each for each in (csv_file, jsonl_file, query) if each is not None]
    if len(given) != 1:
        raise click.UsageError("say once where the audience is: --csv, --jsonl or --sql")
    if query is not None:
        return Query(query=query, address=address, start=int(after) if after.lstrip("-").isdigit() else after)
    # Absolute, because `run` may be called from somewhere else.
    kind = CsvFile if csv_file is not None else JsonLines
    return kind(path=str(Path(given[0]).resolve()), address=address, key=key)


def _move(parts: Parts, database_url: str, name: str, state: CampaignState) -> None:
    with opened(parts, database_url) as store:
        before = _campaign(store, name).state
        moved = store.move_campaign(name, state, now=moment_of(parts, store))
        after = _campaign(store, name).state
        left = store.under_way_of_campaign(name) if moved and state in _STOPPED else {}
    if not moved:
        raise SetUpError(f"the campaign {name!r} is {before.value} and cannot become {state.value}")
    told = (f"{count} {_STOPPED[state][each]}" for each, count in sorted(left.items()))
    click.echo("; ".join((f"{name}: {after.value}", *told)))


#: What a state of the campaign means for its mails that were not waiting just then.
_STOPPED = {
    CampaignState.PAUSED: {
        State.SENDING: "under way, and still go",
        State.UNKNOWN: "in doubt, and not repeated before the resume",
    },
    CampaignState.CANCELLED: {
        State.SENDING: "under way, and still go",
        State.UNKNOWN: "in doubt, and never repeated",
    },
}


def _campaign(store: Store, name: str) -> Campaign:
    try:
        return store.campaign(name)
    except NoSuchCampaign as error:
        raise SetUpError(str(error)) from error
