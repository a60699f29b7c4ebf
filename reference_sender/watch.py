"""Watching a running sender: its metrics, the pulses of its loops, and the place where both can be asked for.

Loaded only where `--metrics` is given. Must not hold: what is counted (`metrics`), what is healthy (`health`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from reference_sender.clock import Clock
from reference_sender.health import Health, Watched, examine
from reference_sender.log import Log
from reference_sender.metrics import Metrics, Readings
from reference_sender.monitor import Monitored
from reference_sender.outbox.depths import Depth, EventDepth
from reference_sender.policy.breaker import Position
from reference_sender.policy.gate import NOTHING_KNOWN, Shared

WORKER = "worker"
RECONCILER = "reconciler"


class Store(Protocol):
    """What is asked of the outbox."""

    def depths(self, *, now: datetime) -> Iterable[Depth]: ...

    def event_depth(self, *, now: datetime) -> EventDepth: ...

    def gates(self) -> Mapping[str, Shared]: ...


class Watch(Monitored):
    """Goes along with a sender: started before it, closed after it."""

    OPTION = "OUTBOX_METRICS"
    metrics: Metrics

    def __init__(
        self,
        *,
        place: tuple[str, int],
        store: Store,
        providers: Sequence[str],
        patience_s: float,
        clock: Clock,
        log: Log,
    ) -> None:
        super().__init__(place, log)
        self._store = store
        self._providers = providers
        self._patience_s = patience_s
        self._clock = clock
        self.in_flight: Callable[[], int] = lambda: 0
        self.concurrency = 0
        """Mails that may be under way at a time, of all workers together."""
        self._loops: dict[str, Watched] = {}
        self.metrics = Metrics(
            Readings(
                depths=lambda: store.depths(now=self._clock.now()),
                in_flight=lambda: self.in_flight(),
                events=lambda: store.event_depth(now=self._clock.now()),
                gates=self._gates,
                concurrency=lambda: self.concurrency,
                seconds_since_look=self._silence_s,
                monotonic=clock.monotonic,
            )
        )

    def go_by(self, clock: Clock) -> None:
        """Tell ages by this clock from here on: the one by which the mails were written down."""
        self._clock = clock

    def beat_of(self, loop: str, turn_s: float) -> Callable[[], None]:
        """What a loop calls whenever it has looked; it means to do so every `turn_s`."""
        watched = Watched.every(turn_s, self._clock.monotonic, least_s=self._patience_s)
        self._loops[loop] = watched
        return watched.pulse.beat

    def _silence_s(self) -> float:
        """Of the worker that has been silent for longest."""
        workers = [loop for name, loop in self._loops.items() if name.startswith(WORKER)]
        return max((loop.pulse.seconds_since() for loop in workers), default=0.0)

    def _gates(self) -> dict[str, tuple[str, float]]:
        """Every provider of ours, and every other one of which something is known."""
        now, known = self._clock.now(), self._store.gates()
        found = {}
        for provider in sorted({*self._providers, *known}):
            shared = known.get(provider, NOTHING_KNOWN)
            over = shared.breaker.until if shared.breaker.position is Position.OPEN else None
            until = [at for at in (shared.paused_until, over) if at is not None]
            pause_s = max(((at - now).total_seconds() for at in until), default=0.0)
            found[provider] = (shared.breaker.position.value, max(pause_s, 0.0))
        return found

    def health(self) -> Health:
        """The judgement of this moment."""
        return examine(self._loops)
