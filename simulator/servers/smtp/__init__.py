"""The SMTP server: the dialogue of RFC 5321 with a provider that may go wrong at every stage of it.

From the transport upwards: `inbox` (what came in), `connection` (the line and the voice), `stages` (and the attempts),
`dialogue`, the commands in `hello`, `auth` and `transaction`; beside them `ease` and `quick`, the short way of plain
sessions; `session` (all of them), `server` (the listener).
Syntax lives in `syntax`, the end of a mail in `mail_data`; words come from `simulator.dialects.smtp`, decisions from
`simulator.provider`. Nothing in this package knows a rule.
"""

from __future__ import annotations

from simulator.servers.smtp.server import SmtpServer

__all__ = ["SmtpServer"]
