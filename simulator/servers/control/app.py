"""The control API put together: rows become routes, problems become documents, the guard stands in front.

Whoever adds a noun writes a module with `ENDPOINTS` and names it in `NOUNS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from simulator.servers.control import (
    accounts,
    attempts,
    decisions,
    events,
    health,
    messages,
    obligations,
    operating,
    parts,
    plan,
    stream,
)
from simulator.servers.control import clock as clocks
from simulator.servers.control import webhooks as webhook
from simulator.servers.control.context import Context
from simulator.servers.control.endpoint import PREFIX, Answer, Asked, Endpoint, Missing
from simulator.servers.control.guard import Guard
from simulator.servers.control.openapi import document
from simulator.servers.control.problems import Refusal, problem
from simulator.servers.control.said import Said
from simulator.servers.control.traced import Traced, log
from simulator.store import StoreError

#: Everything there is. A path with a place-holder comes after those that it would swallow.
NOUNS = (
    health,
    accounts,
    clocks,
    plan,
    messages,
    parts,
    attempts,
    decisions,
    events,
    webhook,
    obligations,
    stream,
    operating,
)


async def show_document(context: Context, asked: Asked) -> Response:
    return Said(_document())


@cache
def _document() -> dict[str, Any]:
    return document(ENDPOINTS)


ENDPOINTS: tuple[Endpoint, ...] = (
    *(row for noun in NOUNS for row in noun.ENDPOINTS),
    Endpoint(
        method="GET",
        path="/openapi.json",
        says="Give this document.",
        does=show_document,
        missing=Missing.IGNORED,
        gives=Answer(says="An OpenAPI 3.1 document."),
    ),
)


#: The paths outside `PREFIX`.
ELSEWHERE = frozenset(row.whole_path for row in ENDPOINTS if row.prefix != PREFIX)


def _by_path() -> dict[str, dict[str, Endpoint]]:
    """Return the rows by path and method, in their order."""
    found: dict[str, dict[str, Endpoint]] = {}
    for row in ENDPOINTS:
        found.setdefault(row.whole_path, {})[row.method] = row
    return found


@cache
def _routes() -> tuple[Route, ...]:
    """Return the routes, which all services share: what they are about is in the state of the application."""
    return tuple(Route(path, _Path(methods)) for path, methods in _by_path().items())


class ControlApi:
    """The endpoints under `/_simulator/v1`. `app` is the ASGI application, guard included."""

    def __init__(
        self,
        context: Context,
        *,
        pages: Sequence[Route] = (),
        token: str | None = None,
        bound_host: str = "127.0.0.1",
    ) -> None:
        """`pages` are behind the same guard, and their problems are worded alike."""
        app = Starlette(
            routes=[*_routes(), *pages],
            exception_handlers={
                HTTPException: _http_problem,
                Refusal: _refusal,
                StoreError: _store_problem,
            },
        )
        app.state.context = context
        guard = Guard(
            app,
            token=token,
            bound_host=bound_host,
            open_paths=frozenset(row.whole_path for row in ENDPOINTS if row.is_open),
        )
        self.app: ASGIApp = Traced(guard, context.clock)


class _Path:
    """One path and its methods: a plain ASGI application, so that one path is one route."""

    def __init__(self, methods: Mapping[str, Endpoint]) -> None:
        self._methods = methods

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        endpoint = self._methods.get(request.method)
        if endpoint is None:
            allowed = ", ".join(self._methods)
            raise HTTPException(
                405, f"{request.method} is not possible here; {allowed} is", {"allow": allowed}
            )
        try:
            response = await endpoint.serve(request.app.state.context, request)
        except ClientDisconnect:
            return  # Nobody is there to be told anything.
        except (HTTPException, Refusal, StoreError):
            raise  # They are worded below.
        except Exception:
            id_ = scope["request_id"]
            log.exception("a bug of ours", extra={"facts": {"request": id_}})
            response = problem(500, f"this is a bug of the simulator; request {id_} is in its log")
        await response(scope, receive, send)


async def _http_problem(request: Request, trouble: Exception) -> Response:
    assert isinstance(trouble, HTTPException)
    detail = trouble.detail
    if trouble.status_code == 404:
        detail = f"there is nothing at {request.url.path}; try {PREFIX}/health"
    return problem(trouble.status_code, detail, trouble.headers)


async def _refusal(request: Request, trouble: Exception) -> Response:
    assert isinstance(trouble, Refusal)
    return problem(trouble.status, trouble.detail)


async def _store_problem(request: Request, trouble: Exception) -> Response:
    return problem(503, str(trouble))
