"""The table of metrics as prometheus_client wants it. Imported when somebody asks for it: that library takes its time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from simulator.metrics import METRICS, Durations, Labels, Readings


class Table(Collector):
    """The rows of `METRICS` with their values at the moment somebody asks."""

    def __init__(self, readings: Readings, seconds: Mapping[Labels, Durations]) -> None:
        self._readings = readings
        self._seconds = seconds

    def collect(self) -> Iterable[Metric]:
        for row in METRICS:
            if row.kind == "histogram":
                histogram = HistogramMetricFamily(row.name, row.says, labels=row.labels)
                for labels, durations in self._seconds.items():
                    histogram.add_metric(labels, durations.cumulated(), durations.sum_s)
                yield histogram
                continue
            family = _FAMILIES[row.kind](row.name, row.says, labels=row.labels)
            for labels, value in self._readings[row.name]().items():
                family.add_metric(labels, value)
            yield family


_FAMILIES: Mapping[str, type[CounterMetricFamily | GaugeMetricFamily]] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
}
