"""The envelope of a transaction: who sends to whom, what was asked to be told, and the mail as far as it has come."""

from __future__ import annotations

from dataclasses import dataclass, field

from simulator.provider.message import Dsn, DsnRecipient
from simulator.provider.provider import Detail
from simulator.servers.smtp.mail_data import Chunks, MailData
from simulator.servers.smtp.syntax import from_xtext


@dataclass(slots=True)
class Incoming:
    """A mail on its way in."""

    data: MailData | Chunks
    head: Detail | None = None
    """What its headers say, once they are there and the stage `body` was asked."""
    whole: bool = False
    """Its end is there, or that of its chunk."""
    spoilt: bool = False
    """Something was said to it that leaves no place for a proper answer."""


@dataclass(slots=True)
class Envelope:
    """What MAIL and RCPT said. `sender` None: there is no transaction."""

    sender: str | None = None
    utf8: bool = False
    recipients: list[str] = field(default_factory=list)
    ret: str | None = None
    envid: str | None = None
    dsn: list[DsnRecipient] = field(default_factory=list)
    incoming: Incoming | None = None
    """What BDAT has brought so far; DATA brings all at once."""

    def begin(self, sender: str, parameters: dict[str, str]) -> None:
        """MAIL was taken."""
        self.sender = sender
        if parameters:
            self.utf8 = "SMTPUTF8" in parameters
            self.ret = parameters["RET"].upper() if "RET" in parameters else None
            self.envid = from_xtext(parameters["ENVID"]) if "ENVID" in parameters else None

    def add(self, recipient: str, parameters: dict[str, str]) -> None:
        """RCPT was taken. One mail to the same mailbox twice is one mail to it; its last wishes count."""
        if recipient not in self.recipients:
            self.recipients.append(recipient)
        if parameters:
            self.dsn = [each for each in self.dsn if each.recipient != recipient]
            notify, orcpt = parameters.get("NOTIFY"), parameters.get("ORCPT")
            self.dsn.append(
                DsnRecipient(
                    recipient=recipient,
                    notify=tuple(notify.upper().split(",")) if notify else (),
                    orcpt=None if orcpt is None else from_xtext(orcpt),
                )
            )

    def wishes(self) -> Dsn | None:
        """Return what the sender asked to be told; None if nothing was said."""
        if self.ret is None and self.envid is None and not self.dsn:
            return None
        return Dsn(ret=self.ret, envid=self.envid, recipients=tuple(self.dsn))
