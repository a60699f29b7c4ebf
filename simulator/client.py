"""A small typed client of the control API, for the command line, tests and harnesses.

One object speaks for one account. Everything comes back as the JSON the API documents; a refusal raises
`ControlError` with the one sentence the simulator gave. Nothing here knows how the simulator works.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import httpx

DEFAULT_URL = "http://127.0.0.1:8025/_simulator/v1"
PREFIX = "/_simulator/v1"
#: How many entries of a list are asked for at once.
PAGE = 1_000

Json = dict[str, Any]


class ControlError(Exception):
    """The simulator cannot be reached or refuses; the message is one sentence. `status` None: no answer."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Something that happened just now: see `GET stream`."""

    id: str
    name: str
    data: Json


class ControlClient:
    """Commands one account of a running simulator. Use it as a context manager, or `close` it."""

    def __init__(
        self,
        url: str = DEFAULT_URL,
        account: str = "default",
        token: str | None = None,
        *,
        timeout_s: float = 30.0,
    ) -> None:
        """`url` is the `control` address of the ready file; the simulator's plain HTTP address will do, too."""
        base = url.rstrip("/")
        self.url = base if base.endswith(PREFIX) else base + PREFIX
        self.account = account
        self._timeout_s = timeout_s
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        try:
            # The proxies of the environment are for the world outside, not for a simulator next door.
            # Reading the system's certificates takes 50 ms: only for an address that needs them.
            verify = self.url.lower().startswith("https:")
            self._http = httpx.Client(headers=headers, timeout=timeout_s, trust_env=False, verify=verify)
            httpx.URL(self.url)
        except (httpx.InvalidURL, ValueError) as problem:
            raise ControlError(
                f"{url!r} is no address of a simulator; it looks like {DEFAULT_URL}"
            ) from problem

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    # --- the provider -------------------------------------------------------------------------------

    def health(self) -> Json:
        """Return status and version."""
        return self._json("GET", "health")

    def make_account(self) -> bool:
        """See to it that there is the account; return whether it was made just now.

        From then on its senders are known by its name. What only reads is refused (404) where there is no account.
        """
        made: bool = self._json("PUT", "account")["made"]
        return made

    def reset(self) -> None:
        """Forget everything of the account: ledger, attempts, obligations, keys, plan."""
        self._json("POST", "reset")

    def clock(self) -> Json:
        """Return what time it is for the account: `{"account", "now", "ahead_s"}`."""
        return self._json("GET", "clock")

    def advance(self, seconds: float) -> Json:
        """Move the account's clock ahead: keys expire, limits refill, windows of rules open and end."""
        return self._json("PUT", "clock", body={"advance_s": seconds})

    def set_clock(self, to: datetime) -> Json:
        """Move the account's clock ahead to an instant (with a time zone); it never goes back."""
        return self._json("PUT", "clock", body={"now": to.isoformat()})

    # --- the plan -----------------------------------------------------------------------------------

    def plan(self) -> Json:
        """Return the plan with the count of each rule."""
        return self._json("GET", "plan")

    def set_plan(self, plan: Mapping[str, Any]) -> Json:
        """Replace the plan: `{"seed": …, "rule": […], "idempotency": {…}, "limits": {…}, "smtp": {…}}`."""
        return self._json("PUT", "plan", body=dict(plan))

    def check_plan(self, plan: Mapping[str, Any]) -> Json:
        """Return `{"explained": […], "doubts": […]}` without putting the plan in force."""
        return self._json("POST", "plan/check", body=dict(plan))

    def add_rules(self, *rules: Mapping[str, Any] | str) -> Json:
        """Append rules, as tables or in one line (`503 for 10 s`); those already there keep their counts."""
        return self._json("POST", "plan", body={"rules": list(rules)})

    def heal(self, *, all: bool = False) -> Json:
        """Take all rules away; with `all` its settings (keys, limits, SMTP, …) become the usual ones, too."""
        return self._json("DELETE", "plan", query={"all": all or None})

    def reset_plan(self) -> Json:
        """Put the plan in force again that the account began with: that of `serve --plan`, or none."""
        return self._json("POST", "plan/reset")

    def release(self) -> int:
        """Let go all held answers; return how many there were."""
        released: int = self._json("POST", "release")["released"]
        return released

    # --- messages and attempts ----------------------------------------------------------------------

    def messages(self, **filters: str) -> list[Json]:
        """Return all acceptances that match, oldest first.

        Filters: `to`, `sender`, `subject`, `header`, `key`, `message_id`, `since`, `until`, `fate`, `q`.
        """
        return self._all("messages", filters)

    def message(self, id: str) -> Json:
        """Return one acceptance."""
        return self._json("GET", f"messages/{id}")

    def raw(self, id: str) -> bytes:
        """Return the bytes of an accepted mail, as the sender handed them in."""
        return self._ask("GET", f"messages/{id}/raw").content

    def wait_for_messages(self, *, count: int = 1, timeout_s: float = 10.0, **filters: str) -> list[Json]:
        """Wait until `count` acceptances match; raise `TimeoutError` if they do not come."""
        return self._wait("messages", count, timeout_s, filters)

    def attempts(self, **filters: str) -> list[Json]:
        """Return all attempts that match, oldest first.

        Filters: `stage`, `state`, `to`, `key`, `message_id`, `rule`, `dialect`, `answer`, `sent`.
        """
        return self._all("attempts", filters)

    def wait_for_attempts(self, *, count: int = 1, timeout_s: float = 10.0, **filters: str) -> list[Json]:
        """Wait until `count` attempts match; raise `TimeoutError` if they do not come."""
        return self._wait("attempts", count, timeout_s, filters)

    def decisions(self) -> list[Json]:
        """Return the decision log, oldest first: which rules struck which attempt where."""
        return self._all("decisions", {})

    def replay(self) -> Json:
        """Return a plan that strikes again what struck in the account (`set_plan` takes it)."""
        return self._json("GET", "replay")

    # --- what became of mail ------------------------------------------------------------------------

    def events(self, **filters: str) -> list[Json]:
        """Return what has happened, in order. Filters: `type`, `to`, `email_id`, `message_id`, `key`."""
        return self._all("events", filters)

    def wait_for_events(self, *, count: int = 1, timeout_s: float = 10.0, **filters: str) -> list[Json]:
        """Wait until `count` events match; raise `TimeoutError` if they do not come."""
        return self._wait("events", count, timeout_s, filters)

    def push_event(self, type: str, **more: Any) -> Json:
        """Let an event happen: `email_id`, `recipient`, `id`, `after_s`, `timestamp`, `data`. Return it."""
        return self._json("POST", "events", body={"type": type} | more)

    def suppressions(self) -> list[Json]:
        """Return the addresses that get no mail: `{"address", "reason", "since"}`."""
        suppressions: list[Json] = self._json("GET", "suppressions")["suppressions"]
        return suppressions

    def suppress(self, address: str, *, reason: str = "manual") -> None:
        """Put an address on the suppression list."""
        self._json("POST", "suppressions", body={"address": address, "reason": reason})

    def lift(self, address: str | None = None) -> int:
        """Take an address (None: all) off the suppression list; return how many were there."""
        lifted: int = self._json("DELETE", "suppressions", query={"address": address})["lifted"]
        return lifted

    @contextmanager
    def listen(self, *, after: str | None = None) -> Iterator[Iterator[Told]]:
        """Listen: `with client.listen() as stream: for told in stream: …`. Nothing that happens inside is missed.

        `after` is the id of something told to go on after. The stream ends when the simulator stops serving.
        """
        parameters = {"account": self.account} | ({} if after is None else {"after": after})
        with (
            self._reached(),
            self._http.stream("GET", f"{self.url}/stream", params=parameters) as response,
        ):
            if not response.is_success:
                response.read()
                raise ControlError(_detail(response), status=response.status_code)
            told = _told(response.iter_lines())
            if after is None:
                next(told, None)  # `ready`: from here on nothing is missed.
            yield told

    # --- webhooks -----------------------------------------------------------------------------------

    def webhook(self) -> Json:
        """Return where events are told and how, and how things stand there."""
        return self._json("GET", "webhook")

    def set_webhook(self, url: str, **settings: Any) -> Json:
        """Set where events are told: `secret`, `scheme`, `events`, `batch`, `schedule_s`, …; see docs/events.md."""
        return self._json("PUT", "webhook", body={"url": url} | settings)

    def forget_webhook(self) -> Json:
        """Let the plan say again where events are told."""
        return self._json("DELETE", "webhook")

    def deliveries(self, **filters: str) -> list[Json]:
        """Return what was told and what came of it. Filters: `channel`, `state`, `tries`, `event`, `type`, `to`, `rule`."""
        return self._all("deliveries", filters)

    def wait_for_deliveries(self, *, count: int = 1, timeout_s: float = 10.0, **filters: str) -> list[Json]:
        """Wait until `count` deliveries match; raise `TimeoutError` if they do not come."""
        return self._wait("deliveries", count, timeout_s, filters)

    # --- promises -----------------------------------------------------------------------------------

    def owe(self, obligations: Iterable[Mapping[str, Any]]) -> int:
        """Enter obligations `{"ref", "recipient", "copies", "sha256", "state"}`; return how many.

        A recipient is a bare address: what no mail can go to is refused, and all with it.
        """
        body = {"obligations": [dict(each) for each in obligations]}
        entered: int = self._json("POST", "obligations", body=body)["obligations"]
        return entered

    def obligations(self) -> list[Json]:
        """Return the obligations of the account."""
        obligations: list[Json] = self._json("GET", "obligations")["obligations"]
        return obligations

    def verdict(self, *, final: bool = False) -> Json:
        """Return obligations against ledger; `final`: what is still open is lost."""
        return self._json("GET", "verdict", query={"final": final or None})

    # --- inside -------------------------------------------------------------------------------------

    def _all(self, what: str, filters: Mapping[str, str], after: str | None = None) -> list[Json]:
        found: list[Json] = []
        while True:
            page = self._json("GET", what, query={"limit": PAGE, "after": after, **filters})
            found += page[what]
            after = page["next"]
            if after is None:
                return found

    def _wait(self, what: str, count: int, timeout_s: float, filters: Mapping[str, str]) -> list[Json]:
        answer = self._json(
            "GET",
            f"{what}/wait",
            wait_s=timeout_s,
            query={"count": count, "timeout_s": timeout_s, "limit": PAGE, **filters},
        )
        found: list[Json] = answer[what]
        if answer["next"] is not None:
            found += self._all(what, filters, after=answer["next"])
        if not answer["complete"]:
            wanted = " ".join(f"{name}={value}" for name, value in filters.items())
            raise TimeoutError(
                f"only {len(found)} of {count} {what} came within {timeout_s:g} s ({wanted or 'any'})"
            )
        return found

    def _json(
        self, method: str, path: str, *, body: object = None, wait_s: float = 0.0, **query: Any
    ) -> Json:
        response = self._ask(method, path, body=body, wait_s=wait_s, **query)
        try:
            answer: Any = response.json()
        except ValueError as problem:
            raise ControlError(f"what answers at {self.url} is no simulator") from problem
        if not isinstance(answer, dict):
            raise ControlError(f"what answers at {self.url} is no simulator")
        return answer

    def _ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: object = None,
        wait_s: float = 0.0,
    ) -> httpx.Response:
        parameters = {"account": self.account} | {
            name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in (query or {}).items()
            if value is not None
        }
        with self._reached():
            response = self._http.request(
                method,
                f"{self.url}/{path}",
                params=parameters,
                json=body,
                timeout=self._timeout_s + wait_s,
            )
        if response.is_success:
            return response
        raise ControlError(_detail(response), status=response.status_code)

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Word what goes wrong on the way to the simulator."""
        try:
            yield
        except httpx.TimeoutException as problem:
            raise ControlError(f"the simulator at {self.url} does not answer") from problem
        except (httpx.HTTPError, httpx.InvalidURL) as problem:
            raise ControlError(
                f"there is no simulator at {self.url} ({problem}); start one with: simulator serve"
            ) from problem


def _told(lines: Iterator[str]) -> Iterator[Told]:
    told: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if name in ("id", "event", "data"):
            told[name] = value
        elif not line and "event" in told:
            yield Told(id=told["id"], name=told["event"], data=json.loads(told["data"]))
            told = {}


def _detail(response: httpx.Response) -> str:
    try:
        problem: Any = response.json()
        return str(problem["detail"])
    except (ValueError, KeyError, TypeError):
        return f"the simulator answered {response.status_code} without a reason"
