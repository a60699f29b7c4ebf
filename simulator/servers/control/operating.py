"""What whoever runs the simulator as a service asks: is it alive, is it ready, how much has it done."""

from __future__ import annotations

from starlette.responses import PlainTextResponse, Response

from simulator.metrics import MEDIA_TYPE
from simulator.servers.control.context import Context
from simulator.servers.control.endpoint import Answer, Asked, Endpoint
from simulator.servers.control.problems import Refusal


async def show_life(context: Context, asked: Asked) -> Response:
    return PlainTextResponse("alive\n")


async def show_readiness(context: Context, asked: Asked) -> Response:
    if context.committer.trouble is not None:
        raise Refusal(503, f"not ready: {context.committer.trouble}")
    if not context.is_serving():
        raise Refusal(503, "not ready: starting or stopping")
    return PlainTextResponse("ready\n")


async def show_metrics(context: Context, asked: Asked) -> Response:
    return Response(context.metrics.text(), media_type=MEDIA_TYPE)


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/healthz",
        prefix="",
        says="Say that the process is alive.",
        does=show_life,
        gives=Answer(media_type="text/plain", says="`alive`."),
        of_account=False,
        is_open=True,
    ),
    Endpoint(
        method="GET",
        path="/readyz",
        prefix="",
        says="Say whether mail is taken: 503 if the ledger cannot be written, or at start and end.",
        does=show_readiness,
        gives=Answer(media_type="text/plain", says="`ready`."),
        of_account=False,
        is_open=True,
    ),
    Endpoint(
        method="GET",
        path="/metrics",
        prefix="",
        says="Give the metrics of the whole service to Prometheus.",
        does=show_metrics,
        gives=Answer(media_type="text/plain", says="Prometheus's text format."),
        of_account=False,
    ),
)
