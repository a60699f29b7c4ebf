"""What is demanded where mails know of each other, or not always go: order, dependency, superseding, suppression, expiry. Pure.

The usual questions are about each mail by itself. A mail that must not go is not lost, and one that went too soon was
delivered all the same: what is right here follows from what the application said at enqueue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from scenarios import gate
from scenarios.checks import Finding, ended_by_refusal
from scenarios.history import History
from simulator.provider.obligations import ENDED_UNSENT, Reported

#: Kinds of findings that only worlds of such shapes know.
KINDS = frozenset({"out of order", "too soon", "superseded and sent", "suppressed and sent", *gate.KINDS})


class Owed(Protocol):
    """A mail and what was said of it, as far as we need it."""

    @property
    def ref(self) -> str: ...

    @property
    def recipients(self) -> tuple[str, ...]: ...

    @property
    def manner(self) -> tuple[tuple[str, str], ...]: ...

    @property
    def suppressed(self) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Seen:
    """When a mail was tried and accepted, as places in the order of all attempts: moments may be the same."""

    owed: Owed
    tried: tuple[int, ...]
    accepted: tuple[int, ...]

    def says(self, name: str) -> str | None:
        return dict(self.owed.manner).get(name)

    def wrong(self, kind: str, sentence: str) -> Finding:
        return Finding(kind=kind, ref=self.owed.ref, recipient=self.owed.recipients[0], sentence=sentence)


def judged(
    owed: Sequence[Owed],
    history: History,
    findings: Iterable[Finding],
    ends: Mapping[str, datetime] | None = None,
) -> list[Finding]:
    """The findings of a world, without blame for mails that rightly did not go, and with what such mails add.

    `ends`: by ref, when a mail is not worth sending any more; all of these moments are over by now.
    """
    seen = [_seen(each, history) for each in owed]
    over = {each: ends[each.owed.ref] for each in seen if ends and each.owed.ref in ends}
    rightly = [*_rightly_unsent(seen), *_rightly_over(over, history)]
    spared = {recipient.lower() for each in rightly for recipient in each.owed.recipients}
    kept = [each for each in findings if each.kind != "given up" or each.recipient.lower() not in spared]
    kept += [finding for each in _QUESTIONS for finding in each(seen)]
    return kept + [
        finding
        for each, ends_at in over.items()
        for recipient in each.owed.recipients
        for finding in (
            *gate.overdue(history, recipient, ends_at=ends_at),
            *_ended_otherwise(each, history, recipient),
        )
    ]


def _seen(owed: Owed, history: History) -> _Seen:
    concerning = [
        (place, each)
        for place, each in enumerate(history.attempts)
        if any(each.concerns(recipient) for recipient in owed.recipients)
    ]
    return _Seen(
        owed=owed,
        tried=tuple(place for place, _ in concerning),
        accepted=tuple(place for place, each in concerning if each.accepted),
    )


def _pairs(seen: Sequence[_Seen], name: str) -> Iterator[tuple[_Seen, _Seen]]:
    """Every (earlier, later) that say the same of this."""
    for number, earlier in enumerate(seen):
        for later in seen[number + 1 :]:
            if earlier.says(name) is not None and earlier.says(name) == later.says(name):
                yield earlier, later


def _rightly_unsent(seen: Sequence[_Seen]) -> Iterator[_Seen]:
    yield from (earlier for earlier, _ in _pairs(seen, "slot"))
    yield from (each for each in seen if each.owed.suppressed)
    accepted = {each.owed.ref for each in seen if each.accepted}
    yield from (each for each in seen if (needed := each.says("depends_on")) and needed not in accepted)


def _rightly_over(over: Mapping[_Seen, datetime], history: History) -> Iterator[_Seen]:
    """Somebody came while it was worth it, or was killed and could not: who never tried let it lie."""
    for each, ends_at in over.items():
        if history.crashes or any(history.attempts[place].opened_at < ends_at for place in each.tried):
            yield each


def _ended_otherwise(seen: _Seen, history: History, recipient: str) -> Iterator[Finding]:
    """Its time was over and nobody took it or refused it for good, and the sender does not call it expired."""
    state = history.state_of(recipient)
    if history.copies_for(recipient) or state is Reported.EXPIRED:
        return
    if state in ENDED_UNSENT and ended_by_refusal(history, recipient):
        return
    told = state.value if state else "nothing"
    yield seen.wrong("misreported", f"its time was over, and it is reported as {told}")


def _out_of_order(seen: Sequence[_Seen]) -> Iterator[Finding]:
    """Of one ordering key, a later mail was tried before an earlier one was done with."""
    for earlier, later in _pairs(seen, "ordering_key"):
        if later.tried and earlier.tried and later.tried[0] < earlier.tried[-1]:
            yield later.wrong("out of order", f"tried before {earlier.owed.ref} was done with")


def _too_soon(seen: Sequence[_Seen]) -> Iterator[Finding]:
    """A mail was tried before the one that it depends on was accepted."""
    by_ref = {each.owed.ref: each for each in seen}
    for each in seen:
        needed = by_ref.get(each.says("depends_on") or "")
        if needed is None or not each.tried:
            continue
        if not needed.accepted or each.tried[0] < needed.accepted[0]:
            yield each.wrong("too soon", f"tried before {needed.owed.ref} was accepted")


def _superseded(seen: Sequence[_Seen]) -> Iterator[Finding]:
    """A mail was tried although a newer one had taken its place before any worker started."""
    for earlier, later in _pairs(seen, "slot"):
        if earlier.tried:
            yield earlier.wrong("superseded and sent", f"tried although {later.owed.ref} is newer")


def _suppressed(seen: Sequence[_Seen]) -> Iterator[Finding]:
    """A mail was tried although its recipient had been put onto the list after the enqueue."""
    for each in seen:
        if each.owed.suppressed and each.tried:
            yield each.wrong("suppressed and sent", "tried although its recipient must not be written to")


_QUESTIONS = (_out_of_order, _too_soon, _superseded, _suppressed)
