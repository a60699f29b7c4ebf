"""One request to a receiver of webhooks, and what came of it. The only place that speaks HTTP as a client.

No redirect is followed, no proxy asked, no cookie kept; names are looked up here so that they lead nowhere they may not.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from simulator import __version__
from simulator.clock import Clock
from simulator.provider.webhooks import Reach, TargetError, check_address, check_target

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

#: So much of an answer is read at most, and so much of it is kept for people.
READ_BYTES = 64 * 1024
SHOWN_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What a receiver answered."""

    status: int | None = None
    error: str | None = None
    """One sentence, if there was no answer or none that counts."""
    answer: str = ""
    """The beginning of its body."""
    retry_after_s: float | None = None


class Messenger:
    """Makes requests. One per service; connections are kept between requests."""

    def __init__(self, clock: Clock, reach: Reach) -> None:
        self.reach = reach
        self._clock = clock
        self._session: ClientSession | None = None

    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str], *, timeout_s: float, verify_tls: bool
    ) -> Heard:
        """Make one POST. Never raises for what a receiver does or does not do."""
        # Half of the time a start takes, and most simulators never tell anybody anything.
        from aiohttp import ClientError, ClientTimeout, InvalidURL

        try:
            check_target(url, self.reach)
            async with self._opened().post(
                url,
                data=body,
                headers={"content-type": "application/json", "user-agent": _USER_AGENT, **headers},
                allow_redirects=False,
                ssl=verify_tls,
                # aiohttp rounds deadlines above five seconds up to whole ones.
                timeout=ClientTimeout(total=timeout_s, ceil_threshold=float("inf")),
            ) as response:
                return await self._heard(response)
        except TargetError as problem:
            return Heard(error=str(problem))
        except TimeoutError:
            return Heard(error=f"there was no answer within {timeout_s:g} s")
        except InvalidURL:
            return Heard(error=f"{url[:60]!r} is no URL")
        except (ClientError, OSError, ValueError) as problem:
            return Heard(error=_sentence(problem))

    async def close(self) -> None:
        """Close the connections that are kept."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _heard(self, response: ClientResponse) -> Heard:
        read = bytearray()
        # To its end, so that half an answer counts as none; but nobody sends us more than we want.
        while len(read) < READ_BYTES and (piece := await response.content.read(READ_BYTES - len(read))):
            read += piece
        answer = read.decode("utf-8", "replace")[:SHOWN_CHARS]
        error = None
        if 300 <= response.status < 400:
            error = f"a redirect ({response.status}) is not followed; give the URL it leads to"
        return Heard(
            status=response.status,
            error=error,
            answer=answer,
            retry_after_s=self._seconds(response.headers.get("Retry-After")),
        )

    def _seconds(self, retry_after: str | None) -> float | None:
        """Return the seconds of a Retry-After (RFC 9110, section 10.2.3); None if there are none to be read."""
        if retry_after is None:
            return None
        if retry_after.isascii() and retry_after.isdecimal():
            return float(retry_after[:9])
        try:
            wanted = parsedate_to_datetime(retry_after)
            return max(0.0, (wanted - self._clock.now()).total_seconds())
        except (ValueError, TypeError, OverflowError):
            return None

    def _opened(self) -> ClientSession:
        if self._session is None:
            from aiohttp import ClientSession, DummyCookieJar, TCPConnector
            from aiohttp.abc import AbstractResolver, ResolveResult

            reach = self.reach

            class Resolver(AbstractResolver):
                """Looks names up, and hands on only addresses that events may be sent to."""

                async def resolve(
                    self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
                ) -> list[ResolveResult]:
                    found = await asyncio.get_running_loop().getaddrinfo(
                        host, port, family=family, type=socket.SOCK_STREAM
                    )
                    for *_, address in found:
                        check_address(str(address[0]), reach)
                    return [
                        ResolveResult(
                            hostname=host,
                            host=str(address[0]),
                            port=port,
                            family=kind,
                            proto=proto,
                            flags=socket.AI_NUMERICHOST,
                        )
                        for kind, _, proto, _, address in found
                    ]

                async def close(self) -> None:
                    """There is nothing to close."""

            # How many requests are under way at once is decided by whoever asks for them.
            self._session = ClientSession(
                connector=TCPConnector(limit=0, resolver=Resolver(), use_dns_cache=False),
                cookie_jar=DummyCookieJar(),
                trust_env=False,
                # What is read of an answer is bounded; what it might unpack to is not.
                auto_decompress=False,
                skip_auto_headers=("Accept-Encoding",),
            )
        return self._session


_USER_AGENT = f"mailproof-simulator/{__version__}"


def _sentence(problem: Exception) -> str:
    """Return what went wrong, on one line."""
    cause: BaseException | None = problem
    while cause is not None:
        if isinstance(cause, TargetError):
            return str(cause)
        cause = cause.__cause__
    said = " ".join(str(problem).split())
    return f"the request failed: {said[:200] or type(problem).__name__}"
