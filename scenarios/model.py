"""The outbox protocol as a small explicit-state model, searched exhaustively and shortest path first.

One obligation, two workers, crashes anywhere, leases that may run out at any moment (an arbitrarily slow
worker), lost and late requests, lost replies, keys that expire, look-ups that lag. The model is the design
without the code: what it must violate, it must violate, or the variant proves nothing. No I/O, no time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Policy(StrEnum):
    """What a sender does with a row whose outcome nobody knows."""

    RESEND = "resend"
    """Send again: with the same key where there is one, hoping otherwise (at-least-once)."""
    PARK = "park"
    """Park whenever a lease was lost or an answer is missing (at-most-once)."""
    MARK = "mark and park"
    """Commit a doubt marker at the point of no return; park only behind it (at-most-once)."""
    LOOK_UP = "look up"
    """Park, then ask the provider; resend on a negative answer."""


class Violation(StrEnum):
    """What a search can find; `PARKED` is none, but worth counting."""

    DUPLICATED = "duplicated"
    LOST = "lost"
    MISREPORTED = "misreported"
    STUCK = "stuck"
    PARKED = "parked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A sender's design on a provider's ability."""

    id: str
    policy: Policy
    keys: bool
    """The provider honours idempotency keys."""
    keys_expire: bool = False
    validates_first: bool = False
    """The provider may refuse a repeated request before it looks up the key."""
    fenced: bool = True
    """Results are written only by the owner of the attempt's token."""
    marker_fenced: bool = True
    doubt_survives_refusal: bool = True
    """A refusal after doubt leaves the row unknown instead of failed."""
    patient: bool = True
    """A negative look-up counts only when no request can be under way and the look-up's lag is over."""
    may_violate: frozenset[Violation] = frozenset()
    """What this variant must be found guilty of: exactly this, no more and no less."""


class Row(NamedTuple):
    status: str
    token: int
    doubt: bool


class Worker(NamedTuple):
    at: str
    token: int
    heard: str


class State(NamedTuple):
    row: Row
    workers: tuple[Worker, ...]
    accepted: int
    key_known: bool
    refused: bool
    """A definite refusal was given."""
    under_way: int
    """Requests that were given up and may still be accepted late."""
    shown: int
    """Acceptances that a look-up shows."""
    crashes: int
    faults: int


IDLE = Worker("idle", 0, "")
FINAL = frozenset({"accepted", "failed", "unknown"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much may go wrong in one run."""

    crashes: int = 2
    faults: int = 2
    attempts: int = 4
    workers: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a search found: how many states, and the shortest path to each violation."""

    states: int
    found: dict[Violation, tuple[str, ...]]

    @property
    def violations(self) -> frozenset[Violation]:
        return frozenset(self.found) - {Violation.PARKED}


def search(variant: Variant, budget: Budget = Budget()) -> Result:
    """Visit every reachable state, breadth first, so that each counterexample is a shortest one."""
    start = State(
        Row("pending", 0, False),
        (IDLE,) * budget.workers,
        0,
        False,
        False,
        0,
        0,
        budget.crashes,
        budget.faults,
    )
    came_from: dict[State, tuple[State, str] | None] = {start: None}
    leads_to: dict[State, list[State]] = {}
    found: dict[Violation, State] = {}
    queue = deque([start])
    while queue:
        state = queue.popleft()
        leads_to[state] = []
        for violation in _violations(state, variant):
            found.setdefault(violation, state)
        for label, after in _moves(state, variant, budget):
            leads_to[state].append(after)
            if after not in came_from:
                came_from[after] = (state, label)
                queue.append(after)
    for state in _stuck(leads_to, variant, budget):
        found.setdefault(Violation.STUCK, state)
    return Result(
        states=len(came_from),
        found={violation: _path(state, came_from) for violation, state in found.items()},
    )


def _moves(state: State, variant: Variant, budget: Budget) -> Iterator[tuple[str, State]]:
    for number, worker in enumerate(state.workers):
        yield from _worker_moves(state, number, worker, variant, budget)
    if state.under_way:
        # The provider was slow, not deaf: what the sender gave up may be accepted now.
        yield (
            "provider: a late request is accepted",
            _accept(state, variant)._replace(under_way=state.under_way - 1),
        )
        yield "provider: a late request is lost", state._replace(under_way=state.under_way - 1)
    if variant.policy is Policy.LOOK_UP:
        if state.shown < state.accepted:
            yield "provider: the look-up catches up", state._replace(shown=state.accepted)
        yield from _look_up(state, variant, budget)


def _worker_moves(
    state: State, number: int, worker: Worker, variant: Variant, budget: Budget
) -> Iterator[tuple[str, State]]:
    name = f"worker {number + 1}"
    row = state.row

    def at(after: Worker, **changes: object) -> State:
        workers = (*state.workers[:number], after, *state.workers[number + 1 :])
        return state._replace(workers=workers, **changes)  # type: ignore[arg-type] # fields of State by name

    match worker.at:
        case "idle":
            if row.status not in ("pending", "sending", "marked") or row.token >= budget.attempts:
                return
            expired = row.status != "pending"
            parks = expired and (
                variant.policy in (Policy.PARK, Policy.LOOK_UP)
                or (variant.policy is Policy.MARK and row.status == "marked")
            )
            if parks:
                yield f"{name}: lease run out, parks", at(IDLE, row=Row("unknown", row.token + 1, True))
            else:
                token = row.token + 1
                # Behind a marker-less crash nothing was sent, if a marker would have been committed first.
                doubt = row.doubt or (expired and variant.policy is not Policy.MARK)
                yield (
                    f"{name}: claims{', lease run out' if expired else ''}",
                    at(Worker("claimed", token, ""), row=Row("sending", token, doubt)),
                )
        case "claimed":
            if variant.policy is not Policy.MARK:
                yield f"{name}: begins to send", at(Worker("sending", worker.token, ""))
            elif not variant.marker_fenced or row.token == worker.token:
                yield (
                    f"{name}: commits the doubt marker",
                    at(Worker("sending", worker.token, ""), row=Row("marked", row.token, row.doubt)),
                )
            else:
                yield f"{name}: fenced off before the marker", at(IDLE)
        case "sending":
            yield from _provider_moves(state, name, worker, variant, at)
        case "heard":
            after = _row_after(row, worker, variant)
            if not variant.fenced or row.token == worker.token:
                yield f"{name}: commits {after.status}", at(IDLE, row=after)
            else:
                yield f"{name}: its result is fenced off", at(IDLE)
    if worker.at != "idle" and state.crashes:
        under_way = state.under_way + (1 if worker.at == "sending" and state.faults else 0)
        yield (
            f"{name}: kill -9 while {worker.at}",
            at(
                IDLE,
                crashes=state.crashes - 1,
                under_way=under_way if worker.at == "sending" else state.under_way,
            ),
        )


def _provider_moves(
    state: State, name: str, worker: Worker, variant: Variant, at: object
) -> Iterator[tuple[str, State]]:
    assert callable(at)
    known = variant.keys and state.key_known

    def hears(what: str) -> Worker:
        return Worker("heard", worker.token, what)

    def booked(what: str, **changes: int) -> State:
        after = _accept(state, variant)
        moved: State = at(hears(what), accepted=after.accepted, key_known=after.key_known, **changes)
        return moved

    yield f"provider to {name}: accepts{' (replay)' if known else ''}, says so", booked("yes")
    if not state.faults:
        return
    left = state.faults - 1
    yield (
        f"provider to {name}: accepts{' (replay)' if known else ''}, answer lost",
        booked("nothing", faults=left),
    )
    yield f"provider to {name}: request lost", at(hears("nothing"), faults=left)
    yield (
        f"provider to {name}: slow, the sender gives up",
        at(hears("nothing"), faults=left, under_way=state.under_way + 1),
    )
    yield f"provider to {name}: try later", at(hears("later"), faults=left)
    if not known or variant.validates_first:
        yield f"provider to {name}: refuses", at(hears("no"), faults=left, refused=True)
    if known and variant.keys_expire:
        yield (
            f"provider to {name}: forgot the key, accepts again",
            at(hears("yes"), faults=left, accepted=state.accepted + 1),
        )


def _accept(state: State, variant: Variant) -> State:
    if variant.keys and state.key_known:
        return state
    return state._replace(accepted=state.accepted + 1, key_known=True)


def _row_after(row: Row, worker: Worker, variant: Variant) -> Row:
    doubt = row.doubt or worker.heard == "nothing"
    match worker.heard:
        case "yes":
            status = "accepted"
        case "later":
            # A definite "not now" says nothing about an earlier attempt.
            status = "unknown" if row.doubt and variant.policy in (Policy.PARK, Policy.LOOK_UP) else "pending"
        case "no":
            status = "unknown" if doubt and variant.doubt_survives_refusal else "failed"
        case _:
            status = "pending" if variant.policy is Policy.RESEND else "unknown"
    return Row(status, row.token, doubt)


def _look_up(state: State, variant: Variant, budget: Budget) -> Iterator[tuple[str, State]]:
    row = state.row
    if row.status != "unknown":
        return
    if state.shown:
        yield "reconciler: found, accepted", state._replace(row=Row("accepted", row.token, row.doubt))
        return
    waited = (
        not state.under_way and state.shown == state.accepted and all(w.at == "idle" for w in state.workers)
    )
    if (waited or not variant.patient) and row.token < budget.attempts:
        # Whatever was sent is settled now, so the next attempt begins without doubt.
        yield "reconciler: not found, sends again", state._replace(row=Row("pending", row.token, False))


def _violations(state: State, variant: Variant) -> Iterator[Violation]:
    if state.accepted > 1:
        yield Violation.DUPLICATED
    if any(worker.at != "idle" for worker in state.workers) or state.under_way:
        return
    match state.row.status:
        case "accepted" if not state.accepted:
            yield Violation.LOST
        case "failed" if state.accepted:
            yield Violation.MISREPORTED
        case "failed" if not state.refused:
            yield Violation.LOST
        case "unknown":
            yield Violation.PARKED


def _stuck(leads_to: dict[State, list[State]], variant: Variant, budget: Budget) -> list[State]:
    """From every state with attempts left, an end must be reachable without any further trouble."""
    comes_from: dict[State, list[State]] = {}
    for state, afters in leads_to.items():
        for after in afters:
            comes_from.setdefault(after, []).append(state)
    good = {state for state in leads_to if state.row.status in FINAL}
    queue = deque(good)
    while queue:
        for before in comes_from.get(queue.popleft(), ()):
            if before not in good:
                good.add(before)
                queue.append(before)
    return [state for state in leads_to if state not in good and state.row.token < budget.attempts]


def _path(state: State, came_from: dict[State, tuple[State, str] | None]) -> tuple[str, ...]:
    steps: list[str] = []
    while (before := came_from[state]) is not None:
        state, label = before
        steps.append(label)
    return tuple(reversed(steps))


_DUPLICATED = frozenset({Violation.DUPLICATED})

#: Every design worth an argument, with what it must be guilty of.
VARIANTS: tuple[Variant, ...] = (
    Variant(id="keys-honoured", policy=Policy.RESEND, keys=True),
    Variant(id="keys-honoured-unfenced", policy=Policy.RESEND, keys=True, fenced=False),
    Variant(id="keys-expire", policy=Policy.RESEND, keys=True, keys_expire=True, may_violate=_DUPLICATED),
    Variant(
        id="refusal-after-doubt-believed",
        policy=Policy.RESEND,
        keys=True,
        validates_first=True,
        doubt_survives_refusal=False,
        may_violate=frozenset({Violation.MISREPORTED}),
    ),
    Variant(id="refusal-after-doubt-unknown", policy=Policy.RESEND, keys=True, validates_first=True),
    Variant(id="no-keys-at-least-once", policy=Policy.RESEND, keys=False, may_violate=_DUPLICATED),
    Variant(id="no-keys-park", policy=Policy.PARK, keys=False),
    Variant(id="no-keys-marker", policy=Policy.MARK, keys=False),
    Variant(
        id="no-keys-marker-unfenced",
        policy=Policy.MARK,
        keys=False,
        marker_fenced=False,
        # Both workers believe they may send; the second one's refusal then hides the first one's success.
        may_violate=_DUPLICATED | {Violation.MISREPORTED},
    ),
    Variant(id="look-up-patient", policy=Policy.LOOK_UP, keys=False),
    Variant(
        id="look-up-hasty",
        policy=Policy.LOOK_UP,
        keys=False,
        patient=False,
        # "Not found yet" is taken for "not there": sent again, or its refusal believed.
        may_violate=_DUPLICATED | {Violation.MISREPORTED},
    ),
    Variant(id="look-up-with-keys", policy=Policy.LOOK_UP, keys=True, keys_expire=True),
)
