"""All commands together: what a sender can say on one connection."""

from __future__ import annotations

from aiosmtpd.smtp import syntax

from simulator.dialects.smtp import lines
from simulator.servers.smtp.auth import Auth
from simulator.servers.smtp.hello import Hello
from simulator.servers.smtp.quick import BYE, QuickSession
from simulator.servers.smtp.stages import Outcome


class SmtpSession(Hello, Auth, QuickSession):
    """One connection with a sender, from its greeting to its end."""

    @syntax("QUIT")
    async def smtp_QUIT(self, arg: str) -> None:
        if not await self._bare(arg, "QUIT"):
            return
        if await self._pass("quit", BYE) is Outcome.NORMAL:
            await self._say(BYE)
        # Whatever was said: the sender leaves.
        self._over = True

    @syntax("NOOP [ignored]")
    async def smtp_NOOP(self, arg: str) -> None:
        await self._say(lines(250, "2.0.0", "OK"))

    @syntax("VRFY <address>")
    async def smtp_VRFY(self, arg: str) -> None:
        if arg:
            await self._say(
                lines(252, "2.5.2", "cannot verify the user, but will take mail and try to deliver it")
            )
        else:
            await self._say(lines(501, "5.5.4", "syntax: VRFY address"))

    async def smtp_EXPN(self, arg: str) -> None:
        await self._say(lines(502, "5.5.1", "EXPN is not implemented"))

    @syntax("HELP [command]")
    async def smtp_HELP(self, arg: str) -> None:
        command = self._commands.get(arg.upper())
        help_text = getattr(command, "__smtp_syntax__", None)
        if help_text is not None:
            await self._say(lines(214, "2.0.0", f"syntax: {help_text}"))
        else:
            known = " ".join(name for name in sorted(self._commands) if name != "EXPN" and self._knows(name))
            await self._say(lines(214, "2.0.0", f"commands: {known}"))


SmtpSession._commands = {
    name.removeprefix("smtp_"): getattr(SmtpSession, name)
    for name in dir(SmtpSession)
    if name.startswith("smtp_")
}
