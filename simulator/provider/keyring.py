"""What an account's idempotency keys make of a request: asked before a mail is taken, told afterwards what to remember.

Between `idempotency`, which knows keys and nothing of answers, and the provider, which decides when to ask.
"""

from __future__ import annotations

import dataclasses
from datetime import datetime

from simulator.provider import kept
from simulator.provider.acceptance import Acceptance
from simulator.provider.account import Account
from simulator.provider.answer import (
    Accepted,
    Answer,
    InTurn,
    Reason,
    Refused,
    Reply,
    Results,
    RetryAfter,
    RetryAfterKind,
    Words,
    words_of,
)
from simulator.provider.idempotency import Conflict, Fresh, Kept, Outstanding, Replay
from simulator.provider.ledger import Attempt


def ask(
    account: Account, attempt: Attempt, key: str | None, fingerprint: str, now: datetime
) -> Words | InTurn | None:
    """Say what a request with this key meets. None: nothing, go on."""
    if key is None or not account.setup.keys.honoured:
        return None
    if account.keys.is_let_through(key, attempt.id, account.setup.keys):
        return None
    found = account.keys.look_up(key, fingerprint, attempt.id, account.setup.keys, now)
    match found:
        case Replay():
            return _again(found)
        case Conflict():
            return _refused(found)
        case Outstanding(for_s=for_s, conflict=conflict):
            return InTurn(for_s=for_s, then=_refused(conflict))
        case Fresh():
            return None


def claim(
    account: Account, attempt: Attempt, key: str | None, fingerprint: str, now: datetime
) -> Refused | InTurn | None:
    """Take the key for this attempt, unless another request has it in flight. Whatever else it meets is said later."""
    met = ask(account, attempt, key, fingerprint, now)
    if met is None:
        begin(account, attempt, key, fingerprint)
    in_flight = isinstance(met, Refused) and met.reason is Reason.KEY_IN_FLIGHT and not met.replayed
    return met if isinstance(met, InTurn) or (isinstance(met, Refused) and in_flight) else None


def begin(account: Account, attempt: Attempt, key: str | None, fingerprint: str) -> None:
    """The key is in flight from now until the attempt ends."""
    if key is not None and account.setup.keys.honoured:
        account.keys.begin(key, fingerprint, attempt.id)


def failed(
    account: Account, attempt: Attempt, key: str | None, fingerprint: str, answer: Answer, now: datetime
) -> None:
    """Nothing was booked: let the key remember the error, if this provider's keys do."""
    words = words_of(answer)
    if not account.setup.keys.honoured or key is None or words is None:
        return
    memory = Kept(fingerprint=fingerprint, at=now, attempt=attempt.id, words=words, failed=True)
    if account.keys.failed(key, memory, account.setup.keys):
        attempt.kept = kept.written(key, memory)


def lied(
    account: Account, attempt: Attempt, key: str | None, fingerprint: str, answer: Answer, now: datetime
) -> None:
    """It was booked, and perhaps an error is said all the same: let the key remember that, if this provider's keys do."""
    how, words = account.setup.keys.lied, words_of(answer)
    if key is None or how == "replay_yes" or not isinstance(words, Reply) or words.code < 400:
        return
    remember(account, attempt, key, fingerprint, words if how == "replay_error" else None, now)


def remember(
    account: Account, attempt: Attempt, key: str, fingerprint: str, words: Words | None, now: datetime
) -> None:
    """Let the key answer with these words from now on; None: it is free again."""
    memory = Kept(fingerprint=fingerprint, at=now, attempt=attempt.id, words=words)
    account.keys.keep(key, memory)
    attempt.kept = kept.written(key, memory)


# --- words ------------------------------------------------------------------------------------------


def yes(acceptance: Acceptance) -> Accepted:
    """Return what is said of an acceptance."""
    return Accepted(
        id=acceptance.id,
        message_id=acceptance.message_id,
        recipients=acceptance.recipients,
        refused=acceptance.refused,
    )


def _again(found: Replay) -> Words:
    """Say again what was said to the first request of a key."""
    if isinstance(found.words, Results):
        items = tuple(
            dataclasses.replace(item, shows_id=found.shows_id) if isinstance(item, Accepted) else item
            for item in found.words.items
        )
        return Results(items=items, replayed=True)
    if found.words is not None:
        return dataclasses.replace(found.words, replayed=True)
    assert found.acceptance is not None
    return dataclasses.replace(yes(found.acceptance), replayed=True, shows_id=found.shows_id)


def _refused(conflict: Conflict) -> Refused:
    wait_s = conflict.wait_s
    return Refused(
        reason=conflict.reason,
        detail=conflict.detail,
        code=conflict.code,
        # In whole seconds, rounded up: a sender that obeys must not be refused again.
        retry_after=None
        if wait_s is None
        else RetryAfter(kind=RetryAfterKind.SECONDS, seconds=float(-(-wait_s // 1))),
    )
