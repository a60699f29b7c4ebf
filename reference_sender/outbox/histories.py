"""The whole history of a mail: its row without its bytes, every attempt and move, and who looked at it.

One question with one word – an event key, a Message-ID, a provider's id, an idempotency key, a row's number – because
support has whatever stands in somebody's log.
Must not hold: anything that writes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, or_, select

from reference_sender.life import State
from reference_sender.outbox.accesses import Access
from reference_sender.outbox.schema import delivery_fact, email_attempt, operator_access, outgoing_email
from reference_sender.outbox.transactions import Transactions

_row = outgoing_email.c
#: What is never read for a history: the words of the mail.
_WORDS = frozenset({"raw", "parameters"})
_COLUMNS = tuple(column for column in outgoing_email.columns if column.name not in _WORDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A record of what happened: an attempt (with a phase), or a move by somebody else."""

    token: int
    started_at: datetime | None
    ended_at: datetime
    phase: str | None
    code: int | None
    enhanced: str | None
    trouble: str | None
    answer: str | None
    provider: str | None
    provider_id: str | None
    decision: str
    reason: str
    late: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the provider told of a mail afterwards."""

    kind: str
    happened_at: datetime
    detail: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Everything that is known of one mail."""

    id: int
    key: str
    idempotency_key: str
    message_id: str
    sender: str
    recipient: str
    template: str | None
    mail_class: str
    priority: int
    traceparent: str | None
    state: State
    attempts: int
    may_repeat: bool
    provider_id: str | None
    last_error: str | None
    created_at: datetime
    queued_at: datetime
    next_attempt_at: datetime | None
    lease_until: datetime | None
    expires_at: datetime | None
    accepted_at: datetime | None
    erased_at: datetime | None
    content_hash: str | None
    tried: tuple[Tried, ...]
    told: tuple[Told, ...]
    accesses: tuple[Access, ...]


_FACTS = tuple(
    name for name in History.__dataclass_fields__ if name not in ("key", "tried", "told", "accesses")
)
_TRIED = tuple(email_attempt.c[name] for name in Tried.__dataclass_fields__)
_TOLD = tuple(delivery_fact.c[name] for name in Told.__dataclass_fields__)
_ACCESS = tuple(operator_access.c[name] for name in Access.__dataclass_fields__)


class Histories(Transactions):
    """What support looks at."""

    def histories(self, word: str) -> list[History]:
        """The mails that this word names, oldest first; usually one, or one for each recipient of an event."""
        names = [word] if word.startswith("<") else [word, f"<{word}>"]
        wanted = [
            _row.dedupe_key == word,
            _row.idempotency_key == word,
            _row.provider_id == word,
            _row.message_id.in_(names),
        ]
        number = word.removeprefix("#")
        if number.isascii() and number.isdigit() and len(number) < 19:
            wanted.append(_row.id == int(number))
        with self._read() as connection:
            rows = connection.execute(select(*_COLUMNS).where(or_(*wanted)).order_by(_row.id)).all()
            ids = [row.id for row in rows]
            tried = _by_mail(connection, email_attempt.c.email_id, _TRIED, email_attempt.c.id, ids)
            told = _by_mail(connection, delivery_fact.c.email_id, _TOLD, delivery_fact.c.id, ids)
            seen = _by_mail(connection, operator_access.c.email_id, _ACCESS, operator_access.c.id, ids)
        return [
            History(
                key=row.dedupe_key,
                tried=tuple(Tried(**each) for each in tried[row.id]),
                told=tuple(Told(**each) for each in told[row.id]),
                accesses=tuple(Access(**each) for each in seen[row.id]),
                **{name: row._mapping[name] for name in _FACTS},
            )
            for row in rows
        ]


def _by_mail(
    connection: Connection, mail: Any, columns: Sequence[Any], order: Any, ids: Sequence[int]
) -> defaultdict[int, list[dict[str, Any]]]:
    found: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    if ids:
        query = select(mail.label("of_mail"), *columns).where(mail.in_(ids)).order_by(order)
        for row in connection.execute(query):
            facts = dict(row._mapping)
            found[facts.pop("of_mail")].append(facts)
    return found
