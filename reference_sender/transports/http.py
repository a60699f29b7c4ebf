"""The HTTP wire: one POST per mail, and the look-up of what the provider knows.

One session, no redirects, no hidden retries (aiohttp repeats only idempotent methods, POST is none). The request
body is a payload of ours, so we know exactly when the last byte is let go.
Must not hold: what a code means (`policy.classify`), when to try again.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeGuard

import aiohttp
from aiohttp.abc import AbstractStreamWriter

from reference_sender.life import Docket, Parcel
from reference_sender.policy.addresses import spelled
from reference_sender.policy.evidence import Evidence, Phase, Wire
from reference_sender.policy.lookup import Found, LookedUp, NotFound, Unavailable

_CHUNK_OCTETS = 64 * 1024
#: A thousand times what an answer about one mail has, and enough for those about a batch, which has no more mails than are
#: under way at a time. It only keeps a broken provider from filling our memory.
_MAX_ANSWER_OCTETS = 1024 * 1024
_KEPT_ANSWER_CHARS = 2_000
#: States in which a look-up says that a mail was not taken.
_NOT_TAKEN = ("failed", "rejected", "refused")

#: What may go wrong on the wire; anything else is a mistake of ours.
EXPECTED = (aiohttp.ClientError, asyncio.TimeoutError, OSError, ValueError)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """Where the provider is and how it wants to be asked."""

    url: str  # like https://api.provider.example
    api_key: str = ""  # without one the Authorization header is left out
    path: str = "/v1/emails"
    key_header: str = "Idempotency-Key"
    connect_timeout_s: float = 5.0
    read_timeout_s: float = 30.0
    total_timeout_s: float = 60.0
    connections: int = 8
    # A request on a kept-alive connection that the provider is just closing ends in doubt. Where doubt costs a
    # person's time (no keys), a fresh connection per mail is the better price.
    keep_alive: bool = True


@dataclass(slots=True)
class Progress:
    """How far one attempt got; the only thing that outlives an exception."""

    phase: Phase = Phase.CONNECT
    withdrawn: bool = False


class _Client:
    """One aiohttp session, made when the first request needs it (it must be born inside the loop)."""

    def __init__(self, options: HttpOptions) -> None:
        self._options = options
        self._session: aiohttp.ClientSession | None = None

    def session(self) -> aiohttp.ClientSession:
        if self._session is None:
            o = self._options
            headers = {"User-Agent": "reference-sender"}
            if o.api_key:
                headers["Authorization"] = f"Bearer {o.api_key}"
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=o.connections, force_close=not o.keep_alive),
                timeout=aiohttp.ClientTimeout(
                    total=o.total_timeout_s,
                    sock_connect=o.connect_timeout_s,
                    sock_read=o.read_timeout_s,
                    # aiohttp rounds deadlines above 5 seconds up to whole seconds; the lease counts on the exact one.
                    ceil_threshold=float("inf"),
                ),
                headers=headers,
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            )
        return self._session

    def url(self) -> str:
        return self._options.url.rstrip("/") + self._options.path

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


class HttpTransport:
    """Sends a mail by HTTP POST; see `Evidence` for what it tells."""

    def __init__(self, options: HttpOptions) -> None:
        self._options = options
        self._client = _Client(options)

    async def send(
        self, parcel: Parcel, *, key: str, point_of_no_return: Callable[[], Awaitable[bool]]
    ) -> Evidence:
        """Make one attempt. `point_of_no_return` is awaited before the first body byte; False stops the attempt."""
        progress = Progress()
        body = request_body(parcel)
        try:
            async with self._client.session().post(
                self._client.url(),
                data=Letting(body, progress, point_of_no_return),
                headers={self._options.key_header: key},
                allow_redirects=False,
            ) as response:
                content = await read_answer(response)
                retry_after = response.headers.get("Retry-After")
                limits = limits_in(response.headers.items())
                return evidence_of(
                    response.status, retry_after, content, parcel, progress.phase, limits=limits
                )
        except EXPECTED as error:
            trouble = "withdrawn" if progress.withdrawn else trouble_of(error)
            return Evidence(
                wire=Wire.HTTP, phase=progress.phase, trouble=trouble, answer=type(error).__name__
            )

    async def close(self) -> None:
        """Close the session; attempts under way break off."""
        await self._client.close()


class HttpLookup:
    """Asks the provider whether it knows a mail, by key and then by Message-ID."""

    def __init__(self, options: HttpOptions) -> None:
        self._client = _Client(options)

    async def find(self, docket: Docket) -> LookedUp:
        """What the provider knows about this (key, recipient)."""
        unclear = False
        try:
            for parameter, value in (
                ("idempotency_key", docket.idempotency_key),
                ("message_id", docket.message_id),
            ):
                async with self._client.session().get(
                    self._client.url(), params={parameter: value}, allow_redirects=False
                ) as response:
                    content = await read_answer(response)
                    if response.status != 200:
                        return Unavailable(reason=f"the look-up answers {response.status}")
                    entries = json.loads(content)["data"]
                for entry in entries:
                    if is_ours(entry, docket, parameter, value):
                        return Found(provider_id=_storable(str(entry["id"])))
                    unclear |= _is_unclear(entry, docket, parameter, value)
        except (*EXPECTED, KeyError, TypeError, AttributeError, RecursionError) as error:
            return Unavailable(reason=f"the look-up fails ({trouble_of(error)})")
        # A provider that calls a mail `delivered` has it, and "not found" would have it sent again.
        return (
            Unavailable(reason="the look-up knows it in a state that is not known here")
            if unclear
            else NotFound()
        )

    async def close(self) -> None:
        """Close the session."""
        await self._client.close()


def is_ours(entry: Any, docket: Docket, parameter: str, value: str) -> bool:
    """Whether an entry of a look-up by this parameter speaks of this mail, as accepted."""
    return entry.get("status", "accepted") == "accepted" and _is_about(entry, docket, parameter, value)


def _is_unclear(entry: Any, docket: Docket, parameter: str, value: str) -> bool:
    """Whether an entry speaks of this mail, and says neither that it was accepted nor that it was not."""
    status = entry.get("status", "accepted")
    return status not in ("accepted", *_NOT_TAKEN) and _is_about(entry, docket, parameter, value)


def _is_about(entry: Any, docket: Docket, parameter: str, value: str) -> bool:
    # A provider that ignores a filter it does not know answers with everything: check what it found.
    if entry.get(parameter, value) != value:
        return False
    accepted = entry.get("accepted", entry.get("to", [docket.recipient]))
    return spelled(docket.recipient) in [spelled(str(address)) for address in accepted]


def request_body(parcel: Parcel) -> bytes:
    """The JSON document of one mail."""
    return json.dumps(
        {
            "from": parcel.sender,
            "to": [parcel.recipient],
            "raw": base64.b64encode(parcel.raw).decode("ascii"),
        }
    ).encode()


class Letting(aiohttp.Payload):
    """Lets the bytes of a JSON request go, piece by piece, and notes when the last one may have left."""

    def __init__(
        self, body: bytes, progress: Progress, point_of_no_return: Callable[[], Awaitable[bool]]
    ) -> None:
        super().__init__(body, content_type="application/json")
        self._progress = progress
        self._point_of_no_return = point_of_no_return

    @property
    def size(self) -> int:
        """Told, or aiohttp would send it in chunks."""
        return len(self._value)

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Called by aiohttp when it has a connection."""
        await self.write(writer)

    async def write(self, writer: AbstractStreamWriter) -> None:
        progress, body = self._progress, self._value
        progress.phase = Phase.BODY
        if not await self._point_of_no_return():
            progress.withdrawn = True
            raise ConnectionAbortedError("the attempt was withdrawn")
        for start in range(0, len(body), _CHUNK_OCTETS):
            if start + _CHUNK_OCTETS >= len(body):
                progress.phase = Phase.SENT
            await writer.write(body[start : start + _CHUNK_OCTETS])

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The request as a text: who shows a payload asks for it."""
        return str(self._value, encoding, errors)


async def read_answer(response: aiohttp.ClientResponse) -> bytes:
    """Read an answer to its end; one that does not end is trouble."""
    stream, content = response.content, b""
    while not stream.at_eof():
        content += await stream.readany()
        if len(content) > _MAX_ANSWER_OCTETS:
            raise aiohttp.ClientPayloadError("the answer does not end")
    return content


def limits_in(headers: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The header fields that tell how much more may come, as they came."""
    return tuple((name, value) for name, value in headers if "ratelimit" in name.lower())


def evidence_of(
    status: int,
    retry_after: str | None,
    content: bytes,
    parcel: Parcel,
    phase: Phase,
    *,
    limits: tuple[tuple[str, str], ...] = (),
) -> Evidence:
    """What a whole answer says; `retry_after` and `limits` are header fields as they came."""
    told = document_of(content)
    provider_id = told.get("id")
    return Evidence(
        wire=Wire.HTTP,
        phase=phase,
        code=status,
        answer=content.decode("utf-8", "replace").replace("\x00", "")[:_KEPT_ANSWER_CHARS],
        retry_after=retry_after,
        limits=limits,
        provider_id=(_storable(provider_id) or None)
        if isinstance(provider_id, str) and provider_id.strip()
        else None,
        # Under a success it is a body that contradicts itself, and nobody asks for it.
        problem=_problem(told) if status >= 400 else None,
        recipient_code=_code_of_recipient(told, parcel.recipient),
    )


def _storable(provider_id: str) -> str:
    """A name that the provider gave a mail, as every database takes it.

    JSON can spell NUL and half characters. A name that cannot be written would keep the mail from being settled, and it
    would be sent again.
    """
    return provider_id.encode("utf-8", "replace").decode().replace("\x00", "")[:255]


def is_status(told: object) -> TypeGuard[int]:
    """Whether somebody could have answered this: a number of any length can stand in JSON."""
    return isinstance(told, int) and 100 <= told <= 599


def document_of(content: bytes) -> dict[str, Any]:
    """The JSON object of an answer; empty if it is none."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        # Brackets in brackets, ten thousand times: no ValueError, and no answer either.
        return {}
    return document if isinstance(document, dict) else {}


# Where services put the name of an error; `code` first, because problem documents use `type` for a URI.
_NAMES_OF_PROBLEMS = ("code", "name", "error_code", "__type", "type", "error")


def _problem(told: dict[str, Any]) -> str | None:
    """The provider's own name of an error: at the top, or in the first of a list of errors."""
    errors = told.get("errors")
    first = errors[0] if isinstance(errors, list) and errors else None
    for each in (told, told.get("error"), first):
        if not isinstance(each, dict):
            continue
        for member in _NAMES_OF_PROBLEMS:
            if isinstance(name := each.get(member), str):
                # Amazon's come with a namespace in front.
                return name.rpartition("#")[2]
    return None


def _code_of_recipient(told: dict[str, Any], recipient: str) -> int | None:
    rejected = told.get("rejected")
    for entry in rejected if isinstance(rejected, list) else []:
        if isinstance(entry, dict) and spelled(str(entry.get("recipient"))) == spelled(recipient):
            code = entry.get("code")
            return code if is_status(code) else 550
    return None


# Most telling first: a subclass before its parents.
_TROUBLES: tuple[tuple[type[BaseException], str], ...] = (
    (asyncio.TimeoutError, "timeout"),
    (aiohttp.ClientConnectorDNSError, "name not found"),
    (aiohttp.ClientConnectorCertificateError, "tls"),
    (aiohttp.ClientSSLError, "tls"),
    (ssl.SSLError, "tls"),
    (aiohttp.ClientConnectorError, "no connection"),
    (aiohttp.ServerDisconnectedError, "eof"),
    (aiohttp.ClientPayloadError, "truncated"),
    (aiohttp.ClientResponseError, "garbled"),
    (ConnectionResetError, "reset"),
    (BrokenPipeError, "reset"),
    (aiohttp.ClientOSError, "reset"),
    (ValueError, "garbled"),
)


def trouble_of(error: BaseException) -> str:
    """The name of a trouble, for people and tables."""
    return next((name for kind, name in _TROUBLES if isinstance(error, kind)), type(error).__name__)
