"""The metrics that Prometheus reads, from what a run tells."""

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parsed_strictly
from prometheus_client.parser import text_string_to_metric_families as parsed

from fluvial.runtime.metrics.collector import ProgressCollector, families
from fluvial.runtime.metrics.definitions import COMMON, METRICS, SECONDS, MetricDefinition
from fluvial.runtime.metrics.timing import Timing
from fluvial.runtime.report import Histogram, Progress, Sample

UNITS = ("seconds", "bytes")
OTHERS = ("ms", "millis", "milliseconds", "ns", "minutes", "kb", "mb", "kilobytes", "megabytes", "percent", "total")


def told(*facts: Sample) -> Progress:
    return Progress(phase="running", seconds=1.0, read=0, written=0, pipeline="p", container="1", facts=facts)


def example(measure: MetricDefinition) -> Sample:
    value = Histogram((1,) * (len(measure.bounds) + 1), 2.5) if measure.kind == "histogram" else 3
    return Sample(measure.name, value, tuple(f"a {label}" for label in measure.labels))


def exposed(progress: Progress) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(ProgressCollector(lambda: progress))
    return registry


@pytest.mark.parametrize("measure", METRICS, ids=lambda measure: measure.name)
def test_names_follow_the_rules_of_prometheus(measure: MetricDefinition) -> None:
    """Those of `promtool check metrics`."""
    words = measure.name.split("_")
    assert re.fullmatch(r"[a-z][a-z0-9_]*[a-z0-9]", measure.name)
    assert not {*words} & {*OTHERS, "counter", "gauge", "histogram"}
    assert all(unit not in words[:-1] for unit in UNITS)
    assert measure.shown.endswith("_total") == (measure.kind == "counter")
    assert not measure.name.endswith(("_count", "_sum", "_bucket", "_info"))
    assert measure.meaning.endswith(".")
    assert not {*measure.labels} & {*COMMON, "le", "quantile", "key"}
    assert all(re.fullmatch(r"[a-z]+", label) for label in measure.labels)
    assert bool(measure.bounds) == (measure.kind == "histogram")


def test_each_measure_is_there_once() -> None:
    assert len({measure.shown for measure in METRICS}) == len(METRICS)


@pytest.mark.parametrize(
    ("write", "read"),
    [(generate_latest, parsed), (openmetrics.generate_latest, parsed_strictly)],
    ids=["text", "openmetrics"],
)
def test_all_that_is_measured_can_be_read_back(write: Callable[..., bytes], read: Callable[..., object]) -> None:
    text = write(exposed(told(*map(example, METRICS)))).decode()
    found = {family.name: family for family in read(text)}  # type: ignore[attr-defined]
    for measure in METRICS:
        family = found[f"fluvial_{measure.name}"]
        assert (family.type, family.documentation) == (measure.kind, measure.meaning)
        labels = {"pipeline": "p", "container": "1"} | {label: f"a {label}" for label in measure.labels}
        assert all({**sample.labels, **labels} == sample.labels for sample in family.samples)


def test_facts_of_one_measure_are_one_family() -> None:
    facts = [Sample("commits", number, ("s", f"s/{number}")) for number in range(3)]
    (family,) = families(told(*facts))
    assert [(sample.labels["task"], sample.value) for sample in family.samples] == [("s/0", 0), ("s/1", 1), ("s/2", 2)]


def test_a_fact_that_nobody_knows_is_a_mistake() -> None:
    with pytest.raises(KeyError, match="wishes"):
        list(families(told(Sample("wishes", 3))))


def test_before_a_run_there_is_nothing() -> None:
    registry = CollectorRegistry()
    registry.register(ProgressCollector(lambda: None))
    assert generate_latest(registry) == b""


@given(st.lists(st.floats(0, 100)))
def test_durations_are_counted_by_their_bounds(durations: list[float]) -> None:
    timing = Timing()
    for seconds in durations:
        timing.add(seconds)
    (family,) = families(told(Sample("commit_seconds", timing.histogram)))
    samples = {(sample.name, sample.labels.get("le")): sample.value for sample in family.samples}
    for bound in SECONDS:
        assert samples[("fluvial_commit_seconds_bucket", str(bound))] == sum(one <= bound for one in durations)
    assert samples[("fluvial_commit_seconds_bucket", "+Inf")] == len(durations)
    assert samples[("fluvial_commit_seconds_count", None)] == len(durations)
    assert samples[("fluvial_commit_seconds_sum", None)] == pytest.approx(sum(durations))
