"""Sources that are added or removed in front of a window: time never goes back there, and does not stand still.

A model of tumbling windows judges them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engines.targets import PATIENT
from fluvial.dsl import KeyedStream, Pipeline, collect, tumbling
from fluvial.runtime.testing import PipelineDriver
from generators.changing import restart_with
from generators.how_many import examples

SIZE = timedelta(milliseconds=10)
Numbers = KeyedStream[str, int]
MOST = 3
"""Sources that there are at most, named in the order in which they are added."""


@dataclass
class Producer:
    """What tells a window how far time is: the least of its parts, of which one that was added has told nothing."""

    highs: dict[int, int | None] = field(default_factory=dict)
    told: int | None = None

    def take(self, source: int, time: int) -> None:
        high = self.highs[source]
        self.highs[source] = time if high is None else max(high, time)
        self.tell()

    def tell(self) -> None:
        known = [one for one in self.highs.values() if one is not None]
        if len(known) == len(self.highs):
            self.told = max(min(known), min(known) if self.told is None else self.told)


@dataclass
class Model:
    """Tumbling windows of one key, whose time never goes back. `shown` are the panes as (kind, end, values)."""

    lateness: int
    producers: dict[int, Producer] = field(default_factory=dict)
    watermark: int = -(10**18)
    kept: dict[int, list[int]] = field(default_factory=dict)
    shown: list[tuple[str, int, list[int]]] = field(default_factory=list)
    late: int = 0
    gone: dict[tuple[int, int], int | None] = field(default_factory=dict)

    def take(self, producer: int, source: int, time: int) -> None:
        end = time - time % 10 + 10
        if end + self.lateness <= self.watermark:
            self.late += 1
        else:
            self.kept.setdefault(end, []).append(time)
            if end <= self.watermark:
                self.show("late", end)
        self.producers[producer].take(source, time)
        self.follow()

    def change(self, sources: int, *, several: bool) -> None:
        """There are so many sources now. Each is a producer; or it has `several` partitions, one more than the one
        before it, and a producer reads the same partition of each. One that comes back goes on where it was."""
        parts = {(number if several else source, source) for source in range(sources) for number in range(source + 1)}
        for producer, source in parts:
            highs = self.producers.setdefault(producer, Producer()).highs
            highs.setdefault(source, self.gone.pop((producer, source), None))
        for number, one in [*self.producers.items()]:
            for source in [*one.highs]:
                if (number, source) not in parts:
                    self.gone[number, source] = one.highs.pop(source)
            if one.highs:
                one.tell()
            else:
                del self.producers[number]
        self.follow()

    def show(self, kind: str, end: int) -> None:
        self.shown.append((kind, end, sorted(self.kept[end])))

    def follow(self) -> None:
        told = [one.told for one in self.producers.values()]
        known = [one for one in told if one is not None]
        before = self.watermark
        if len(known) == len(told):
            self.watermark = max(before, min(known))
        for end in sorted(self.kept):
            if before < end <= self.watermark:
                self.show("on_time", end)
            if end + self.lateness <= self.watermark:
                del self.kept[end]


def merged(sources: int, lateness: int) -> Pipeline:
    """Sources that meet in front of a window; each is a producer."""
    pipeline = Pipeline("p")
    first, *more = [pipeline.stream(f"s{number}", key=str, value=int) for number in range(sources)]
    _window(first.merge(*more) if more else first, lateness)
    return pipeline


def spread(sources: int, lateness: int) -> Pipeline:
    """Sources that meet in front of a border. Each has a partition more than the one before: so has the border."""
    pipeline = Pipeline("p")
    first, *more = [pipeline.stream(f"s{number}", key=str, value=int) for number in range(sources)]
    together = first.merge(*more) if more else first
    _window(together.partition_by(lambda _: "k", id="by", key_type=str, value=int), lateness)
    return pipeline


def _window(keyed: Numbers, lateness: int) -> None:
    late = timedelta(milliseconds=lateness)
    keyed.window(tumbling(SIZE), collect(), id="w", lateness=late).send_to("out")


CHANGES_OF_SOURCES = st.sampled_from(("one more", "one less"))
FURTHER = st.tuples(st.integers(0, MOST - 1), st.integers(0, MOST - 1), st.integers(0, 60))


@pytest.mark.parametrize("make", [merged, spread])
@pytest.mark.parametrize("lateness", [0, 25])
@settings(max_examples=examples(40), deadline=None, suppress_health_check=PATIENT)
@given(steps=st.lists(FURTHER | FURTHER | CHANGES_OF_SOURCES, max_size=30))
@example(steps=[(0, 0, 15), "one more", (1, 0, 15), (1, 1, 15), "one less", (0, 0, 35)])
@example(steps=[(0, 0, 15), "one more", (0, 0, 3), (1, 0, 40), (1, 1, 40), (0, 0, 45)])
def test_time_in_front_of_a_window_does_not_begin_anew_where_its_sources_change(
    make: Callable[[int, int], Pipeline], lateness: int, steps: list[tuple[int, int, int] | str]
) -> None:
    model, sources, late = Model(lateness, {0: Producer({0: None})}), 1, 0
    with PipelineDriver(make(1, lateness)) as driver:
        for step in steps:
            if isinstance(step, str):
                late += driver.report().late.get("w", 0)
                sources = min(MOST, sources + 1) if step == "one more" else max(1, sources - 1)
                restart_with(driver, make(sources, lateness), sources if make is spread else 1)
                model.change(sources, several=make is spread)
                continue
            source, partition, time = step[0] % sources, step[1], step[2]
            partition = partition % (source + 1) if make is spread else 0
            driver.send(f"s{source}", time, key="k", timestamp=time, partition=partition)
            model.take(partition if make is spread else source, source, time)
        panes = [pane.value for pane in driver.read("out")]
        found = sorted((pane.kind, pane.window.end, sorted(pane.value)) for pane in panes)
        assert (found, late + driver.report().late.get("w", 0)) == (sorted(model.shown), model.late)
