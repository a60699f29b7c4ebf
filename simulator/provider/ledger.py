"""What the provider really took, in order, and the attempts around it.

The ledger keeps facts, not bodies: the bytes of a mail are handed to the store with the acceptance
(`Booked`) and read back from there. Records are what a store must keep, in order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from operator import attrgetter
from typing import Any, Protocol

from simulator.provider.acceptance import Acceptance, weight_of
from simulator.provider.answer import RefusedRecipient
from simulator.provider.search import Search, bare, folded
from simulator.provider.seen import Seen

#: So many of the newest mails, attempts and decisions are held in memory; older ones are the store's.
WINDOW = 5_000
#: And not so many if they are heavy: characters of header fields and recipients, of all of them.
ROOM_CHARS = 32 * 1024 * 1024


class AttemptState(StrEnum):
    """Whether an attempt still goes on."""

    OPEN = "open"
    HELD = "held"
    CLOSED = "closed"


class Sent(StrEnum):
    """How much of the answer really went out."""

    UNKNOWN = "unknown"
    NOTHING = "nothing"
    PARTIAL = "partial"
    COMPLETE = "complete"


class ToldBy(StrEnum):
    """How a sender was told when to come back."""

    HEADER = "header"
    DATE = "date"
    """A header, too; an HTTP-date has whole seconds only."""
    TEXT = "text"
    """In the words of an SMTP reply, which are for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What a sender was told about coming back, and heard."""

    wait_s: float
    at: datetime
    by: ToldBy
    recipient: str | None = None
    """SMTP, at `RCPT`: the only one that is meant."""
    limit: str | None = None
    """The limit that said so; None: a rule, or a key that is in use."""
    per: str | None = None
    scope: str = ""
    """Whom the limit concerns: an address, a sender, a domain; empty: the whole account."""


@dataclass(slots=True)
class Attempt:
    """One try of a sender to hand over mail. The only mutable fact: it grows until it is closed."""

    id: str
    number: int
    account: str
    dialect: str
    connection: str
    peer: str
    opened_at: datetime
    stage: str = "connect"
    state: AttemptState = AttemptState.OPEN
    sender: str | None = None
    recipients: tuple[str, ...] = ()
    message_id: str | None = None
    key: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    refused: tuple[RefusedRecipient, ...] = ()
    drop: bool = False
    accepted: tuple[str, ...] = ()
    answer: str = "normal"
    sent: Sent = Sent.UNKNOWN
    rules: tuple[str, ...] = ()
    advice: tuple[Advice, ...] = ()
    closed_at: datetime | None = None
    batch: str | None = None
    """The attempt that stands for the whole request, where one request brought several mails."""
    item: int | None = None
    """Which mail of the batch this is, from 0."""
    kept: str | None = None
    """What its idempotency key remembers besides acceptances (`simulator.provider.kept`)."""

    def as_it_stands(self, **instead: Any) -> Attempt:
        """Return a copy that no longer grows, with some fields changed."""
        copy = Attempt(*_VALUES(self))
        if instead:
            for name, value in instead.items():
                setattr(copy, name, value)
        return copy


# `dataclasses.replace` looks every field up anew, and an attempt is copied with each thing that happens to it.
_VALUES = attrgetter(*(each.name for each in fields(Attempt)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Struck:
    """What one rule did in a decision: enough to do it again."""

    rule: str
    fault: str
    """The fault with its parameters, as JSON in the plan language."""
    recipients: tuple[str, ...] | None = None
    """Those it hit, where each recipient is hit or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A line of the decision log: which rules hit which attempt where, and what they made of it."""

    number: int
    account: str
    attempt: str
    stage: str
    rules: tuple[str, ...]
    answer: str
    at: datetime
    wire: str = ""
    """Empty in ledgers of former versions, whose decisions cannot be replayed."""
    mail: str = ""
    """The mail by its recipients (`to:…`); empty: nothing was known of it."""
    nth: int = 0
    """In which attempt of this mail; where none was known, on which occasion of this stage."""
    struck: tuple[Struck, ...] = ()
    held: str | None = None
    """What a limit said, as JSON (`simulator.provider.kept`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Booked:
    """Record: an acceptance with the bytes. Must be durable before the sender hears yes."""

    acceptance: Acceptance
    raw: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """Record: an attempt as it stands now; a later one of the same id replaces it."""

    attempt: Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """Record: a line of the decision log."""

    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """Record: there is an account of this name, even if nothing ever happens in it."""

    account: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiped:
    """Record: everything of this account before this line is gone."""

    account: str


#: Of longer names stores may know only the beginning.
INDEXED_CHARS = 500


class Past(Protocol):
    """What is known of mails that the window has let go: a store, or nothing."""

    def get(self, account: str, id_: str) -> Acceptance | None:
        """Return the acceptance with this id."""
        ...

    def with_key(self, account: str, key: str) -> list[Acceptance]:
        """Return the acceptances with this idempotency key, oldest first."""
        ...

    def with_message_id(self, account: str, message_id: str) -> list[Acceptance]:
        """Return the acceptances with this Message-ID (angle brackets or not), oldest first."""
        ...

    def acceptances(self, account: str) -> Iterator[Acceptance]:
        """Yield every acceptance, oldest first; those in the window may be among them."""
        ...


class NoPast:
    """What is not in the window is nowhere."""

    def get(self, account: str, id_: str) -> Acceptance | None:
        return None

    def with_key(self, account: str, key: str) -> list[Acceptance]:
        return []

    def with_message_id(self, account: str, message_id: str) -> list[Acceptance]:
        return []

    def acceptances(self, account: str) -> Iterator[Acceptance]:
        return iter(())


@dataclass(slots=True)
class Ledger:
    """The acceptances of one account, in order, with the look-ups that senders and people need.

    `acceptances` is the window: the newest of them. A look-up by name that the window cannot answer alone asks the
    past as well; a search over everything is the store's work.
    """

    account: str = "default"
    past: Past = NoPast()
    window: int = WINDOW
    room_chars: int = ROOM_CHARS
    acceptances: list[Acceptance] = field(default_factory=list)
    _by_id: dict[str, Acceptance] = field(default_factory=dict)
    _by_key: dict[str, list[Acceptance]] = field(default_factory=dict)
    _by_message_id: dict[str, list[Acceptance]] = field(default_factory=dict)
    _by_recipient: dict[str, list[Acceptance]] = field(default_factory=dict)
    _copies: dict[str, int] = field(default_factory=dict)
    _newest: int = 0
    _has_former: bool = False
    """There were acceptances that this process has not seen."""
    _former: Seen | None = None
    """The keys of those; None: nobody has told them yet."""
    _gone: Seen | None = None
    """The keys of those that it has seen and let go; None: none had any."""
    _weight: int = 0
    _weighed: dict[str, int] = field(default_factory=dict)
    """What the heavy ones weigh, by their ids."""

    def book(self, acceptance: Acceptance) -> None:
        """Enter an acceptance. Ids are unique by construction."""
        assert acceptance.id not in self._by_id, f"acceptance {acceptance.id} booked twice"
        self.acceptances.append(acceptance)
        if acceptance.number != self._newest + 1:
            self._has_former = True
        self._newest = acceptance.number
        self._copies[acceptance.sha256] = self._copies.get(acceptance.sha256, 0) + 1
        self._by_id[acceptance.id] = acceptance
        for index, name in self._names(acceptance):
            index.setdefault(name, []).append(acceptance)
        if len(self.acceptances) >= self.window + self.window // 8 + 1:
            self._let_go(len(self.acceptances) - self.window)
        if (weight := weight_of(acceptance)) > 0:
            self._weighed[acceptance.id] = weight
            self._weight += weight
            while self._weight > self.room_chars and len(self.acceptances) > 1:
                self._let_go(1)

    @property
    def has_older(self) -> bool:
        """Tell whether there were acceptances that are not in the window."""
        return self._newest > len(self.acceptances)

    def get(self, id_: str) -> Acceptance | None:
        found = self._by_id.get(id_)
        if found is None and self.has_older:
            return self.past.get(self.account, id_)
        return found

    def with_key(self, key: str) -> list[Acceptance]:
        return self._named(self._by_key.get(key, ()), lambda: self.past.with_key(self.account, key))

    def latest_with_key(self, key: str) -> Acceptance | None:
        """Return the newest acceptance with this idempotency key."""
        known = self._by_key.get(key)
        if known is not None:
            return known[-1]
        # A key is new nearly always: the past, which may be busy, is not asked in vain.
        found = self.past.with_key(self.account, key) if self._may_be_past(key) else ()
        return found[-1] if found else None

    def _may_be_past(self, key: str) -> bool:
        if self._gone is not None and key in self._gone:
            return True
        former = self._former
        return self.has_former and (former is None or len(key) > INDEXED_CHARS or key in former)

    @property
    def has_former(self) -> bool:
        """Tell whether there were acceptances that this process has not seen."""
        return self._has_former

    def remember(self, keys: Seen) -> None:
        """These are the keys of all acceptances that this process has not seen, and perhaps more."""
        self._former = keys

    def with_message_id(self, message_id: str) -> list[Acceptance]:
        """Find by Message-ID, with or without its angle brackets."""
        return self._named(
            self._by_message_id.get(bare(message_id) or "", ()),
            lambda: self.past.with_message_id(self.account, message_id),
        )

    def copies(self, sha256: str) -> int:
        """Return how many acceptances in the window have the very same bytes."""
        return self._copies.get(sha256, 0)

    def everything(self) -> Iterator[Acceptance]:
        """Yield every acceptance, oldest first."""
        last = 0
        if self.has_older:
            for each in self.past.acceptances(self.account):
                last = each.number
                yield each
        yield from (each for each in tuple(self.acceptances) if each.number > last)

    def _names(self, each: Acceptance) -> list[tuple[dict[str, list[Acceptance]], str]]:
        """Return by which names a mail is found."""
        by_recipient = self._by_recipient
        names = [(by_recipient, folded(recipient)) for recipient in each.recipients]
        if each.key is not None:
            names.append((self._by_key, each.key))
        if each.message_id is not None:
            names.append((self._by_message_id, bare(each.message_id) or ""))
        return names

    def _named(self, here: Sequence[Acceptance], older: Callable[[], list[Acceptance]]) -> list[Acceptance]:
        if not self.has_older:
            return list(here)
        return [each for each in older() if each.id not in self._by_id] + list(here)

    def _let_go(self, how_many: int) -> None:
        """Leave the oldest to the past."""
        gone = self.acceptances[:how_many]
        del self.acceptances[:how_many]
        for each in gone:
            self._weight -= self._weighed.pop(each.id, 0)
            del self._by_id[each.id]
            if each.key is not None:
                if self._gone is None:
                    self._gone = Seen()
                self._gone.add(each.key)
            copies = self._copies[each.sha256] = self._copies[each.sha256] - 1
            if not copies:
                del self._copies[each.sha256]
            for index, name in self._names(each):
                known = index[name]
                # In order, so the oldest stands in front.
                del known[0]
                if not known:
                    del index[name]

    def search(self, search: Search) -> list[Acceptance]:
        """Return the acceptances in the window that are wanted, oldest first."""
        found: Iterable[Acceptance]
        if search.to is not None:
            found = self._by_recipient.get(folded(search.to), ())
        elif search.key is not None:
            found = self._by_key.get(search.key, ())
        elif search.message_id is not None:
            found = self._by_message_id.get(bare(search.message_id) or "", ())
        else:
            found = self.acceptances
        return [each for each in found if search.matches(each)]

    def dump(self) -> Iterator[str]:
        """Yield one canonical JSON line per acceptance: equal ledgers give equal bytes."""
        for each in self.acceptances:
            facts = asdict(each) | {"accepted_at": each.accepted_at.isoformat()}
            yield json.dumps(facts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def number_of(attempt_id: str) -> int:
    """Return the number in the name of an attempt; what is no attempt (a look-up) has none and gives 0."""
    return int(attempt_id.removeprefix("att_")) if attempt_id.startswith("att_") else 0
