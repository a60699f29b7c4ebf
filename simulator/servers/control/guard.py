"""Who may command the provider: whoever knows the admin token, else this machine and no web page's script."""

from __future__ import annotations

import base64
import ipaddress
from secrets import compare_digest
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from simulator.servers.control.problems import Refusal, problem

#: RFC 9110, section 11.6.1: people's browsers know Basic and ask for a password, which is the token.
CHALLENGE = 'Bearer realm="simulator", Basic realm="simulator", charset="UTF-8"'


class Guard:
    """Lets in whoever may command the provider, and answers everybody else with a problem.

    With a token: whoever knows it. Without: this machine, under one of its own names (a page whose host name
    was rebound to 127.0.0.1 sends its own name) and not on behalf of another site (Origin). `open_paths` are for
    everybody.
    """

    def __init__(
        self, app: ASGIApp, *, token: str | None, bound_host: str, open_paths: frozenset[str] = frozenset()
    ) -> None:
        self._app = app
        self._open_paths = open_paths
        self._token = token
        self._bound_host = bound_host.strip("[]").lower()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["path"] not in self._open_paths:
                self._check(Request(scope))
        except Refusal as refusal:
            asks = {"www-authenticate": CHALLENGE} if refusal.status == 401 else None
            await problem(refusal.status, refusal.detail, asks)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _check(self, request: Request) -> None:
        host = request.headers.get("host", "")
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            raise Refusal(403, f"a page of {origin} may not command this simulator")
        if request.headers.get("sec-fetch-site") == "cross-site" and not _is_visit(request):
            raise Refusal(403, "a page of another site may not ask this simulator")
        if self._token is not None:
            if not compare_digest(_token_of(request), self._token.encode()):
                raise Refusal(401, "this simulator wants its admin token: Authorization: Bearer <token>")
            return
        if request.client is None or not is_loopback(request.client.host):
            raise Refusal(403, "without an admin token only this machine may command the simulator")
        name = (urlsplit(f"//{host}").hostname or "").lower()
        if not (is_loopback(name) or name == self._bound_host):
            raise Refusal(403, f"the Host header names {name!r}; use 127.0.0.1 or localhost")


def _token_of(request: Request) -> bytes:
    """Return the token that was given: as Bearer, or as the password of Basic, which is how browsers ask people."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return given.strip().encode("latin-1")
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(given.strip(), validate=True).partition(b":")[2]
        except ValueError:
            return b""
    return b""


def _is_visit(request: Request) -> bool:
    """Tell whether somebody followed a link to us (Fetch Metadata, section 2.2): that shows us, and tells nobody."""
    return request.method == "GET" and request.headers.get("sec-fetch-mode") == "navigate"


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine, by name or by address."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
