"""What a burst promised and what the provider made of it: every burst ends with this verdict, and its exit code is that.

Speaks to the provider over the network only. A burst has an account of its own, emptied when it begins; each of its
mails is a promise to a recipient of its own, entered with what the sender then knows of it.
"""

from __future__ import annotations

import json
import logging
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import gevent
from gevent.lock import BoundedSemaphore
from locust import events
from locust.env import Environment
from locust.exception import StopUser
from locust.runners import LocalRunner, WorkerRunner

#: Promises are entered so many at a time.
AT_ONCE = 500
#: How long users may take to end what they have begun, in seconds, unless --stop-timeout says it.
STOP_WITHIN_S = 5.0
#: What makes a run fail: no sender may do any of this, whatever the provider does.
WRONG = ("duplicated", "lost", "phantom", "misdirected", "misreported")

log = logging.getLogger("burst")


@events.init_command_line_parser.add_listener
def options(parser: Any) -> None:
    """Add what every burst can be told."""
    parser.add_argument(
        "--account", default="burst", help="account of the provider; it is emptied at the start"
    )
    parser.add_argument(
        "--plan", default="", help="plan to begin with: one that comes along, or a rule in one line"
    )
    parser.add_argument("--token", default="", help="the provider's admin token, if it wants one")
    parser.add_argument(
        "--mails",
        type=int,
        default=0,
        help="end when so many have been sent, on one machine (0: by time only)",
    )
    parser.add_argument("--size", type=int, default=2_000, help="bytes of a mail's text")


class Promise:
    """One mail to one recipient. `state` is what the sender knows of it; at first, nothing."""

    def __init__(self, ref: str, recipient: str) -> None:
        self.ref = ref
        self.recipient = recipient
        self.state = "unknown"

    def entry(self) -> dict[str, str]:
        return {"ref": self.ref, "recipient": self.recipient, "state": self.state}


class Provider:
    """The provider under load, as its control API shows it."""

    def __init__(self, environment: Environment) -> None:
        given = environment.parsed_options
        host = environment.host or "http://127.0.0.1:8025"
        self._base = host.rstrip("/") + "/_simulator/v1/"
        self._account = given.account
        self._token = given.token
        self._plan = given.plan
        self._runner = environment.runner
        self._left = given.mails
        self.must_obey = False
        """Whether coming back earlier than told to fails the run, too."""
        self.trouble = ""
        """Why the run cannot begin: nothing is sent then."""
        self._kept: list[dict[str, str]] = []
        self._entering = BoundedSemaphore()

    def begin(self) -> None:
        """Empty the account, and put the plan in force."""
        self.ask("POST", "release")
        self.ask("POST", "reset")
        if " " in self._plan:
            self.ask("POST", "plan", [self._plan])
        elif self._plan:
            self.ask("PUT", "plan", {"plan": self._plan})

    @contextmanager
    def promised(self, ref: str) -> Iterator[Promise]:
        """Promise a mail for the time of a block; in the end it is entered with the state it has got."""
        if self.trouble:
            raise StopUser
        promise = Promise(ref, f"{ref}@burst.test")
        try:
            yield promise
        finally:
            # Even if the run ends in the middle of it. What was certainly not taken by then is called off; of what
            # was being sent nobody knows, and that is said.
            if promise.state == "pending":
                promise.state = "cancelled"
            self._kept.append(promise.entry())
            if len(self._kept) >= AT_ONCE:
                self.enter()
            self._left -= 1
            if self._left == 0 and isinstance(self._runner, LocalRunner):
                # Not by this user, who would end itself in the middle of it.
                gevent.spawn(self._runner.quit)

    def enter(self) -> None:
        """Enter the promises that are kept here."""
        with self._entering:
            entries, self._kept = self._kept, []
            if not entries:
                return
            try:
                self.ask("POST", "obligations", {"obligations": entries})
            except OSError:
                self._kept = entries + self._kept
                raise

    def verdict(self) -> dict[str, Any]:
        """Return promises against ledger, when nothing more will come."""
        self.ask("DELETE", "plan")
        self.ask("POST", "release")
        return self.ask("GET", "verdict", final="true")

    def ask(self, method: str, path: str, body: object = None, **query: str) -> dict[str, Any]:
        """Ask the control API. Raises `OSError`, with the provider's own sentence if it gave one."""
        url = f"{self._base}{path}?{urllib.parse.urlencode({'account': self._account, **query})}"
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data=data, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                said: dict[str, Any] = json.load(answer)
                return said
        except urllib.error.HTTPError as problem:
            raise OSError(
                f"the provider answered {problem.code}: {problem.read().decode(errors='replace')}"
            ) from problem


def judge(verdict: dict[str, Any], *, must_obey: bool = False) -> tuple[int, list[str]]:
    """Return the exit code of a run with this verdict, and what is said about it."""
    lines = [
        f"{verdict['accepted_once']} of {verdict['obligations']} mails accepted exactly once,"
        f" {len(verdict['parked'])} not accepted and left in doubt,"
        f" {len(verdict['unsent'])} refused or called off, and said so"
    ]
    for name in WRONG:
        lines += [
            f"{name}: {each['recipient']}, {each['copies']} of {each['expected']} copies {each['ids']}"
            for each in verdict[name][:20]
        ]
        if len(verdict[name]) > 20:
            lines.append(f"{name}: … {len(verdict[name]) - 20} more")
    wrong = any(verdict[name] for name in WRONG)
    if must_obey and verdict["obedience"]["told"]:
        told = verdict["obedience"]
        lines.append(
            f"told to wait {told['told']} times: came back too early {told['too_early_count']} times,"
            f" pressed on with other mail {told['pressed_count']} times"
        )
        wrong = wrong or told["obeyed"] is False
    if not verdict["obligations"]:
        return 1, ["nothing was sent, so nothing is proved"]
    return (1 if wrong else 0), lines


@events.init.add_listener
def be_patient(environment: Environment, **_: Any) -> None:
    """Let users end what they have begun."""
    environment.stop_timeout = environment.stop_timeout or STOP_WITHIN_S


def name_of_user(environment: Environment, number: int) -> str:
    """Return a name that no other user of the run has, on whichever machine."""
    return f"w{getattr(environment.runner, 'worker_index', 0)}-u{number}"


@events.test_start.add_listener
def begin(environment: Environment, **_: Any) -> None:
    """Begin with an empty account. Workers find it ready: they send nothing before their master has begun."""
    environment.provider = Provider(environment)  # type: ignore[attr-defined] # ours, for the users of this run
    if isinstance(environment.runner, WorkerRunner):
        return
    try:
        environment.provider.begin()  # type: ignore[attr-defined] # set above
    except OSError as problem:
        environment.provider.trouble = str(problem)  # type: ignore[attr-defined] # set above
        log.error("the run cannot begin, and nothing is sent: %s", problem)
        gevent.spawn(environment.runner.quit)


@events.test_stop.add_listener
def keep(environment: Environment, **_: Any) -> None:
    """Enter what is left, on whichever machine it was sent."""
    # Whoever cannot be told now is told, or missed, by the verdict.
    with suppress(OSError):
        environment.provider.enter()  # type: ignore[attr-defined] # set above


@events.quitting.add_listener
def end(environment: Environment, **_: Any) -> None:
    """Ask for the verdict. It alone decides the exit code: answers that a plan spoils are no failure of the run."""
    provider = getattr(environment, "provider", None)
    if isinstance(environment.runner, WorkerRunner) or provider is None:
        return
    if provider.trouble:
        environment.process_exit_code = 1
        return
    try:
        provider.enter()
        code, lines = judge(provider.verdict(), must_obey=provider.must_obey)
    except OSError as problem:
        code, lines = 1, [f"there is no verdict: {problem}"]
    for line in lines:
        log.log(logging.ERROR if code else logging.INFO, line)
    environment.process_exit_code = code
