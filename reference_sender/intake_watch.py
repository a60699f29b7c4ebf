"""Watching a running intake: its metrics, the pulse of its processor, and the place where both can be asked for.

Loaded only where `--metrics` is given. Must not hold: what is counted (`intake_metrics`), what is healthy (`health`).
"""

from __future__ import annotations

from reference_sender.clock import Clock
from reference_sender.health import Health, Pulse, Watched, examine
from reference_sender.intake_metrics import IntakeMetrics
from reference_sender.log import Log, cause_of
from reference_sender.metrics import MEDIA_TYPE
from reference_sender.monitor import Monitor
from reference_sender.policy.settings import InvalidSettings

PROCESSOR = "processor of events"
#: A loop may be silent for so long, in seconds, or for so many of its turns.
PATIENCE_S = 60.0
TURNS = 10


class IntakeWatch:
    """Goes along with an intake: started before it, closed after it."""

    def __init__(self, *, place: tuple[str, int], turn_s: float, clock: Clock, log: Log) -> None:
        self._place = place
        self._log = log
        self._watched = Watched(pulse=Pulse(clock.monotonic), patience_s=max(PATIENCE_S, TURNS * turn_s))
        self.metrics = IntakeMetrics(self._watched.pulse.seconds_since)
        self._monitor: Monitor | None = None

    def beat(self) -> None:
        """The processor looked, and came back."""
        self._watched.pulse.beat()

    def health(self) -> Health:
        """The judgement of this moment."""
        return examine({PROCESSOR: self._watched})

    def start(self) -> None:
        """Listen. Raises `InvalidSettings` if the place cannot be had."""
        host, port = self._place
        try:
            self._monitor = Monitor(
                host, port, metrics=self.metrics.text, media_type=MEDIA_TYPE, health=self.health
            )
        except OSError as error:
            raise InvalidSettings(
                f"WEBHOOK_METRICS is {host}:{port}, and nobody can listen there: {cause_of(error)}"
            ) from error
        self._log("monitoring", url=self._monitor.url)

    def close(self) -> None:
        """Stop listening."""
        if self._monitor is not None:
            self._monitor.close()
            self._monitor = None
