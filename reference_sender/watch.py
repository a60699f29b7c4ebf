"""Watching a running sender: its metrics, the pulses of its loops, and the place where both can be asked for.

Loaded only where `--metrics` is given. Must not hold: what is counted (`metrics`), what is healthy (`health`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Protocol

from reference_sender.clock import Clock
from reference_sender.health import Health, Pulse, Watched, examine
from reference_sender.log import Log, cause_of
from reference_sender.metrics import MEDIA_TYPE, Metrics, Readings
from reference_sender.monitor import Monitor
from reference_sender.outbox.depths import Depth
from reference_sender.policy.settings import InvalidSettings, Settings

#: A loop may miss so many of its turns before its silence means something.
TURNS = 10


class Store(Protocol):
    """What is asked of the outbox."""

    def depths(self, *, now: datetime) -> Iterable[Depth]: ...


class Watch:
    """Goes along with a sender: started before it, closed after it."""

    def __init__(
        self,
        *,
        place: tuple[str, int],
        store: Store,
        settings: Settings,
        patience_s: float,
        clock: Clock,
        log: Log,
    ) -> None:
        self._place = place
        self._log = log
        self.in_flight: Callable[[], int] = lambda: 0
        self._loops = {
            name: Watched(pulse=Pulse(clock.monotonic), patience_s=max(patience_s, TURNS * turn_s))
            for name, turn_s in (("worker", settings.poll_s), ("reconciler", settings.reconcile_s))
        }
        self.metrics = Metrics(
            Readings(
                depths=lambda: store.depths(now=clock.now()),
                in_flight=lambda: self.in_flight(),
                concurrency=settings.concurrency,
                seconds_since_look=self._loops["worker"].pulse.seconds_since,
                monotonic=clock.monotonic,
            )
        )
        self._monitor: Monitor | None = None

    def beat_of(self, loop: str) -> Callable[[], None]:
        """What the loop calls whenever it has looked."""
        return self._loops[loop].pulse.beat

    def health(self) -> Health:
        """The judgement of this moment."""
        return examine(self._loops)

    def start(self) -> None:
        """Listen. Raises `InvalidSettings` if the place cannot be had."""
        host, port = self._place
        try:
            self._monitor = Monitor(
                host, port, metrics=self.metrics.text, media_type=MEDIA_TYPE, health=self.health
            )
        except OSError as error:
            raise InvalidSettings(
                f"OUTBOX_METRICS is {host}:{port}, and nobody can listen there: {cause_of(error)}"
            ) from error
        self._log("monitoring", url=self._monitor.url)

    def close(self) -> None:
        """Stop listening."""
        if self._monitor is not None:
            self._monitor.close()
            self._monitor = None
