"""How full the queue is, and whether there is room for one more.

Counting is not free, so it is done once in a while and only for classes that may be refused: the cap is a bound for
memory and disks, not for accountants.
Must not hold: which class is refused first (`policy.classes`).
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import Connection, bindparam, func, select

from reference_sender.life import State
from reference_sender.outbox.rows import in_state
from reference_sender.outbox.schema import outgoing_email
from reference_sender.policy.classes import MailClass, check_room, most_waiting

#: So long a count is good for, in seconds.
COUNT_S = 1.0

# Never counts further than it must: what is beyond the cap looks all the same.
_WAITING = select(func.count()).select_from(
    select(outgoing_email.c.id).where(in_state(State.PENDING)).limit(bindparam("most")).subquery()
)


class QueueCap:
    """So many mails may wait. One for a process; each enqueue is given it."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._waiting = 0
        self._counted_at: datetime | None = None

    def check(self, connection: Connection, mail_class: MailClass, now: datetime) -> None:
        """Raise `QueueFull` if there is no room for one more of this class; else count it in."""
        if most_waiting(mail_class, self.most) is not None:
            last = self._counted_at
            if last is None or not timedelta() <= now - last < timedelta(seconds=COUNT_S):
                self._waiting = connection.execute(_WAITING, {"most": self.most}).scalar_one()
                self._counted_at = now
            check_room(mail_class, self._waiting, self.most)
        self._waiting += 1
