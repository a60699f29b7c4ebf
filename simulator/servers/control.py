"""The control API: how tests, harnesses and people set the plan, read the ledger and ask for the verdict.

It reads and commands the provider, decides nothing of its own, and lets only those in who may command:
without an admin token that is this machine, and no web page that a browser on this machine happens to show.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from secrets import compare_digest
from typing import Any, TypeVar
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from simulator import __version__
from simulator.clock import Clock
from simulator.config import PlanError, plan_as_json, read_plan, read_rules
from simulator.provider.ledger import Acceptance, Attempt, AttemptState
from simulator.provider.obligations import Obligation, Reported
from simulator.provider.provider import DEFAULT_ACCOUNT, Account, Provider, Setup
from simulator.servers.wire import Holds
from simulator.store import Store, StoreError
from simulator.store.committer import Committer

PREFIX = "/_simulator/v1"
#: Largest body of a request: some 100,000 obligations.
MAX_BODY_BYTES = 32 * 1024 * 1024
MAX_WAIT_S = 300.0
DEFAULT_WAIT_S = 10.0
MAX_ACCOUNT_CHARS = 200

Found = TypeVar("Found")


class Moves:
    """Wakes whoever waits for something to change: the provider's attempts or its ledger."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._over = False

    def moved(self) -> None:
        """Something changed: let everybody look again."""
        self._event.set()
        self._event = asyncio.Event()

    def end(self) -> None:
        """The service stops: nobody waits any longer."""
        self._over = True
        self.moved()

    async def until(self, look: Callable[[], tuple[Found, bool]], timeout_s: float) -> tuple[Found, bool]:
        """Call `look` at every move until its second part is true or time is up; return what it last gave."""
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    event = self._event  # Taken before the look, so that no move in between is missed.
                    found, enough = look()
                    if enough or self._over:
                        return found, enough
                    await event.wait()
        except TimeoutError:
            return look()


class Refusal(Exception):
    """A request cannot be served. `detail` is one sentence."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


class Guard:
    """Lets in whoever may command the provider, and answers everybody else with a problem.

    With a token: whoever knows it. Without: this machine, under one of its own names (a page whose host name
    was rebound to 127.0.0.1 sends its own name) and not on behalf of another site (Origin).
    """

    def __init__(self, app: ASGIApp, *, token: str | None, bound_host: str) -> None:
        self._app = app
        self._token = token
        self._bound_host = bound_host.strip("[]").lower()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._check(Request(scope))
        except Refusal as refusal:
            await _problem(refusal.status, refusal.detail)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _check(self, request: Request) -> None:
        host = request.headers.get("host", "")
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            raise Refusal(403, f"a page of {origin} may not command this simulator")
        if self._token is not None:
            given = request.headers.get("authorization", "").encode("latin-1")
            if not compare_digest(given, f"Bearer {self._token}".encode()):
                raise Refusal(401, "this simulator wants its admin token: Authorization: Bearer <token>")
            return
        if request.client is None or not is_loopback(request.client.host):
            raise Refusal(403, "without an admin token only this machine may command the simulator")
        name = (urlsplit(f"//{host}").hostname or "").lower()
        if not (is_loopback(name) or name == self._bound_host):
            raise Refusal(403, f"the Host header names {name!r}; use 127.0.0.1 or localhost")


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine, by name or by address."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class ControlApi:
    """The endpoints under `/_simulator/v1`. `app` is the ASGI application, guard included."""

    def __init__(
        self,
        provider: Provider,
        holds: Holds,
        store: Store,
        committer: Committer,
        moves: Moves,
        clock: Clock,
        *,
        token: str | None = None,
        bound_host: str = "127.0.0.1",
    ) -> None:
        self._provider = provider
        self._holds = holds
        self._store = store
        self._committer = committer
        self._moves = moves
        self._clock = clock
        self.routes = [
            Route(f"{PREFIX}{path}", _Endpoint(methods)) for path, methods in self._table().items()
        ]
        self.app: ASGIApp = Guard(
            Starlette(
                routes=self.routes,
                exception_handlers={
                    HTTPException: _http_problem,
                    Refusal: _refusal,
                    StoreError: _store_problem,
                },
            ),
            token=token,
            bound_host=bound_host,
        )

    def _table(self) -> dict[str, dict[str, Endpoint]]:
        return {
            "/health": {"GET": self._health},
            "/plan": {
                "GET": self._get_plan,
                "PUT": self._put_plan,
                "POST": self._post_plan,
                "DELETE": self._delete_plan,
            },
            "/messages": {"GET": self._messages},
            "/messages/wait": {"GET": self._wait_for_messages},
            "/messages/{id}": {"GET": self._message},
            "/messages/{id}/raw": {"GET": self._raw},
            "/attempts": {"GET": self._attempts},
            "/attempts/wait": {"GET": self._wait_for_attempts},
            "/release": {"POST": self._release},
            "/obligations": {"GET": self._get_obligations, "POST": self._post_obligations},
            "/verdict": {"GET": self._verdict},
            "/reset": {"POST": self._reset},
        }

    def endpoints(self) -> list[tuple[str, str]]:
        """Return every (method, path) there is."""
        return [(method, f"{PREFIX}{path}") for path, methods in self._table().items() for method in methods]

    # --- the provider -------------------------------------------------------------------------------

    async def _health(self, request: Request) -> Response:
        self._account(request)
        trouble = self._committer.trouble
        return JSONResponse(
            {
                "status": "ok" if trouble is None else "failing",
                "version": __version__,
                "seed": self._provider.seed,
                "accounts": sorted(self._provider.accounts),
                "trouble": trouble,
            }
        )

    async def _get_plan(self, request: Request) -> Response:
        return JSONResponse(plan_as_json(self._account(request)))

    async def _put_plan(self, request: Request) -> Response:
        account = self._account(request)
        try:
            setup = read_plan(await _json(request), "PUT plan")
        except PlanError as problem:
            raise Refusal(422, str(problem)) from problem
        self._provider.set_up(account.name, setup, self._clock.now())
        return JSONResponse(plan_as_json(self._again(account)))

    async def _post_plan(self, request: Request) -> Response:
        account = self._account(request)
        data = await _json(request)
        if isinstance(data, dict):
            unknown = sorted(set(data) - {"rule", "rules"})
            if "fault" in data:
                data = [data]
            elif unknown:
                raise Refusal(
                    422, f'POST plan appends rules only; "{unknown[0]}" can be changed with PUT plan'
                )
            else:
                data = data.get("rule", data.get("rules", []))
        try:
            rules = read_rules(data, "POST plan", start=len(account.plan.plan.rules) + 1)
        except PlanError as problem:
            raise Refusal(422, str(problem)) from problem
        self._provider.add_rules(account.name, rules, self._clock.now())
        return JSONResponse(plan_as_json(self._again(account)))

    async def _delete_plan(self, request: Request) -> Response:
        account = self._account(request, "all")
        now = self._clock.now()
        if _flag(request, "all"):
            self._provider.set_up(account.name, Setup(), now)
        else:
            self._provider.heal(account.name, now)
        return JSONResponse(plan_as_json(self._again(account)))

    async def _reset(self, request: Request) -> Response:
        account = self._account(request)
        self._provider.reset(account.name, self._clock.now())
        await self._committer.commit()
        self._moves.moved()
        return JSONResponse({"reset": account.name})

    async def _release(self, request: Request) -> Response:
        return JSONResponse({"released": self._holds.release(self._account(request).name)})

    # --- messages -----------------------------------------------------------------------------------

    async def _messages(self, request: Request) -> Response:
        account = self._account(request, *_MESSAGE_FILTERS)
        return JSONResponse({"messages": _messages(account, _find(account, request))})

    async def _wait_for_messages(self, request: Request) -> Response:
        account = self._account(request, *_MESSAGE_FILTERS, "count", "timeout_s")
        count, timeout_s = _count(request), _timeout(request)

        def look() -> tuple[list[Acceptance], bool]:
            found = _find(self._again(account), request)
            return found, len(found) >= count

        found, complete = await self._wait(request, look, timeout_s)
        return JSONResponse({"messages": _messages(self._again(account), found), "complete": complete})

    async def _message(self, request: Request) -> Response:
        account = self._account(request)
        return JSONResponse(_messages(account, [self._acceptance(account, request)])[0])

    async def _raw(self, request: Request) -> Response:
        acceptance = self._acceptance(self._account(request), request)
        await self._committer.commit()
        raw = await asyncio.to_thread(self._store.raw, acceptance.id)
        if raw is None:
            raise Refusal(404, f"the bytes of {acceptance.id} are not kept any more")
        # What senders send must not run as a page of ours.
        headers = {"x-content-type-options": "nosniff", "content-disposition": "attachment"}
        return Response(raw, media_type="message/rfc822", headers=headers)

    def _acceptance(self, account: Account, request: Request) -> Acceptance:
        id_ = request.path_params["id"]
        acceptance = account.ledger.get(id_)
        if acceptance is None:
            raise Refusal(404, f"account {account.name!r} has no message {id_!r}")
        return acceptance

    # --- attempts -----------------------------------------------------------------------------------

    async def _attempts(self, request: Request) -> Response:
        account = self._account(request, *_ATTEMPT_FILTERS)
        return JSONResponse({"attempts": [attempt_as_json(each) for each in _select(account, request)]})

    async def _wait_for_attempts(self, request: Request) -> Response:
        account = self._account(request, *_ATTEMPT_FILTERS, "count", "timeout_s")
        count, timeout_s = _count(request), _timeout(request)

        def look() -> tuple[list[dict[str, Any]], bool]:
            # As JSON at once: an attempt goes on changing while we write.
            found = [attempt_as_json(each) for each in _select(self._again(account), request)]
            return found, len(found) >= count

        found, complete = await self._wait(request, look, timeout_s)
        return JSONResponse({"attempts": found, "complete": complete})

    async def _wait(
        self, request: Request, look: Callable[[], tuple[Found, bool]], timeout_s: float
    ) -> tuple[Found, bool]:
        """Wait for enough to be found, but not for somebody who has gone."""
        waiting = asyncio.ensure_future(self._moves.until(look, timeout_s))
        leaving = asyncio.ensure_future(_left(request))
        try:
            await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
            return await waiting if waiting.done() else look()
        finally:
            for task in (waiting, leaving):
                task.cancel()
            await asyncio.gather(waiting, leaving, return_exceptions=True)

    # --- promises -----------------------------------------------------------------------------------

    async def _get_obligations(self, request: Request) -> Response:
        account = self._account(request)
        return JSONResponse({"obligations": [_owed(each) for each in account.obligations.values()]})

    async def _post_obligations(self, request: Request) -> Response:
        account = self._account(request)
        data = await _json(request)
        entries = data.get("obligations") if isinstance(data, dict) else data
        if not isinstance(entries, list):
            raise Refusal(422, 'the body must be {"obligations": [{"ref": …, "recipient": …}, …]}')
        obligations = [_obligation(entry, account.name, n) for n, entry in enumerate(entries, 1)]
        self._provider.owe(obligations, self._clock.now())
        await self._committer.commit()
        return JSONResponse({"obligations": len(obligations)})

    async def _verdict(self, request: Request) -> Response:
        account = self._account(request, "final")
        judgement = self._provider.judge(account.name, self._clock.now(), final=_flag(request, "final"))
        return JSONResponse(judgement.as_json())

    # --- accounts -----------------------------------------------------------------------------------

    def _account(self, request: Request, *known: str) -> Account:
        """Return the account that is meant; naming one is what makes it. Unknown parameters are refused."""
        for parameter in request.query_params:
            if parameter not in ("account", *known):
                raise Refusal(
                    400,
                    f"there is no parameter {parameter!r} here; known are {', '.join(('account', *known))}",
                )
        name = request.query_params.get("account", DEFAULT_ACCOUNT)
        if not name or len(name) > MAX_ACCOUNT_CHARS or not name.isprintable():
            raise Refusal(
                400, f"an account name has 1 to {MAX_ACCOUNT_CHARS} printable characters, not {name[:20]!r}"
            )
        return self._provider.account(name, self._clock.now())

    def _again(self, account: Account) -> Account:
        """Return the account of this name as it is now: a reset puts another one in its place."""
        return self._provider.account(account.name, self._clock.now())


# --- what is shown ----------------------------------------------------------------------------------

_MESSAGE_FILTERS = ("to", "message_id", "key", "q")
_ATTEMPT_FILTERS = ("stage", "state", "to", "key", "message_id", "rule", "dialect", "answer", "sent")


def _find(account: Account, request: Request) -> list[Acceptance]:
    wanted = {name: request.query_params.get(name) for name in _MESSAGE_FILTERS}
    return account.ledger.search(**wanted)


def _messages(account: Account, found: Sequence[Acceptance]) -> list[dict[str, Any]]:
    copies = Counter(each.sha256 for each in account.ledger.acceptances)
    return [
        {
            "id": each.id,
            "account": each.account,
            "dialect": each.dialect,
            "accepted_at": each.accepted_at.isoformat(),
            "sender": each.sender,
            "recipients": list(each.recipients),
            "message_id": each.message_id,
            "key": each.key,
            "subject": each.subject,
            "size_bytes": each.size_bytes,
            "sha256": each.sha256,
            "obligation": each.obligation,
            "fate": each.fate.value,
            "copies_of_body": copies[each.sha256],
            "attempt": each.attempt,
        }
        for each in found
    ]


def _select(account: Account, request: Request) -> list[Attempt]:
    """Return the attempts that meet all the filters, oldest first."""
    wanted = {name: request.query_params[name] for name in _ATTEMPT_FILTERS if name in request.query_params}
    if "state" in wanted and wanted["state"] not in {state.value for state in AttemptState}:
        raise Refusal(400, f"there is no state {wanted['state']!r}; known are open, held, closed")
    tests: Mapping[str, Callable[[Attempt, str], bool]] = {
        "stage": lambda each, value: each.stage == value,
        "state": lambda each, value: each.state.value == value,
        "to": lambda each, value: value.lower() in (r.lower() for r in each.recipients),
        "key": lambda each, value: each.key == value,
        "message_id": lambda each, value: (each.message_id or "").strip("<>") == value.strip("<>"),
        "rule": lambda each, value: value in each.rules,
        "dialect": lambda each, value: each.dialect == value,
        "answer": lambda each, value: each.answer == value,
        "sent": lambda each, value: each.sent.value == value,
    }
    return [
        each
        for each in account.attempts.values()
        if all(tests[name](each, value) for name, value in wanted.items())
    ]


def attempt_as_json(attempt: Attempt) -> dict[str, Any]:
    """Return an attempt as the control API shows it."""
    return {
        "id": attempt.id,
        "account": attempt.account,
        "dialect": attempt.dialect,
        "connection": attempt.connection,
        "peer": attempt.peer,
        "opened_at": attempt.opened_at.isoformat(),
        "stage": attempt.stage,
        "state": attempt.state.value,
        "sender": attempt.sender,
        "recipients": list(attempt.recipients),
        "message_id": attempt.message_id,
        "key": attempt.key,
        "accepted": list(attempt.accepted),
        "answer": attempt.answer,
        "sent": attempt.sent.value,
        "rules": list(attempt.rules),
        "closed_at": None if attempt.closed_at is None else attempt.closed_at.isoformat(),
    }


def _owed(obligation: Obligation) -> dict[str, Any]:
    return {
        "ref": obligation.ref,
        "recipient": obligation.recipient,
        "copies": obligation.copies,
        "sha256": obligation.sha256,
        "state": None if obligation.state is None else obligation.state.value,
    }


def _obligation(entry: object, account: str, number: int) -> Obligation:
    where = f"obligation {number}"
    if not isinstance(entry, dict):
        raise Refusal(422, f"{where} must be an object with ref and recipient")
    known = ("ref", "recipient", "copies", "sha256", "state")
    for key in entry:
        if key not in known:
            raise Refusal(422, f"{where}: there is no key {key!r}; known are {', '.join(known)}")
    for key in ("ref", "recipient"):
        if not isinstance(entry.get(key), str) or not entry[key]:
            raise Refusal(422, f"{where}: {key} must be a text that is not empty")
    copies = entry.get("copies", 1)
    if isinstance(copies, bool) or not isinstance(copies, int) or copies < 0:
        raise Refusal(422, f"{where}: copies must be a whole number of 0 or more")
    sha256 = entry.get("sha256")
    if sha256 is not None and not (isinstance(sha256, str) and len(sha256) == 64):
        raise Refusal(422, f"{where}: sha256 must be 64 hex digits or null")
    state = entry.get("state")
    states = {each.value for each in Reported}
    if state is not None and state not in states:
        raise Refusal(422, f"{where}: there is no state {state!r}; known are {', '.join(sorted(states))}")
    return Obligation(
        account=account,
        ref=entry["ref"],
        recipient=entry["recipient"],
        copies=copies,
        sha256=None if sha256 is None else sha256.lower(),
        state=None if state is None else Reported(state),
    )


# --- what is asked ----------------------------------------------------------------------------------


async def _json(request: Request) -> Any:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY_BYTES:
            raise Refusal(413, f"the body may have {MAX_BODY_BYTES} bytes at most")
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as problem:
        raise Refusal(400, f"the body is not JSON: {problem}") from problem


def _flag(request: Request, name: str) -> bool:
    given = request.query_params.get(name, "false").lower()
    if given not in ("true", "false", "1", "0", ""):
        raise Refusal(400, f"{name} must be true or false, not {given!r}")
    return given in ("true", "1", "")


def _count(request: Request) -> int:
    given = request.query_params.get("count", "1")
    if not (given.isascii() and given.isdecimal() and len(given) < 10):
        raise Refusal(400, f"count must be a whole number, not {given[:20]!r}")
    return int(given)


def _timeout(request: Request) -> float:
    given = request.query_params.get("timeout_s", str(DEFAULT_WAIT_S))
    try:
        timeout_s = float(given)
    except ValueError:
        timeout_s = -1.0
    if not 0.0 <= timeout_s <= MAX_WAIT_S:
        raise Refusal(400, f"timeout_s must be a number from 0 to {MAX_WAIT_S:g}, not {given[:20]!r}")
    return timeout_s


async def _left(request: Request) -> None:
    """Return when whoever asked has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


# --- how it is answered -----------------------------------------------------------------------------

Endpoint = Callable[[Request], Awaitable[Response]]


class _Endpoint:
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
            response = await endpoint(request)
        except ClientDisconnect:
            return  # Nobody is there to be told anything.
        await response(scope, receive, send)


def _problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """A problem document of RFC 9457."""
    document = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
    }
    return JSONResponse(document, status_code=status, headers=headers, media_type="application/problem+json")


async def _http_problem(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, HTTPException)
    detail = problem.detail
    if problem.status_code == 404:
        detail = f"there is nothing at {request.url.path}; try {PREFIX}/health"
    return _problem(problem.status_code, detail, problem.headers)


async def _refusal(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, Refusal)
    return _problem(problem.status, problem.detail)


async def _store_problem(request: Request, problem: Exception) -> Response:
    return _problem(503, str(problem))
