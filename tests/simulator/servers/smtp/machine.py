"""SMTP as a machine of few states, written from RFC 5321, 3030 and 4954 and not from our server: what is answered to what.

A step is a command with whatever follows it; the machine says how many replies come, with which codes, and which
mails have been accepted. Nothing of `simulator.servers` is used here.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field

#: The limits of the account that the machine stands for.
SIZE_LIMIT = 400
RECIPIENT_LIMIT = 3


@dataclass(slots=True)
class Machine:
    """Where a session is."""

    hello: str | None = None
    authenticated: bool = False
    sender: str | None = None
    recipients: list[str] = field(default_factory=list)
    chunks: bytearray | None = None
    spoilt: bool = False
    accepted: list[tuple[str, tuple[str, ...], bytes]] = field(default_factory=list)

    def forget(self) -> None:
        self.sender, self.recipients, self.chunks, self.spoilt = None, [], None, False

    # --- commands: each returns what goes over the wire, and the codes of the replies ---------------

    def greet(self, verb: str, name: str, good: bool) -> tuple[bytes, list[int]]:
        if good:
            self.hello = verb
            self.forget()
        return f"{verb} {name}\r\n".encode(), [250 if good else 501]

    def auth(self, response: bytes, code: int) -> tuple[bytes, list[int]]:
        line = b"AUTH PLAIN " + base64.b64encode(response) + b"\r\n"
        if self.hello is None or self.sender is not None or self.hello == "HELO" or self.authenticated:
            return line, [503]
        self.authenticated = code == 235
        return line, [code]

    def auth_given_up(self) -> tuple[bytes, list[int]]:
        if self.hello != "EHLO" or self.sender is not None or self.authenticated:
            return b"AUTH LOGIN\r\n", [503]
        return b"AUTH LOGIN\r\n*\r\n", [334, 501]

    def mail(self, path: str, parameters: str, code: int) -> tuple[bytes, list[int]]:
        line = f"MAIL FROM:{path}{parameters}\r\n".encode()
        if self.hello is None or self.sender is not None:
            return line, [503]
        if code in (250, 552) and parameters and self.hello == "HELO":
            # Parameters are an extension.
            code = 555
        if code == 250:
            self.sender = path[1:-1]
        return line, [code]

    def rcpt(self, path: str, code: int) -> tuple[bytes, list[int]]:
        line = f"RCPT TO:{path}\r\n".encode()
        if self.hello is None or self.sender is None or self.chunks is not None or self.spoilt:
            return line, [503]
        recipient = path[1:-1]
        if code == 250 and recipient not in self.recipients:
            if len(self.recipients) >= RECIPIENT_LIMIT:
                return line, [452]
            self.recipients.append(recipient)
        return line, [code]

    def data(self, raw: bytes) -> tuple[bytes, list[int]]:
        """Only what ends with CRLF can be handed over so."""
        if (
            self.hello is None
            or self.sender is None
            or not self.recipients
            or self.chunks is not None
            or self.spoilt
        ):
            return b"DATA\r\n", [503]
        stuffed = b"".join(
            (b"." if line.startswith(b".") else b"") + line + b"\r\n" for line in raw.split(b"\r\n")[:-1]
        )
        return b"DATA\r\n" + stuffed + b".\r\n", [354, self._judge(raw)]

    def bdat(self, chunk: bytes, last: bool) -> tuple[bytes, list[int]]:
        said = b"BDAT %d%b\r\n%b" % (len(chunk), b" LAST" if last else b"", chunk)
        if self.hello != "EHLO" or self.sender is None or not self.recipients or self.spoilt:
            return said, [503]
        self.chunks = (self.chunks or bytearray()) + chunk
        if last:
            return said, [self._judge(bytes(self.chunks))]
        if len(self.chunks) > SIZE_LIMIT:
            self.forget()
            return said, [552]
        return said, [250]

    def _judge(self, raw: bytes) -> int:
        code = 250
        without = raw.replace(b"\r\n", b"")
        if len(raw) > SIZE_LIMIT:
            code = 552
        elif b"\r" in without or b"\n" in without or b"\0" in without:
            code = 554
        else:
            assert self.sender is not None
            self.accepted.append((self.sender, tuple(self.recipients), raw))
        self.forget()
        return code

    def rset(self) -> tuple[bytes, list[int]]:
        self.forget()
        return b"RSET\r\n", [250]

    def quit(self) -> tuple[bytes, list[int]]:
        """The last thing that is said."""
        return b"QUIT\r\n", [221]

    def plain(self, line: bytes, code: int) -> tuple[bytes, list[int]]:
        """A line whose answer depends on nothing."""
        return line, [code]
