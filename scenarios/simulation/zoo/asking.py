"""Senders that ask the provider what became of a mail, and make the wrong thing of what goes wrong there."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import aiohttp

from reference_sender.life import Docket, State
from reference_sender.options import Options
from reference_sender.policy.decision import Decision
from reference_sender.policy.lookup import Found, LookedUp, NotFound, Unavailable
from reference_sender.reconciler import Lookup, Reconciler
from reference_sender.transports.http import HttpLookup
from reference_sender.wires import lookup_of
from scenarios.simulation.zoo.keeper import BadSender, where
from scenarios.simulation.zoo.patience import LOOKS_OFTEN

_YEARS = timedelta(days=10_000)


class _Reads:
    """Asks, and reads every failure to answer in one way."""

    def __init__(self, inner: Lookup, failure: LookedUp) -> None:
        self._inner = inner
        self._failure = failure

    async def find(self, docket: Docket) -> LookedUp:
        answer = await self._inner.find(docket)
        return self._failure if isinstance(answer, Unavailable) else answer


class FailureIsNo(Reconciler):
    """Nobody could tell, so the mail is not there."""

    failure: LookedUp = NotFound()

    def __init__(self, *, lookup: Lookup, **parts: Any) -> None:
        super().__init__(lookup=_Reads(lookup, self.failure), **parts)


class FailureIsYes(FailureIsNo):
    """Nobody could tell, so the mail will be there."""

    failure = Found(provider_id="?")


class AsksOnce(Reconciler):
    """A look-up that failed is not made again."""

    async def _judge(self, docket: Docket) -> Decision:
        decision = await super()._judge(docket)
        if decision.state is State.UNKNOWN and decision.reason.startswith("the look-up"):
            return replace(decision, next_attempt_at=self._clock.now() + _YEARS)
        return decision


class TakesTheFirst:
    """Whatever is shown first is the mail that was asked for."""

    def __init__(self, inner: HttpLookup) -> None:
        self._client = inner._client

    async def find(self, docket: Docket) -> LookedUp:
        try:
            async with self._client.session().get(
                self._client.url(), params={"idempotency_key": docket.idempotency_key}
            ) as response:
                entries = json.loads(await response.read())["data"]
        except (aiohttp.ClientError, ValueError) as error:
            return Unavailable(reason=type(error).__name__)
        return Found(provider_id=str(entries[0]["id"])) if entries else NotFound()

    async def close(self) -> None:
        await self._client.close()


def takes_the_first(options: Options) -> TakesTheFirst:
    """Make the look-up from that of the reference sender."""
    inner = lookup_of(options)
    assert isinstance(inner, HttpLookup)
    return TakesTheFirst(inner)


SENDERS: tuple[BadSender, ...] = (
    BadSender(
        name="a failed look-up is a no",
        sin="The look-up fails for as long as a no would take to count, so the mail is sent again.",
        like="error of a look-up read as an empty answer",
        kind="duplicated",
        parts={"reconciler": FailureIsNo},
        blocks=(where("http-lookup-lagging", "taken, asked: 503"),),
    ),
    BadSender(
        name="a failed look-up is a yes",
        sin="The look-up fails, and the mail is called accepted so that nobody need ask again.",
        like="error of a look-up swallowed",
        kind="misreported",
        parts={"reconciler": FailureIsYes},
        blocks=(where("http-lookup-lagging", "not taken, asked: 503"),),
    ),
    BadSender(
        name="asks once",
        sin="A look-up that has failed is not made again, and the mail stays in doubt.",
        like="reconciler without retries",
        kind="parked",
        parts={"reconciler": AsksOnce},
        blocks=(where("http-lookup-lagging", "taken, asked: closed"),),
    ),
    BadSender(
        name="no margin for the index",
        sin="A no counts as soon as the request must be over, although what is shown is older than that.",
        like="eventually consistent look-up trusted too early",
        kind="duplicated",
        options={"lookup_lag_s": 0.0},
        ground=LOOKS_OFTEN,
        blocks=(where("http-lookup-lagging", "taken late, asked: stale"),),
    ),
    BadSender(
        name="takes the first",
        sin="What a look-up shows first is taken for the mail that was asked for.",
        like="look-up that ignores its filter, trusted",
        kind="misreported",
        parts={"lookup": takes_the_first},
        blocks=(where("http-lookup-lagging", "not taken, asked: unfiltered", shape="three recipients"),),
    ),
)
