"""The provider in a test: started with one line, told to fail, asked what it really accepted.

    import simulator

    with simulator.start() as provider:
        provider.fail("lose 1 answer")
        my_sender.send(to="ada@example.com", via=provider.smtp)
        provider.assert_exactly_once("ada@example.com")

The simulator runs in a process of its own, so that neither a frozen clock nor patched sockets nor warnings that are
errors reach it, and it dies with the test run. In pytest use the fixture `mail_provider` (`simulator.pytest_plugin`).
"""

from __future__ import annotations

from simulator.client import ControlError
from simulator.testing.mail import Mail
from simulator.testing.mail_provider import Fault, MailProvider, NotYet, SmtpAddress
from simulator.testing.server import Server, StartError, start

__all__ = [
    "ControlError",
    "Fault",
    "Mail",
    "MailProvider",
    "NotYet",
    "Server",
    "SmtpAddress",
    "StartError",
    "start",
]
