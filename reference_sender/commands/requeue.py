"""`reference-sender requeue`: mails that a person sends again, or notes as sent; of those left alone, why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import click

from reference_sender.commands.frame import OPERATOR, SetUpError, moment_of, opened, operator_of, with_options
from reference_sender.commands.spelling import spelled_count
from reference_sender.life import Docket, State
from reference_sender.message import check_event_key
from reference_sender.option_table import DATABASE
from reference_sender.outbox.store import Store
from reference_sender.policy.decision import Decision, Doubt
from reference_sender.wiring import Parts

#: From these a person may send a mail again.
_AGAIN = (State.FAILED, State.DEAD, State.UNKNOWN)

#: Why a mail in any other state is left alone, and what would be right.
_LEFT = {
    State.PENDING: "it is sent by itself",
    State.SENDING: "it is under way, and what comes of it is not known yet; look again later",
    State.ACCEPTED: "the provider has it; to send it once more, enqueue it under another key",
    State.EXPIRED: "it would have come too late; if it is wanted still, enqueue it under another key",
    State.SUPPRESSED: "its recipient must not be written to; see `reference-sender suppress`",
}
#: The same where it is to be noted as accepted.
_NOT_NOTED = "only of an unknown mail can be noted that it was accepted"
#: So many of them are told one by one.
_SHOWN = 20


class _Asked(NamedTuple):
    """Which mails, and what is to become of them."""

    key: str | None
    ids: tuple[int, ...]
    states: tuple[State, ...]
    i_checked: bool
    provider_id: str | None

    @property
    def wanted(self) -> tuple[State, ...]:
        """The states in which a mail is moved."""
        movable = _AGAIN if self.provider_id is None else (State.UNKNOWN,)
        return tuple(each for each in movable if not self.states or each in self.states)


@click.command()
@with_options(DATABASE, OPERATOR)
@click.option("--key", help="The mails of this business event.")
@click.option(
    "--id",
    "ids",
    type=click.IntRange(1, 2**63 - 1),
    multiple=True,
    metavar="N",
    help="The mail with this number, as `status` and `trace` show it. May be given several times.",
)
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([each.value for each in (State.FAILED, State.DEAD, State.UNKNOWN)]),
    help="All mails in this state, or those of --key or --id that are. May be given several times.",
)
@click.option("--i-checked", is_flag=True, help="Also unknown mails: I made sure that they were not sent.")
@click.option(
    "--accepted",
    "provider_id",
    metavar="PROVIDER-ID",
    help="Unknown mails were sent: note this id of the provider as the proof, and send nothing.",
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
    """Send failed, dead or unknown mails again, by hand: the same bytes under the same idempotency key.

    Exit code 1: nothing was moved, or not every mail that --id names; each is told with the reason.
    """
    if key is None and not ids and not states:
        raise click.UsageError("say which mails: --key, --id or --state")
    if i_checked and provider_id is not None:
        raise click.UsageError("--i-checked says it was not sent, --accepted says it was; give one of them")
    if provider_id is not None and not (provider_id.isprintable() and 1 <= len(provider_id.strip()) <= 255):
        raise click.UsageError(
            "--accepted wants the id that the provider gave the mail, at most 255 characters"
        )
    if provider_id is not None and states and State.UNKNOWN.value not in states:
        raise click.UsageError(
            f"--accepted is for unknown mails, and --state asks for {' and '.join(states)}"
        )
    asked = _Asked(key, tuple(dict.fromkeys(ids)), tuple(map(State, states)), i_checked, provider_id)
    with opened(parts, database_url) as store:
        if key is not None:
            check_event_key(key)
        # By its name a mail is found in whatever state it is, so that it can be told why it stays.
        named = key is not None or bool(ids)
        found = store.find(key=key, ids=asked.ids, states=() if named else asked.wanted)
        chosen = [each for each in found if each.state in asked.wanted]
        moved, left = _move(parts, store, operator, asked, chosen)
        left += _left_alone(found, asked)
    if ids or not moved:
        for reason in left[:_SHOWN]:
            click.echo(f"reference-sender: {reason}", err=True)
        if len(left) > _SHOWN:
            click.echo(f"reference-sender: … and {len(left) - _SHOWN:,} more", err=True)
    what = "to be sent again" if provider_id is None else "noted as accepted"
    click.echo(f"{spelled_count(moved, 'mail')} {what}")
    if not moved or (ids and left):
        raise click.exceptions.Exit(1)


def _move(
    parts: Parts, store: Store, operator: str | None, asked: _Asked, dockets: Sequence[Docket]
) -> tuple[int, list[str]]:
    """Move them; how many, and why some were not. Raises `SetUpError` where a person has to say more first."""
    if asked.provider_id is None:
        _refuse_to_guess(store, asked, dockets)
    now = moment_of(parts, store)
    if asked.provider_id is not None:
        decision = Decision(state=State.ACCEPTED, reason="found out by hand", provider_id=asked.provider_id)
    else:
        decision = Decision(
            state=State.PENDING, reason="requeued by hand", next_attempt_at=now, doubt=Doubt.CLEAR
        )
    if dockets:
        detail = "to be sent again" if asked.provider_id is None else "as accepted"
        store.note_access(
            operator_of(operator), "requeue", now=now, email_ids=[each.id for each in dockets], detail=detail
        )
    missed = [each for each in dockets if not store.requeue(each, decision, now=now)]
    return len(dockets) - len(missed), [
        f"#{each.id} was moved by somebody else just now; look again" for each in missed
    ]


def _refuse_to_guess(store: Store, asked: _Asked, dockets: Sequence[Docket]) -> None:
    if not asked.i_checked and any(each.state is State.UNKNOWN for each in dockets):
        raise SetUpError(
            "some of these mails are unknown: they may have been accepted, and sending them again may repeat them; "
            "say --i-checked if you made sure that they were not sent, or --accepted ID if they were"
        )
    if gone := store.wordless([docket.id for docket in dockets]):
        raise SetUpError(
            f"{', '.join(f'#{number}' for number in gone[:5])} cannot be sent again: what they said is purged or "
            "erased; enqueue them anew under another key, or leave them out"
        )


def _left_alone(found: Sequence[Docket], asked: _Asked) -> list[str]:
    """Of everything that was asked for and is not moved, one sentence each."""
    there = {each.id for each in found}
    of_key = "" if asked.key is None else f" of the event {asked.key!r}"
    left = [f"there is no mail #{number}{of_key}" for number in asked.ids if number not in there]
    if not found and asked.key is not None and not asked.ids:
        left.append(f"there is no mail{of_key}")
    elif not found and not asked.ids:
        left.append(f"no mail is {' or '.join(asked.states)}")
    kept = (each for each in found if each.state not in asked.wanted)
    return left + [f"#{each.id} is {each.state.value}: {_why(each.state, asked)}" for each in kept]


def _why(state: State, asked: _Asked) -> str:
    if asked.provider_id is not None:
        return _NOT_NOTED
    return _LEFT.get(state) or f"--state asks for {' and '.join(asked.states)}"
