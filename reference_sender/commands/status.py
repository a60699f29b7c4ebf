"""`reference-sender status`: how the outbox stands, for a person (live with `--watch`) and for programs (`--json`).

First what a person has to do, then the queues, then the rest. A person sees counts, keys and reasons, no addresses.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click
from sqlalchemy.exc import SQLAlchemyError

from reference_sender.commands.frame import (
    OPERATOR,
    Number,
    database_sentence,
    moment_of,
    opened,
    operator_of,
    with_options,
)
from reference_sender.commands.spelling import spelled_count, spelled_s
from reference_sender.events.kinds import Kind, standing
from reference_sender.life import FINAL, Docket, State
from reference_sender.option_table import DATABASE
from reference_sender.outbox.depths import Depth, EventDepth
from reference_sender.outbox.engine import StoreTrouble
from reference_sender.outbox.store import Store, Tally
from reference_sender.policy.breaker import Position
from reference_sender.policy.causes import Cause, counted
from reference_sender.policy.classes import late_after_s
from reference_sender.policy.gate import Shared
from reference_sender.wiring import Parts

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.table import Table

#: So many mails that want a person are shown one by one, and so many causes.
_SHOWN = 5
#: Events are dealt with at once; who waits for so long waits for somebody.
_EVENTS_LATE_S = 30.0
#: Counting what is finished reads the whole history; a live view does it so often.
_HISTORY_EVERY_S = 30.0

#: What a state asks of a person: (state, what it means, what to do).
_ASKS = (
    (
        State.UNKNOWN,
        "may or may not have been sent",
        "ask the provider; has it:     requeue --id N --accepted PROVIDER-ID\n"
        "                    has it not: requeue --id N --i-checked",
    ),
    (State.DEAD, "nobody sends them any more", None),  # what to do is a matter of the cause
)
#: The same of what a provider refused for good.
_TO_FAILED = "a wrong address needs nothing; was it a mistake of ours, mend it, then requeue --state failed"
#: A refusal is news for so long. Only a person can tell a wrong address, which needs nothing, from a mistake of ours.
_NEWS_S = 86_400.0


@click.command()
@with_options(DATABASE, OPERATOR)
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for programs.")
@click.option("--mails/--no-mails", default=True, show_default=True, help="With --json: every mail, too.")
@click.option("--watch", is_flag=True, help="Stay, and look again and again.")
@click.option(
    "--every",
    "every_s",
    type=Number(0.1, 3600),
    default=2.0,
    show_default=True,
    help="With --watch: seconds between two looks.",
)
@click.option("--looks", type=click.IntRange(1), help="With --watch: end after so many looks.")
@click.pass_obj
def status(
    parts: Parts,
    database_url: str,
    operator: str | None,
    as_json: bool,
    mails: bool,
    watch: bool,
    every_s: float,
    looks: int | None,
) -> None:
    """Show what wants a person, and how many mails are where and how old the oldest is.

    With --json every mail is told with its recipient, and the look is written into the access log; not so with --no-mails.
    """
    if as_json and watch:
        raise click.UsageError("--json tells once, --watch is for people; give one of them")
    with opened(parts, database_url) as store:
        if as_json:
            if mails:
                # Every mail with its recipient: that is a look at people's data.
                store.note_access(operator_of(operator), "status", now=moment_of(parts, store))
            click.echo(json.dumps(told(store, now=moment_of(parts, store), mails=mails), ensure_ascii=False))
        elif watch:
            _watch(parts, store, every_s, looks)
        else:
            from rich.console import Console

            Console().print(picture(look(store, moment_of(parts, store)), moment_of(parts, store)))


def told(store: Store, *, now: datetime, mails: bool, queues: bool = True) -> dict[str, Any]:
    """The outbox for programs."""
    answer: dict[str, Any] = {"ok": True}
    if mails:
        heard = store.kinds_told()
        answer["mails"] = [
            {
                "key": s.key,
                "recipient": s.recipient,
                "state": s.state.value,
                "attempts": s.attempts,
                "provider_id": s.provider_id,
                "id": s.id,
                "message_id": s.message_id,
                "may_repeat": s.may_repeat,
                "last_error": s.last_error,
                "delivery": standing(map(Kind, heard.get(s.id, ()))),
                "events": heard.get(s.id, []),
            }
            for s in store.standings()
        ]
    answer["states"] = {
        t.state.value: {"count": t.count, "oldest_age_s": round((now - t.oldest).total_seconds(), 3)}
        for t in store.tallies()
    }
    if not queues:
        return answer
    answer["queues"] = [
        {
            "state": d.state.value,
            "class": d.mail_class,
            "count": d.count,
            "oldest_age_s": round(d.oldest_s, 3),
            "due": d.due,
            "overdue_s": round(d.overdue_s, 3),
            "next_in_s": None if d.next_in_s is None else round(d.next_in_s, 3),
        }
        for d in store.depths(now=now)
    ]
    answer["dead"] = {cause.says: count for cause, count in counted(store.sentences(State.DEAD))}
    events = store.event_depth(now=now)
    answer["events"] = {"waiting": events.waiting, "oldest_age_s": round(events.oldest_s, 3)}
    answer["providers"] = {
        name: {
            "breaker": shared.breaker.position.value,
            "paused_until": shared.paused_until.isoformat() if shared.paused_until else None,
            "reason": shared.reason,
        }
        for name, shared in sorted(store.gates().items())
    }
    return answer


class Look:
    """What was found at one moment."""

    def __init__(
        self,
        *,
        where: str,
        depths: list[Depth],
        asking: dict[State, list[Docket]],
        causes: list[tuple[Cause, int]],
        tallies: list[Tally],
        events: EventDepth,
        gates: dict[str, Shared],
    ) -> None:
        self.where = where
        self.depths = depths
        self.asking = asking
        self.causes = causes
        """Why the dead ones are dead, and how many."""
        self.tallies = tallies
        self.events = events
        self.gates = gates


def look(store: Store, now: datetime, *, tallies: list[Tally] | None = None) -> Look:
    """Look at the outbox; with `tallies`, without counting its history again."""
    return Look(
        where=store.engine.url.render_as_string(hide_password=True),
        depths=store.depths(now=now),
        asking={
            **{state: store.oldest(state, limit=_SHOWN) for state, _, _ in _ASKS},
            State.FAILED: store.newest(State.FAILED, limit=_SHOWN),
        },
        causes=counted(store.sentences(State.DEAD)),
        tallies=store.tallies() if tallies is None else tallies,
        events=store.event_depth(now=now),
        gates=store.gates(),
    )


def picture(seen: Look, now: datetime) -> Group:
    """The view for a person."""
    from rich.console import Group
    from rich.text import Text

    head = Text.assemble(
        ("outbox ", "bold"), seen.where, (f"   {now:%Y-%m-%d %H:%M:%S} UTC", "dim"), no_wrap=True
    )
    rows: list[RenderableType] = [head, Text()]
    if not seen.tallies and not seen.depths:
        return Group(*rows, Text("The outbox is empty."))
    rows += _people(seen, now)
    if trouble := list(_providers(seen, now)):
        rows += [*trouble, Text()]
    if any(each.state not in (State.FAILED, State.DEAD) for each in seen.depths):
        rows += [_queues(seen.depths), Text()]
    rows.append(_history(seen))
    return Group(*rows)


def _people(seen: Look, now: datetime) -> Iterable[RenderableType]:
    """What a person has to do, first of all."""
    from rich.text import Text

    counts = {state: sum(d.count for d in seen.depths if d.state is state) for state in seen.asking}
    refused_s = min((d.last_s for d in seen.depths if d.state is State.FAILED), default=None)
    told = False
    for state, meaning, todo in _ASKS:
        if counts[state]:
            told = True
            yield from _asking(seen, now, state, counts[state], meaning, todo, "bold red")
    if refused_s is not None:
        meaning = f"refused for good, the last one {spelled_s(refused_s)} ago"
        if refused_s < _NEWS_S:
            yield from _asking(
                seen, now, State.FAILED, counts[State.FAILED], meaning, _TO_FAILED, "bold yellow"
            )
            return
        if not told:
            yield Text.assemble(
                ("● nobody has to do anything", "green"),
                (f"; {counts[State.FAILED]:,} failed, {meaning}", "dim"),
            )
            yield Text()
    elif not told:
        yield Text("● nobody has to do anything", style="green")
        yield Text()


def _asking(
    seen: Look, now: datetime, state: State, count: int, meaning: str, todo: str | None, style: str
) -> Iterable[RenderableType]:
    """Mails that ask something of a person: how many, what of them, what to do, and the first of them."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    yield Text.assemble((f"● {count:,} {state.value}", style), f" – {meaning}")
    yield _causes(seen.causes) if todo is None else Text(f"  {todo}", style="dim")
    table = Table.grid(padding=(0, 2))
    table.add_column(style="cyan", no_wrap=True, justify="right")
    table.add_column(no_wrap=True, overflow="ellipsis", max_width=40)
    table.add_column(style="dim", no_wrap=True, justify="right")
    table.add_column(overflow="fold")
    for docket in seen.asking[state]:
        age = spelled_s((now - docket.queued_at).total_seconds())
        # As texts, or brackets in them would be read as markup.
        table.add_row(f"#{docket.id}", Text(docket.key), age, Text(docket.last_error or ""))
    if count > len(seen.asking[state]):
        table.add_row("", f"… and {count - len(seen.asking[state]):,} more", "", "")
    yield Padding(table, (0, 0, 1, 2))


def _causes(causes: list[tuple[Cause, int]]) -> RenderableType:
    """Why so many mails are dead, and what to do about each cause; rare ones are counted together."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(style="dim", overflow="fold")
    for cause, count in causes[:_SHOWN]:
        table.add_row(f"{count:,}", Text(cause.says), Text(cause.todo))
    if others := sum(count for _, count in causes[_SHOWN:]):
        table.add_row(f"{others:,}", "for other reasons", "")
    return Padding(table, (0, 0, 0, 2))


def _providers(seen: Look, now: datetime) -> Iterable[RenderableType]:
    """Providers that nobody asks now, and what they told and nobody has dealt with."""
    from rich.text import Text

    for name, shared in sorted(seen.gates.items()):
        position = shared.breaker.position
        over = shared.breaker.until if position is Position.OPEN else None
        until = max((at for at in (shared.paused_until, over) if at is not None and at > now), default=None)
        if position is Position.CLOSED and until is None:
            continue
        word = "paused" if position is Position.CLOSED else f"breaker {position.value}"
        wait = f", nobody asks for {spelled_s((until - now).total_seconds())}" if until else ""
        yield Text.assemble(
            (f"● {name}: {word}", "bold yellow"), wait, (f"  {shared.reason}" if shared.reason else "", "dim")
        )
    if seen.events.oldest_s >= _EVENTS_LATE_S:
        yield Text.assemble(
            (f"● {spelled_count(seen.events.waiting, 'event')} not dealt with", "bold yellow"),
            f", the oldest for {spelled_s(seen.events.oldest_s)}  ",
            ("is `reference-sender webhooks` running?", "dim"),
        )


def _queues(depths: list[Depth]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("class")
    for name in ("pending", "of it due", "next mail", "sending", "unknown", "oldest"):
        table.add_column(name, justify="right")
    found = {(each.mail_class, each.state): each for each in depths}
    for mail_class in sorted({each.mail_class for each in depths}):
        waiting = found.get((mail_class, State.PENDING))
        open_ones = [
            each
            for (name, state), each in found.items()
            if name == mail_class and state in (State.PENDING, State.SENDING, State.UNKNOWN)
        ]
        if not open_ones:
            continue
        table.add_row(
            mail_class,
            _count(waiting),
            f"{waiting.due:,}" if waiting and waiting.due else "–",
            _next_mail(waiting),
            _count(found.get((mail_class, State.SENDING))),
            _count(found.get((mail_class, State.UNKNOWN)), style="red"),
            spelled_s(max(each.oldest_s for each in open_ones)),
        )
    return table


def _count(depth: Depth | None, *, style: str = "default") -> str:
    return f"[{style}]{depth.count:,}[/]" if depth else "–"


def _next_mail(waiting: Depth | None) -> str:
    """When the next mail of a queue is planned for, or how long it has been due and, from some time on, is late."""
    if waiting is None:
        return "–"
    if waiting.next_in_s is not None:
        return f"[dim]in {spelled_s(waiting.next_in_s)}[/]"
    if not waiting.due:
        return "[dim]waits[/]"  # for another mail, or for its campaign
    if waiting.overdue_s < 1:
        return "now"
    late_s = late_after_s(waiting.mail_class)
    if waiting.overdue_s >= late_s:
        return f"[red]late, due for {spelled_s(waiting.overdue_s)}[/]"
    style = "yellow" if waiting.overdue_s >= late_s / 2 else "default"
    return f"[{style}]due for {spelled_s(waiting.overdue_s)}[/]"


def _history(seen: Look) -> RenderableType:
    from rich.text import Text

    done = [tally for tally in seen.tallies if tally.state in FINAL and tally.count]
    if not done:
        return Text("nothing is finished yet", style="dim")
    order = [State.ACCEPTED, State.FAILED, State.EXPIRED, State.SUPPRESSED, State.DEAD]
    styles = {State.ACCEPTED: "green", State.FAILED: "yellow", State.DEAD: "red"}
    line = Text("finished: ", style="dim")
    for place, tally in enumerate(sorted(done, key=lambda each: order.index(each.state))):
        line.append(", " if place else "")
        line.append(f"{tally.count:,} {tally.state.value}", style=styles.get(tally.state, "default"))
    return line.append(f" ({spelled_count(sum(t.count for t in seen.tallies), 'mail')} in all)", style="dim")


def _away(sentence: str) -> RenderableType:
    """The view while the database is away: who watches wants to see it come back."""
    from rich.text import Text

    return Text(f"{sentence}; it is looked again", style="bold red")


def _watch(parts: Parts, store: Store, every_s: float, looks: int | None) -> None:
    from rich.live import Live

    tallies, counted_s, done = store.tallies(), parts.clock.monotonic(), 0
    with Live(auto_refresh=False) as live:
        while True:
            try:
                if parts.clock.monotonic() - counted_s >= _HISTORY_EVERY_S:
                    tallies, counted_s = store.tallies(), parts.clock.monotonic()
                now = moment_of(parts, store)
                live.update(picture(look(store, now, tallies=tallies), now), refresh=True)
            except SQLAlchemyError as error:
                live.update(_away(database_sentence(error)), refresh=True)
            except StoreTrouble as error:
                live.update(_away(str(error)), refresh=True)
            done += 1
            if done == looks:
                return
            try:
                asyncio.run(parts.clock.sleep(every_s))
            except KeyboardInterrupt:
                return
