"""Recordings of a driver's run: for each step the messages sent, their results, and the watermark."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Literal

from ...dsl import operators as ops
from ...dsl.errors import UsageError
from ...dsl.message import Headers, Message, Record
from ...dsl.validation import millis, require
from ...dsl.verb_calls import explained_object
from ...planner.plan import Plan, StreamKind
from .driver import PipelineDriver
from .stream_messages import readers

StepKind = Literal["send", "advance", "commit", "end"]
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class StreamLane:
    """A partition of a stream in a recording, or a sink; `partitions` is how many the stream has."""

    stream: str
    kind: StreamKind | Literal["sink"]
    partition: int = 0
    partitions: int = 1


@dataclass(frozen=True, slots=True)
class RecordedMessage:
    """A message, and the partition that it was written to (`lane`). Its timestamp is the one that the pipeline uses."""

    lane: StreamLane
    message: Message[Any]


@dataclass(frozen=True, slots=True)
class Step:
    """One action on a pipeline, and its results.

    `clock` and `watermark` are those after the step, in ms since epoch; None if there is no watermark yet. `late` and
    `failed` are the operators for which a message was late, or failed.
    """

    kind: StepKind
    clock: int
    watermark: int | None
    sent: tuple[RecordedMessage, ...] = ()
    made: tuple[RecordedMessage, ...] = ()
    late: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recording:
    """A run, step by step. `lanes` are the partitions of all its streams. `keeps` is the operator whose watermark is
    recorded: the first one that stores messages and emits later; None if there is none. `clocked` says that it uses
    processing time: its watermark is then the clock.

    >>> pipeline = Pipeline("lengths")
    >>> pipeline.stream("words", value=str).map(len).send_to("lengths")
    >>> with PipelineDriver(pipeline) as driver:
    ...     recorder = Recorder(driver)
    ...     recorder.send("words", "tea")
    >>> [entry.message.value for step in recorder.recording.steps for entry in step.made]
    [3]
    """

    name: str
    lanes: tuple[StreamLane, ...]
    keeps: str | None
    steps: tuple[Step, ...] = ()
    clocked: bool = False


@partial(explained_object, error=UsageError)
class Recorder:
    """Acts on a pipeline through its driver, and records the results: `draw_run` draws the `recording`.

    The driver may still be used directly; its results are recorded with the next step. Messages of a sink are in no
    stream: `sinks` has, by the id of a sink, the list to which the sink appends them.

    >>> pipeline = Pipeline("busy")
    >>> clicks = pipeline.stream("clicks", key=str, value=str)
    >>> clicks.window(tumbling(timedelta(seconds=10)), count(), id="per-10-s").send_to("busy")
    >>> with PipelineDriver(pipeline) as driver:
    ...     recorder = Recorder(driver)
    ...     for at in (1000, 4000, 12_000):
    ...         recorder.send("clicks", "/home", key="ann", timestamp=at)
    ...     recorder.end()
    >>> [(step.kind, len(step.made)) for step in recorder.recording.steps]
    [('send', 0), ('send', 0), ('send', 1), ('end', 1)]
    >>> draw_run(recorder.recording)[:4]
    '<svg'
    """

    def __init__(self, driver: PipelineDriver, *, sinks: Mapping[str, Sequence[Message[Any]]] | None = None) -> None:
        good = isinstance(driver, PipelineDriver)
        require(good, UsageError, f"Recorder got {driver!r}", "a PipelineDriver", "write Recorder(driver)")
        self._driver = driver
        self._sinks = dict(sinks or {})
        self._readers = readers(driver.plan)
        self._lanes = (*_lanes(driver.plan), *(StreamLane(name, "sink") for name in self._sinks))
        self._taken = dict.fromkeys(self._lanes, 0)
        self._keeps = next((operator.id for operator in driver.plan.pipeline.operators if _waits(operator)), None)
        operator = None if self._keeps is None else driver.plan.pipeline.operator(self._keeps)
        self._clocked = operator is not None and operator.time_domain == "processing"
        self._late: Mapping[str, int] = {}
        self._failed: Mapping[str, int] = {}
        self._steps: list[Step] = []

    @property
    def recording(self) -> Recording:
        """The steps recorded so far."""
        return Recording(self._driver.plan.name, self._lanes, self._keeps, tuple(self._steps), self._clocked)

    def send(
        self,
        stream: str,
        value: Any,
        *,
        key: Any = None,
        timestamp: int | None = None,
        partition: int | None = None,
        headers: Headers = (),
    ) -> None:
        """Write a message to an input, and process it: see `PipelineDriver.send`."""
        self._driver.send(stream, value, key=key, timestamp=timestamp, partition=partition, headers=headers)
        self._note("send")

    def send_records(self, stream: str, records: Sequence[Record], *, partition: int | None = None) -> None:
        """Write records to an input, and process them as one batch: see `StreamRecords.send`."""
        self._driver.records.send(stream, records, partition=partition)
        self._note("send")

    def advance(self, duration: timedelta, *, every: timedelta = _SECOND) -> None:
        """Move the clock in steps of `every`, and record the results of each step."""
        rest, tick = millis("advance", duration), millis("advance: every", every, least=1)
        while rest > 0:
            self._driver.advance(timedelta(milliseconds=min(rest, tick)))
            rest -= tick
            self._note("advance")

    def commit(self) -> None:
        """Commit every task: see `PipelineDriver.commit`."""
        self._driver.commit()
        self._note("commit")

    def end(self) -> None:
        """End the input: see `PipelineDriver.end`."""
        self._driver.end()
        self._note("end")

    def _note(self, kind: StepKind) -> None:
        driver, report = self._driver, self._driver.report()
        messages = [RecordedMessage(lane, message) for lane in self._lanes for message in self._new(lane)]
        step = Step(
            kind,
            driver.now,
            self._watermark(),
            tuple(entry for entry in messages if entry.lane.kind == "source"),
            tuple(entry for entry in messages if entry.lane.kind != "source"),
            _grown(self._late, report.late),
            _grown(self._failed, report.failed),
        )
        self._late, self._failed = report.late, report.failed
        if messages or step.late or step.failed or kind != "advance":
            self._steps.append(step)

    def _watermark(self) -> int | None:
        if self._keeps is None:
            return None
        return self._driver.now if self._clocked else self._driver.state.watermark(self._keeps)

    def _new(self, lane: StreamLane) -> Sequence[Message[Any]]:
        """The messages written to a partition since the last step."""
        start = self._taken[lane]
        if lane.kind == "sink":
            messages = self._sinks[lane.stream][start:]
            self._taken[lane] += len(messages)
            return messages
        records = self._driver.records.partition(lane.stream, lane.partition, start)
        self._taken[lane] += len(records)
        return list(self._readers[lane.stream](records))


def _waits(operator: ops.Operator) -> bool:
    """Whether an operator stores messages until a later time. A table stores rows, but does not wait."""
    return operator.role == "both" and not operator.is_table


def _lanes(plan: Plan) -> Iterator[StreamLane]:
    for stream in plan.streams:
        for number in range(stream.partitions):
            yield StreamLane(stream.name, stream.kind, number, stream.partitions)


def _grown(before: Mapping[str, int], now: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(name for name, number in now.items() if number > before.get(name, 0))
