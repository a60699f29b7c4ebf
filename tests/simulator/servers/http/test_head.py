"""Heads of requests: whose a request is, which key it brings, and what it is refused for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.simulator.running import Running, Sender, ask, mail, request
from tests.simulator.servers.http.provider import accepted, is_yes, plan


def headed(*lines: str, body: bytes = b"{}") -> bytes:
    """Return a request with exactly these header lines."""
    head = [*("POST /v1/emails HTTP/1.1", f"Content-Length: {len(body)}"), *lines]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def test_a_request_without_host_is_refused(simulator: Running) -> None:
    """RFC 9112, section 3.2: 400. HTTP/1.0 knows no Host."""
    seen = ask(simulator, headed())

    assert (seen.status, seen.json["detail"]) == (400, "the Host header is missing; HTTP/1.1 needs one")
    old = request(mail()).replace(b"HTTP/1.1\r\nHost: 127.0.0.1", b"HTTP/1.0")
    with Sender(simulator.http) as sender:
        assert is_yes(sender.say(old).see())
        assert sender.end() == "eof"


def test_a_request_with_two_hosts_is_refused(simulator: Running) -> None:
    """The same section: 400, whatever both of them say."""
    for other in ("x.example", "y.example"):
        seen = ask(simulator, headed("Host: x.example", f"Host: {other}"))

        assert (seen.status, seen.json["detail"]) == (400, "there is more than one Host header; give one")


@pytest.mark.parametrize(
    "host", ["a b", "ann@x.example", "x.example/v1", "x.example:http", "[::1", "ü", "x%zz"]
)
def test_a_host_that_is_none_is_refused(simulator: Running, host: str) -> None:
    """The same section: 400."""
    seen = ask(simulator, headed(f"Host: {host}", body=json.dumps(mail()).encode()))

    assert seen.status == 400
    assert seen.json["detail"].startswith("the Host header is no host")


@pytest.mark.parametrize("host", ["", "localhost", "mail_1.test:8025", "127.0.0.1:", "[::1]:80", "x%41"])
def test_a_host_may_be_written_in_many_ways(simulator: Running, host: str) -> None:
    assert is_yes(ask(simulator, headed(f"Host: {host}", body=json.dumps(mail()).encode())))


def test_only_chunked_is_known_of_the_transfer_codings(simulator: Running) -> None:
    """RFC 9112, section 6.1: 501. Without undoing the other one the body would be read as what it is not."""
    body = json.dumps(mail()).encode()
    head = b"POST /v1/emails HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"

    assert ask(simulator, head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)).status == 501


def test_a_key_that_is_given_twice_is_one_or_none(simulator: Running) -> None:
    """The same value twice is no harm; which of two different ones counts nobody can know."""
    same = request(mail(), key="a", headers={"idempotency-key": "a"})
    two = request(mail(), key="a", headers={"idempotency-key": "b"})

    assert is_yes(ask(simulator, same))
    seen = ask(simulator, two)
    assert (seen.status, seen.json["code"]) == (400, "invalid_request")
    assert seen.json["detail"] == "idempotency-key is given twice with different values; give it once"


def test_a_provider_may_require_an_api_key(simulator: Running) -> None:
    """401 without one, with the challenge of RFC 9110, section 11.6.1; 403 for one that is no account's."""
    with simulator.control("shop-b") as control:
        control.reset()
    plan(simulator, http={"api_key_required": True})

    none, unknown, known = (
        ask(simulator, request(mail(), headers=headers))
        for headers in ({}, {"Authorization": "Bearer who"}, {"Authorization": "bearer shop-b"})
    )

    assert (none.status, none.json["code"]) == (401, "credential_missing")
    assert none.headers["www-authenticate"].startswith("Bearer")
    assert (unknown.status, unknown.json["code"]) == (403, "credential_unknown")
    assert is_yes(known)
    assert accepted(simulator) == 0


def test_a_look_up_needs_the_api_key_too(simulator: Running) -> None:
    plan(simulator, http={"api_key_required": True})

    for path in ("/v1/emails/msg_1", "/v1/emails?idempotency_key=k"):
        assert ask(simulator, request(method="GET", path=path)).status == 401


@pytest.mark.parametrize(
    ("settings", "sent", "replays"),
    [
        ({"header": "X-Request-Key"}, {"headers": {"x-request-key": "k"}}, True),
        ({"header": "X-Request-Key"}, {"key": "k"}, False),
        ({"carrier": "body"}, {"inside": {"idempotency_key": "k"}}, True),
        ({"carrier": "body"}, {"key": "k"}, False),
        ({"carrier": "either"}, {"key": "k"}, True),
        ({"carrier": "either"}, {"inside": {"idempotency_key": "k"}}, True),
        (
            {"carrier": "body", "body_field": "headers.idempotencyKey"},
            {"inside": {"headers": {"idempotencyKey": "k"}}},
            True,
        ),
        ({"carrier": "body", "body_field": "a.b"}, {"inside": {}}, False),
        ({"form": "quoted"}, {"key": '"k"'}, True),
    ],
    ids=str,
)
def test_the_key_is_where_the_provider_looks_for_it(
    simulator: Running, settings: dict[str, Any], sent: dict[str, Any], replays: bool
) -> None:
    """Somewhere else it is no key, and the second request is a second mail."""
    plan(simulator, idempotency=settings)
    data = request(mail(**sent.get("inside", {})), key=sent.get("key"), headers=sent.get("headers"))

    first, second = ask(simulator, data), ask(simulator, data)

    assert is_yes(first)
    assert is_yes(second)
    assert ("idempotency-replayed" in second.headers) is replays
    assert accepted(simulator) == (1 if replays else 2)


@pytest.mark.parametrize(
    ("settings", "sent", "says"),
    [
        ({"form": "quoted"}, {"key": "k"}, "must be a string in double quotes"),
        ({"max_chars": 3}, {"key": "abcd"}, "1 to 3 printable ASCII characters"),
        ({"carrier": "body"}, {"inside": {"idempotency_key": ""}}, "the idempotency key is empty"),
        ({"carrier": "body"}, {"inside": {"idempotency_key": 7}}, '"idempotency_key" is a number'),
        ({"carrier": "header"}, {"inside": {"idempotency_key": "k"}}, "unknown key 'idempotency_key'"),
    ],
    ids=str,
)
def test_a_key_that_is_none_is_refused(
    simulator: Running, settings: dict[str, Any], sent: dict[str, Any], says: str
) -> None:
    plan(simulator, idempotency=settings)

    seen = ask(simulator, request(mail(**sent.get("inside", {})), key=sent.get("key")))

    assert (seen.status, seen.json["code"]) == (400, "invalid_request")
    assert says in seen.json["detail"]


def test_replays_are_marked_as_the_account_wants_it(simulator: Running) -> None:
    plan(simulator, idempotency={"replay_header": "Idempotent-Response"})

    ask(simulator, request(mail(), key="k"))

    assert ask(simulator, request(mail(), key="k")).headers["idempotent-response"] == "true"


def test_a_body_that_brings_its_key_is_compared_without_it(simulator: Running) -> None:
    """The key says which request it is, not what is in it."""
    plan(simulator, idempotency={"carrier": "either"})
    ask(simulator, request(mail(), key="k"))

    seen = ask(simulator, request(mail(idempotency_key="k")))

    assert seen.headers["idempotency-replayed"] == "true"
