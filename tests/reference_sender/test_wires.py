"""Which transport and which look-up the options name."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from reference_sender.life import Parcel
from reference_sender.options import options_from
from reference_sender.policy.batches import BatchEvidence
from reference_sender.policy.evidence import Evidence, Phase, Wire
from reference_sender.transports.http_batch import HttpBatchTransport
from reference_sender.wires import lookup_of, transport_of
from tests.reference_sender.samples import parcel
from tests.reference_sender.transports.wires import go_on

URL = {"provider_url": "http://127.0.0.1:1"}


@pytest.mark.parametrize(
    ("values", "transport", "lookup"),
    [
        (URL, "HttpTransport", "HttpLookup"),
        (URL | {"batch": 2, "lookup": "none"}, "GatheringTransport", None),
        ({"transport": "smtp"}, "SmtpTransport", None),
        (URL | {"transport": "smtp", "lookup": "http"}, "SmtpTransport", "HttpLookup"),
    ],
)
def test_each_wire_is_built_from_its_options(
    values: dict[str, object], transport: str, lookup: str | None
) -> None:
    async def steps() -> None:
        options = options_from(values)
        built, asks = transport_of(options), lookup_of(options)
        assert type(built).__name__ == transport
        assert (asks and type(asks).__name__) == lookup
        await built.close()
        if asks is not None:
            await asks.close()

    asyncio.run(steps())


@pytest.mark.parametrize("problem", ["invalid_recipient", "key_reused", "key_done"])
def test_a_refusal_of_a_whole_request_that_may_be_about_one_mail_hits_that_mail_only(
    problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is wired: a key that the provider knows with another body is one mail's, too."""
    no = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=422, problem=problem)
    yes = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=200, provider_id="m1")

    async def answer(_: object, parcels: Sequence[Parcel], **__: object) -> BatchEvidence:
        refused = any(each.id == 2 for each in parcels)
        return BatchEvidence(items=(no if refused else yes,) * len(parcels), whole=True)

    monkeypatch.setattr(HttpBatchTransport, "send_batch", answer)

    async def steps() -> list[Evidence]:
        transport = transport_of(options_from(URL | {"batch": 4}))
        try:
            return await asyncio.gather(
                *(
                    transport.send(parcel(id=number), key=f"key {number}", point_of_no_return=go_on)
                    for number in range(4)
                )
            )
        finally:
            await transport.close()

    assert asyncio.run(steps()) == [yes, yes, no, yes]


def test_a_request_has_as_many_octets_as_the_options_let_it(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    async def answer(_: object, parcels: Sequence[Parcel], **__: object) -> BatchEvidence:
        sizes.append(len(parcels))
        yes = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=200, provider_id="m1")
        return BatchEvidence(items=(yes,) * len(parcels), whole=True)

    monkeypatch.setattr(HttpBatchTransport, "send_batch", answer)

    async def steps() -> None:
        transport = transport_of(options_from(URL | {"batch": 4, "batch_octets": 250}))
        mails = [parcel(b"x" * 100, id=number) for number in range(4)]
        await asyncio.gather(
            *(transport.send(each, key=f"key {each.id}", point_of_no_return=go_on) for each in mails)
        )
        await transport.close()

    asyncio.run(steps())
    assert sizes == [2, 2]
