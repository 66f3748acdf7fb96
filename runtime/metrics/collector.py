"""From what a run tells to what Prometheus reads."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from ..report import Fact, Progress, Spread
from .definitions import BY_NAME, COMMON, PREFIX, Kind, Measure

Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily

_FAMILIES: Mapping[Kind, type[Family]] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}


class ProgressCollector(Collector):
    """The metrics of a run, made at each scrape from its latest progress: the run itself does nothing for them."""

    def __init__(self, latest: Callable[[], Progress | None]) -> None:
        self._latest = latest

    def collect(self) -> Iterator[Family]:
        """The families of all that is measured now."""
        progress = self._latest()
        if progress is not None:
            yield from families(progress)

    def describe(self) -> Iterable[Family]:
        """None: what there will be is not known before a run."""
        return ()


def families(progress: Progress) -> Iterator[Family]:
    """The metric families of a progress. Raises KeyError for a fact of an unknown measure."""
    found: dict[str, Family] = {}
    common = [progress.pipeline, progress.container]
    for fact in progress.facts:
        measure = BY_NAME[fact.measure]
        if measure.name not in found:
            labels = [*COMMON, *measure.labels]
            found[measure.name] = _FAMILIES[measure.kind](PREFIX + measure.name, measure.meaning, labels=labels)
        _add(found[measure.name], [*common, *fact.labels], measure, fact)
    yield from found.values()


def _add(family: Family, labels: list[str], measure: Measure, fact: Fact) -> None:
    if isinstance(family, HistogramMetricFamily):
        assert isinstance(fact.value, Spread)
        bounds = [*map(str, measure.bounds), "+Inf"]
        family.add_metric(labels, list(zip(bounds, accumulate(fact.value.counts), strict=True)), fact.value.total)
    else:
        assert not isinstance(fact.value, Spread)
        family.add_metric(labels, fact.value)
