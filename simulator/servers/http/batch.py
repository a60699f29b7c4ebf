"""Handing in several mails in one request: request-level stages are asked once, each mail is an attempt of its own."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

from starlette.types import Receive, Scope

from simulator.dialects.native.batch import Batch, read_batch
from simulator.provider.answer import Accepted, Answer, InTurn, Refused, Reply, Results, Words
from simulator.provider.ledger import Attempt, Sent
from simulator.provider.message import Submission
from simulator.provider.provider import Detail
from simulator.servers.http.desk import Desk
from simulator.servers.http.head import Head, read_head
from simulator.servers.http.line import HttpLine
from simulator.servers.http.sending import LARGE_BODY_BYTES, all_said, detail_of, take_in


async def hand_in_batch(desk: Desk, scope: Scope, receive: Receive) -> None:
    """Serve a request that hands in several mails."""
    line: HttpLine = scope["state"]["line"]
    attempts = [desk.open(line)]
    try:
        await _serve(desk, attempts, read_head(scope, desk.provider, desk.now()), receive, line)
    except asyncio.CancelledError:
        for attempt in attempts:
            desk.provider.told(attempt, Sent.NOTHING, desk.now())
        raise
    finally:
        # The one that stands for all of them last: it holds the key of the batch.
        for attempt in reversed(attempts):
            desk.close(attempt)
    await all_said(line)


async def _serve(desk: Desk, attempts: list[Attempt], head: Head, receive: Receive, line: HttpLine) -> None:
    lead = attempts[0]
    body = await take_in(desk, lead, head, receive, line)
    if body is None:
        return
    batch = await _read(desk, head, body) if isinstance(body, bytes) else body
    answer = await desk.ask(lead, "request", head.detail)
    if answer is None and not isinstance(batch, Batch):
        answer = await desk.ask(lead, "validate", head.detail) or batch
    if answer is not None:
        await desk.say(answer, attempts, line)
        return
    assert isinstance(batch, Batch)
    attempts += desk.provider.open_items(lead, len(batch.mails), desk.now())[1:]
    answer, after_head = await _Counter(desk, attempts, head, batch).serve()
    await desk.say(answer, attempts, line, after_head=after_head)


async def _read(desk: Desk, head: Head, body: bytes) -> Batch | Refused:
    keys = head.setup.keys
    read = partial(
        read_batch,
        body,
        key=head.detail.key,
        max_mails=head.setup.batch.max_mails,
        now=desk.now(),
        host=desk.hostname,
        body_field=keys.body_field,
        max_chars=keys.max_chars,
    )
    if len(body) < LARGE_BODY_BYTES:
        return read()
    return await asyncio.to_thread(read)


class _Counter:
    """Takes the mails of one batch, one after the other."""

    def __init__(self, desk: Desk, attempts: list[Attempt], head: Head, batch: Batch) -> None:
        self._desk = desk
        self._attempts = attempts
        self._key = head.detail.key
        self._credential = head.detail.credential
        self._all_or_nothing = head.setup.batch.mode == "all_or_nothing"
        self._batch = batch
        self._outcomes: list[Accepted | Refused | Reply | None] = [None] * len(attempts)

    async def serve(self) -> tuple[Answer, Words | None]:
        """Return the answer, and the words whose head goes out first if only the body is hit."""
        answer = await self._ask_all("validate")
        for index, mail in enumerate(self._batch.mails):
            if isinstance(mail, Refused) and self._outcomes[index] is None:
                self._outcomes[index] = mail
        if answer is None and self._all_or_nothing:
            answer = self._first_refusal()
        if answer is None:
            answer = self._desk.refusal()
        if answer is not None:
            return answer, None
        words = await self._claim()
        if words is None:
            answer = await (self._take_all_or_none() if self._all_or_nothing else self._take_each())
            if answer is not None and not isinstance(answer, Refused | Reply):
                # The line breaks in the middle of the batch; what has been taken so far is taken.
                await self._desk.kept()
                return answer, None
            items = tuple(outcome for outcome in self._outcomes if outcome is not None)
            words = Results(items=items) if answer is None else answer
        return await self._say(words)

    async def _say(self, words: Words) -> tuple[Answer, Words | None]:
        desk = self._desk
        verdict = desk.provider.answer_batch(self._attempts, words, self._batch.fingerprint, desk.now())
        # The attempts are kept with what was booked: should we die now, all is known, and that nobody was told.
        for attempt in self._attempts:
            desk.provider.told(attempt, Sent.UNKNOWN, desk.now())
        answer = await desk.keep(verdict)
        return answer, verdict.words if verdict.after_head and answer is verdict.answer else None

    async def _claim(self) -> Words | None:
        """Ask for the key of the whole batch."""
        met: Answer | None = self._begin()
        if isinstance(met, InTurn):
            met = await self._desk.wire.wait_in_turn(met, self._attempts[0], self._begin)
        assert met is None or isinstance(met, Accepted | Refused | Reply | Results)
        return met

    def _begin(self) -> Words | InTurn | None:
        lead, desk = self._attempts[0], self._desk
        return desk.provider.begin_batch(lead, self._key, self._batch.fingerprint, desk.now())

    async def _take_each(self) -> Answer | None:
        """Take or refuse one mail after the other. Return what ends the request in the middle of it."""
        for index, mail in enumerate(self._batch.mails):
            if self._outcomes[index] is not None:
                continue
            answer = await self._ask(index, "accept")
            if answer is not None:
                return answer
            if self._outcomes[index] is None:
                assert isinstance(mail, Submission)
                self._outcomes[index] = self._desk.refusal() or self._desk.provider.take(
                    self._attempts[index], mail, self._desk.now()
                )
        return None

    async def _take_all_or_none(self) -> Answer | None:
        """Take every mail, or return what is said instead."""
        answer = await self._ask_all("accept") or self._first_refusal()
        if answer is not None:
            return answer
        now, provider = self._desk.now(), self._desk.provider
        mails = [mail for mail in self._batch.mails if isinstance(mail, Submission)]
        for index, mail in enumerate(mails):
            refused = provider.would_take(self._attempts[index], mail, now)
            if refused is not None:
                return replace(refused, index=index)
        for index, mail in enumerate(mails):
            self._outcomes[index] = provider.take(self._attempts[index], mail, now, owed=True)
        return None

    def _first_refusal(self) -> Answer | None:
        return next((outcome for outcome in self._outcomes if isinstance(outcome, Refused | Reply)), None)

    async def _ask_all(self, stage: str) -> Answer | None:
        for index in range(len(self._attempts)):
            answer = await self._ask(index, stage)
            if answer is not None:
                return answer
        return None

    async def _ask(self, index: int, stage: str) -> Answer | None:
        """Ask the rules of a mail's stage; words are that mail's outcome. Return what hits the request as a whole."""
        mail = self._batch.mails[index]
        detail = (
            detail_of(mail, self._credential)
            if isinstance(mail, Submission)
            else Detail(credential=self._credential)
        )
        answer = await self._desk.ask(self._attempts[index], stage, detail)
        if isinstance(answer, Refused):
            answer = replace(answer, index=index)
        if not isinstance(answer, Refused | Reply):
            return answer
        self._outcomes[index] = answer
        return None
