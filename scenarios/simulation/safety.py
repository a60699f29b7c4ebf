"""What must hold of a run after every step, whatever may still happen; and what its judge must allow for.

Nothing here does anything to a world.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta

from reference_sender import life
from reference_sender.life import State
from scenarios import checks
from scenarios.checks import Finding
from scenarios.history import History
from scenarios.simulation import promised
from scenarios.simulation.evidence import history_of
from scenarios.simulation.processes import Process
from scenarios.simulation.profiles import Profile
from scenarios.simulation.promised import Blur, Promised
from scenarios.simulation.schedule import FREEZE_S, PARTITION_S, SKEW_S
from scenarios.simulation.senders import Owed, ReferenceSender, WorldSender
from scenarios.simulation.timeline import Recorder
from scenarios.simulation.world import BEGIN, World
from simulator.provider.obligations import Obligation, Reported
from simulator.provider.provider import DEFAULT_ACCOUNT


@dataclass(slots=True, kw_only=True)
class Done:
    """What was done to a world so far, as far as whoever judges it must know."""

    owed: dict[tuple[str, str], Owed] = field(default_factory=dict)
    """(ref, recipient) of what is committed, and by which mail."""
    mails: dict[int, Promised] = field(default_factory=dict)
    """By number, in the order of their commits."""
    by_hand: set[str] = field(default_factory=set)
    """Refs that a person has moved: attempts after a refusal are right then."""
    partitions: list[tuple[float, float]] = field(default_factory=list)
    """From when to when, in seconds of the world."""
    frozen: set[Process] = field(default_factory=set)
    """Who was stopped for a while."""

    def unheard(self, history: History, deaths: Iterable[tuple[float, str, str]]) -> int:
        """How many answers may have gone unheard or unstored although the provider gave them in full."""
        names = [name for _, name, _ in deaths]
        died = sum(name.startswith("worker") for name in names)
        # With a provider the memory of what it said last is gone, too.
        died += 4 * names.count("provider")
        cut_off = 0
        for begin, end in self.partitions:
            start, stop = BEGIN + timedelta(seconds=begin), BEGIN + timedelta(seconds=end)
            cut_off += sum(
                each.opened_at <= stop and (each.closed_at is None or each.closed_at >= start)
                for each in history.attempts
            )
        return died + cut_off + 4 * len(self.frozen)


class Safety:
    """Looks at a world between two steps."""

    def __init__(
        self, world: World, sender: WorldSender, profile: Profile, done: Done, recorder: Recorder
    ) -> None:
        self._world = world
        self._sender = sender
        self._profile = profile
        self._done = done
        self._recorder = recorder
        self._checked = 0

    def history(self) -> History:
        """What a judge may know just now."""
        said = self._sender.said()
        history = history_of(self._world, said)
        states = {(each.key, each.recipient): each.state for each in said}
        history = dataclasses.replace(
            history,
            obligations=tuple(
                Obligation(account=DEFAULT_ACCOUNT, ref=ref, recipient=to, state=states.get((ref, to)))
                for ref, to in self._done.owed
            ),
        )
        return dataclasses.replace(history, crashes=self._done.unheard(history, self._world.deaths))

    def unsafe(self) -> list[Finding]:
        """Return what is broken just now, whatever may still happen."""
        history = self.history()
        findings = [
            *checks.duplicated(history, self._profile.policy),
            *checks.unlike_copies(history, self._profile.policy),
            *checks.phantom(history),
            *checks.misdirected(history),
            *checks.misreported(history),
            *self._rows_gone(history),
            *self._moves(),
        ]
        if not any(name == "provider" for _, name, _ in self._world.deaths):
            findings += checks.failed_without_refusal(history)
        findings += checks.again_after_acceptance(history)
        findings += promised.judged([*self._done.mails.values()], history, self._done.by_hand, self._blur())
        for ref, recipient in self._done.owed:
            findings += checks.changed_identity(history, recipient)
            findings += checks.changed_bytes(history, recipient)
            if ref not in self._done.by_hand:
                findings += checks.again_after_refusal(history, [recipient])
        return findings + [
            Finding(kind="uncaught", recipient="", sentence=each) for each in self._world.complaints
        ]

    def _blur(self) -> Blur:
        """What was done to this world that a judge of moments must allow for."""
        held_up_s = (FREEZE_S if self._done.frozen else 0.0) + (PARTITION_S if self._done.partitions else 0.0)
        return Blur(
            now=self._world.clock.now(),
            skew_s=SKEW_S,
            held_up_s=held_up_s,
            is_calm=not (self._done.frozen or self._done.partitions or self._world.deaths),
            is_heard=self._profile.hears,
        )

    def _rows_gone(self, history: History) -> Iterator[Finding]:
        """A committed promise is in the outbox."""
        said = {(each.key, each.recipient) for each in history.said}
        for ref, recipient in self._done.owed:
            if (ref, recipient) not in said:
                sentence = "promised by a committed transaction, and not in the outbox"
                yield Finding(kind="lost", ref=ref, recipient=recipient, sentence=sentence)

    def _moves(self) -> Iterator[Finding]:
        """States change along the sender's own table only; of a sender without one, what has ended stays so."""
        changes = self._recorder.changes[self._checked :]
        self._checked = len(self._recorder.changes)
        for change in changes:
            if not _may(change.who, change.before, change.after, isinstance(self._sender, ReferenceSender)):
                yield Finding(
                    kind="illegal move",
                    ref=change.key,
                    recipient=change.recipient,
                    sentence=f"{change.who} moved it from {change.before} to {change.after}",
                )


def _may(who: str, before: str | None, after: str | None, has_table: bool) -> bool:
    if before is None:
        return after == Reported.PENDING.value
    if after is None:
        return False
    if not has_table:
        return before not in (Reported.ACCEPTED.value, Reported.EXPIRED.value, Reported.SUPPRESSED.value)
    actors = life.MOVES.get((State(before), State(after)), {})
    if before == after:
        return True
    return bool(actors) if who == "operator" else bool(set(actors) - {life.Actor.PERSON})
