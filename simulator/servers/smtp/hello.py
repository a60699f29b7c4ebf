"""Introductions: HELO, EHLO and what is offered, STARTTLS."""

from __future__ import annotations

from aiosmtpd.smtp import syntax

from simulator.dialects.smtp import lines
from simulator.servers.smtp.dialogue import Dialogue, Outcome


class Hello(Dialogue):
    async def _hello(self, name: str, command: str, usual: bytes) -> None:
        if not name or len(name.split()) != 1 or not name.isprintable():
            await self._say(lines(501, None, f"syntax: {command} host"))
            return
        outcome = await self._pass("ehlo", usual)
        if outcome in (Outcome.NORMAL, Outcome.YES):
            # RFC 5321, section 4.1.4: a second EHLO in a session does what RSET does.
            self._abandon(f"the sender said {command} again")
            self.session.host_name = name
            self.session.extended_smtp = command == "EHLO"
        if outcome is Outcome.NORMAL:
            await self._say(usual)

    @syntax("HELO hostname")
    async def smtp_HELO(self, hostname: str) -> None:
        await self._hello(hostname, "HELO", lines(250, None, self.hostname))

    @syntax("EHLO hostname")
    async def smtp_EHLO(self, hostname: str) -> None:
        offers = (
            self.hostname,
            f"SIZE {self._size_limit()}",
            "PIPELINING",
            "8BITMIME",
            "SMTPUTF8",
            "ENHANCEDSTATUSCODES",
            "AUTH PLAIN LOGIN",
            "HELP",
        )
        await self._hello(hostname, "EHLO", lines(250, None, "\n".join(offers)))

    @syntax("STARTTLS")
    async def smtp_STARTTLS(self, arg: str) -> None:
        if not await self._bare(arg, "STARTTLS"):
            return
        # Not offered, so it is a command we do not have (RFC 5321, section 4.2.4); 454 would promise it for later.
        usual = lines(502, "5.5.1", "STARTTLS is not offered here")
        if await self._pass("starttls", usual) is Outcome.NORMAL:
            await self._say(usual)
