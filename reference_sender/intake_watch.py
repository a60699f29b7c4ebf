"""Watching a running intake: its metrics, the pulse of its processor, and the place where both can be asked for.

Loaded only where `--metrics` is given. Must not hold: what is counted (`intake_metrics`), what is healthy (`health`).
"""

from __future__ import annotations

from reference_sender.clock import Clock
from reference_sender.health import Health, Watched, examine
from reference_sender.intake_metrics import IntakeMetrics
from reference_sender.log import Log
from reference_sender.monitor import Monitored

PROCESSOR = "processor of events"
#: The processor may be silent for so long, in seconds.
PATIENCE_S = 60.0


class IntakeWatch(Monitored):
    """Goes along with an intake: started before it, closed after it."""

    OPTION = "WEBHOOK_METRICS"
    metrics: IntakeMetrics

    def __init__(self, *, place: tuple[str, int], turn_s: float, clock: Clock, log: Log) -> None:
        super().__init__(place, log)
        self._watched = Watched.every(turn_s, clock.monotonic, least_s=PATIENCE_S)
        self.metrics = IntakeMetrics(self._watched.pulse.seconds_since)

    def beat(self) -> None:
        """The processor looked, and came back."""
        self._watched.pulse.beat()

    def health(self) -> Health:
        """The judgement of this moment."""
        return examine({PROCESSOR: self._watched})
