"""What is looked for in a ledger: a value with one meaning, whatever keeps the ledger.

`matches` is that meaning. A store may narrow a search down by an index first, but what it returns is what `matches`
says. Texts are compared without regard to case; what a mail does not have is not matched by anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from simulator.provider.acceptance import Acceptance
    from simulator.provider.ledger import Attempt

Found = TypeVar("Found")

#: How many a page has if nobody says.
PAGE = 100


@dataclass(frozen=True, slots=True)
class Page(Generic[Found]):
    """Some of what was found, in the order that was asked for."""

    found: tuple[Found, ...]
    cursor: int | None = None
    """Where the next page begins (`Search.after`); None: there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Which acceptances of an account are wanted. All conditions must hold; None is no condition."""

    to: str | None = None
    """A recipient, whole."""
    sender: str | None = None
    """The envelope sender, whole; the empty text is the null sender."""
    subject: str | None = None
    """A part of the subject."""
    header: tuple[str, str] | None = None
    """A field's name, and a part of its value (empty: any value)."""
    key: str | None = None
    message_id: str | None = None
    """With or without its angle brackets."""
    since: datetime | None = None
    """Accepted at this instant or later."""
    until: datetime | None = None
    """Accepted before this instant."""
    fate: str | None = None
    """What becomes of the mail to at least one of its recipients."""
    q: str | None = None
    """A part of subject, an address, Message-ID or key."""

    def matches(self, each: Acceptance) -> bool:
        """Tell whether an acceptance is wanted."""
        return (
            (self.key is None or each.key == self.key)
            and (self.message_id is None or bare(each.message_id) == bare(self.message_id))
            and (self.to is None or folded(self.to) in (folded(to) for to in each.recipients))
            and (self.sender is None or folded(each.sender) == folded(self.sender))
            and (self.fate is None or _has_fate(each, self.fate))
            and (self.since is None or each.accepted_at >= self.since)
            and (self.until is None or each.accepted_at < self.until)
            and (self.subject is None or folded(self.subject) in folded(each.subject))
            and (self.header is None or _has_header(each.headers, *self.header))
            and (self.q is None or _mentions(each, folded(self.q)))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSearch:
    """Which attempts of an account are wanted. All conditions must hold; None is no condition."""

    to: str | None = None
    key: str | None = None
    message_id: str | None = None
    stage: str | None = None
    state: str | None = None
    rule: str | None = None
    dialect: str | None = None
    answer: str | None = None
    sent: str | None = None

    def matches(self, each: Attempt) -> bool:
        """Tell whether an attempt is wanted."""
        return (
            (self.stage is None or each.stage == self.stage)
            and (self.state is None or each.state.value == self.state)
            and (self.key is None or each.key == self.key)
            and (self.to is None or folded(self.to) in (folded(to) for to in each.recipients))
            and (self.message_id is None or bare(each.message_id) == bare(self.message_id))
            and (self.rule is None or self.rule in each.rules)
            and (self.dialect is None or each.dialect == self.dialect)
            and (self.answer is None or each.answer == self.answer)
            and (self.sent is None or each.sent.value == self.sent)
        )


def folded(text: str) -> str:
    """Return a text as it is compared: without regard to case."""
    return text.lower()


def bare(message_id: str | None) -> str | None:
    """Return a Message-ID as it is compared: without its angle brackets. Case matters (RFC 5322, section 3.6.4)."""
    if message_id is None:
        return None
    if message_id[:1] == "<" and message_id[-1:] == ">" and len(message_id) > 1:
        return message_id[1:-1]  # As nearly always.
    return message_id.strip().removeprefix("<").removesuffix(">")


def page_of(found: Iterable[tuple[int, Found]], limit: int) -> Page[Found]:
    """Cut a page off `found`, pairs of a number to go on after and what is found there; ask for one more to see."""
    kept: list[tuple[int, Found]] = []
    for each in found:
        if len(kept) == limit:
            return Page(found=tuple(value for _, value in kept), cursor=kept[-1][0] if kept else None)
        kept.append(each)
    return Page(found=tuple(value for _, value in kept))


def _has_header(headers: Sequence[tuple[str, str]], name: str, part: str) -> bool:
    wanted, part = folded(name), folded(part)
    return any(folded(given) == wanted and part in folded(value) for given, value in headers)


def _has_fate(each: Acceptance, fate: str) -> bool:
    if not each.destinies:
        return each.fate.value == fate
    return any(each.destiny_of(recipient).fate.value == fate for recipient in each.recipients)


def _mentions(each: Acceptance, part: str) -> bool:
    return any(
        part in folded(text)
        for text in (each.subject, each.sender, each.message_id or "", each.key or "", *each.recipients)
    )
