"""Handing in one mail: one `POST`, one attempt."""

from __future__ import annotations

import asyncio

from starlette.types import Receive, Scope

from simulator.dialects.native.request import read
from simulator.provider.answer import Answer, KeepExpecting, Refused, Reply, Words
from simulator.provider.ledger import Attempt, Sent
from simulator.provider.message import Submission
from simulator.provider.provider import Detail
from simulator.servers.http.body import coding_of, decoded, read_body
from simulator.servers.http.desk import Desk
from simulator.servers.http.head import Head, read_head
from simulator.servers.http.line import HttpLine

#: Bodies from this size on are parsed in a thread: nobody else should wait for them.
LARGE_BODY_BYTES = 256 * 1024


async def hand_in(desk: Desk, scope: Scope, receive: Receive) -> None:
    """Serve a request that hands in one mail."""
    line: HttpLine = scope["state"]["line"]
    attempt = desk.open(line)
    try:
        await _serve(desk, attempt, read_head(scope, desk.provider, desk.now()), receive, line)
    except asyncio.CancelledError:
        desk.provider.told(attempt, Sent.NOTHING, desk.now())
        raise
    finally:
        desk.close(attempt)
    await all_said(line)


async def all_said(line: HttpLine) -> None:
    """Return when uvicorn may know that the request is over.

    An application that returns without an answer gets a 500 and a line in the log from uvicorn, unless the
    connection is known to be over.
    """
    if line.cycle is not None and not line.cycle.response_complete:
        await line.gone()


async def _serve(desk: Desk, attempt: Attempt, head: Head, receive: Receive, line: HttpLine) -> None:
    body = await take_in(desk, attempt, head, receive, line)
    if body is None:
        return
    mail: Submission | Refused | Reply = (
        body if not isinstance(body, bytes) else await _read(desk, head, body)
    )
    detail = head.detail
    if isinstance(mail, Submission):
        detail = detail_of(mail, head.detail.credential)
    answer, after_head = await _answer(desk, attempt, mail, detail)
    await desk.say(answer, [attempt], line, after_head=after_head)


async def take_in(
    desk: Desk, attempt: Attempt, head: Head, receive: Receive, line: HttpLine
) -> bytes | Refused | Reply | None:
    """Read a request to its end; return its body, or what it is refused for. None: it is over already."""
    plan = desk.provider.account(head.account, desk.now()).plan
    if plan.stands_at("http", "upload"):
        answer = await desk.ask(attempt, "upload", head.detail)
        if isinstance(answer, KeepExpecting):
            line.never_says_continue()
        elif answer is not None:
            await desk.say(answer, [attempt], line)
            return None
    is_here = line.cycle is not None and not line.cycle.more_body
    body = await read_body(head.headers, receive, is_here=is_here)
    if body is None:
        desk.provider.told(attempt, Sent.NOTHING, desk.now(), answer="sender left")
        return None
    if head.trouble is not None:
        return head.trouble
    coding = coding_of(head.headers, takes_gzip=head.setup.api.request_gzip)
    if coding.name is None or not isinstance(body, bytes):
        return body
    return coding.refusal or await asyncio.to_thread(decoded, body, coding)


def detail_of(mail: Submission, credential: str | None) -> Detail:
    """Say what a stage must know of a mail."""
    return Detail(
        credential=credential,
        sender=mail.sender,
        recipients=mail.recipients,
        key=mail.key,
        message_id=mail.message_id,
        headers=mail.headers,
        fingerprint=mail.fingerprint,
    )


async def _read(desk: Desk, head: Head, body: bytes) -> Submission | Refused:
    keys = head.setup.keys
    known = {
        "key": head.detail.key,
        "now": desk.now(),
        "host": desk.hostname,
        "body_field": None if keys.carrier == "header" else keys.body_field,
        "max_chars": keys.max_chars,
    }
    if len(body) < LARGE_BODY_BYTES:
        return read(body, **known)  # type: ignore[arg-type] # made just above
    return await asyncio.to_thread(read, body, **known)  # type: ignore[arg-type] # made just above


async def _answer(
    desk: Desk, attempt: Attempt, mail: Submission | Refused | Reply, detail: Detail
) -> tuple[Answer, Words | None]:
    """Walk the stages, book; return what is said, and the words whose head goes out first if only the body is hit."""
    for stage in ("request", "validate", "accept"):
        answer = await desk.ask(attempt, stage, detail)
        if answer is not None:
            return answer, None
        if stage == "validate" and not isinstance(mail, Submission):
            return mail, None
    assert isinstance(mail, Submission)
    refusal = desk.refusal()
    if refusal is not None:
        return refusal, None
    verdict = desk.provider.submit(attempt, mail, desk.now())
    if isinstance(verdict.words, Refused):
        return verdict.answer, None
    # The attempt is kept with its acceptance: should we die now, both are known, and that nobody was told.
    desk.provider.told(attempt, Sent.UNKNOWN, desk.now())
    answer = await desk.keep(verdict)
    return answer, verdict.words if verdict.after_head and answer is verdict.answer else None
