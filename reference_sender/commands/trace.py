"""`reference-sender trace`: one mail's whole life, from the business event to what the provider told afterwards.

It shows a person's address, so every look is written into the access log before anything is shown.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from reference_sender.commands.frame import OPERATOR, moment_of, opened, operator_of, with_options
from reference_sender.commands.spelling import spelled_s
from reference_sender.life import State
from reference_sender.option_table import DATABASE
from reference_sender.outbox.histories import History
from reference_sender.timeline import Kind, Moment, timeline
from reference_sender.wiring import Parts

if TYPE_CHECKING:
    from rich.console import Group, RenderableType

_MARKS = {
    Kind.ENQUEUED: ("●", "bold"),
    Kind.ATTEMPT: ("●", "default"),
    Kind.LATE: ("◌", "yellow"),
    Kind.LOST: ("✗", "red"),
    Kind.RECONCILED: ("◆", "cyan"),
    Kind.PERSON: ("◆", "magenta"),
    Kind.EVENT: ("▸", "green"),
    Kind.READ: ("○", "dim"),
    Kind.ERASED: ("✗", "magenta"),
    Kind.AHEAD: ("┄", "dim"),
}
_STATES = {
    State.ACCEPTED: "green",
    State.PENDING: "cyan",
    State.SENDING: "cyan",
    State.UNKNOWN: "bold red",
    State.DEAD: "red",
    State.FAILED: "yellow",
}


@click.command()
@with_options(DATABASE, OPERATOR)
@click.argument("word")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.option("--answers", is_flag=True, help="Also what the provider answered, word by word.")
@click.pass_obj
def trace(
    parts: Parts, database_url: str, operator: str | None, word: str, as_json: bool, answers: bool
) -> None:
    """Show the whole life of a mail: WORD is its event key, Message-ID, provider id, idempotency key or #number.

    The look is written into the access log.
    """
    with opened(parts, database_url) as store:
        found = store.histories(word)
        if not found:
            click.echo(
                f"reference-sender: no mail is called {word!r}; give an event key, a Message-ID, a provider id, "
                "an idempotency key or #number",
                err=True,
            )
            raise click.exceptions.Exit(1)
        now = moment_of(parts, store)
        store.note_access(operator_of(operator), "trace", now=now, email_ids=[each.id for each in found])
        if as_json:
            mails = [_told(each, now) for each in found]
            click.echo(json.dumps({"ok": True, "mails": mails}, ensure_ascii=False, default=str))
            return
        from rich.console import Console

        Console().print(picture(found, now, answers=answers))


def _told(history: History, now: datetime) -> dict[str, Any]:
    """One mail for programs: what it is, and its timeline."""
    facts = {
        name: getattr(history, name)
        for name in History.__dataclass_fields__
        if name not in ("tried", "told", "accesses")
    }
    moments = [
        {"at": moment.at, "kind": moment.kind.value, "what": moment.what, "because": moment.because}
        | moment.facts
        for moment in timeline(history, now=now)
    ]
    return {
        name: value.isoformat() if isinstance(value, datetime) else value for name, value in facts.items()
    } | {
        "timeline": [moment | {"at": moment["at"].isoformat()} for moment in moments],
    }


def picture(found: list[History], now: datetime, *, answers: bool = False) -> Group:
    """The view for a person."""
    from rich.console import Group
    from rich.text import Text

    rows: list[RenderableType] = []
    for history in found:
        if rows:
            rows.append(Text())
        rows += [_head(history), _facts(history), Text(), _moments(history, now, answers)]
    return Group(*rows)


def _head(history: History) -> RenderableType:
    from rich.text import Text

    return Text.assemble(
        (history.key, "bold"),
        f"  #{history.id}  ",
        (history.state.value, _STATES.get(history.state, "default")),
        ("  the recipient may have got it twice" if history.may_repeat else "", "yellow"),
    )


def _facts(history: History) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in (
        ("  to", history.recipient),
        ("  Message-ID", history.message_id),
        ("  idempotency key", history.idempotency_key),
        ("  provider's id", history.provider_id),
        ("  trace", history.traceparent),
    ):
        if value:
            table.add_row(name, Text(value))  # brackets in it are no markup
    return table


def _moments(history: History, now: datetime, answers: bool) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True, justify="right", style="dim")
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    before: datetime | None = None
    for moment in timeline(history, now=now):
        mark, style = _MARKS[moment.kind]
        words = Text(moment.what, style=_style(moment, style))
        if moment.because:
            words.append(f"  {moment.because}", style="dim")
        if answers and moment.facts.get("answer"):
            words.append(f"\n{moment.facts['answer'].strip()}", style="dim italic")
        table.add_row(_when(moment, before, now), Text(mark, style=style), words)
        before = moment.at
    return table


def _style(moment: Moment, style: str) -> str:
    decision = moment.facts.get("decision")
    if moment.kind is Kind.ATTEMPT and decision in list(State):
        return _STATES.get(State(decision), "default")
    return style


def _when(moment: Moment, before: datetime | None, now: datetime) -> str:
    if moment.kind is Kind.AHEAD:
        away_s = (moment.at - now).total_seconds()
        return f"in {spelled_s(away_s)}" if away_s > 0 else f"{spelled_s(-away_s)} ago"
    if before is None:
        return f"{moment.at:%Y-%m-%d %H:%M:%S} UTC"
    return f"+ {spelled_s((moment.at - before).total_seconds())}"
