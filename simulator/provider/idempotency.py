"""Idempotency keys as a provider keeps them (draft-ietf-httpapi-idempotency-key-header-07, section 2).

A key is *in flight* from the request's acceptance check until its end, then *done* with what it led to, until its
window has passed. Services differ in what a second request with the key meets: `WAYS` is the table of all of it.
A provider that does not honour keys never looks here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from simulator.provider.acceptance import Acceptance
from simulator.provider.answer import Reason, Words
from simulator.provider.ledger import Ledger, number_of

#: Where a key is looked for.
CARRIERS = ("header", "body", "either")
#: How a key in a header must be written: `quoted` is a String of RFC 9651, in double quotes, as the draft has it.
FORMS = ("any", "quoted")


class Does(StrEnum):
    """What becomes of a request whose key is not new."""

    GO = "go on as if the key were new"
    REPLAY = "give the first answer again"
    REFUSE = "refuse"
    WAIT = "wait for the first request to end, then look again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One cell of the table. `code` is the HTTP status of a refusal."""

    does: Does
    reason: Reason | None = None
    code: int | None = None
    detail: str = ""
    shows_id: bool = True
    tells_wait: bool = False


def _outstanding(does: Does, *, tells_wait: bool = False) -> Way:
    detail = "a request with this idempotency key is still being processed"
    return Way(does=does, reason=Reason.KEY_IN_FLIGHT, code=409, detail=detail, tells_wait=tells_wait)


def _other_body(code: int) -> Way:
    detail = "this idempotency key was used before with another request body"
    return Way(does=Does.REFUSE, reason=Reason.KEY_REUSED, code=code, detail=detail)


#: Situation -> setting -> what a second request with the key meets. The names are those of `KeyRules`.
WAYS: Mapping[str, Mapping[str, Way]] = {
    # The first request is finished, and the body is the same.
    "finished": {
        "replay": Way(does=Does.REPLAY),
        "without_id": Way(does=Does.REPLAY, shows_id=False),
        "conflict": Way(
            does=Does.REFUSE,
            reason=Reason.KEY_DONE,
            code=409,
            detail="the request with this idempotency key has been processed already",
        ),
    },
    # The key is known with another body. `replay` is a service that compares no bodies: the second mail is lost.
    "reused": {
        "unprocessable": _other_body(422),
        "conflict": _other_body(409),
        "replay": Way(does=Does.REPLAY),
    },
    # The first request is still being processed. `process` is a service without a lock: both are taken.
    "in_flight": {
        "conflict": _outstanding(Does.REFUSE),
        "retry_after": _outstanding(Does.REFUSE, tells_wait=True),
        "wait": _outstanding(Does.WAIT, tells_wait=True),
        "process": Way(does=Does.GO),
    },
    # The first request was answered with an error from stage `accept` on, and nothing was booked.
    "failed": {
        "release": Way(does=Does.GO),
        "replay": Way(does=Does.REPLAY),
        "refuse": Way(
            does=Does.REFUSE,
            reason=Reason.KEY_FAILED,
            code=412,
            detail="the request with this idempotency key failed; repeat it with another key",
        ),
    },
    # The first request was booked, and answered with an error all the same. `release` leads to a duplicate.
    "lied": {
        "replay_yes": Way(does=Does.REPLAY),
        "replay_error": Way(does=Does.REPLAY),
        "release": Way(does=Does.GO),
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRules:
    """How this provider treats keys."""

    honoured: bool = True
    required: bool = False
    window_s: float = 86_400.0
    """How long a key is remembered after its first use, in seconds."""
    lookup_lag_s: float = 0.0
    """How long after an acceptance a look-up by id, key or Message-ID does not show it yet, in seconds."""
    carrier: str = "header"
    """One of `CARRIERS`."""
    header: str = ""
    """The name of the header; empty: each path has a usual one."""
    body_field: str = "idempotency_key"
    """The member of the JSON body; a dot leads into an object (`headers.idempotencyKey`)."""
    form: str = "any"
    """One of `FORMS`."""
    max_chars: int = 255
    replay_header: str = "Idempotency-Replayed"
    """The header that marks a replay (its value is `true`); empty: replays are not marked."""
    finished: str = "replay"
    reused: str = "unprocessable"
    in_flight: str = "conflict"
    in_flight_s: float = 1.0
    """What `retry_after` tells, and how long `wait` waits at most, in seconds."""
    failed: str = "release"
    lied: str = "replay_yes"


# --- what a look-up of a key finds ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fresh:
    """The key is new (or forgotten, or free again): go on."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The key is done: give the first answer again. Either an acceptance says what it was, or stored words do."""

    acceptance: Acceptance | None = None
    words: Words | None = None
    shows_id: bool = True


@dataclass(frozen=True, slots=True)
class Conflict:
    """The key cannot be used for this request."""

    reason: Reason
    detail: str
    code: int | None = None
    wait_s: float | None = None
    """What is told as Retry-After."""


@dataclass(frozen=True, slots=True)
class Outstanding:
    """The first request is still being processed; this one waits for `for_s` at most, then meets `conflict`."""

    for_s: float
    conflict: Conflict


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What a key remembers where an acceptance alone does not say it: an error, a batch, or that it is free again."""

    fingerprint: str
    at: datetime
    attempt: str
    words: Words | None
    """None: the key was released."""
    failed: bool = False
    """Nothing was booked."""


# --- the keys of one account ------------------------------------------------------------------------


#: So many keys remember something besides acceptances; of more, the oldest are forgotten.
KEPT = 50_000


@dataclass(slots=True)
class Keys:
    """The keys of one account: two accounts with the same key do not meet.

    What a key has led to stands in the ledger; only what the ledger does not say is kept here.
    """

    ledger: Ledger = field(default_factory=Ledger)
    _kept: dict[str, Kept] = field(default_factory=dict)
    _in_flight: dict[str, tuple[str, str]] = field(default_factory=dict)
    _claims: dict[str, list[str]] = field(default_factory=dict)
    """By attempt: the keys that it goes on with, most of them in flight as its own."""

    def look_up(
        self, key: str, fingerprint: str, attempt: str, rules: KeyRules, now: datetime
    ) -> Fresh | Replay | Conflict | Outstanding:
        """Say what a request of `attempt` with this key is."""
        flight = self._in_flight.get(key)
        if flight is None:
            done = self._kept.get(key) or self.ledger.latest_with_key(key)
            # One whose window is over is kept all the same: a longer window set later must find it, as after a restart.
            if done is not None and now < _at(done) + timedelta(seconds=rules.window_s):
                return _found(done, fingerprint, rules)
            return Fresh()
        # Before what the ledger says: a batch that is still going on has booked some of its mails already.
        if flight[0] == attempt:
            return Fresh()
        way = WAYS["in_flight"][rules.in_flight]
        if way.does is Does.GO:
            return Fresh()
        conflict = _conflict(way, rules)
        return Outstanding(rules.in_flight_s, conflict) if way.does is Does.WAIT else conflict

    def is_in_flight(self, key: str) -> bool:
        """Tell whether a request with this key is being processed."""
        return key in self._in_flight

    def is_let_through(self, key: str, attempt: str, rules: KeyRules) -> bool:
        """Tell whether this attempt goes on whatever others with the key have come to since it began."""
        return WAYS["in_flight"][rules.in_flight].does is Does.GO and key in self._claims.get(attempt, ())

    def begin(self, key: str, fingerprint: str, attempt: str) -> None:
        """Mark a key as in flight for this attempt, unless it is so for another one that this one goes on beside."""
        self._in_flight.setdefault(key, (attempt, fingerprint))
        self._claims.setdefault(attempt, []).append(key)

    def finish(self, key: str) -> None:
        """A key has led to an acceptance, which the ledger has by now."""
        self._in_flight.pop(key, None)
        self._kept.pop(key, None)

    def keep(self, key: str, kept: Kept) -> None:
        """Let a key remember this, whatever it knew before."""
        self._in_flight.pop(key, None)
        self._kept.pop(key, None)
        self._kept[key] = kept
        if len(self._kept) > KEPT:
            del self._kept[next(iter(self._kept))]

    def failed(self, key: str, kept: Kept, rules: KeyRules) -> bool:
        """A request ended with an error and nothing was booked: tell whether its key remembers that."""
        if WAYS["failed"][rules.failed].does is Does.GO:
            return False
        if not isinstance(self.look_up(key, kept.fingerprint, kept.attempt, rules, kept.at), Fresh):
            return False  # It is another request's key.
        self.keep(key, kept)
        return True

    def recall(self, key: str, done: Acceptance | Kept) -> None:
        """Take up what a former process knew; of two, the one of the later attempt counts."""
        if isinstance(done, Kept):
            known = self._kept.get(key) or self.ledger.latest_with_key(key)
            if known is None or _age(known) <= _age(done):
                self.keep(key, done)
        elif key in self._kept and _age(self._kept[key]) <= _age(done):
            del self._kept[key]

    def release(self, attempt: str) -> None:
        """Forget what this attempt had in flight: it has ended."""
        for key in self._claims.pop(attempt, ()):
            if self._in_flight.get(key, ("", ""))[0] == attempt:
                del self._in_flight[key]


def _age(done: Acceptance | Kept) -> int:
    return number_of(done.attempt if isinstance(done, Kept) else done.batch or done.attempt)


def _at(done: Acceptance | Kept) -> datetime:
    return done.at if isinstance(done, Kept) else done.accepted_at


def _found(done: Acceptance | Kept, fingerprint: str, rules: KeyRules) -> Fresh | Replay | Conflict:
    if isinstance(done, Kept) and done.words is None:
        return Fresh()
    failed = isinstance(done, Kept) and done.failed
    way = WAYS["failed"][rules.failed] if failed else WAYS["finished"][rules.finished]
    if done.fingerprint != fingerprint and way.does is not Does.GO:
        reused = WAYS["reused"][rules.reused]
        way = reused if reused.does is Does.REFUSE else way
    match way.does:
        case Does.REPLAY if isinstance(done, Kept):
            return Replay(words=done.words, shows_id=way.shows_id)
        case Does.REPLAY:
            assert not isinstance(done, Kept)
            return Replay(acceptance=done, shows_id=way.shows_id)
        case Does.REFUSE:
            return _conflict(way, rules)
        case _:
            return Fresh()


def _conflict(way: Way, rules: KeyRules) -> Conflict:
    assert way.reason is not None
    return Conflict(way.reason, way.detail, way.code, rules.in_flight_s if way.tells_wait else None)
