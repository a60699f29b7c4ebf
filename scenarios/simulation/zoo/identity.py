"""Senders that mix up which mail it is, what is in it, or who is to get it."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import update

from reference_sender.life import Docket, Parcel, State
from reference_sender.message import idempotency_key_for
from reference_sender.outbox.schema import outgoing_email
from reference_sender.outbox.store import Store, enqueue
from reference_sender.policy.decision import Decision
from reference_sender.policy.evidence import Evidence, Phase, Wire
from reference_sender.worker import Transport
from scenarios.simulation.senders import Owed, ReferenceSender
from scenarios.simulation.world import World
from scenarios.simulation.zoo.keeper import BadSender, Ground, where

ARCHIVE = "archive@example.com"


class Rewrites:
    """A transport that changes each parcel before it leaves."""

    def __init__(self, inner: Transport, rewrite: Callable[[Parcel], Parcel]) -> None:
        self._inner = inner
        self._rewrite = rewrite

    async def send(
        self, parcel: Parcel, *, key: str, point_of_no_return: Callable[[], Awaitable[bool]]
    ) -> Evidence:
        return await self._inner.send(self._rewrite(parcel), key=key, point_of_no_return=point_of_no_return)


class CopiesForTheArchive(Rewrites):
    """Sends every mail once more, to an address nobody promised anything."""

    async def send(
        self, parcel: Parcel, *, key: str, point_of_no_return: Callable[[], Awaitable[bool]]
    ) -> Evidence:
        evidence = await super().send(parcel, key=key, point_of_no_return=point_of_no_return)
        unmarked = parcel.raw.replace(b"X-Obligation:", b"X-Copy-Of:")
        copy = replace(parcel, recipient=ARCHIVE, raw=unmarked)
        await self._inner.send(copy, key=f"{key}/archive", point_of_no_return=point_of_no_return)
        return evidence


def rewriting(rewrite: Callable[[Parcel], Parcel]) -> dict[str, Any]:
    """Parts of a sender that changes what it sends."""
    return {"around_transport": lambda inner: Rewrites(inner, rewrite)}


def _renamed(parcel: Parcel) -> Parcel:
    new = parcel.message_id.replace("<", f"<{parcel.token}.", 1)
    return replace(parcel, message_id=new, raw=parcel.raw.replace(parcel.message_id.encode(), new.encode()))


def _rendered_anew(parcel: Parcel) -> Parcel:
    return replace(parcel, raw=b"X-Attempt: %d\r\n" % parcel.token + parcel.raw)


def _to_somebody_else(parcel: Parcel) -> Parcel:
    return parcel if parcel.token == 1 else replace(parcel, recipient=ARCHIVE)


def _to_the_first(parcel: Parcel) -> Parcel:
    # The loop variable of another loop: everybody's mail goes to the same address.
    return replace(parcel, recipient=f"ada.{parcel.recipient.partition('.')[2]}")


class AllAgain(Store):
    """One recipient has to wait, so all recipients of the event are due again."""

    def settle(self, docket: Docket, decision: Decision, *, now: datetime, **more: Any) -> bool:
        held = super().settle(docket, decision, now=now, **more)
        if decision.state is State.PENDING:
            with self.engine.begin() as connection:
                connection.execute(
                    update(outgoing_email)
                    .where(outgoing_email.c.dedupe_key == docket.key)
                    .values(state=State.PENDING, next_attempt_at=now)
                )
        return held


class BobMustWait:
    """A server that tells one of the recipients to come back later, twice."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def send(
        self, parcel: Parcel, *, key: str, point_of_no_return: Callable[[], Awaitable[bool]]
    ) -> Evidence:
        if parcel.recipient.startswith("bob") and parcel.token <= 2:
            return Evidence(wire=Wire.SMTP, phase=Phase.RCPT, code=450)
        return await self._inner.send(parcel, key=key, point_of_no_return=point_of_no_return)


class OneYesForAll(Store):
    """One recipient is accepted, so the event is done."""

    def settle(self, docket: Docket, decision: Decision, *, now: datetime, **more: Any) -> bool:
        held = super().settle(docket, decision, now=now, **more)
        if decision.state is State.ACCEPTED:
            with self.engine.begin() as connection:
                connection.execute(
                    update(outgoing_email)
                    .where(outgoing_email.c.dedupe_key == docket.key)
                    .values(state=State.ACCEPTED)
                )
        return held


class CallsTwice(ReferenceSender):
    """An application that does not trust its own commit, and tells the outbox of each event twice."""

    def enqueue(self, world: World, owed: Owed) -> None:
        super().enqueue(world, owed)
        engine = self._engine()
        with engine.begin() as connection:
            self.enqueue_with(connection, owed.mail, key=owed.ref, now=world.clock.now())
        engine.dispose()


def _new_key_for_each_call() -> Callable[[str, str], str]:
    calls = itertools.count()
    return lambda key, address: idempotency_key_for(f"{key}/{next(calls)}", address)


SENDERS: tuple[BadSender, ...] = (
    BadSender(
        name="new key per try",
        sin="The idempotency key counts the attempts, so the provider cannot know the mail again.",
        like="key derived from the attempt",
        kind="duplicated",
        promises=("lost-answer.timeout", "lost-answer.fin", "lost-answer.rst", "lost-answer.server-error"),
        parts={"key_of": lambda parcel: f"{parcel.idempotency_key}/{parcel.token}"},
        blocks=(where("http-keys", "taken, closed"),),
    ),
    BadSender(
        name="new key per try, seen without a copy",
        sin="The same, where nothing was in doubt: even a 503 shows that the key is not the mail's own.",
        like="identity of the key over all attempts",
        kind="identity changed",
        promises=("temporary.same-identity",),
        parts={"key_of": lambda parcel: f"{parcel.idempotency_key}/{parcel.token}"},
        blocks=(where("http-keys", "503"),),
    ),
    BadSender(
        name="one key for all",
        sin="The key is the sender's address, so the second mail is taken for the first.",
        like="different mails share a key",
        kind="parked",
        promises=("business.equal-content",),
        parts={"key_of": lambda parcel: parcel.sender},
        blocks=(where("http-keys", shape="two mails, two workers"),),
    ),
    BadSender(
        name="recipients share a key",
        sin="The key names the event and not the recipient, so of three recipients one is written to.",
        like="one key for a list of recipients",
        kind="lost",
        promises=("recipients.one-refused",),
        enqueue_with=partial(enqueue, key_for=lambda key, address: idempotency_key_for(key, "")),
        blocks=(where("http-keys", shape="three recipients"),),
    ),
    BadSender(
        name="each call is a new event",
        sin="The same event told to the outbox twice makes two rows, and two mails.",
        like="repeat of a call whose commit was in doubt",
        kind="duplicated",
        promises=("business.same-event-twice",),
        enqueue_with=partial(enqueue, key_for=_new_key_for_each_call()),
        ground=Ground(says="the application tells each event twice", sender=CallsTwice),
        blocks=(where("http-keys"),),
    ),
    BadSender(
        name="new Message-ID per try",
        sin="The mail gets its Message-ID when it is sent, so nobody can tell copies by it.",
        like="Message-ID made at send time",
        kind="identity changed",
        promises=("temporary.same-identity",),
        parts=rewriting(_renamed),
        blocks=(where("smtp-at-least-once", "dot 451"),),
    ),
    BadSender(
        name="rendered at send time",
        sin="The mail is rendered for each attempt, so the key is the same and the bytes are not.",
        like="same key, other body",
        kind="bytes differ",
        promises=("content.same-bytes",),
        parts=rewriting(_rendered_anew),
        blocks=(where("http-keys", "taken, closed"),),
    ),
    BadSender(
        name="copies that differ",
        sin="Sends again after a doubt, as it may, and with other bytes, as it may not.",
        like="extra copies that readers cannot tell as such",
        kind="bytes differ",
        promises=("content.same-bytes", "content.real-mail"),
        parts=rewriting(_rendered_anew),
        blocks=(where("smtp-at-least-once", "taken, closed"),),
    ),
    BadSender(
        name="somebody else on retry",
        sin="The second attempt goes to another address than the first.",
        like="state of one mail leaks into another",
        kind="misdirected",
        parts=rewriting(_to_somebody_else),
        blocks=(where("http-keys", "503"), where("smtp-at-most-once", "RCPT 450")),
    ),
    BadSender(
        name="everybody's mail to the first",
        sin="In a list of recipients the address of the first is used for all.",
        like="loop over recipients in one job",
        kind="lost",
        promises=("recipients.one-later",),
        parts=rewriting(_to_the_first),
        blocks=(where("smtp-at-most-once", shape="three recipients"),),
    ),
    BadSender(
        name="a copy for the archive",
        sin="Every mail is sent once more, to an address that nobody promised anything.",
        like="mail that no business transaction stands for",
        kind="phantom",
        promises=("business.rollback",),
        parts={"around_transport": lambda inner: CopiesForTheArchive(inner, lambda parcel: parcel)},
        blocks=(where("http-keys"),),
    ),
    BadSender(
        name="all again for one",
        sin="One recipient has to wait, so the mail is sent to all of them again.",
        like="partial acceptance treated as failure of the whole",
        kind="duplicated",
        promises=("recipients.one-later", "recipients.one-refused"),
        parts={"open_store": AllAgain},
        ground=Ground(
            says="one mail at a time, and one of three has to wait twice",
            around_transport=BobMustWait,
            options={"concurrency": 1},
        ),
        blocks=(where("smtp-at-most-once", shape="three recipients"),),
    ),
    BadSender(
        name="one yes for all",
        sin="One recipient is accepted, so all of them are called accepted.",
        like="one state for a list of recipients",
        kind="lost",
        promises=("recipients.one-later",),
        parts={"open_store": OneYesForAll},
        ground=Ground(says="one mail at a time", options={"concurrency": 1}),
        blocks=(where("smtp-at-most-once", shape="three recipients"),),
    ),
)
