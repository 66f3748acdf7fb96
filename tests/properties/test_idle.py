"""Inputs to which nothing comes hold no window back, judged by a model of what each partition has told."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import json

from engines.comparing import assert_same
from engines.spark_in_process import Query, queries
from engines.targets import PATIENT as PATIENT_CHECKS
from engines.targets import driver_outputs
from fluvial.dsl import Pane, Pipeline, collect, tumbling
from fluvial.planner import plan
from fluvial.runtime.systems.contract import RecordBatch
from fluvial.runtime.testing import PipelineDriver
from generators.building import build
from generators.cases import Case, inputs_for
from generators.how_many import examples
from generators.pipelines import pipelines
from oracle.interpreter import Inputs, Turns, run_oracle

SIZE, PATIENCE, BEHIND = 10, 50, 4
PARTS = 3
Step = tuple[int, int] | int | Literal["restart"]
"""A message's part of the input and its time, or how long nothing comes, in ms, or a crash."""

MESSAGES = st.tuples(st.integers(0, PARTS - 1), st.integers(0, 300))
FURTHER = st.tuples(st.integers(0, PARTS - 1), st.sampled_from((-3, 0, 2, 2, 5, 15)))
PAUSES = st.sampled_from((1, PATIENCE // 2, PATIENCE // 2, PATIENCE - 1, PATIENCE))


@st.composite
def in_order(draw: st.DrawFn, *others: Step) -> list[Step]:
    """Messages of parts that go on side by side, each nearly in its order. Pauses leave some idle, and not all: those
    come back to where the others have not been yet."""
    latest = [0] * PARTS
    steps: list[Step] = []
    drawn = FURTHER | FURTHER | PAUSES | st.sampled_from((1, *others))
    for one in draw(st.lists(drawn, min_size=12, max_size=30)):
        if isinstance(one, tuple):
            part, further = one
            latest[part] = max(0, latest[part] + further)
            steps.append((part, latest[part]))
        else:
            steps.append(one)
    return steps


SCATTERED: st.SearchStrategy[Step] = MESSAGES | st.integers(1, 150)
CRASH: st.SearchStrategy[Step] = st.just("restart")
STEPS = st.lists(SCATTERED, max_size=30) | in_order()
STEPS_WITH_CRASHES = st.lists(SCATTERED | CRASH, max_size=30) | in_order("restart")


@dataclass
class Part:
    """What is known of a partition or a stream: the latest time of its messages, when one last came, whether it is
    idle, and for how long its time has gone on then. Without `patience` it never is."""

    patience: int | None = PATIENCE
    high: int | None = None
    since: int = 0
    idle: bool = False
    rested: int = 0

    def rest(self, now: int) -> None:
        steps = 0 if self.patience is None else (now - self.since) // self.patience
        if steps:
            self.idle, self.since = True, self.since + steps * PATIENCE
            self.rested += steps * PATIENCE

    def take(self, time: int, now: int) -> None:
        """A message has come: what counts again is what the messages tell."""
        self.high = time if self.high is None else max(time, self.high)
        self.since, self.idle, self.rested = now, False, 0


@dataclass
class Model:
    """Tumbling windows of one key behind parts that may be idle. `panes` are (end, values), `late` is counted."""

    parts: list[Part] = field(default_factory=lambda: [Part() for _ in range(PARTS)])
    now: int = 0
    watermark: int = -(10**18)
    open: dict[int, list[int]] = field(default_factory=dict)
    panes: list[tuple[int, list[int]]] = field(default_factory=list)
    late: int = 0

    def take(self, step: Step) -> None:
        if step == "restart":
            for part in self.parts:
                part.since = self.now
        elif isinstance(step, int):
            self.now += step
            for part in self.parts:
                part.rest(self.now)
        else:
            number, time = step
            end = time - time % SIZE + SIZE
            if end <= self.watermark:
                self.late += 1
            else:
                self.open.setdefault(end, []).append(time)
            self.parts[number].take(time, self.now)
        self.follow()

    def follow(self) -> None:
        busy = [part.high for part in self.parts if not part.idle]
        rest = [part.high + part.rested for part in self.parts if part.idle and part.high is not None]
        least = None if None in busy else min((at for at in busy if at is not None), default=max(rest, default=None))
        if least is not None:
            self.watermark = max(self.watermark, least - BEHIND)
        for end in sorted(self.open):
            if end <= self.watermark:
                self.panes.append((end, sorted(self.open.pop(end))))

    def finish(self) -> None:
        self.panes += [(end, sorted(values)) for end, values in sorted(self.open.items())]


WINDOW = tumbling(timedelta(milliseconds=SIZE))
PATIENT, BEHIND_TIME = timedelta(milliseconds=PATIENCE), timedelta(milliseconds=BEHIND)


def behind_a_border() -> Pipeline:
    """Partitions of one source, whose messages meet behind a border."""
    made = Pipeline("idle")
    numbers = made.stream("numbers", value=int, idle_after=PATIENT, out_of_order=BEHIND_TIME)
    keyed = numbers.partition_by(lambda _: "all", id="together", key_type=str)
    keyed.window(WINDOW, collect(), id="windows").send_to("windows")
    return made


def behind_two_borders() -> Pipeline:
    """The same, where a stage without state lies in between."""
    made = Pipeline("idle")
    numbers = made.stream("numbers", value=int, idle_after=PATIENT, out_of_order=BEHIND_TIME)
    spread = numbers.partition_by(lambda time: f"{time % PARTS}", id="spread", key_type=str)
    keyed = spread.map(abs).partition_by(lambda _: "all", id="together", key_type=str, value=int)
    keyed.window(WINDOW, collect(), id="windows").send_to("windows")
    return made


def called_in_between() -> Pipeline:
    """The same, where the stage in between makes calls."""
    made = Pipeline("idle")
    numbers = made.stream("numbers", value=int, idle_after=PATIENT, out_of_order=BEHIND_TIME)
    spread = numbers.partition_by(lambda time: f"{time % PARTS}", id="spread", key_type=str)
    called = spread.async_flat_map(_itself, id="call").partition_by(
        lambda _: "all", id="together", key_type=str, value=int
    )
    called.window(WINDOW, collect(), id="windows").send_to("windows")
    return made


async def _itself(time: int) -> list[int]:
    return [time]


def keyed_by_its_source() -> Pipeline:
    """Partitions of one source in front of a window. On Spark its messages meet there."""
    made = Pipeline("idle")
    numbers = made.stream("numbers", key=str, value=int, idle_after=PATIENT, out_of_order=BEHIND_TIME)
    numbers.window(WINDOW, collect(), id="windows").send_to("windows")
    return made


def merged() -> Pipeline:
    """Sources that meet within a stage; time waits for the last of them."""
    made = Pipeline("idle")
    first, second, third = (
        made.stream(f"numbers-{n}", key=str, value=int, out_of_order=BEHIND_TIME, idle_after=PATIENT if n < 2 else None)
        for n in range(PARTS)
    )
    first.merge(second, third).window(WINDOW, collect(), id="windows").send_to("windows")
    return made


def parts_of_merged() -> list[Part]:
    return [Part(), Part(), Part(patience=None)]


def judged(model: Model, steps: Sequence[Step]) -> Model:
    for step in steps:
        model.take(step)
    return model


def driven(driver: PipelineDriver, steps: Sequence[Step]) -> int:
    """Do what the steps say; how many messages were late."""
    whole = any(stream.name == "numbers" for stream in driver.plan.streams)
    late = 0
    for step in steps:
        if step == "restart":
            late += driver.report().late.get("windows", 0)
            driver.restart()
        elif isinstance(step, int):
            driver.advance(timedelta(milliseconds=step))
        else:
            part, time = step
            if whole:
                driver.send("numbers", time, timestamp=time, partition=part)
            else:
                driver.send(f"numbers-{part}", time, key="all", timestamp=time)
    return late + driver.report().late.get("windows", 0)


@pytest.mark.parametrize("pipeline", [behind_a_border, behind_two_borders, called_in_between])
@given(steps=STEPS_WITH_CRASHES)
def test_idle_partitions_hold_nothing_back_until_they_are_back(
    pipeline: Callable[[], Pipeline], steps: list[Step]
) -> None:
    with PipelineDriver(pipeline(), partitions=PARTS) as driver:
        _check(driver, steps, Model())


@given(STEPS_WITH_CRASHES)
def test_idle_streams_hold_nothing_back(steps: list[Step]) -> None:
    with PipelineDriver(merged()) as driver:
        _check(driver, steps, Model(parts_of_merged()))


def _check(driver: PipelineDriver, steps: list[Step], model: Model) -> None:
    late = driven(driver, steps)
    judged(model, steps)
    assert (_shown(driver), late) == (sorted(model.panes), model.late)
    driver.end()
    model.finish()
    assert _shown(driver) == sorted(model.panes)


def _shown(driver: PipelineDriver) -> list[tuple[int, list[int]]]:
    return sorted((pane.value.window.end, sorted(pane.value.value)) for pane in driver.read("windows"))


def test_a_partition_back_from_idle_counts_again_with_its_next_message() -> None:
    """Behind a border, where time had not gone on without it."""
    steps: list[Step] = [(0, 11), PATIENCE - 1, (1, 14), 1, (0, 16), (1, 40), (0, 17), (0, 18)]
    with PipelineDriver(behind_a_border(), partitions=2) as driver:
        late = driven(driver, steps)
        driver.end()
        assert (_shown(driver), late) == ([(20, [11, 14, 16, 17, 18]), (50, [40])], 0)


@pytest.mark.parametrize("pipeline", [behind_a_border, behind_two_borders, keyed_by_its_source])
@given(steps=STEPS)
def test_spark_knows_the_same_partitions_to_be_idle(pipeline: Callable[[], Pipeline], steps: list[Step]) -> None:
    (query,) = queries(plan(pipeline(), partitions={"numbers": PARTS}))
    offsets = [0] * PARTS
    model = Model()
    query.batch([])
    for step in steps:
        model.take(step)
        if isinstance(step, int):
            query.now += step
            query.batch([])
        elif step != "restart":
            number, time = step
            record = (b"all", b"%d" % time, time, ())
            query.batch([RecordBatch("numbers", number, range(offsets[number], offsets[number] + 1), [record])])
            offsets[number] += 1
    assert sorted(_panes(query)) == sorted(model.panes)
    assert query.counts.by_kind.get("late", {}).get("windows", 0) == model.late
    query.batch([], end=True)
    model.finish()
    assert sorted(_panes(query)) == sorted(model.panes)


def _panes(query: Query) -> list[tuple[int, list[int]]]:
    decode = json.Decoder(Pane[str, list[int]]).decode
    panes = [decode(message.value or b"") for message in query.written.get("windows", [])]
    return [(pane.window.end, sorted(pane.value)) for pane in panes]


@st.composite
def turns_of(draw: st.DrawFn, inputs: Inputs) -> Turns:
    """The records of all partitions in some order, and pauses between them, of which some leave partitions idle."""
    left = {(name, number): len(part) for name, parts in inputs.items() for number, part in enumerate(parts)}
    turns: list[tuple[str, int] | int] = []
    while left := {partition: count for partition, count in left.items() if count}:
        turns += draw(st.sampled_from(([], [], [7], [PATIENCE // 2], [PATIENCE], [3 * PATIENCE])))
        partition = draw(st.sampled_from(sorted(left)))
        for _ in range(draw(st.integers(1, left[partition]))):
            turns.append(partition)
            left[partition] -= 1
    return turns


@st.composite
def cases_with_turns(draw: st.DrawFn) -> tuple[Case, Turns]:
    """Random pipelines on one source. Where its keys are those of state, a task has one partition's time alone."""
    description = draw(pipelines("late", windows=draw(st.sampled_from(("plain", "counts")))))
    (source,) = description.sources
    partitions = {source.stream: 1 if source.key else draw(st.integers(1, 3))}
    case = Case(description, draw(inputs_for(description, partitions)), partitions)
    return case, draw(turns_of(case.inputs))


@pytest.mark.slow
@settings(max_examples=examples(150), deadline=None, suppress_health_check=PATIENT_CHECKS)
@given(cases_with_turns())
def test_random_pipelines_go_by_the_partitions_that_are_not_idle(drawn: tuple[Case, Turns]) -> None:
    case, turns = drawn
    wanted = run_oracle(build(case.description, PATIENCE), case.inputs, partitions=case.partitions, turns=turns)
    with PipelineDriver(build(case.description, PATIENCE), partitions=case.partitions) as driver:
        queues = {(name, n): iter(part) for name, parts in case.inputs.items() for n, part in enumerate(parts)}
        for turn in turns:
            if isinstance(turn, int):
                driver.advance(timedelta(milliseconds=turn))
            else:
                driver.records.send(turn[0], [next(queues[turn])], partition=turn[1])
        driver.end()
        assert_same(driver_outputs(driver), wanted)
