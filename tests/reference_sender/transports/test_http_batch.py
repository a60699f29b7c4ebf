"""Several mails in one request: what the answer says of each, and what it does not say."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest

from reference_sender.policy.batches import BatchEvidence
from reference_sender.policy.classify import classify
from reference_sender.policy.evidence import Accepted, Evidence, Phase, Refused, TryLater
from reference_sender.transports.http_batch import HttpBatchTransport, evidence_of_batch
from tests.reference_sender.samples import parcel
from tests.reference_sender.transports.test_http import answer, options, read_request, saying
from tests.reference_sender.transports.wires import Script, go_on, reset, serving, withdraw

PARCELS = tuple(
    parcel(id=n, message_id=f"<m{n}@example.org>", recipient=f"user{n}@example.com", idempotency_key=f"k{n}")
    for n in range(3)
)
YES = [
    {"index": n, "http_status": 200, "id": f"msg_{n}", "message_id": f"<m{n}@example.org>"} for n in range(3)
]
NO: dict[str, Any] = {"index": 1, "http_status": 422, "error": {"status": 422, "code": "invalid_recipient"}}


def read(document: Any, status: int = 200) -> BatchEvidence:
    return evidence_of_batch(status, None, json.dumps(document).encode(), PARCELS, Phase.SENT)


def meanings(seen: BatchEvidence) -> list[str]:
    return [type(classify(each)).__name__ for each in seen.items]


def test_each_mail_has_its_own_result() -> None:
    seen = read({"data": [YES[0], NO, YES[2]], "accepted": 2, "rejected": 1})
    assert not seen.whole
    assert [classify(each) for each in seen.items] == [
        Accepted(reason="accepted", provider_id="msg_0"),
        Refused(reason="the provider refuses the request"),
        Accepted(reason="accepted", provider_id="msg_2"),
    ]


@pytest.mark.parametrize("status", [200, 207, 400, 422])
def test_the_status_of_a_mixed_answer_says_nothing_about_a_mail(status: int) -> None:
    assert meanings(read({"data": [YES[0], NO, YES[2]]}, status)) == ["Accepted", "Refused", "Accepted"]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"data": YES[::-1]}, ["Accepted"] * 3),
        ({"data": [*YES, YES[2]]}, ["Accepted"] * 3),
        ({"data": YES[:2]}, ["Accepted", "Accepted", "Unknown"]),
        ({"data": []}, ["Unknown"] * 3),
        ({"accepted": 3, "rejected": 0}, ["Unknown"] * 3),
        ({"accepted": 1, "rejected": 2}, ["Unknown"] * 3),
        ({"data": [YES[0], YES[1], {**NO, "index": 1}]}, ["Accepted", "Unknown", "Unknown"]),
        (
            {"data": [YES[0], YES[1], {"index": 7, "http_status": 200, "id": "x"}]},
            ["Accepted"] * 2 + ["Unknown"],
        ),
        ({"data": [YES[0], 7, None]}, ["Accepted", "Unknown", "Unknown"]),
        ({"data": [YES[0], YES[1], {"index": 2, "error": {"code": "odd"}}]}, ["Accepted"] * 2 + ["Unknown"]),
        ({"data": [YES[0], YES[1], {"index": 2, "http_status": 429}]}, ["Accepted"] * 2 + ["TryLater"]),
        ({"data": [YES[0], YES[1], {"index": 2, "http_status": 500}]}, ["Accepted"] * 2 + ["Unknown"]),
        ({"data": [YES[0], YES[1], {"index": 2, "http_status": 200}]}, ["Accepted"] * 2 + ["Unknown"]),
        ({"data": [YES[0], YES[1], {**YES[2], "http_status": 10**40}]}, ["Accepted"] * 2 + ["Unknown"]),
    ],
    ids=[
        "out of order",
        "twice the same",
        "fewer than mails",
        "none",
        "totals, all good",
        "totals, mixed",
        "twice and contradictory",
        "a place that is none",
        "nonsense",
        "an error without a number",
        "too many",
        "a failure",
        "a success without an id",
        "a number that is no status",
    ],
)
def test_what_is_not_said_of_a_mail_is_not_known(document: Any, expected: list[str]) -> None:
    assert meanings(read(document)) == expected


def test_ids_alone_are_counted_past_the_errors() -> None:
    seen = read({"data": [{"id": "a"}, {"id": "b"}], "errors": [{"index": 1, "code": "rate_limited"}]})
    assert [each.provider_id for each in seen.items] == ["a", None, "b"]
    assert meanings(seen) == ["Accepted", "TryLater", "Accepted"]


def test_ids_that_are_too_few_are_nobodys() -> None:
    seen = read({"data": [{"id": "a"}], "errors": [{"index": 1, "code": "invalid_recipient"}]})
    assert meanings(seen) == ["Unknown", "Refused", "Unknown"]


def test_a_message_id_of_ours_says_more_than_a_place() -> None:
    crossed = [{**YES[0], "index": 1}, {**YES[1], "index": 0}, YES[2]]
    assert [each.provider_id for each in read({"data": crossed}).items] == ["msg_0", "msg_1", "msg_2"]


def test_a_refusal_of_the_whole_is_no_mails_refusal() -> None:
    seen = read({"status": 422, "code": "invalid_recipient", "detail": "…", "index": 1}, 422)
    assert (seen.whole, seen.bad) == (True, 1)
    assert read({"status": 422, "code": "invalid_request"}, 422).bad is None
    assert read({"status": 422, "index": 9}, 422).bad is None


def exchange(script: Script, go: Any = go_on) -> BatchEvidence:
    async def run() -> BatchEvidence:
        async with serving(script) as port:
            transport = HttpBatchTransport(options(port), most=100, most_octets=1_000_000)
            try:
                keys = [each.idempotency_key for each in PARCELS]
                return await transport.send_batch(PARCELS, keys=keys, point_of_no_return=go)
            finally:
                await transport.close()

    return asyncio.run(run())


def test_the_request_names_each_mails_own_key_and_none_for_all() -> None:
    seen: list[tuple[str, bytes]] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await read_request(reader))
        writer.write(answer(200, json.dumps({"data": YES}).encode()))

    evidence = exchange(script)
    head, body = seen[0]
    assert head.startswith("POST /v1/emails/batch HTTP/1.1\r\n")
    assert "idempotency-key" not in head.lower()
    mails = json.loads(body)
    assert [each["idempotency_key"] for each in mails] == ["k0", "k1", "k2"]
    assert [base64.b64decode(each["raw"]) for each in mails] == [each.raw for each in PARCELS]
    assert meanings(evidence) == ["Accepted"] * 3


def test_a_lost_answer_leaves_every_mail_in_doubt() -> None:
    evidence = exchange(saying(b"", end=reset))
    assert evidence.whole
    assert meanings(evidence) == ["Unknown"] * 3


def test_how_much_more_may_come_is_heard_whatever_became_of_each_mail() -> None:
    mixed = {"data": [YES[0]], "errors": [{"index": 1, "code": "invalid_recipient"}]}
    headers = "X-RateLimit-Remaining: 0\r\nX-RateLimit-Reset: 7\r\n"
    evidence = exchange(saying(answer(200, json.dumps(mixed).encode(), headers=headers)))
    told = (("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", "7"))
    assert [each.limits for each in evidence.items] == [told] * 3


def test_who_is_stopped_at_the_point_of_no_return_sends_nobody() -> None:
    evidence = exchange(saying(b""), withdraw)
    assert [(each.phase, each.trouble) for each in evidence.items] == [(Phase.BODY, "withdrawn")] * 3
    assert meanings(evidence) == [TryLater.__name__] * 3


def test_a_mail_alone_goes_to_the_same_door() -> None:
    seen: list[str] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append((await read_request(reader))[0])
        writer.write(answer(200, json.dumps({"data": YES[:1]}).encode()))

    async def run() -> Evidence:
        async with serving(script) as port:
            transport = HttpBatchTransport(options(port), most=100, most_octets=1_000_000)
            try:
                return await transport.send(PARCELS[0], key="k0", point_of_no_return=go_on)
            finally:
                await transport.close()

    assert isinstance(classify(asyncio.run(run())), Accepted)
    assert seen[0].startswith("POST /v1/emails/batch ")
