"""A burst on an outbox: many business transactions put mail in at once, and workers of yours get it to the provider.

    simulator serve --ledger memory &
    export OUTBOX_DATABASE_URL=sqlite:///burst.db PROVIDER_URL=http://127.0.0.1:8025 PROVIDER_API_KEY=burst
    reference-sender init && reference-sender work &
    locust -f locustfiles/outbox_burst.py --headless -u 8 -r 8 -t 20s --host http://127.0.0.1:8025 --plan flaky-1-percent

Each user is a JSON-lines process (`--enqueue`, docs/certification.md), so any sender that has one will do. When the time
is over the plan is healed and what is in the outbox has `--drain-s` seconds to get through. Ends with the provider's
verdict: exit code 1 on any duplicate or loss, and if the sender came back earlier than it was told to.
"""

from __future__ import annotations

import json
import logging
import shlex
import subprocess
import time
from collections.abc import Iterator
from datetime import datetime
from itertools import count
from typing import Any

import gevent
import promises
from locust import User, constant, events, task
from locust.env import Environment
from locust.runners import WorkerRunner

#: How often is looked whether everything has arrived, in seconds.
LOOK_S = 0.25
#: Mails of the ledger that are read at a time.
PAGE = 500

numbers = count(1)
#: Recipient → when the business transaction of his mail was committed, in seconds since 1970.
committed: dict[str, float] = {}

log = logging.getLogger("burst")


@events.init_command_line_parser.add_listener
def options(parser: Any) -> None:
    """Add how mail is put in, and how long it may take to get through."""
    parser.add_argument(
        "--enqueue",
        default="reference-sender enqueue --jsonl",
        help="command that takes mails as JSON lines and answers each when it is committed",
    )
    parser.add_argument(
        "--drain-s", type=float, default=60.0, help="seconds in which all that was put in must be accepted"
    )


class Business(User):
    """Commits one mail after the other."""

    wait_time = constant(0)

    def on_start(self) -> None:
        given = self.environment.parsed_options
        self.name = promises.name_of_user(self.environment, next(numbers))
        self.sent = count(1)
        self.text = "x" * given.size
        self.process = subprocess.Popen(
            shlex.split(given.enqueue), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def on_stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()

    @task
    def put_in(self) -> None:
        """Put one mail in; from its commit on it is a promise."""
        provider: promises.Provider = self.environment.provider
        with provider.promised(f"{self.name}-{next(self.sent)}") as promise:
            mail = {
                "op": "enqueue",
                "key": promise.ref,
                "from": "burst@burst.test",
                "to": [promise.recipient],
                "subject": promise.ref,
                "text": self.text,
                "headers": {"X-Obligation": promise.ref},
            }
            began = time.perf_counter()
            said = self.asked(mail)
            trouble = None if said.get("ok") else OSError(str(said.get("error", "no reason given")))
            self.environment.events.request.fire(
                request_type="outbox",
                name="commit",
                response_time=(time.perf_counter() - began) * 1000,
                response_length=0,
                exception=trouble,
                context={},
            )
            # What was committed will be sent; what was refused at the door was never promised.
            promise.state = "accepted" if trouble is None else "failed"
            if trouble is None:
                committed[promise.recipient] = time.time()
            elif not said:
                raise trouble

    def asked(self, mail: dict[str, Any]) -> dict[str, Any]:
        """The answer to one line; empty if the process is gone."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(mail).encode() + b"\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except OSError:
            line = b""
        answer: dict[str, Any] = json.loads(line) if line.strip() else {}
        return answer


@events.quitting.add_listener
def drain(environment: Environment, **_: Any) -> None:
    """Let what is in the outbox get through, and time it. The verdict comes after this: listeners end in reverse."""
    provider = getattr(environment, "provider", None)
    if isinstance(environment.runner, WorkerRunner) or provider is None or provider.trouble:
        return
    provider.must_obey = True
    try:
        provider.enter()
        provider.ask("DELETE", "plan")
        provider.ask("POST", "release")
        deadline = time.monotonic() + environment.parsed_options.drain_s
        while provider.ask("GET", "verdict")["lost"] and time.monotonic() < deadline:
            gevent.sleep(LOOK_S)
        for recipient, taken in accepted(provider):
            if recipient in committed:
                environment.events.request.fire(
                    request_type="outbox",
                    name="commit to acceptance",
                    response_time=max(taken - committed[recipient], 0.0) * 1000,
                    response_length=0,
                    exception=None,
                    context={},
                )
    except OSError as problem:
        log.error("nobody knows what became of the outbox: %s", problem)


def accepted(provider: promises.Provider) -> Iterator[tuple[str, float]]:
    """Every recipient in the ledger, and when his mail was taken, in seconds since 1970."""
    after = ""
    while True:
        page = provider.ask("GET", "messages", limit=str(PAGE), **({"after": after} if after else {}))
        for each in page["messages"]:
            taken = datetime.fromisoformat(each["accepted_at"]).timestamp()
            yield from ((recipient, taken) for recipient in each["recipients"])
        after = page["next"]
        if not after:
            return
