"""A burst over HTTP: users that hand in mail with idempotency keys, try again when they must, and keep their promises.

    simulator serve --ledger memory &
    locust -f locustfiles/http_burst.py --headless -u 50 -r 50 -t 20s --host http://127.0.0.1:8025 --plan flaky-1-percent

Ends with the provider's verdict: exit code 1 on any duplicate or loss. `--plan` is the name of a plan that comes along
or a rule in one line. Add `,locustfiles/shapes.py --shape spike` to let the load have a shape.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import gevent
import promises
from locust import FastHttpUser, constant, task

#: How often a mail is tried, and how long is waited in between, in seconds.
TRIES = 12
PAUSE_S = 0.05
MAX_PAUSE_S = 2.0

numbers = count(1)


class Sender(FastHttpUser):
    """Hands in one mail after the other."""

    wait_time = constant(0)
    connection_timeout = network_timeout = 10.0
    host = "http://127.0.0.1:8025"

    def on_start(self) -> None:
        self.name = promises.name_of_user(self.environment, next(numbers))
        self.sent = count(1)
        options = self.environment.parsed_options
        self.headers = {"Authorization": f"Bearer {options.account}"}
        self.text = "x" * options.size

    @task
    def send(self) -> None:
        """Send one mail, with the same key until somebody says yes or no."""
        provider: promises.Provider = self.environment.provider
        with provider.promised(f"{self.name}-{next(self.sent)}") as promise:
            promise.state = self.handed_in(promise)

    def handed_in(self, promise: promises.Promise) -> str:
        mail = {
            "from": "burst@burst.test",
            "to": [promise.recipient],
            "subject": promise.ref,
            "text": self.text,
        }
        headers = {**self.headers, "Idempotency-Key": promise.ref}
        in_doubt = False
        for turn in range(TRIES):
            name = "POST /v1/emails" if turn == 0 else "POST /v1/emails (again)"
            with self.client.post(
                "/v1/emails", json=mail, headers=headers, name=name, catch_response=True
            ) as answer:
                status = answer.status_code
                if 200 <= status < 300 and _is_whole(answer):
                    answer.success()
                    return "accepted"
                answer.failure(f"{status or 'no answer'}")
                # A no to a mail that may have been taken before is no answer to the first question.
                if 400 <= status < 500 and status not in (408, 409, 425, 429):
                    return "unknown" if in_doubt else "failed"
                in_doubt = in_doubt or status == 0 or status >= 500 or 200 <= status < 300
                pause = _retry_after(answer) or min(MAX_PAUSE_S, PAUSE_S * 2**turn)
            gevent.sleep(pause)
        return "unknown"


def _is_whole(answer: Any) -> bool:
    try:
        return bool(answer.json()["id"])
    except (ValueError, KeyError, TypeError):
        return False


def _retry_after(answer: Any) -> float | None:
    try:
        return min(MAX_PAUSE_S, float(answer.headers["retry-after"]))
    except (KeyError, ValueError, TypeError):
        return None
