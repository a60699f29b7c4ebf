"""The provider in a test, as one of its accounts sees it."""

from __future__ import annotations

import json
import tomllib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

from simulator.client import ControlClient, ControlError
from simulator.testing import words
from simulator.testing.mail import Mail

if TYPE_CHECKING:
    from simulator import shapes

#: A plan by the name of one that comes along, by path, as a list of rules, or whole.
Plan = str | PathLike[str] | Sequence[str | Mapping[str, Any]] | Mapping[str, Any] | None

DEFAULT_ACCOUNT = "default"
#: How long to wait for what should come, in seconds, if nobody says.
PATIENCE_S = 10.0


class NotYet(AssertionError, TimeoutError):
    """What was waited for has not come. The message says what has."""


class SmtpAddress(NamedTuple):
    """Where SMTP listens: `smtplib.SMTP(*provider.smtp)`."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Fault:
    """Something that was told to go wrong, and how often it has."""

    def __init__(self, client: ControlClient, name: str, places: range) -> None:
        self.name = name
        self._client = client
        self._places = places

    @property
    def fired(self) -> int:
        """How often it has struck."""
        return self._count("fired")

    @property
    def seen(self) -> int:
        """How often it could have struck."""
        return self._count("seen")

    def _count(self, what: str) -> int:
        rules = self._client.plan()["rules"]
        return sum(int(rules[place][what]) for place in self._places if place < len(rules))

    def __repr__(self) -> str:
        return f"<Fault {self.name!r}, struck {self.fired} times>"


class MailProvider:
    """One account of a running simulator: where to send, how to fail, what was accepted.

    Senders belong to it that show its name as API key (`headers`) or as SMTP user (`user`, any `password`); to the
    account `default` everybody belongs who shows nothing. Close it, or use it as a context manager.
    """

    def __init__(
        self,
        url: str,
        smtp: str,
        account: str = DEFAULT_ACCOUNT,
        *,
        token: str | None = None,
        smtps: str | None = None,
        https: str | None = None,
        ca: str | None = None,
    ) -> None:
        """Speak for `account` of the simulator whose HTTP is at `url` and whose SMTP is at `smtp` (`HOST:PORT`)."""
        self.url = url.rstrip("/")
        """Where HTTP is; mail is handed in at `/v1/emails`."""
        self.smtp = _address(smtp)
        self.smtps = None if smtps is None else _address(smtps)
        """Where SMTP listens under TLS from the first byte on; None: nowhere."""
        self.https = None if https is None else https.rstrip("/")
        """Where HTTP is under TLS, for senders only; None: nowhere."""
        self.ca = ca
        """The file with the certificate that a sender must trust; None: there is no TLS, or another CA."""
        self.account = account
        self.user = self.api_key = account
        """What a sender shows to belong here."""
        self.password = "any"
        """What an SMTP sender shows besides."""
        self.headers = {"Authorization": f"Bearer {account}"}
        """What an HTTP sender shows to belong here."""
        self._token = token
        self.control = ControlClient(self.url, account, token)
        """The whole control API, for what is not here."""
        self.control.make_account()  # From now on its senders are known.

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<MailProvider {self.account!r} at {self.url} and {self.smtp}>"

    def close(self) -> None:
        """Let go of the connections; a simulator that was started for this object stops."""
        self.control.close()

    def sibling(self, account: str) -> MailProvider:
        """Return another account of the same simulator; close it yourself."""
        return MailProvider(
            self.url,
            str(self.smtp),
            account,
            token=self._token,
            smtps=None if self.smtps is None else str(self.smtps),
            https=self.https,
            ca=self.ca,
        )

    # --- what goes wrong ----------------------------------------------------------------------------

    def fail(self, what: str | int, **keys: Any) -> Fault:
        """Let something go wrong, from now on: a line of the plan language, a reply code, or a fault with its keys.

            provider.fail("lose 1 answer")
            provider.fail(503, first=2)
            provider.fail("accept_then_hang_up", recipient="ada@example.com", times=1)

        Every fault and key is in docs/faults.md, the lines are in docs/plans.md. Raises `ControlError`.
        """
        if keys and isinstance(what, str) and not what.isidentifier():
            raise ControlError(
                f"{json.dumps(what)} is a line, which takes no keys ({', '.join(keys)} given); say it all in the line, "
                "or give the name of a fault with its keys"
            )
        before = len(self.control.plan()["rules"])
        rule: str | dict[str, Any]
        if isinstance(what, int):
            rule = {"fault": "reply", "code": what, **keys}
        elif keys:
            rule = {"fault": what, **keys}
        else:
            rule = what
        shown = self.control.add_rules(rule)
        after = shown["rules"]
        for place in range(before, len(after)):
            _mind(each for each in shown["doubts"] if each.startswith(f"rule {place + 1} "))
        return Fault(self.control, str(after[before]["name"]), range(before, len(after)))

    def plan(self, plan: Plan) -> None:
        """Put another plan in force, in place of the former one; None: a healthy provider. Raises `ControlError`."""
        given = as_plan(plan)
        if given is None:
            self.control.heal(all=True)
        else:
            _mind(self.control.set_plan(given)["doubts"])

    def heal(self) -> None:
        """Take all faults away, and let go what is held."""
        self.control.heal()
        self.control.release()

    def release(self) -> int:
        """Let go the answers that a fault holds back; return how many there were."""
        return self.control.release()

    def advance(self, by: float | timedelta) -> None:
        """Let time pass for the provider: keys expire, greylists open, bounces come. In seconds."""
        seconds = by.total_seconds() if isinstance(by, timedelta) else by
        self.control.advance(seconds)

    def reset(self) -> None:
        """Forget everything of this account: mails, attempts, promises, keys, faults."""
        self.control.release()
        self.control.reset()

    # --- what was accepted --------------------------------------------------------------------------

    def mails(self, **filters: str) -> list[Mail]:
        """Return the accepted mails, oldest first.

        Filters: `to`, `sender`, `subject`, `header`, `key`, `message_id`, `since`, `until`, `fate`, `q`.
        """
        return [self._mail(each) for each in self.control.messages(**filters)]

    def wait_for(self, *, timeout_s: float = PATIENCE_S, **filters: str) -> Mail:
        """Return the first mail that matches, as soon as it is accepted. Raises `NotYet`, which is an AssertionError."""
        __tracebackhide__ = True
        return self.wait_for_all(1, timeout_s=timeout_s, **filters)[0]

    def wait_for_all(self, count: int, *, timeout_s: float = PATIENCE_S, **filters: str) -> list[Mail]:
        """Return the mails that match, as soon as `count` of them are accepted. Raises `NotYet`."""
        __tracebackhide__ = True
        try:
            found = self.control.wait_for_messages(count=count, timeout_s=timeout_s, **filters)
        except TimeoutError:
            raise NotYet(self._missing("accepted", count, timeout_s, filters)) from None
        return [self._mail(each) for each in found]

    def attempts(self, **filters: str) -> list[shapes.Attempt]:
        """Return what was tried, accepted or not.

        Filters: `stage`, `state`, `to`, `key`, `message_id`, `rule`, `dialect`, `answer`, `sent`.
        """
        return cast("list[shapes.Attempt]", self.control.attempts(**filters))

    def wait_for_attempt(self, *, timeout_s: float = PATIENCE_S, **filters: str) -> shapes.Attempt:
        """Return the first attempt that matches; `state="held"` is one whose answer is held back. Raises `NotYet`."""
        __tracebackhide__ = True
        try:
            found = self.control.wait_for_attempts(count=1, timeout_s=timeout_s, **filters)
        except TimeoutError:
            raise NotYet(self._missing("tried", 1, timeout_s, filters)) from None
        return cast("shapes.Attempt", found[0])

    def wait_for_event(
        self, type: str, *, timeout_s: float = PATIENCE_S, **filters: str
    ) -> shapes.EventShown:
        """Return the first event of this type, like `email.bounced`. Raises `NotYet`."""
        __tracebackhide__ = True
        wanted = {"type": type, **filters}
        try:
            found = self.control.wait_for_events(count=1, timeout_s=timeout_s, **wanted)
        except TimeoutError:
            raise NotYet(self._missing("events", 1, timeout_s, wanted)) from None
        return cast("shapes.EventShown", found[0])

    # --- what is right ------------------------------------------------------------------------------

    def assert_exactly_once(self, *recipients: str, **filters: str) -> None:
        """Assert that each recipient got exactly one mail. Says which mails there are, and what was tried.

        Without recipients: every promise that was entered (`owe`) was kept, nothing came twice, nothing else came.
        Raises `TypeError` for what is no text, like a list of addresses.
        """
        __tracebackhide__ = True
        for recipient in recipients:
            if not isinstance(recipient, str):
                raise TypeError(
                    "assert_exactly_once takes addresses one by one, like assert_exactly_once(*addresses); this is a "
                    + type(recipient).__name__
                )
        if not recipients:
            self._assert_promises_kept()
            return
        for recipient in recipients:
            mails = cast("list[shapes.Message]", self.control.messages(to=recipient, **filters))
            if len(mails) != 1:
                raise AssertionError(words.not_once(recipient, mails, self.attempts(to=recipient)))

    def assert_nothing_sent(self, **filters: str) -> None:
        """Assert that no mail was accepted."""
        __tracebackhide__ = True
        mails = cast("list[shapes.Message]", self.control.messages(**filters))
        if mails:
            found = words.listed("accepted", map(words.mail_line, mails))
            raise AssertionError(f"{words.counted(len(mails))} came, none was expected\n{found}")

    def owe(self, recipient: str, ref: str | None = None, *, copies: int = 1) -> None:
        """Enter a promise: the application owes this recipient a mail; `ref` names the business transaction.

        `recipient` is a bare address, like `ada@example.com`.
        """
        self.control.owe([{"ref": ref or recipient, "recipient": recipient, "copies": copies}])

    def verdict(self, *, final: bool = True) -> shapes.Verdict:
        """Return promises against ledger; `final`: nothing more will come, what is open is lost."""
        return cast("shapes.Verdict", self.control.verdict(final=final))

    def seen(self) -> str:
        """Return in words what was accepted and what was tried."""
        return words.seen(cast("list[shapes.Message]", self.control.messages()), self.attempts())

    # --- inside -------------------------------------------------------------------------------------

    def _assert_promises_kept(self) -> None:
        __tracebackhide__ = True
        verdict = self.verdict()
        if verdict["valid"] is not True:
            if not verdict["obligations"] and not verdict["duplicated"]:
                raise AssertionError("nothing was promised: name recipients, or enter promises with owe()")
            raise AssertionError(
                words.not_valid(verdict)
                + "\n"
                + words.listed("tried", map(words.attempt_line, self.attempts()))
            )

    def _mail(self, facts: dict[str, Any]) -> Mail:
        return Mail.of(cast("shapes.Message", facts), lambda: self.control.raw(facts["id"]))

    def _missing(self, what: str, count: int, timeout_s: float, filters: Mapping[str, str]) -> str:
        wanted = " ".join(f"{name}={value!r}" for name, value in filters.items()) or "anything"
        return f"{what}: not {count} with {wanted} within {timeout_s:g} s\n{self.seen()}"


def as_plan(plan: Plan) -> dict[str, Any] | None:
    """Return a plan as the control API takes it. Raises `OSError` or `ValueError` if its file cannot be read."""
    match plan:
        case None:
            return None
        case Mapping():
            return dict(plan)
        case str() if not Path(plan).suffix:
            return {"plan": plan}
        case str() | PathLike():
            content = Path(plan).read_text(encoding="utf-8")
            read: dict[str, Any] = (
                json.loads(content) if Path(plan).suffix == ".json" else tomllib.loads(content)
            )
            return read
        case _:
            return {"rules": list(plan)}


def _mind(doubts: Iterable[str]) -> None:
    """Warn of what is probably not meant: a test whose fault never strikes proves nothing."""
    for doubt in doubts:
        warnings.warn(doubt, stacklevel=3)


def _address(text: str) -> SmtpAddress:
    host, _, port = text.rpartition(":")
    return SmtpAddress(host.strip("[]"), int(port))
