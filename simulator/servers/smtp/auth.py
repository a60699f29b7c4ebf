"""AUTH: the exchanges of PLAIN and LOGIN, and whose account it is from then on (RFC 4954)."""

from __future__ import annotations

import base64
import binascii

from aiosmtpd.smtp import syntax

from simulator.dialects.smtp import lines
from simulator.provider.provider import Detail
from simulator.servers.smtp.dialogue import Dialogue
from simulator.servers.smtp.inbox import Trouble
from simulator.servers.smtp.stages import Outcome
from simulator.servers.smtp.syntax import Objection

#: Longest line of an AUTH exchange (RFC 4954, section 4).
AUTH_LIMIT_BYTES = 12_288


class Auth(Dialogue):
    """The command that says who the sender is."""

    @syntax("AUTH mechanism [initial-response]")
    async def smtp_AUTH(self, arg: str) -> None:
        if not await self._in_order(transaction=False):
            return
        if not self.session.extended_smtp:
            await self._say(lines(503, "5.5.1", "say EHLO first"))
            return
        if self.session.authenticated:
            await self._say(lines(503, "5.5.1", "already authenticated"))
            return
        try:
            given = await self._credentials(arg)
        except Objection as objection:
            await self._say(objection.reply)
            return
        if given is None:
            return
        user, password = given
        self._begin()
        usual = lines(235, "2.7.0", "authentication succeeded")
        outcome = await self._pass("auth", usual, Detail(credential=user, secret=password))
        if outcome in (Outcome.NORMAL, Outcome.YES):
            self.session.authenticated = True
            self._credential = user
        if outcome is Outcome.NORMAL:
            await self._say(usual)

    async def _credentials(self, arg: str) -> tuple[str, str] | None:
        """Do the exchange of PLAIN (RFC 4616) or LOGIN; return user and password. None: the sender is gone."""
        mechanism, _, initial = arg.partition(" ")
        match mechanism.upper():
            case known if known and known not in self._rules.auth:
                raise Objection(504, "5.5.4", f"mechanism not known here: {' or '.join(self._rules.auth)}")
            case "":
                raise Objection(501, "5.5.4", "syntax: AUTH mechanism [initial-response]")
            case "PLAIN":
                response = _unbase64(initial) if initial else await self._challenge(b"")
                if response is None:
                    return None
                parts = response.split(b"\0")
                if len(parts) != 3:
                    raise Objection(501, "5.5.2", "syntax: authorization NUL user NUL password, in base64")
                user, password = parts[1:]
            case "LOGIN":
                given = _unbase64(initial) if initial else await self._challenge(b"Username:")
                word = None if given is None else await self._challenge(b"Password:")
                if given is None or word is None:
                    return None
                user, password = given, word
            case other:
                raise AssertionError(f"{other} is offered, but there is no exchange for it")
        if not user:
            raise Objection(535, "5.7.8", "there is no user name")
        try:
            name = user.decode()
        except UnicodeDecodeError:
            # RFC 4616, section 2. Read in some other way, two users could become one, and share an account.
            raise Objection(535, "5.7.8", "the user name is not UTF-8") from None
        return name, password.decode("utf-8", "replace")

    async def _challenge(self, text: bytes) -> bytes | None:
        """Say 334 and return the response. None: the sender is gone."""
        await self._say(b"334 " + base64.b64encode(text) + b"\r\n")
        match await self._inbox.line(AUTH_LIMIT_BYTES):
            case bytes(line):
                if not line.endswith(b"\r\n"):
                    raise Objection(500, "5.5.2", "lines end with CRLF, this one ended with LF only")
                response = line.rstrip(b"\r\n").decode("ascii", "replace")
                if response == "*":
                    raise Objection(501, "5.7.0", "authentication given up")
                return _unbase64(response)
            case Trouble.TOO_LONG:
                raise Objection(500, "5.5.6", "the response is too long")
            case Trouble.GONE | Trouble.IDLE | Trouble.DISMISSED:
                # The main loop finds the same and says what is to be said.
                return None


def _unbase64(text: str) -> bytes:
    """Decode a response; `=` is an empty one (RFC 4954, section 4)."""
    if text == "=":
        return b""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Objection(501, "5.5.2", "the response is not base64") from None
