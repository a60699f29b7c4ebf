"""The shape of a load over time, for any burst: steps, a spike, waves, or a herd that comes all at once again and again.

    locust -f locustfiles/http_burst.py,locustfiles/shapes.py --headless --shape spike --shape-users 200 --shape-seconds 60

Without `--shape` it is `steps`. The run ends with its shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from locust import LoadTestShape, events

#: How many users there are at a moment, both as parts: of the peak, and of the whole time (0 to 1).
SHAPES: dict[str, Callable[[float], float]] = {
    # Five even steps up: where does it begin to hurt?
    "steps": lambda at: (math.floor(at * 5) + 1) / 5,
    # A tenth, then suddenly all, then a tenth again: does it come back?
    "spike": lambda at: 1.0 if 0.4 <= at < 0.6 else 0.1,
    # Three waves: what a day looks like.
    "waves": lambda at: 0.1 + 0.45 * (1 - math.cos(at * 3 * 2 * math.pi)),
    # Everybody, nobody, everybody: what a cron job does at each full hour.
    "herd": lambda at: 1.0 if math.floor(at * 6) % 2 == 0 else 0.05,
}


@events.init_command_line_parser.add_listener
def options(parser: Any) -> None:
    """Add the choice of a shape."""
    parser.add_argument(
        "--shape", choices=sorted(SHAPES), default="steps", help="how the load goes over time"
    )
    parser.add_argument("--shape-users", type=int, default=100, help="how many users there are at its peak")
    parser.add_argument("--shape-seconds", type=float, default=60.0, help="how long it takes")


def users_at(shape: str, peak: int, length_s: float, now_s: float) -> int | None:
    """Return how many users there are at a moment; None: it is over."""
    if now_s >= length_s:
        return None
    return max(1, round(peak * SHAPES[shape](now_s / length_s)))


class Shape(LoadTestShape):
    """The shape that was chosen."""

    def tick(self) -> tuple[int, float] | None:
        given = self.runner.environment.parsed_options
        users = users_at(given.shape, given.shape_users, given.shape_seconds, self.get_run_time())
        # Whoever is missing comes within a second.
        return None if users is None else (users, float(max(1, given.shape_users)))
