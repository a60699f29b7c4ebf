"""A row of the table of endpoints: what is asked, with which parameters and body, and what is answered.

The same rows route, check what comes in, and make the OpenAPI document, so that the three cannot differ.
A module per noun (`messages`, `plan`, …) holds its rows in `ENDPOINTS`; `app` puts them together.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto
from functools import partial
from typing import Any, assert_never

from starlette.requests import Request
from starlette.responses import Response

from simulator.provider.provider import DEFAULT_ACCOUNT, Account
from simulator.servers.control.context import Context
from simulator.servers.control.problems import Refusal

PREFIX = "/_simulator/v1"
#: Largest body of a request: some 100,000 obligations.
MAX_BODY_BYTES = 32 * 1024 * 1024
MAX_ACCOUNT_CHARS = 200
_ONE_LINE = r"[^\x00-\x1f\x7f]"
#: RFC 5322, section 2.2: printable ASCII without the colon.
_FIELD_NAME = re.compile(r"[!-9;-~]+")
_ACCOUNT = re.compile(f"{_ONE_LINE}{{1,{MAX_ACCOUNT_CHARS}}}")
#: RFC 8259, section 2: white space may stand before, in and behind it.
_EMPTY_OBJECT, _WHITE_SPACE = b"{}", b" \t\n\r"


# --- parameters -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of the query: how it is read, and what is said of it. Left out, it is `default`."""

    name: str
    says: str
    read: Callable[[str, str], Any]
    """Turns (name, text) into the value; raises `Refusal`."""
    schema: Mapping[str, Any]
    default: Any = None


def text(name: str, says: str) -> Parameter:
    """Any text."""
    return Parameter(name=name, says=says, read=lambda _, given: given, schema={"type": "string"})


def choice(name: str, says: str, *known: str) -> Parameter:
    """One of these words."""

    def read(_: str, given: str) -> str:
        if given not in known:
            raise Refusal(400, f"there is no {name} {given[:20]!r}; known are {', '.join(known)}")
        return given

    return Parameter(name=name, says=says, read=read, schema={"type": "string", "enum": list(known)})


def whole(name: str, says: str, *, default: int, least: int = 0, most: int = 999_999_999) -> Parameter:
    """A whole number in these bounds."""

    def read(_: str, given: str) -> int:
        if not (given.isascii() and given.isdecimal() and len(given) < 10 and least <= int(given) <= most):
            raise Refusal(400, f"{name} must be a whole number from {least} to {most}, not {given[:20]!r}")
        return int(given)

    schema = {"type": "integer", "minimum": least, "maximum": most, "default": default}
    return Parameter(name=name, says=says, read=read, schema=schema, default=default)


def seconds(name: str, says: str, *, default: float, most: float) -> Parameter:
    """A length of time from 0 to `most`."""

    def read(_: str, given: str) -> float:
        try:
            value = float(given)
        except ValueError:
            value = math.nan
        if not 0.0 <= value <= most:
            raise Refusal(400, f"{name} must be a number from 0 to {most:g}, not {given[:20]!r}")
        return value

    schema = {"type": "number", "minimum": 0, "maximum": most, "default": default}
    return Parameter(name=name, says=says, read=read, schema=schema, default=default)


def instant(name: str, says: str) -> Parameter:
    """A moment with a time zone, ISO 8601."""

    def read(_: str, given: str) -> datetime:
        try:
            # A plus sign that was not escaped in the address arrives as a blank.
            moment = datetime.fromisoformat(given.strip().replace(" 0", "+0"))
        except ValueError:
            moment = datetime.min
        if moment.tzinfo is None:
            raise Refusal(400, f"{name} must look like 2030-01-01T00:00:00Z, not {given[:40]!r}")
        return moment

    return Parameter(name=name, says=says, read=read, schema={"type": "string", "format": "date-time"})


def field_of_mail(name: str, says: str) -> Parameter:
    """A header field's name and, after a colon, a part of its value."""

    def read(_: str, given: str) -> tuple[str, str]:
        title, _, part = given.partition(":")
        if not _FIELD_NAME.fullmatch(title):
            raise Refusal(400, f"{name} must look like X-Order: 17, not {given[:40]!r}")
        return title, part.strip()

    return Parameter(
        name=name, says=says, read=read, schema={"type": "string", "pattern": f"^{_FIELD_NAME.pattern}(:|$)"}
    )


def flag(name: str, says: str) -> Parameter:
    """`true` or `false`; named without a value it is true."""
    words = {"true": True, "1": True, "": True, "false": False, "0": False}

    def read(_: str, given: str) -> bool:
        if given.lower() not in words:
            raise Refusal(400, f"{name} must be true or false, not {given[:20]!r}")
        return words[given.lower()]

    return Parameter(name=name, says=says, read=read, schema={"type": "boolean"}, default=False)


def _account(_: str, given: str) -> str:
    if not _ACCOUNT.fullmatch(given):
        raise Refusal(
            400, f"an account name has 1 to {MAX_ACCOUNT_CHARS} characters on one line, not {given[:20]!r}"
        )
    return given


ACCOUNT = Parameter(
    name="account",
    says="The account that is meant.",
    read=_account,
    schema={
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_ACCOUNT_CHARS,
        "pattern": f"^{_ONE_LINE}+$",
        "default": DEFAULT_ACCOUNT,
    },
    default=DEFAULT_ACCOUNT,
)


# --- the row ----------------------------------------------------------------------------------------


class Missing(Enum):
    """What becomes of a request for an account that there is not."""

    REFUSED = auto()
    """404: it asks for what is there, or takes something of it away. A misspelt name makes no account."""
    MADE = auto()
    """The account is made: it is set up, or somebody waits for what will happen in it. Not by what is refused."""
    IGNORED = auto()
    """It does not matter, and makes no account: only the name is of interest, if that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request that passed the checks of its row."""

    request: Request
    account_name: str
    found: Account | None
    """The account of this name; None only where `Missing` lets it be."""
    given: Mapping[str, Any]
    """Every parameter of the row, read, or its default."""
    body: Any = None
    """The JSON of the body, if the row takes one."""
    make: Callable[[], Account] | None = None
    """How the account is had where `Missing.MADE` makes it."""

    @property
    def account(self) -> Account:
        """The account that is meant, made by now: whoever may still refuse asks for `found` and `account_name`.

        Not for rows of `Missing.IGNORED`.
        """
        if self.make is not None:
            return self.make()
        assert self.found is not None, "this row lets an account be missing: it has only its name"
        return self.found

    def path(self, name: str) -> str:
        value: str = self.request.path_params[name]
        return value


Does = Callable[[Context, Asked], Awaitable[Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an endpoint answers when all is well (status 200)."""

    shape: Any = None
    """A typed dictionary of `simulator.shapes`; None: no JSON."""
    media_type: str = "application/json"
    says: str = ""
    """What it is, where the shape does not say it."""
    otherwise: Answer | None = None
    """What is answered instead to whoever accepts only that (RFC 9110, section 12.5.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """The JSON that an endpoint takes."""

    shapes: tuple[Any, ...]
    """Typed dictionaries of `simulator.shapes`, or lists of them; any of them will do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One method at one path."""

    method: str
    path: str
    """Below `prefix`. A place-holder `{id}` is handed on by `Asked.path`."""
    says: str
    """One sentence."""
    does: Does
    gives: Answer
    parameters: tuple[Parameter, ...] = field(default=())
    takes: Body | None = None
    prefix: str = PREFIX
    of_account: bool = True
    """Whether it speaks of one account."""
    missing: Missing = Missing.REFUSED
    """What becomes of it if there is no such account."""
    is_open: bool = False
    """Whether everybody may ask: it tells nothing of anybody's mail and changes nothing."""

    @property
    def every_parameter(self) -> tuple[Parameter, ...]:
        return (ACCOUNT, *self.parameters) if self.of_account else self.parameters

    @property
    def whole_path(self) -> str:
        return f"{self.prefix}{self.path}"

    async def serve(self, context: Context, request: Request) -> Response:
        """Check a request and answer it. Raises `Refusal`."""
        given = self._read(request)
        body = await (self._read_nothing(request) if self.takes is None else read_json(request))
        name = given.pop(ACCOUNT.name, DEFAULT_ACCOUNT)
        return await self.does(
            context,
            Asked(
                request=request,
                account_name=name,
                found=self._account(context, name),
                given=given,
                body=body,
                make=partial(context.named, name) if self.missing is Missing.MADE else None,
            ),
        )

    async def _read_nothing(self, request: Request) -> None:
        # Whoever sends something believes that it says something, like which rules are to go.
        # Only an empty object says nothing: generated clients send one where there is none.
        is_empty, rest = True, _EMPTY_OBJECT
        async for piece in request.stream():
            is_empty = is_empty and not piece
            # Of white space nothing is kept, however much there is.
            said = piece.translate(None, _WHITE_SPACE)
            if not rest.startswith(said):
                break
            rest = rest[len(said) :]
        else:
            if is_empty or not rest:
                return
        raise Refusal(400, f"{self.method} {self.path.strip('/')} takes no body; leave it out")

    def _account(self, context: Context, name: str) -> Account | None:
        match self.missing:
            case Missing.REFUSED:
                return context.known(name)
            case Missing.MADE | Missing.IGNORED:
                return context.provider.accounts.get(name)
            case _:
                assert_never(self.missing)

    def _read(self, request: Request) -> dict[str, Any]:
        known = {each.name: each for each in self.every_parameter}
        for name in request.query_params:
            if name not in known:
                raise Refusal(400, f"there is no parameter {name!r} here; {_known(known)}")
            if len(request.query_params.getlist(name)) > 1:
                raise Refusal(400, f"there is {name!r} twice; give it once")
        return {
            name: each.read(name, request.query_params[name])
            if name in request.query_params
            else each.default
            for name, each in known.items()
        }


def _known(names: Iterable[str]) -> str:
    return f"known are {', '.join(names)}" if names else "it takes none"


async def read_json(request: Request) -> Any:
    """Return the JSON of the body; never keeps more than `MAX_BODY_BYTES`. Raises `Refusal`."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY_BYTES:
            raise Refusal(413, f"the body may have {MAX_BODY_BYTES} bytes at most")
    try:
        data = json.loads(body, parse_constant=_no_number, object_pairs_hook=_once)
        # A lone surrogate ("\\ud800") is no character: no database and no other reader would take it.
        if b"\\u" in body:
            json.dumps(data, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as problem:
        raise Refusal(400, f"the body is not JSON: {_shortened(problem)}") from problem
    return data


def _once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """RFC 8259, section 4: what a name that comes twice means is anybody's guess."""
    found = dict(members)
    if len(found) < len(members):
        name, _ = Counter(name for name, _ in members).most_common(1)[0]
        raise ValueError(f'the member "{name}" stands there twice')
    return found


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON (RFC 8259, section 6)")


def _shortened(problem: Exception) -> str:
    if isinstance(problem, UnicodeEncodeError):
        return "it contains half of a surrogate pair, which is no character"
    said = str(problem)
    return said if len(said) <= 200 else f"{said[:199]}…"
