"""Mail that waits or must not go, in the outbox in memory: the questions of `reference_sender.outbox.{waiting,bars}`.

Only the questions are answered here; what follows from the answers is the sender's own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from reference_sender.life import Bar, State
from reference_sender.outbox.bars import CAMPAIGN_BARS, bar_of_dependency, bar_of_waiting
from reference_sender.outbox.enqueueing import Manner, hold_rows
from reference_sender.outbox.waiting import UNFINISHED
from reference_sender.policy.bars import AFTER_DEPENDENCY
from reference_sender.policy.classes import MailClass
from reference_sender.policy.suppression import Suppression

Row = Mapping[str, Any]
Emails = Mapping[int, Row]


def hold(rows: Sequence[dict[str, Any]], manner: Manner, emails: Emails) -> None:
    """Let the rows of an enqueue wait, if they must."""
    all_wait = False
    if manner.ordering_key is not None:
        all_wait = any(
            other["ordering_key"] == manner.ordering_key and other["state"] in UNFINISHED
            for other in emails.values()
        )
    if manner.depends_on is not None:
        all_wait = all_wait or _states(emails, manner.depends_on) != {State.ACCEPTED}
    hold_rows(rows, all_wait=all_wait, one_by_one=manner.ordering_key is not None)


def may_go(row: Row, emails: Emails, now: datetime) -> bool:
    """Whether a row that waits may be let through."""
    if row["state"] is not State.PENDING or row["hold_until"] is None or row["next_attempt_at"] is not None:
        return False
    if row["hold_until"] <= now:
        return True
    if row["depends_on"] is not None:
        states = _states(emails, row["depends_on"])
        if not states or any(state not in AFTER_DEPENDENCY for state in states):
            return False
    return not _is_behind(row, emails)


def bar_of(
    row: Row,
    emails: Emails,
    suppressed: Iterable[Suppression],
    campaigns: Mapping[str, str],
    now: datetime,
    taken: Collection[int] = (),
) -> Bar | None:
    """What speaks against sending a claimed row; `taken`: the rows that this claim took."""
    mail_class = MailClass(row["mail_class"])
    if any(each.address == row["recipient"].lower() and each.covers(mail_class, now) for each in suppressed):
        return Bar.SUPPRESSED
    if (bar := CAMPAIGN_BARS.get(campaigns.get(row["campaign"], ""))) is not None:
        return bar
    if row["slot"] is not None and any(
        other["slot"] == row["slot"] and other["id"] > row["id"] and other["dedupe_key"] != row["dedupe_key"]
        for other in emails.values()
    ):
        return Bar.SUPERSEDED
    if row["depends_on"] is not None:
        bar = bar_of_dependency(_states(emails, row["depends_on"]), row["hold_until"], now)
        if bar is not None:
            return bar
    return bar_of_waiting(row["hold_until"], now) if _is_behind(row, emails, taken) else None


def _states(emails: Emails, event_key: str) -> set[State]:
    return {other["state"] for other in emails.values() if other["dedupe_key"] == event_key}


def _is_behind(row: Row, emails: Emails, taken: Collection[int] = ()) -> bool:
    """Whether somebody of its ordering key is before it."""
    return row["ordering_key"] is not None and any(
        other["ordering_key"] == row["ordering_key"]
        and other["id"] != row["id"]
        and (
            (other["id"] < row["id"] and other["state"] in UNFINISHED)
            or (other["state"] is State.SENDING and other["id"] not in taken)
        )
        for other in emails.values()
    )
