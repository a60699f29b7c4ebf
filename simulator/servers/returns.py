"""The channel of mails that come back: DSNs and complaint reports, handed to a mail server by SMTP."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from simulator import __version__
from simulator.clock import Clock
from simulator.provider.acceptance import Acceptance
from simulator.provider.deliveries import Delivery, Schedule, Try, keyed
from simulator.provider.events import Event
from simulator.provider.notices import Notice, notice_of
from simulator.provider.provider import Account, Setup
from simulator.provider.returns import ReturnMail, ReturnRules, compose, report_of
from simulator.provider.webhooks import Reach, TargetError, check_address
from simulator.servers.courier import Terms

if TYPE_CHECKING:
    from aiosmtplib import SMTPResponseException

#: RFC 5321, section 4.2.1: what a server refuses for good is not tried again.
FOR_GOOD = tuple(range(500, 600))

AGENT = f"mailproof-simulator/{__version__}"


class Returns:
    """The returns of all accounts. `body` gives the bytes of an accepted mail."""

    name = "returns"

    def __init__(
        self, clock: Clock, reach: Reach, body: Callable[[Acceptance], Awaitable[bytes | None]]
    ) -> None:
        self._clock = clock
        self._reach = reach
        self._body = body

    def check(self, setup: Setup) -> None:
        """Raise `TargetError` if a plan wants mail to come back where it may not, as far as its text tells."""
        check_returns(setup.returns, self._reach)

    def terms(self, account: Account) -> Terms | None:
        rules = account.setup.returns
        if rules.smtp is None:
            return None
        schedule = Schedule(
            delays_s=rules.schedule_s, jitter=0.1, give_up_on=FOR_GOOD, seed=account.plan.plan.seed
        )
        return Terms(target=rules.smtp, schedule=schedule)

    def notices(self, event: Event, account: Account) -> list[Notice]:
        acceptance = _mail_of(event, account)
        if report_of(event, acceptance, account.setup.returns) is None:
            return []
        return keyed([notice_of(event)])

    async def send(self, delivery: Delivery, account: Account) -> Try:
        at, began = account.clock.now(self._clock.now()), self._clock.monotonic()
        rules, event = account.setup.returns, delivery.notices[0].event
        acceptance = _mail_of(event, account)
        report = report_of(event, acceptance, rules)
        if rules.smtp is None or acceptance is None or report is None:
            return Try(at=at, took_s=0.0, status=554, error="there is nothing to be returned any more")
        returned = compose(report, event, acceptance, await self._body(acceptance), rules, agent=AGENT)
        status, error = await self._hand_over(returned, rules)
        took_s = round(self._clock.monotonic() - began, 6)
        return Try(at=at, took_s=took_s, status=status, error=error)

    async def _hand_over(self, mail: ReturnMail, rules: ReturnRules) -> tuple[int | None, str | None]:
        """Hand a mail to the server; return its code, and what is wrong with it in a sentence."""
        # Most simulators never return anything.
        from aiosmtplib import SMTP, SMTPException, SMTPRecipientsRefused, SMTPResponseException

        assert rules.smtp is not None
        host, _, port = rules.smtp.rpartition(":")
        try:
            address = await self._look_up(host.strip("[]"), int(port))
            client = SMTP(
                hostname=address,
                port=int(port),
                local_hostname=rules.hostname,
                timeout=rules.timeout_s,
                start_tls=False,
            )
            async with client:
                options = ["BODY=8BITMIME"] if client.supports_extension("8bitmime") else []
                if not mail.recipient.isascii():
                    options.append("SMTPUTF8")
                await client.sendmail(
                    mail.sender,
                    [mail.recipient],
                    mail.content,
                    mail_options=options,
                )
        except TargetError as problem:
            return None, str(problem)
        except SMTPRecipientsRefused as problem:
            return _refused(problem.recipients[0])
        except SMTPResponseException as problem:
            return _refused(problem)
        except (SMTPException, OSError, ValueError) as problem:
            said = " ".join(str(problem).split())[:200] or type(problem).__name__
            return None, f"the mail cannot be handed over: {said}"
        return 250, None

    async def _look_up(self, host: str, port: int) -> str:
        """Return the address of a host. Raises `TargetError` if mail may not go there."""
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        address = str(found[0][4][0])
        check_address(address, self._reach)
        return address


def _refused(problem: SMTPResponseException) -> tuple[int, str]:
    return problem.code, f"the mail server says {problem.code} {' '.join(problem.message.split())[:200]}"


def check_returns(rules: ReturnRules, reach: Reach) -> None:
    """Raise `TargetError` if mail would come back where it may not; of a name that is seen when it is looked up."""
    if rules.smtp is None:
        return
    host = rules.smtp.rpartition(":")[0].strip("[]")
    try:
        check_address(host, reach)
    except TargetError as problem:
        raise TargetError(
            str(problem).replace("webhooks may not be sent", "mail may not be returned")
        ) from problem
    except ValueError:
        pass  # A name.


def _mail_of(event: Event, account: Account) -> Acceptance | None:
    """Return the mail an event is about, with its headers."""
    if event.email_id is None:
        return None
    kept = account.ledger.get(event.email_id)
    return kept if kept is not None or event.mail is None else dataclasses.replace(event.mail)
