"""Company: the mails in the hands of all workers of one process, which would be lost together.

A suspect (`policy.suspects`) goes alone. Whoever has seen one goes first as soon as all hands are empty, and claims it;
until then, and until it has come to its end or its time alone is over, nobody claims anything. Then the others have their
turn: where there is other mail, a claim of that comes before each suspect, so however many there are, they hold up nobody
for longer than one attempt, and one that hangs for no longer than its time alone. One suspect is out at a time.
Must not hold: which mails are suspects, claims.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Protocol

from reference_sender.clock import Alarm, Clock
from reference_sender.life import Docket
from reference_sender.policy.suspects import Suspects, alone_for_s


class Member(Protocol):
    """What is asked of a worker."""

    @property
    def in_flight(self) -> int:
        """How many mails are in its hands."""
        ...

    def wake(self) -> None:
        """Let it look for mail now."""
        ...


class Company:
    """The workers of one process; all in one loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._members: list[Member] = []
        self._claims = 0
        """Claims that are under way: what they take is in nobody's hands yet."""
        self._first: Member | None = None
        """Has seen a suspect, and goes first."""
        self._is_alone = False
        """A suspect is out and nobody may go beside it, or a claim is under way that may take one."""
        self._out: tuple[int, int] | None = None
        """The suspect that is out, by id and token; alone or not."""
        self._alarm: Alarm | None = None
        """Rings when its time alone is over."""

    def join(self, member: Member) -> None:
        """One more is lost with the others."""
        self._members.append(member)

    def lets(self, member: Member) -> bool:
        """Whether this one may claim now."""
        if self._is_alone and self._is_busy:
            return False
        return self._out is not None or self._first is None or (self._first is member and not self._is_busy)

    @contextmanager
    def claiming(self, member: Member) -> Iterator[Suspects]:
        """A claim of this one; what it takes must be in its hands before it awaits anything else."""
        first = self._first is member and not self._is_busy
        # Who is by himself need not wait for his turn: nobody claims meanwhile.
        by_itself = len(self._members) == 1 and not self._is_busy
        asked = Suspects(may_take=first or by_itself, first=first, beside=self._out is not None)
        self._is_alone = asked.may_take
        self._claims += 1
        try:
            yield asked
        except BaseException:
            asked.begin()  # it was rolled back
            raise
        finally:
            self._claims -= 1
            self._end(member, asked)

    def _end(self, member: Member, asked: Suspects) -> None:
        self._is_alone = asked.taken
        if asked.first:
            self._first = None
            if not asked.taken:
                # Somebody else has it by now. Who was held up need not be.
                self._wake(each for each in self._members if each is not member)
        elif asked.waits and self._first is None:
            self._first = member

    def took(self, mails: Sequence[Docket], *, alone_s: float) -> None:
        """A claim has ended, and this is in somebody's hands now. A suspect among it goes alone for so many seconds, or more."""
        if self._is_alone and mails:
            (suspect,) = mails
            self._out = suspect.id, suspect.token
            after_s = alone_for_s(suspect.losses, alone_s)
            self._alarm = self._clock.alarm(after_s, partial(self._let_others_in, self._out))
        self._moved()

    def left(self, mail: Docket) -> None:
        """This one has left somebody's hands: see whether anybody waited for that."""
        if self._out == (mail.id, mail.token):
            self._out = None
            if self._alarm is not None:
                self._alarm.cancel()
        self._moved()

    def _let_others_in(self, suspect: tuple[int, int]) -> None:
        if self._out == suspect:
            self._is_alone = False
            self._wake(iter(self._members))

    def _moved(self) -> None:
        if self._is_busy or not (self._is_alone or self._first):
            return
        self._is_alone = False
        self._wake(iter(self._members) if self._first is None else iter((self._first,)))

    @staticmethod
    def _wake(members: Iterator[Member]) -> None:
        for each in members:
            each.wake()

    @property
    def _is_busy(self) -> bool:
        return self._claims > 0 or any(each.in_flight for each in self._members)
