"""Which transport and which look-up the options name."""

from __future__ import annotations

import asyncio

import pytest

from reference_sender.options import options_from
from reference_sender.wires import lookup_of, transport_of

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
