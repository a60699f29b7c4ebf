"""The HTTP wire: one POST per mail, and the look-up of what the provider knows.

No redirects, no hidden retries of a mail: `http_lines` sends a request once.
Must not hold: what a code means (`policy.classify`), when to try again.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeGuard
from urllib.parse import urlencode

from reference_sender.life import Docket, Parcel
from reference_sender.policy.evidence import Evidence, Phase, Wire
from reference_sender.policy.lookup import Found, LookedUp, NotFound, Unavailable
from reference_sender.transports.http_line import Answer, Broken, Progress
from reference_sender.transports.http_lines import EXPECTED, LineOptions, Lines, field

_KEPT_ANSWER_CHARS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions(LineOptions):
    """Where the provider is and how it wants to be asked."""

    path: str = "/v1/emails"
    key_header: str = "Idempotency-Key"


class HttpTransport:
    """Sends a mail by HTTP POST; see `Evidence` for what it tells."""

    def __init__(self, options: HttpOptions) -> None:
        self._options = options
        self._lines = Lines(options)
        # All of the head but the key and the length; it is the same for every mail.
        self._head = self._lines.head("POST", options.path) + field("Content-Type", "application/json")

    async def send(
        self, parcel: Parcel, *, key: str, point_of_no_return: Callable[[], Awaitable[bool]]
    ) -> Evidence:
        """Make one attempt. `point_of_no_return` is awaited before the first byte; False stops the attempt."""
        progress = Progress()
        try:
            body = request_body(parcel)
            head = self._head + field(self._options.key_header, key) + length_of(body)
            answer = await self._lines.ask(head, body, progress, point_of_no_return)
        except EXPECTED as error:
            return no_answer(error, progress)
        return evidence_of(
            answer.status,
            answer.header("retry-after"),
            answer.body,
            parcel,
            progress.phase,
            limits=limits_in(answer.headers),
        )

    async def close(self) -> None:
        """Hang up; attempts under way break off."""
        await self._lines.close()


class HttpLookup:
    """Asks the provider whether it knows a mail, by key and then by Message-ID."""

    def __init__(self, options: HttpOptions) -> None:
        self._options = options
        self._lines = Lines(options)

    async def find(self, docket: Docket) -> LookedUp:
        """What the provider knows about this (key, recipient)."""
        try:
            for parameter, value in (
                ("idempotency_key", docket.idempotency_key),
                ("message_id", docket.message_id),
            ):
                answer = await self._get(f"{self._options.path}?{urlencode({parameter: value})}")
                if answer.status != 200:
                    return Unavailable(reason=f"the look-up answers {answer.status}")
                for entry in json.loads(answer.body)["data"]:
                    if is_ours(entry, docket, parameter, value):
                        return Found(provider_id=_storable(str(entry["id"])))
        except (*EXPECTED, KeyError, TypeError, AttributeError, RecursionError) as error:
            return Unavailable(reason=f"the look-up fails ({trouble_of(error)})")
        return NotFound()

    async def _get(self, path: str) -> Answer:
        head = self._lines.head("GET", path) + b"\r\n"
        try:
            return await self._lines.ask(head, b"", Progress())
        except Broken as broken:
            # A question may be asked again (RFC 9110 section 9.2.2): a kept connection may just have been closed.
            if broken.trouble not in ("eof", "reset"):
                raise
            return await self._lines.ask(head, b"", Progress())

    async def close(self) -> None:
        """Hang up."""
        await self._lines.close()


def is_ours(entry: Any, docket: Docket, parameter: str, value: str) -> bool:
    """Whether an entry of a look-up by this parameter speaks of this mail, as accepted."""
    # A provider that ignores a filter it does not know answers with everything: check what it found.
    if entry.get(parameter, value) != value or entry.get("status", "accepted") != "accepted":
        return False
    accepted = entry.get("accepted", entry.get("to", [docket.recipient]))
    return docket.recipient.lower() in [str(address).lower() for address in accepted]


_quoted = json.encoder.encode_basestring_ascii
"""A text as it stands in a JSON document."""


def request_body(parcel: Parcel) -> bytes:
    """The JSON document of one mail."""
    # By hand: the encoder would look for something to quote in a long text that holds nothing of the kind.
    return b'{"from": %b, "to": [%b], "raw": "%b"}' % (
        _quoted(parcel.sender).encode(),
        _quoted(parcel.recipient).encode(),
        base64.b64encode(parcel.raw),
    )


def length_of(body: bytes) -> bytes:
    """The last field of a head, and the empty line behind it."""
    return b"Content-Length: %d\r\n\r\n" % len(body)


def no_answer(error: BaseException, progress: Progress) -> Evidence:
    """What an attempt without a whole answer has seen."""
    trouble = "withdrawn" if progress.withdrawn else trouble_of(error)
    return Evidence(
        wire=Wire.HTTP, phase=progress.phase, trouble=trouble, answer=str(error) or type(error).__name__
    )


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
        if isinstance(entry, dict) and str(entry.get("recipient")).lower() == recipient.lower():
            code = entry.get("code")
            return code if is_status(code) else 550
    return None


def trouble_of(error: BaseException) -> str:
    """The name of a trouble, for people and tables."""
    if isinstance(error, Broken):
        return error.trouble
    return next((name for kind, name in _TROUBLES if isinstance(error, kind)), type(error).__name__)


# Most telling first: a subclass before its parents.
_TROUBLES: tuple[tuple[type[BaseException], str], ...] = (
    (TimeoutError, "timeout"),
    (ConnectionError, "reset"),
    (ValueError, "garbled"),
)
