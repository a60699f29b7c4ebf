"""Introductions: HELO, EHLO and what is offered, STARTTLS."""

from __future__ import annotations

from aiosmtpd.smtp import syntax

from simulator.dialects.smtp import lines
from simulator.provider.provider import Detail
from simulator.servers.smtp.dialogue import Dialogue
from simulator.servers.smtp.offers import ehlo_reply, helo_reply
from simulator.servers.smtp.stages import Outcome
from simulator.servers.smtp.syntax import is_host

_GO_AHEAD = lines(220, "2.0.0", "go ahead")


class Hello(Dialogue):
    """The commands that come before everything else."""

    async def _hello(self, name: str, command: str, usual: bytes) -> None:
        if not is_host(name):
            await self._say(lines(501, None, f"syntax: {command} host"))
            return
        outcome = await self._pass("ehlo", usual, Detail(command=command))
        if outcome in (Outcome.NORMAL, Outcome.YES):
            # RFC 5321, section 4.1.4: a second EHLO in a session does what RSET does.
            self._abandon(f"the sender said {command} again")
            self.session.host_name = name
            self.session.extended_smtp = command == "EHLO"
        if outcome is Outcome.NORMAL:
            await self._say(usual)

    @syntax("HELO hostname")
    async def smtp_HELO(self, hostname: str) -> None:
        await self._hello(hostname, "HELO", helo_reply(self.hostname))

    @syntax("EHLO hostname")
    async def smtp_EHLO(self, hostname: str) -> None:
        rules = self._rules
        if not rules.ehlo:
            await self._say(lines(502, "5.5.1", "EHLO is not implemented"))
            return
        usual = ehlo_reply(self.hostname, rules, self._offered(), self._size_limit())
        await self._hello(hostname, "EHLO", usual)

    async def _hear_handshake(self, size_bytes: int) -> bool:
        """A rule waits for the sender's handshake, which a sender begins only after it was told to."""
        self._inbox.data.clear()
        await self._say(_GO_AHEAD)
        return await self._hear(size_bytes)

    @syntax("STARTTLS")
    async def smtp_STARTTLS(self, arg: str) -> None:
        if not await self._bare(arg, "STARTTLS"):
            return
        if self._secure:
            await self._say(lines(503, "5.5.1", "the connection is under TLS already"))
            return
        if "STARTTLS" not in self._offered():
            # So it is a command we do not have (RFC 5321, section 4.2.4); 454 would promise it for later.
            usual = lines(502, "5.5.1", "STARTTLS is not offered here")
            if await self._pass("starttls", usual) is Outcome.NORMAL:
                await self._say(usual)
            return
        outcome = await self._pass("starttls", _GO_AHEAD, hear=self._hear_handshake)
        if outcome in (Outcome.NO, Outcome.NOISE):
            return
        # What comes from now on belongs to TLS; what came already was put in by somebody else (CVE-2011-0411).
        self._inbox.data.clear()
        if outcome is Outcome.NORMAL:
            await self._say(_GO_AHEAD)
        await self._start_tls()
