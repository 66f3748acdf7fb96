"""Converts the progress of a run to metric families, which Prometheus reads."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from ..report import Histogram, Progress, Sample
from .definitions import BY_NAME, COMMON, PREFIX, MetricDefinition, MetricKind

Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily

_FAMILIES: Mapping[MetricKind, type[Family]] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}


class ProgressCollector(Collector):
    """Makes the metrics of a run from its latest progress, at each scrape. The run itself does no work for them."""

    def __init__(self, latest: Callable[[], Progress | None]) -> None:
        self._latest = latest

    def collect(self) -> Iterator[Family]:
        """The metric families of the latest progress."""
        progress = self._latest()
        if progress is not None:
            yield from families(progress)

    def describe(self) -> Iterable[Family]:
        """Empty: the families are not known before a run."""
        return ()


def families(progress: Progress) -> Iterator[Family]:
    """The metric families of one progress. Raises KeyError for a sample of an unknown metric."""
    families_by_name: dict[str, Family] = {}
    common = [progress.pipeline, progress.container]
    for sample in progress.facts:
        definition = BY_NAME[sample.metric]
        if definition.name not in families_by_name:
            labels = [*COMMON, *definition.labels]
            families_by_name[definition.name] = _FAMILIES[definition.kind](
                PREFIX + definition.name, definition.meaning, labels=labels
            )
        _add(families_by_name[definition.name], [*common, *sample.labels], definition, sample)
    yield from families_by_name.values()


def _add(family: Family, labels: list[str], definition: MetricDefinition, sample: Sample) -> None:
    if isinstance(family, HistogramMetricFamily):
        assert isinstance(sample.value, Histogram)
        bounds = [*map(str, definition.bounds), "+Inf"]
        family.add_metric(labels, list(zip(bounds, accumulate(sample.value.counts), strict=True)), sample.value.total)
    else:
        assert not isinstance(sample.value, Histogram)
        family.add_metric(labels, sample.value)
