"""What the tests of the HTTP server share: plans, and looks into the ledger of a running simulator."""

from __future__ import annotations

from typing import Any

from tests.simulator.running import Running, Seen, ask, mail, request

SEND = request(mail(), key="order-1")
#: The mail is booked by then; everywhere else it is not.
BOOKED = ("reply", "body")


def plan(simulator: Running, *rules: dict[str, Any], **more: Any) -> None:
    with simulator.control() as control:
        control.set_plan({"rules": list(rules)} | more)


def accepted(simulator: Running) -> int:
    with simulator.control() as control:
        return len(control.messages())


def the_attempt(simulator: Running) -> dict[str, Any]:
    """Return the only attempt there is, once it is over."""
    with simulator.control() as control:
        (attempt,) = control.wait_for_attempts(state="closed")
        return attempt


def is_yes(seen: Seen) -> bool:
    return seen.end == "open" and seen.status == 200 and seen.json["status"] == "accepted"


def look_up(simulator: Running, path: str, **headers: str) -> Seen:
    return ask(simulator, request(method="GET", path=path, headers=headers))
