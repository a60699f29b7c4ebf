"""`reference-sender suppress`: who must not be written to – put on, taken off, shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta

import click

from reference_sender.commands.frame import OPERATOR, Number, moment_of, opened, operator_of, with_options
from reference_sender.commands.spelling import spelled_s
from reference_sender.option_table import DATABASE
from reference_sender.outbox.store import Store
from reference_sender.policy.suppression import Kind, Reason, Suppression
from reference_sender.wiring import Parts

_KINDS = click.Choice([each.value for each in Kind])


@click.group()
def suppress() -> None:
    """The list of addresses that must not be written to: looked at when mail is enqueued, and again when it is sent."""


@suppress.command()
@with_options(DATABASE, OPERATOR)
@click.argument("addresses", nargs=-1, required=True)
@click.option(
    "--kind",
    type=_KINDS,
    default=Kind.ALL.value,
    show_default=True,
    help="all: no mail at all. newsletter: no campaign.",
)
@click.option(
    "--reason",
    type=click.Choice([each.value for each in Reason]),
    default=Reason.MANUAL.value,
    show_default=True,
    help="Why.",
)
@click.option("--days", type=Number(min=0, min_open=True, max=36_500), help="For so long [for ever].")
@click.pass_obj
def add(
    parts: Parts,
    database_url: str,
    operator: str | None,
    addresses: tuple[str, ...],
    kind: str,
    reason: str,
    days: float | None,
) -> None:
    """Put addresses onto the list. Mail to them that waits ends as suppressed."""
    source = operator_of(operator)
    with opened(parts, database_url) as store:
        now = moment_of(parts, store)
        until = None if days is None else now + timedelta(days=days)
        for address in addresses:
            store.suppress(address, reason=reason, source=source, now=now, kind=Kind(kind), until=until)
    click.echo(f"{len(addresses)} on the list")


@suppress.command()
@with_options(DATABASE)
@click.argument("addresses", nargs=-1, required=True)
@click.option("--kind", type=_KINDS, help="Only what covers this [every entry of the address].")
@click.pass_obj
def remove(parts: Parts, database_url: str, addresses: tuple[str, ...], kind: str | None) -> None:
    """Take addresses off the list. Mail that ended as suppressed stays so; enqueue it anew under another key.

    Exit code 1: none of them was on it.
    """
    with opened(parts, database_url) as store:
        gone = sum(store.unsuppress(each, kind=None if kind is None else Kind(kind)) for each in addresses)
    click.echo(f"{gone} taken off the list")
    if not gone:
        raise click.exceptions.Exit(1)


@suppress.command("list")
@with_options(DATABASE, OPERATOR)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.pass_obj
def list_(parts: Parts, database_url: str, operator: str | None, as_json: bool) -> None:
    """Show the list. The look is written into the access log."""
    with opened(parts, database_url) as store:
        now = moment_of(parts, store)
        store.note_access(operator_of(operator), "suppress list", now=now)
        empty = True
        for entry in _all(store):
            empty = False
            if as_json:
                click.echo(json.dumps(_document(entry), ensure_ascii=False))
                continue
            until = "for ever"
            if entry.until is not None:
                left_s = (entry.until - now).total_seconds()
                until = f"for {spelled_s(left_s)}" if left_s > 0 else "over"
            click.echo(f"{entry.address}  {entry.kind.value}  {entry.reason}  by {entry.source}  {until}")
        if empty and not as_json:
            click.echo("nobody is on the list")


def _all(store: Store) -> Iterator[Suppression]:
    after = ("", "")
    while page := store.suppressions(after=after):
        yield from page
        after = (page[-1].address, page[-1].kind.value)


def _document(entry: Suppression) -> dict[str, str | None]:
    return {
        "address": entry.address,
        "kind": entry.kind.value,
        "reason": entry.reason,
        "source": entry.source,
        "since": entry.since.isoformat(),
        "until": None if entry.until is None else entry.until.isoformat(),
    }
