"""A burst over SMTP: every step is timed as a request of its own, from the greeting to QUIT.

    simulator serve --ledger memory &
    locust -f locustfiles/smtp_burst.py --headless -u 50 -r 50 -t 20s --host http://127.0.0.1:8025 \\
        --smtp 127.0.0.1:1025 --plan greylist

SMTP has no keys: who has sent the final dot and hears nothing cannot know (RFC 1047). These senders then stop and say
so; they try again only what was certainly not taken. Ends with the provider's verdict: exit code 1 on any duplicate
or loss.
"""

from __future__ import annotations

import smtplib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import gevent
import promises
from locust import User, constant, events, task

TRIES = 12
PAUSE_S = 0.05
MAX_PAUSE_S = 2.0
TIMEOUT_S = 10.0
MAILS_PER_CONNECTION = 20

numbers = count(1)


@events.init_command_line_parser.add_listener
def options(parser: Any) -> None:
    """Add where SMTP is; `--host` is where the control API is."""
    parser.add_argument("--smtp", default="127.0.0.1:1025", help="HOST:PORT of the provider's SMTP")


class Refused(Exception):
    """A reply that is no yes."""

    def __init__(self, code: int, text: bytes) -> None:
        super().__init__(f"{code} {text.decode(errors='replace')}")
        self.code = code


class Sender(User):
    """Hands in one mail after the other, some on each connection."""

    wait_time = constant(0)

    def on_start(self) -> None:
        self.name = promises.name_of_user(self.environment, next(numbers))
        self.sent = count(1)
        given = self.environment.parsed_options
        host, _, port = given.smtp.rpartition(":")
        self.address = host.strip("[]"), int(port)
        self.account = given.account
        self.text = ("x" * 76 + "\r\n") * max(1, given.size // 78)
        self.line: smtplib.SMTP | None = None
        self.on_line = 0

    def on_stop(self) -> None:
        self.hang_up()

    @task
    def send(self) -> None:
        """Send one mail, as long as it is certain that nobody took it."""
        provider: promises.Provider = self.environment.provider
        with provider.promised(f"{self.name}-{next(self.sent)}") as promise:
            for turn in range(TRIES):
                promise.state = "unknown"  # Should the run end while it is under way.
                promise.state = self.tried(promise)
                if promise.state != "pending":
                    return
                gevent.sleep(min(MAX_PAUSE_S, PAUSE_S * 2**turn))

    def tried(self, promise: promises.Promise) -> str:
        """Try once; return what is known then. `pending`: it was certainly not taken, and may be later."""
        body = (
            f"From: <burst@burst.test>\r\nTo: <{promise.recipient}>\r\nSubject: {promise.ref}\r\n"
            f"Message-ID: <{promise.ref}@burst.test>\r\n\r\n{self.text}.\r\n"
        ).encode()
        dotted = False
        try:
            line = self.connected()
            with self.timed("MAIL"):
                _expect(line.docmd("MAIL", "FROM:<burst@burst.test>"), 250)
            with self.timed("RCPT"):
                _expect(line.docmd("RCPT", f"TO:<{promise.recipient}>"), 250)
            with self.timed("DATA"):
                _expect(line.docmd("DATA"), 354)
            with self.timed("message", len(body)):
                dotted = True
                line.send(body)
                _expect(line.getreply(), 250)
        except Refused as refused:
            self.hang_up()
            return "failed" if refused.code >= 500 else "pending"
        except (OSError, smtplib.SMTPException):
            self.hang_up(politely=False)
            return "unknown" if dotted else "pending"
        self.on_line += 1
        if self.on_line >= MAILS_PER_CONNECTION:
            self.hang_up()
        return "accepted"

    def connected(self) -> smtplib.SMTP:
        """Return a line on which a mail may begin."""
        if self.line is not None:
            return self.line
        line = self.line = smtplib.SMTP(timeout=TIMEOUT_S)
        self.on_line = 0
        with self.timed("connect"):
            _expect(line.connect(*self.address), 220)
        with self.timed("EHLO"):
            _expect(line.ehlo("burst.test"), 250)
        with self.timed("AUTH"):
            line.user, line.password = self.account, "any"
            _expect(line.auth("PLAIN", line.auth_plain), 235)
        return line

    def hang_up(self, *, politely: bool = True) -> None:
        line, self.line = self.line, None
        if line is None:
            return
        if politely and line.sock is not None:
            try:
                with self.timed("QUIT"):
                    _expect(line.docmd("QUIT"), 221)
            except (OSError, smtplib.SMTPException, Refused):
                pass  # It changes nothing for any mail.
        line.close()

    @contextmanager
    def timed(self, name: str, size: int = 0) -> Iterator[None]:
        """Time one step and report it as a request."""
        began = time.perf_counter()
        problem: Exception | None = None
        try:
            yield
        except (OSError, smtplib.SMTPException, Refused) as trouble:
            problem = trouble
            raise
        finally:
            self.environment.events.request.fire(
                request_type="SMTP",
                name=name,
                response_time=(time.perf_counter() - began) * 1000,
                response_length=size,
                exception=problem,
                context={},
            )


def _expect(reply: tuple[int, bytes], code: int) -> None:
    if reply[0] != code:
        raise Refused(*reply)
