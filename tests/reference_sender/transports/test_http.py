"""The HTTP wire against servers that misbehave: the evidence says exactly how far it got."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from reference_sender.life import Docket, Parcel
from reference_sender.policy.evidence import Evidence, Phase, Wire
from reference_sender.policy.lookup import Found, LookedUp, NotFound, Unavailable
from reference_sender.transports.http import HttpLookup, HttpOptions, HttpTransport, evidence_of, limits_in
from tests.reference_sender.samples import docket, parcel
from tests.reference_sender.transports.wires import (
    Script,
    for_ever,
    free_port,
    go_on,
    reset,
    serving,
    withdraw,
)

PointOfNoReturn = Callable[[], Awaitable[bool]]


def options(port: int, **more: Any) -> HttpOptions:
    times = {"connect_timeout_s": 2.0, "read_timeout_s": 2.0, "total_timeout_s": 4.0}
    return HttpOptions(**({"url": f"http://127.0.0.1:{port}", "api_key": "secret"} | times | more))


async def read_request(reader: asyncio.StreamReader) -> tuple[str, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = next(
        (int(line.split(":")[1]) for line in head.splitlines() if line.lower().startswith("content-length")),
        0,
    )
    return head, await reader.readexactly(length)


def answer(status: int, body: bytes, *, headers: str = "", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return f"HTTP/1.1 {status} X\r\nContent-Length: {size}\r\n{headers}\r\n".encode() + body


def saying(data: bytes, end: Callable[[asyncio.StreamWriter], None] | None = None) -> Script:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(data)
        await writer.drain()
        if end is not None:
            end(writer)

    return script


def attempt(
    script: Script,
    mail: Parcel | None = None,
    point_of_no_return: PointOfNoReturn = go_on,
    **more: Any,
) -> Evidence:
    async def run() -> Evidence:
        async with serving(script) as port:
            transport = HttpTransport(options(port, **more))
            try:
                return await transport.send(mail or parcel(), key="k1", point_of_no_return=point_of_no_return)
            finally:
                await transport.close()

    return asyncio.run(run())


def test_the_request_is_what_the_provider_expects() -> None:
    seen: list[tuple[str, bytes]] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await read_request(reader))
        writer.write(answer(200, b'{"id": "m1"}'))

    evidence = attempt(script, key_header="X-Dedupe-Key", path="/send")
    assert (evidence.provider_id, evidence.code, evidence.phase) == ("m1", 200, Phase.SENT)
    head, body = seen[0]
    assert head.startswith("POST /send HTTP/1.1\r\n")
    assert "X-Dedupe-Key: k1\r\n" in head
    assert "Authorization: Bearer secret\r\n" in head
    assert "chunked" not in head.lower()
    told = json.loads(body)
    assert (told["from"], told["to"]) == ("shop@example.org", ["ann@example.com"])
    assert parcel().raw == base64.b64decode(told["raw"])


def test_without_an_api_key_there_is_no_authorization_header() -> None:
    heads: list[str] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await read_request(reader))[0])
        writer.write(answer(200, b'{"id": "m1"}'))

    assert attempt(script, api_key="").code == 200
    assert "authorization" not in heads[0].lower()


def test_a_large_mail_goes_out_whole() -> None:
    bodies: list[bytes] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        bodies.append((await read_request(reader))[1])
        writer.write(answer(200, b'{"id": "m1"}'))

    mail = parcel(raw=bytes(range(256)) * 20_000)
    assert attempt(script, mail).code == 200
    assert mail.raw == base64.b64decode(json.loads(bodies[0])["raw"])


@pytest.mark.parametrize(
    ("script", "trouble"),
    [
        (saying(b""), "eof"),
        (saying(b"", reset), "reset"),
        (saying(b"HTTP/1.1 200 OK\r\nContent-Le"), "eof"),
        (saying(b"rubbish\r\n\r\n"), "garbled"),
        (saying(answer(200, b'{"id": "m', length=100)), "truncated"),
        (saying(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), "truncated"),
        (saying(answer(200, b"x" * 1_100_000)), "truncated"),
    ],
    ids=["fin", "rst", "half head", "rubbish", "short body", "broken chunk", "endless"],
)
def test_without_a_complete_answer_there_is_no_code(script: Script, trouble: str) -> None:
    evidence = attempt(script)
    assert (evidence.phase, evidence.code) == (Phase.SENT, None)
    assert evidence.trouble in {trouble, "truncated", "garbled", "eof"}
    assert evidence.provider_id is None


def test_a_reset_is_named_a_reset() -> None:
    assert attempt(saying(b"", reset)).trouble == "reset"


def test_silence_ends_with_the_read_deadline() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        await for_ever()

    evidence = attempt(script, read_timeout_s=0.1)
    assert (evidence.phase, evidence.trouble) == (Phase.SENT, "timeout")


def test_an_answer_that_drips_ends_with_the_total_deadline() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(answer(200, b"", length=1_000_000))
        while True:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.02)

    evidence = attempt(script, total_timeout_s=0.3)
    assert (evidence.phase, evidence.code, evidence.trouble) == (Phase.SENT, None, "timeout")


def test_a_server_that_reads_nothing_leaves_the_mail_incomplete() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined] # a read transport
        await for_ever()

    evidence = attempt(script, parcel(raw=b"x" * 30_000_000), total_timeout_s=0.5)
    assert (evidence.phase, evidence.trouble) == (Phase.BODY, "timeout")


def test_nobody_listening_means_nothing_left() -> None:
    async def run() -> Evidence:
        transport = HttpTransport(options(free_port()))
        try:
            return await transport.send(parcel(), key="k", point_of_no_return=go_on)
        finally:
            await transport.close()

    evidence = asyncio.run(run())
    assert (evidence.wire, evidence.phase, evidence.trouble) == (Wire.HTTP, Phase.CONNECT, "no connection")


def test_a_withdrawn_attempt_sends_no_byte_of_the_mail() -> None:
    heard: list[bytes] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read())

    evidence = attempt(script, point_of_no_return=withdraw)
    assert (evidence.phase, evidence.trouble, evidence.code) == (Phase.BODY, "withdrawn", None)
    assert b'"raw"' not in b"".join(heard)


def test_the_point_of_no_return_comes_before_the_first_byte_of_the_body() -> None:
    order: list[str] = []
    received = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        order.append("body")
        received.set()
        writer.write(answer(200, b'{"id": "m1"}'))

    async def mark() -> bool:
        # Whatever had been let go already would arrive in this time.
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(received.wait(), 0.05)
        order.append("mark")
        return True

    attempt(script, point_of_no_return=mark)
    assert order == ["mark", "body"]


def test_a_redirect_is_an_answer_and_is_not_followed() -> None:
    connections: list[str] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append((await read_request(reader))[0])
        writer.write(answer(307, b"", headers="Location: /elsewhere\r\n"))

    assert attempt(script).code == 307
    assert len(connections) == 1


@pytest.mark.parametrize("keep_alive", [True, False])
def test_a_post_on_a_dying_connection_is_not_repeated_behind_our_back(keep_alive: bool) -> None:
    requests: list[int] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        requests.append(1)
        writer.write(answer(200, b'{"id": "m1"}'))
        # The second request on the same connection is read and never answered.
        await read_request(reader)
        requests.append(2)

    async def run() -> list[Evidence]:
        async with serving(script) as port:
            transport = HttpTransport(options(port, keep_alive=keep_alive))
            try:
                return [await transport.send(parcel(), key="k", point_of_no_return=go_on) for _ in range(2)]
            finally:
                await transport.close()

    first, second = asyncio.run(run())
    assert first.code == 200
    if keep_alive:
        assert (second.phase, second.code) == (Phase.SENT, None)
        assert requests == [1, 2]
    else:
        assert second.code == 200
        assert requests == [1, 1]


def test_the_facts_of_an_answer_are_kept() -> None:
    body = json.dumps({"code": "key_in_flight", "id": "", "rejected": "x"}).encode()
    evidence = attempt(saying(answer(409, body, headers="Retry-After: 7\r\n")))
    assert (evidence.problem, evidence.retry_after, evidence.provider_id) == ("key_in_flight", "7", None)
    assert evidence.answer == body.decode()


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b'"m1"', b'{"id": 5}', b"<html>", b"\xff\xfe\x00", b"{", b"[" * 99_999]
)
def test_a_success_that_cannot_be_read_has_no_id(body: bytes) -> None:
    evidence = attempt(saying(answer(200, body)))
    assert (evidence.code, evidence.provider_id) == (200, None)
    assert "\x00" not in (evidence.answer or "")


ODD_NAMES = [("\ud800m", "?m"), ("m\x00", "m"), ("m" * 300, "m" * 255), ("\x00", None)]


@pytest.mark.parametrize(("told", "kept"), ODD_NAMES, ids=["half", "nul", "long", "nothing"])
def test_a_name_of_a_mail_is_kept_as_every_database_takes_it(told: str, kept: str | None) -> None:
    """Otherwise the mail could not be settled, and would be sent again."""
    evidence = attempt(saying(answer(200, json.dumps({"id": told}).encode())))
    assert (evidence.code, evidence.provider_id) == (200, kept)
    assert Found(provider_id=kept or "") == look_up(knowing({**KNOWN, "id": told}))


@pytest.mark.parametrize(
    ("rejected", "code"),
    [
        ([{"recipient": "ann@example.com", "code": 451}], 451),
        ([{"recipient": "ANN@example.com"}], 550),
        ([{"recipient": "ann@example.com", "code": 10**40}], 550),
        ([{"recipient": "bob@example.com", "code": 550}], None),
        ([], None),
        (["ann@example.com"], None),
    ],
)
def test_a_refused_recipient_in_a_success_is_seen(rejected: list[Any], code: int | None) -> None:
    body = json.dumps({"id": "m1", "rejected": rejected}).encode()
    assert code == attempt(saying(answer(200, body))).recipient_code


def test_a_refused_recipient_is_seen_also_where_its_domain_is_told_in_letters() -> None:
    """Or the mail would count as accepted, and be lost."""
    seen = evidence_of(
        202,
        None,
        '{"id": "m1", "rejected": [{"recipient": "ann@bücher.example", "code": 550}]}'.encode(),
        parcel(recipient="ann@xn--bcher-kva.example"),
        Phase.SENT,
    )
    assert seen.recipient_code == 550


def look_up(script: Script, mail: Docket | None = None) -> LookedUp:
    async def run() -> LookedUp:
        async with serving(script) as port:
            lookup = HttpLookup(options(port, read_timeout_s=0.2))
            try:
                return await lookup.find(mail or docket())
            finally:
                await lookup.close()

    return asyncio.run(run())


KNOWN = {
    "id": "m1",
    "message_id": "<aa.v1@example.org>",
    "idempotency_key": "order-1.v1.aa",
    "status": "accepted",
    "accepted": ["ann@example.com"],
}


def knowing(*entries: Any, only_for: str = "") -> Script:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _ = await read_request(reader)
            data = entries if only_for in head else ()
            writer.write(answer(200, json.dumps({"data": data}).encode()))

    return script


def test_a_look_up_finds_by_key_and_by_message_id() -> None:
    assert Found(provider_id="m1") == look_up(knowing(KNOWN))
    assert Found(provider_id="m1") == look_up(knowing(KNOWN, only_for="message_id="))


@pytest.mark.parametrize(
    "changes",
    [
        {"accepted": ["bob@example.com"]},
        {"status": "failed"},
        {"idempotency_key": "another", "message_id": "<another@example.org>"},
    ],
)
def test_what_a_look_up_finds_must_be_ours(changes: dict[str, Any]) -> None:
    assert NotFound() == look_up(knowing(KNOWN | changes))


def test_what_a_look_up_finds_is_ours_also_where_the_domain_is_in_letters() -> None:
    """Or "not found" would count, and the mail be sent again."""
    mail = docket(recipient="ann@xn--bcher-kva.example")
    assert Found(provider_id="m1") == look_up(knowing(KNOWN | {"accepted": ["ann@Bücher.example"]}), mail)


@pytest.mark.parametrize("status", ["delivered", "bounced", "sent", None, 7])
def test_a_state_that_is_not_known_is_no_proof_that_a_mail_was_not_taken(status: Any) -> None:
    """Minutes after the acceptance most mails are delivered, and whoever says so says that he took them."""
    assert isinstance(look_up(knowing(KNOWN | {"status": status})), Unavailable)
    taken = KNOWN | {"id": "m2", "idempotency_key": "order-1.v1.aa"}
    assert Found(provider_id="m2") == look_up(knowing(KNOWN | {"status": status}, taken))


@pytest.mark.parametrize(
    "script",
    [
        saying(answer(500, b"")),
        saying(answer(200, b"rubbish")),
        saying(answer(200, b"[]")),
        saying(answer(200, b'{"data": 5}')),
        saying(answer(200, b'{"data": [5]}')),
        saying(answer(200, b"[" * 99_999)),
        saying(b""),
        saying(b"", reset),
    ],
    ids=["500", "rubbish", "list", "number", "numbers", "brackets", "fin", "rst"],
)
def test_a_look_up_that_is_not_answered_is_unavailable(script: Script) -> None:
    assert isinstance(look_up(script), Unavailable)


@pytest.mark.parametrize(
    ("document", "name"),
    [
        ({"type": "about:blank", "code": "rate_limited"}, "rate_limited"),
        ({"name": "daily_quota_exceeded", "statusCode": 429}, "daily_quota_exceeded"),
        ({"__type": "com.amazonaws.ses#ThrottlingException"}, "ThrottlingException"),
        ({"error": {"type": "too_many_requests"}}, "too_many_requests"),
        ({"error": "invalid_request"}, "invalid_request"),
        ({"errors": [{"code": "2101"}]}, "2101"),
        ({"code": 405, "message": "x"}, None),
        ({"errors": []}, None),
        ({"errors": ["x"]}, None),
        ([], None),
    ],
)
def test_the_name_of_an_error_is_found_where_services_put_it(document: Any, name: str | None) -> None:
    evidence = evidence_of(400, None, json.dumps(document).encode(), parcel(), Phase.SENT)
    assert evidence.problem == name


def test_the_fields_that_tell_of_limits_are_kept_as_they_came() -> None:
    told = [
        ("Date", "x"),
        ("RateLimit", '"d";r=0;t=3'),
        ("X-RateLimit-Reset", "9"),
        ("ratelimit-remaining", "0"),
    ]
    assert limits_in(told) == tuple(told[1:])
