"""Histories by the thousand: good ones of every kind from a seed, and corruptions that spoil one thing in one.

A good history is what a sender without fault leaves behind: refusals, retries, lost answers, crashes, mails that
are parked, expired, or refused for good. Nothing here judges.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from scenarios.checks import Policy
from scenarios.history import History, Said, Try
from simulator.provider.acceptance import Acceptance
from simulator.provider.obligations import Obligation, Reported
from tests.scenarios.made import at, copy

STRANGER = "stranger@example.net"


@dataclass(slots=True)
class _Story:
    """What is written down while a history is invented."""

    rng: random.Random
    policy: Policy
    wire: str
    now_s: float = 0.0
    crashes: int = 0
    obligations: list[Obligation] = field(default_factory=list)
    acceptances: list[Acceptance] = field(default_factory=list)
    attempts: list[Try] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)

    def wait(self, least_s: float = 1.0) -> None:
        self.now_s += least_s + self.rng.uniform(0.0, 30.0)


@dataclass(slots=True)
class _Mail:
    """One mail to one recipient, on its way."""

    ref: str
    recipient: str
    key: str | None
    message_id: str
    sha256: str
    taken: int = 0
    doubt: bool = False


def good_history(seed: int) -> tuple[History, Policy]:
    """Invent a history that nobody may be accused of, and the policy it was made under."""
    rng = random.Random(seed)
    policy = rng.choice(list(Policy))
    wire = "http" if policy is Policy.EXACTLY_ONCE else rng.choice(("http", "smtp"))
    story = _Story(rng, policy, wire)
    for number in range(1, rng.choice((1, 1, 2, 2, 3, 4)) + 1):
        _invent(story, number)
    rng.shuffle(story.attempts)
    history = History(
        obligations=tuple(story.obligations),
        acceptances=tuple(story.acceptances),
        attempts=tuple(story.attempts),
        said=tuple(story.said),
        knows_states=True,
        crashes=story.crashes,
    )
    return history, policy


def _invent(story: _Story, number: int) -> None:
    rng = story.rng
    recipient = f"user{number}@example.com"
    mail = _Mail(
        ref=f"order-{number}",
        recipient=recipient if rng.random() < 0.8 else recipient.replace("user", "User"),
        key=f"key-{number}" if story.policy is Policy.EXACTLY_ONCE else None,
        message_id=f"<{number}@shop>",
        sha256=f"{number:04x}",
    )
    state, reason = _live(story, mail)
    if rng.random() < 0.2:
        # What the provider and the sender call a mailbox may differ in case.
        mail.recipient = mail.recipient.upper()
    story.obligations.append(
        Obligation(account="default", ref=mail.ref, recipient=mail.recipient, state=state)
    )
    story.said.append(Said(key=mail.ref, recipient=mail.recipient, state=state, reason=reason))


def _live(story: _Story, mail: _Mail) -> tuple[Reported, str]:
    """Attempt after attempt until it has come to an end; the state it ends in and what is said about it."""
    rng = story.rng
    if rng.random() < 0.05:
        return rng.choice((Reported.SUPPRESSED, Reported.CANCELLED, Reported.EXPIRED)), "its time was over"
    for tries in range(1, 9):
        story.wait()
        match rng.choices(
            ("yes", "later", "wait", "line", "lost", "silent", "crash", "crash early", "no"),
            (40, 15, 8, 8, 12, 6, 8, 4, 6),
        )[0]:
            case "yes":
                _yes(story, mail)
                return Reported.ACCEPTED, ""
            case "later":
                _try(story, mail, _say(story, "503", "451 4.3.0 try later"))
            case "wait":
                wait_s = rng.choice((5.0, 30.0, 120.0))
                _try(story, mail, _say(story, "429", "451 4.7.1 slower"), retry_after_s=wait_s)
                story.wait(wait_s)
            case "line":
                # Broken off before a recipient was named: the provider cannot say whose attempt it was.
                _try(story, mail, "hang_up", sent="nothing", named=False)
            case "lost":
                _book(story, mail, "hang", sent=rng.choice(("nothing", "partial")))
                mail.doubt = True
                if story.policy is Policy.AT_MOST_ONCE:
                    return _parked_or_found(story, mail)
            case "silent":
                _try(story, mail, "hang", sent="nothing")
                mail.doubt = True
                if story.policy is Policy.AT_MOST_ONCE:
                    return _parked_or_found(story, mail)
            case "crash":
                # Heard and not stored: to the sender it is as if nothing had been heard.
                _yes(story, mail)
                story.crashes += 1
                mail.doubt = True
                if story.policy is Policy.AT_MOST_ONCE:
                    return _parked_or_found(story, mail)
            case "crash early":
                story.crashes += 1
            case "no":
                _try(
                    story,
                    mail,
                    _say(story, rng.choice(("400", "422")), "550 5.1.1 no such mailbox"),
                    rule="no",
                )
                if not mail.doubt:
                    return rng.choice((Reported.FAILED, Reported.FAILED, Reported.DEAD)), "refused for good"
                return _parked_or_found(story, mail)
        if tries > 5 and not mail.doubt and rng.random() < 0.5:
            return rng.choice((Reported.DEAD, Reported.EXPIRED)), "tried for too long"
    if mail.doubt:
        return _parked_or_found(story, mail)
    return Reported.DEAD, "tried too often"


def _parked_or_found(story: _Story, mail: _Mail) -> tuple[Reported, str]:
    if mail.taken and story.rng.random() < 0.5:
        return Reported.ACCEPTED, "found by the look-up"
    return Reported.UNKNOWN, "nobody can know what became of it"


def _say(story: _Story, http: str, smtp: str) -> str:
    return http if story.wire == "http" else smtp


def _yes(story: _Story, mail: _Mail) -> None:
    if mail.key is not None and mail.taken:
        _try(story, mail, "accepted (replayed)")
    else:
        _book(story, mail, _say(story, "accepted", "250 2.0.0 OK"))


def _book(story: _Story, mail: _Mail, answer: str, *, sent: str = "complete") -> None:
    if mail.key is not None and mail.taken:
        # The provider knows the key: it books nothing, and the answer is lost like the first one.
        _try(story, mail, answer, sent=sent)
        return
    mail.taken += 1
    attempt = _try(story, mail, answer, sent=sent, took=True)
    number = len(story.acceptances) + 1
    story.acceptances.append(
        replace(
            copy(number, mail.recipient, sha256=mail.sha256, ref=mail.ref),
            attempt=attempt.id,
            message_id=mail.message_id,
            key=mail.key,
            accepted_at=attempt.opened_at,
        )
    )


def _try(
    story: _Story,
    mail: _Mail,
    answer: str,
    *,
    sent: str = "complete",
    took: bool = False,
    named: bool = True,
    retry_after_s: float | None = None,
    rule: str = "",
) -> Try:
    attempt = Try(
        id=f"att_{len(story.attempts) + 1}",
        opened_at=at(story.now_s),
        closed_at=at(story.now_s + 0.2),
        stage="reply" if named else "connect",
        recipients=(mail.recipient,) if named else (),
        message_id=mail.message_id if named else None,
        key=mail.key if named else None,
        accepted=(mail.recipient,) if took else (),
        answer=answer,
        sent=sent,
        rules=(rule,) if rule else (),
        retry_after_s=retry_after_s,
    )
    story.attempts.append(attempt)
    return attempt


# --- corruptions ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoiled:
    """A history with one thing wrong in it, and about whom."""

    history: History
    recipient: str


Corruption = Callable[[random.Random, History, Policy], Spoiled | None]
"""None: this history has nothing that could be spoiled in this way."""


def _pick(rng: random.Random, history: History, fits: Callable[[Obligation], object]) -> Obligation | None:
    fitting = [each for each in history.obligations if fits(each)]
    return rng.choice(fitting) if fitting else None


def _restated(history: History, owed: Obligation, state: Reported | None, reason: str = "because") -> History:
    said = [each for each in history.said if each.key != owed.ref]
    if state is not None:
        said.append(Said(key=owed.ref, recipient=owed.recipient, state=state, reason=reason))
    return replace(
        history,
        obligations=tuple(
            replace(each, state=state) if each is owed else each for each in history.obligations
        ),
        said=tuple(said),
    )


def _without_copies(history: History, owed: Obligation) -> History:
    return replace(
        history,
        acceptances=tuple(each for each in history.acceptances if each.obligation != owed.ref),
        attempts=tuple(
            replace(each, accepted=()) if each.concerns(owed.recipient) else each for each in history.attempts
        ),
    )


def _copies(history: History) -> Callable[[Obligation], object]:
    return lambda owed: history.copies_for(owed.recipient)


def _extra(history: History, owed: Obligation, **changes: object) -> Acceptance:
    number = len(history.acceptances) + 1
    first = history.copies_for(owed.recipient)[0]
    return replace(first, id=f"msg_{number}", number=number, attempt=f"att_x{number}", **changes)  # type: ignore[arg-type] # fields by name


def lose(rng: random.Random, history: History, policy: Policy) -> Spoiled | None:
    """The provider never took it, and the sender goes on calling it accepted."""
    owed = _pick(rng, history, lambda each: each.state is Reported.ACCEPTED)
    return None if owed is None else Spoiled(history=_without_copies(history, owed), recipient=owed.recipient)


def duplicate(rng: random.Random, history: History, policy: Policy) -> Spoiled | None:
    """One copy more than promise, policy and doubts excuse."""
    owed = _pick(rng, history, _copies(history))
    if owed is None:
        return None
    copies = history.copies_for(owed.recipient)
    allowed = 1
    if policy is Policy.AT_LEAST_ONCE:
        allowed += history.crashes + sum(each.in_doubt for each in history.tries_for(owed.recipient))
    spoiled = history
    for _ in range(allowed + 1 - len(copies)):
        spoiled = replace(spoiled, acceptances=(*spoiled.acceptances, _extra(spoiled, owed)))
    return Spoiled(history=spoiled, recipient=owed.recipient)


def conjure(rng: random.Random, history: History, policy: Policy) -> Spoiled | None:
    """A mail that nobody promised."""
    extra = copy(len(history.acceptances) + 1, STRANGER, ref=None)
    return Spoiled(history=replace(history, acceptances=(*history.acceptances, extra)), recipient=STRANGER)


def misdirect(rng: random.Random, history: History, policy: Policy) -> Spoiled | None:
    """A promised mail at somebody else's door."""
    owed = _pick(rng, history, _copies(history))
    if owed is None:
        return None
    others = [each.recipient for each in history.obligations if each is not owed]
    wrong = rng.choice([*others, STRANGER])
    extra = _extra(history, owed, recipients=(wrong,))
    return Spoiled(history=replace(history, acceptances=(*history.acceptances, extra)), recipient=wrong)


def call_failed(rng: random.Random, history: History, policy: Policy) -> Spoiled | None:
    """Accepted, but told otherwise."""
    owed = _pick(rng, history, _copies(history))
    if owed is None:
        return None
    state = rng.choice((Reported.FAILED, Reported.EXPIRED, Reported.SUPPRESSED, Reported.CANCELLED))
    return Spoiled(history=_restated(history, owed, state), recipient=owed.recipient)


def call_accepted(rng: random.Random, history: History, policy: Policy) -> Spoiled | None:
    """Not accepted, but told otherwise."""
    owed = _pick(rng, history, lambda each: not history.copies_for(each.recipient))
    return (
        None
        if owed is None
        else Spoiled(history=_restated(history, owed, Reported.ACCEPTED), recipient=owed.recipient)
    )


def call_failed_unasked(rng: random.Random, history: History, policy: Policy) -> Spoiled | None:
    """Given up as failed, although the provider never said no."""
    owed = _pick(
        rng, history, lambda each: each.state in (Reported.DEAD, Reported.UNKNOWN, Reported.ACCEPTED)
    )
    if owed is None or any(
        each.answer[:3] in ("400", "422", "550") for each in history.tries_for(owed.recipient)
    ):
        return None
    spoiled = _restated(_without_copies(history, owed), owed, Reported.FAILED)
    return Spoiled(history=spoiled, recipient=owed.recipient)


def hurry(rng: random.Random, history: History, policy: Policy) -> Spoiled | None:
    """Back before the Retry-After was over."""
    owed = _pick(rng, history, lambda each: history.tries_for(each.recipient))
    if owed is None or history.crashes:
        return None
    first = history.tries_for(owed.recipient)[0]
    wait_s = rng.choice((5.0, 30.0, 600.0))
    early = replace(
        first,
        id="att_early",
        opened_at=first.opened_at - (at(wait_s * rng.uniform(0.0, 0.9)) - at(0.0)),
        closed_at=first.opened_at - (at(wait_s * rng.uniform(0.0, 0.9)) - at(0.0)),
        accepted=(),
        answer=rng.choice(("429", "503")),
        sent="complete",
        retry_after_s=wait_s,
    )
    return Spoiled(history=replace(history, attempts=(early, *history.attempts)), recipient=owed.recipient)


def hammer(rng: random.Random, history: History, policy: Policy) -> Spoiled | None:
    """Again and again without a pause."""
    owed = _pick(rng, history, lambda each: history.tries_for(each.recipient))
    if owed is None:
        return None
    first = history.tries_for(owed.recipient)[0]
    burst = tuple(
        replace(
            first,
            id=f"att_burst{n}",
            opened_at=first.opened_at - (at(0.1 * n) - at(0.0)),
            closed_at=first.opened_at - (at(0.1 * n - 0.05) - at(0.0)),
            accepted=(),
            answer="451 4.3.0 try later",
            sent="complete",
            retry_after_s=None,
        )
        for n in range(1, rng.randint(7, 20))
    )
    return Spoiled(history=replace(history, attempts=(*burst, *history.attempts)), recipient=owed.recipient)


def not_stop(rng: random.Random, history: History, policy: Policy) -> Spoiled | None:
    """Attempts after the end: more than the crashes could excuse."""
    owed = _pick(
        rng,
        history,
        lambda each: any(
            tried.told_yes or tried.answer[:3] in ("400", "422", "550")
            for tried in history.tries_for(each.recipient)
        ),
    )
    if owed is None:
        return None
    last = history.tries_for(owed.recipient)[-1]
    more = tuple(
        replace(
            last,
            id=f"att_more{n}",
            opened_at=last.opened_at + (at(60.0 * n) - at(0.0)),
            closed_at=last.opened_at + (at(60.0 * n + 1.0) - at(0.0)),
            accepted=(),
            answer="accepted (replayed)",
            sent="complete",
        )
        for n in range(1, history.crashes + 3)
    )
    return Spoiled(history=replace(history, attempts=(*history.attempts, *more)), recipient=owed.recipient)


def go_on(rng: random.Random, history: History, policy: Policy) -> Spoiled | None:
    """The calm is over, and something still moves."""
    newest = max(history.attempts, key=lambda each: each.opened_at, default=None)
    if newest is None or len(newest.recipients) != 1:
        return None
    return Spoiled(history=replace(history, moving=True), recipient=newest.recipients[0])


def get_stuck(rng: random.Random, history: History, policy: Policy) -> Spoiled | None:
    """Neither sent nor parked."""
    owed = _pick(rng, history, lambda each: not history.copies_for(each.recipient))
    if owed is None:
        return None
    state = rng.choice((Reported.PENDING, Reported.SENDING))
    return Spoiled(history=_restated(history, owed, state), recipient=owed.recipient)


def park_in_silence(rng: random.Random, history: History, policy: Policy) -> Spoiled | None:
    """Parked, and no word for whoever is to look after it."""
    owed = _pick(rng, history, lambda each: each.state in (Reported.UNKNOWN, Reported.DEAD))
    return (
        None
        if owed is None
        else Spoiled(
            history=_restated(history, owed, owed.state, reason=rng.choice(("", " "))),
            recipient=owed.recipient,
        )
    )


def forget_the_row(rng: random.Random, history: History, policy: Policy) -> Spoiled | None:
    """The mail is in no list any more."""
    owed = _pick(rng, history, lambda each: True)
    return None if owed is None else Spoiled(history=_restated(history, owed, None), recipient=owed.recipient)


def forget_the_yes(rng: random.Random, history: History, policy: Policy) -> Spoiled | None:
    """Told in full, and parked as if nobody had said anything."""
    if history.crashes:
        return None
    owed = _pick(
        rng,
        history,
        lambda each: any(tried.told_yes and tried.accepted for tried in history.tries_for(each.recipient)),
    )
    return (
        None
        if owed is None
        else Spoiled(history=_restated(history, owed, Reported.UNKNOWN), recipient=owed.recipient)
    )


def change_name(rng: random.Random, history: History, policy: Policy) -> Spoiled | None:
    """Another Message-ID or another key in the second attempt."""
    owed = _pick(rng, history, lambda each: len(history.tries_for(each.recipient)) > 1)
    if owed is None:
        return None
    second = history.tries_for(owed.recipient)[1]
    changed = (
        replace(second, message_id="<other@shop>")
        if second.key is None or rng.random() < 0.5
        else replace(second, key="other")
    )
    attempts = tuple(changed if each is second else each for each in history.attempts)
    return Spoiled(history=replace(history, attempts=attempts), recipient=owed.recipient)


def change_bytes(rng: random.Random, history: History, policy: Policy) -> Spoiled | None:
    """Other bytes: in a second copy, or under the key of a mail that was taken."""
    owed = _pick(rng, history, _copies(history))
    if owed is None:
        return None
    taken = next(each for each in history.tries_for(owed.recipient) if each.accepted)
    if taken.key is None:
        extra = _extra(history, owed, sha256="ffff")
        return Spoiled(
            history=replace(history, acceptances=(*history.acceptances, extra)), recipient=owed.recipient
        )
    refused = replace(
        taken,
        id="att_changed",
        opened_at=taken.opened_at + (at(0.5) - at(0.0)),
        accepted=(),
        answer="422",
        sent="complete",
        rules=(),
    )
    return Spoiled(history=replace(history, attempts=(*history.attempts, refused)), recipient=owed.recipient)


#: Corruption -> the kind of finding it must be found as.
CORRUPTIONS: dict[str, tuple[Corruption, str]] = {
    "lost": (lose, "lost"),
    "duplicated": (duplicate, "duplicated"),
    "phantom": (conjure, "phantom"),
    "misdirected": (misdirect, "misdirected"),
    "accepted but told failed": (call_failed, "misreported"),
    "not accepted but told accepted": (call_accepted, "misreported"),
    "told yes and parked": (forget_the_yes, "misreported"),
    "failed without a refusal": (call_failed_unasked, "lost"),
    "too early": (hurry, "too early"),
    "too often": (hammer, "too often"),
    "after the end": (not_stop, "tried again"),
    "not quiescent": (go_on, "not quiescent"),
    "stuck": (get_stuck, "stuck"),
    "parked without owner": (park_in_silence, "parked without owner"),
    "unsaid": (forget_the_row, "unsaid"),
    "identity changed": (change_name, "identity changed"),
    "bytes differ": (change_bytes, "bytes differ"),
}
