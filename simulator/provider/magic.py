"""Magic addresses: mail to `bounce@magic.test` bounces, `429@magic.test` is answered with 429, whoever sends it.

Nothing has to be set up and nobody else is hurt, so a test of one mail needs no plan of its own. What stands before a
`+` counts: `bounce+order-7@magic.test` is another mailbox with the same magic. Rules of a plan come first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from simulator.provider.answer import RetryAfter, RetryAfterKind
from simulator.provider.fate import Fate
from simulator.provider.faults import (
    DecideFate,
    Fault,
    GarbleTheReply,
    HangThere,
    HangUpOnThem,
    RefuseRecipients,
    ReplyWith,
    ResetTheLine,
    SlowDown,
    TruncateTheReply,
)
from simulator.provider.message import Moment
from simulator.provider.plan import Plan
from simulator.provider.plan_state import PlanState
from simulator.provider.rule import Pattern, Per, Rule, When, Who
from simulator.provider.strike import Strike

MAGIC_DOMAIN = "magic.test"

_Stages = frozenset[tuple[str, str]]
_RECIPIENT: _Stages = frozenset({("smtp", "rcpt"), ("http", "accept")})
_BOOKING: _Stages = frozenset({("smtp", "message"), ("http", "accept")})
_BOOKED: _Stages = frozenset({("smtp", "reply"), ("http", "reply")})
_REFUSAL: _Stages = frozenset({("smtp", "rcpt"), ("http", "validate")})
#: At all other stages no address does anything.
MAGIC_STAGES = frozenset(stage for _, stage in _RECIPIENT | _BOOKING | _BOOKED | _REFUSAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Magic:
    """Whether addresses are magic here, and at which domain."""

    on: bool = True
    domain: str = MAGIC_DOMAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Trick:
    """What an address does: faults at their stages, and how often."""

    says: str
    faults: tuple[tuple[Fault, _Stages], ...]
    once: bool = False
    """Only the first time for each mailbox, then all is well."""


def _on(wire: str, stages: _Stages) -> _Stages:
    return frozenset(place for place in stages if place[0] == wire)


def _either(smtp: Fault, http: Fault, stages: _Stages) -> tuple[tuple[Fault, _Stages], ...]:
    return (smtp, _on("smtp", stages)), (http, _on("http", stages))


def _fate(fate: Fate, says: str) -> Trick:
    # An address that bounces does so each time: it does not get on the suppression list.
    return Trick(says=says, faults=((DecideFate(fate=fate, suppresses=False), _BOOKING),))


def _nobody(code: int, enhanced: str, text: str, says: str) -> Trick:
    return Trick(says=says, faults=((RefuseRecipients(code=code, enhanced=enhanced, text=text), _REFUSAL),))


_IN_5_S = RetryAfter(kind=RetryAfterKind.SECONDS, seconds=5.0)

#: What stands before the `@`, and what it does. Parts in angle brackets are numbers.
TRICKS: dict[str, Trick] = {
    "delivered": _fate(Fate.DELIVERED, "is delivered, as any other address"),
    "deferred": _fate(Fate.DEFERRED, "is put off at first, and delivered in the end"),
    "bounce": _fate(Fate.HARD_BOUNCE, "is taken and bounces for good"),
    "soft-bounce": _fate(Fate.SOFT_BOUNCE, "is taken and bounces: not now"),
    "complaint": _fate(Fate.COMPLAINT, "is delivered and reported as spam"),
    "suppressed": _fate(Fate.SUPPRESSED, "is taken, and not even tried"),
    "opened": _fate(Fate.OPENED, "is delivered and opened"),
    "clicked": _fate(Fate.CLICKED, "is delivered, opened and clicked"),
    "unsubscribed": _fate(Fate.UNSUBSCRIBED, "is delivered, and its reader unsubscribes"),
    "drop": _fate(Fate.DROPPED, "is taken with a yes and never delivered"),
    "nobody": _nobody(550, "5.1.1", "no such mailbox", "is refused: there is no such mailbox (550)"),
    "full": _nobody(
        452,
        "4.2.2",
        "mailbox full",
        'is refused for now: the mailbox is full (452; HTTP, which knows no "for now" of one recipient: rejected)',
    ),
    "spam": _nobody(550, "5.7.1", "rejected as spam", "is refused as spam (550)"),
    "greylist": Trick(
        says="is put off the first time (451, HTTP 503), then taken",
        faults=_either(
            ReplyWith(code=451, enhanced="4.7.1", text="greylisted, come back later", retry_after=_IN_5_S),
            ReplyWith(code=503, retry_after=_IN_5_S),
            _RECIPIENT,
        ),
        once=True,
    ),
    "throttled": Trick(
        says="is throttled the first time (450, HTTP 429, come back in 5 s), then taken",
        faults=_either(
            ReplyWith(code=450, enhanced="4.7.1", text="too many mails to this mailbox", retry_after=_IN_5_S),
            ReplyWith(code=429, retry_after=_IN_5_S),
            _RECIPIENT,
        ),
        once=True,
    ),
    "lost-answer": Trick(
        says="is taken, but the first answer gets lost (FIN)", faults=((HangUpOnThem(), _BOOKED),), once=True
    ),
    "lost-answers": Trick(
        says="is taken each time, and each answer gets lost (FIN)", faults=((HangUpOnThem(), _BOOKED),)
    ),
    "reset-answer": Trick(
        says="is taken, but the first answer ends in a broken line (RST)",
        faults=((ResetTheLine(), _BOOKED),),
        once=True,
    ),
    "truncated-answer": Trick(
        says="is taken, but the first answer breaks off", faults=((TruncateTheReply(), _BOOKED),), once=True
    ),
    "garbled-answer": Trick(
        says="is taken, but the first answer is nonsense", faults=((GarbleTheReply(), _BOOKED),), once=True
    ),
    "lie": Trick(
        says="is taken, but the first answer says that it was not (554, HTTP 500)",
        faults=_either(ReplyWith(code=554), ReplyWith(code=500), _BOOKED),
        once=True,
    ),
    "hang": Trick(says="gets no answer and is not taken", faults=((HangThere(), _BOOKING),)),
    "hang-up": Trick(
        says="gets the line closed (FIN) and is not taken", faults=((HangUpOnThem(), _BOOKING),)
    ),
    "reset": Trick(says="gets the line broken (RST) and is not taken", faults=((ResetTheLine(), _BOOKING),)),
}


def _coded(code: str) -> Trick:
    return Trick(says="", faults=((ReplyWith(code=int(code)), _RECIPIENT),))


def _coded_once(code: str) -> Trick:
    return Trick(says="", faults=((ReplyWith(code=int(code)), _RECIPIENT),), once=True)


def _slow(seconds: str) -> Trick:
    return Trick(says="", faults=((SlowDown(delay_s=float(seconds)), _RECIPIENT),))


#: Those with a number in them: form, how it is written, what it does.
FORMS: tuple[tuple[re.Pattern[str], str, str, Callable[[str], Trick]], ...] = (
    (re.compile("([45][0-9]{2})"), "<code>", "is answered with this code, like 451 or 503", _coded),
    (
        re.compile("([45][0-9]{2})-once"),
        "<code>-once",
        "is answered with this code the first time, then taken",
        _coded_once,
    ),
    (re.compile("slow-([0-9]{1,3})"), "slow-<seconds>", "takes so long, and is taken", _slow),
)


def trick(name: str) -> Trick | None:
    """Return what an address with this name does; None: there is no such magic."""
    known = TRICKS.get(name)
    if known is not None:
        return known
    for form, _, _, make in FORMS:
        if found := form.fullmatch(name):
            return make(found[1])
    return None


@dataclass(slots=True)
class MagicState:
    """The magic addresses of one account at work: what they did so far."""

    magic: Magic
    planted_at: datetime
    _states: dict[str, PlanState] = field(default_factory=dict)
    _ending: str = ""

    def __post_init__(self) -> None:
        self._ending = f"@{self.magic.domain}"

    def concerns(self, recipient: str | None, recipients: Sequence[str]) -> bool:
        """Tell whether any of those in question has a magic address."""
        if not self.magic.on:
            return False
        ending = self._ending
        if recipient is not None:
            return recipient.lower().endswith(ending)
        # Every mail comes by here: a generator would cost as much again.
        for each in recipients:  # noqa: SIM110
            if each.lower().endswith(ending):
                return True
        return False

    def strike(self, moment: Moment, now: datetime) -> Strike | None:
        """Decide what hits this moment because of an address in it."""
        ending = f"@{self.magic.domain}"
        recipients = moment.recipients if moment.recipient is None else (moment.recipient,)
        names = {
            recipient.lower().removesuffix(ending).partition("+")[0]: None
            for recipient in recipients
            if recipient.lower().endswith(ending)
        }
        struck: Strike | None = None
        for name in names:
            strike = self._state(name).strike(moment, now)
            if strike is not None:
                struck = strike if struck is None else struck.and_then(strike)
                if struck.is_final:
                    break
        return struck

    # --- over a restart -----------------------------------------------------------------------------

    def news(self, *, whole: bool) -> Iterator[tuple[str, str | None]]:
        """Hand out what was counted, as `PlanState.news` does."""
        for trick_name, state in self._states.items():
            for name, facts in state.news(whole=whole):
                yield f"{trick_name} {name}", facts

    def recall(self, known: Mapping[str, str]) -> None:
        """Take up what was handed out before a restart. Raise `ValueError` or `TypeError` for damage."""
        by_trick: dict[str, dict[str, str]] = {}
        for name, facts in known.items():
            trick_name, _, rest = name.partition(" ")
            by_trick.setdefault(trick_name, {})[rest] = facts
        for trick_name, counts in by_trick.items():
            self._state(trick_name).recall(counts)

    def names(self) -> Iterator[str]:
        """Yield every name under which counts may be remembered."""
        for trick_name, state in self._states.items():
            yield from (f"{trick_name} {name}" for name in state.names())

    def _state(self, name: str) -> PlanState:
        state = self._states.get(name)
        if state is None:
            known = trick(name)
            state = PlanState(Plan(rules=self._rules(name, known)), planted_at=self.planted_at)
            if known is not None:  # There is no end of names that are none.
                self._states[name] = state
        return state

    def _rules(self, name: str, known: Trick | None) -> tuple[Rule, ...]:
        if known is None:
            text = f"there is no magic address {name[:40]!r} here; docs/plans.md lists those that are"
            known = _nobody(550, "5.1.1", text, "")
        address = re.escape(f"@{self.magic.domain}")
        who = Who(recipient=Pattern(rf"/^{re.escape(name)}(\+[^@]*)?{address}$/"))
        return tuple(
            Rule(
                name=f"magic: {name}@{self.magic.domain}",
                fault=fault,
                stages=stages,
                who=who,
                when=When(times=1) if known.once else When(),
                per=Per.RECIPIENT if known.once else Per.PLAN,
            )
            for fault, stages in known.faults
        )
