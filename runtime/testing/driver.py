"""The pipeline driver: runs the plan of a pipeline on virtual time, step by step."""

import asyncio
import math
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self

from msgspec import structs

from ...dsl import operators as ops
from ...dsl.errors import UsageError
from ...dsl.message import Headers, Message, Record
from ...dsl.pipeline import Pipeline
from ...dsl.resource import Resource
from ...dsl.serde import key_serde, value_serde
from ...dsl.validation import explain, millis, require
from ...dsl.verb_calls import explained_object
from ...planner.plan import Plan
from ...planner.planner import plan, plan_on
from ...planner.settings import Settings
from ...planner.stream_names import dead_letters
from ...planner.validation import check_arguments
from ..kernel.calls.cancellation import refuse_running_loop
from ..kernel.compiler.bindings import are_headers
from ..kernel.time.bounds import END
from ..local.commit.two_phase_commit import TwoPhaseCommit
from ..local.container import Container
from ..local.observe.progress import ProgressReporter
from ..local.open_tasks import make_tasks
from ..local.rescaling import rescale
from ..local.run_context import RunContext
from ..local.stores.alignment import CommittedLog
from ..local.task import LocalTask
from ..open_resources import OpenResources
from ..output_routes import open_sinks
from ..preflight.state_compatibility import reset_command
from ..process.machine import THIS_MACHINE
from ..report import Report
from ..systems.end_offsets import EndOffsets
from ..systems.memory import MemorySystem
from ..systems.partitioner import partition_for
from ..systems.provisioning import frozen_ends, make_streams
from .completion_order import AsyncResults, CompletionGate, chooser
from .decoded_outputs import Decoder
from .driver_state import DriverState
from .encoded_inputs import encoded
from .given_clients import GIVE_ANOTHER, checked_clients
from .stream_records import StreamRecords
from .virtual_clock import VirtualLoop

_WHOLE = "write a whole number, such as 1_700_000_000_000"


@partial(explained_object, error=UsageError)
class PipelineDriver:
    """Runs a pipeline in steps: the plan, the tasks, the state and the commits are those of the local engine.

    There are no threads, no broker and no sleeping: time is virtual, and moves with `advance` only (and with `end`, as
    far as calls in flight need it). `asyncio.sleep` and `asyncio.timeout` in your functions, the pauses of retries,
    timeouts and the commit interval all follow virtual time, and the jitter of retries is the same in each run.

    `partitions` is the count of every source, or a count for each stream by name. `start` is the first time of the
    clock, in ms since epoch. `async_results` is the order in which asynchronous calls complete: "input", "reverse", or
    a function that picks the index of the next one; by default each completes as soon as its function returns.

    `commits="always"` commits after each step, so that the outputs of a step can be read at once. With "timed" the
    tasks commit as in a real run, after each `Settings.commit_interval` of virtual time, and at `commit()` and `end()`:
    `crash()` loses what was processed since.

    `resources` has clients that functions are given in place of those that their resources make: they are used as they
    are, neither opened nor closed. Other resources are opened here too, on virtual time, by `restart` anew.

    `records` has the streams as bytes. `state` has the rows of tables and the watermarks.

    >>> pipeline = Pipeline("shout")
    >>> pipeline.stream("words", value=str).map(str.upper).send_to("loud", value=str)
    >>> with PipelineDriver(pipeline) as driver:
    ...     driver.send("words", "hello")
    ...     [message.value for message in driver.read("loud")]
    ['HELLO']
    """

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        partitions: Mapping[str, int] | int = 1,
        start: int = 0,
        settings: Settings | None = None,
        async_results: AsyncResults | None = None,
        commits: Literal["always", "timed"] = "always",
        resources: Mapping[Resource[Any], Any] | None = None,
    ) -> None:
        if commits not in ("always", "timed"):
            raise UsageError(explain(f"commits={commits!r}", '"always" or "timed"', 'write commits="always"'))
        good = isinstance(partitions, Mapping) or (type(partitions) is int and partitions >= 1)
        expected = "a number of partitions, 1 or more, or such by stream"
        require(good, UsageError, f"partitions={partitions!r}", expected, 'write partitions=2, or {"clicks": 2}')
        by_stream = partitions if isinstance(partitions, Mapping) else {}
        check_arguments(pipeline, by_stream, Settings() if settings is None else settings)
        self._given = checked_clients(pipeline, resources)
        require(type(start) is int, UsageError, f"start={start!r}", "ms since epoch, a whole number", _WHOLE)
        self._always = commits == "always"
        self._gates = None if async_results is None else CompletionGate(chooser(async_results))
        self._start = start
        self._settings = settings or Settings()
        self._system = MemorySystem()
        self._admin = self._system.admin()
        self._sources = {source.stream: source for source in pipeline.sources}
        counts = dict.fromkeys(self._sources, partitions) if isinstance(partitions, int) else partitions
        for stream in [*self._sources, *(name for name in counts if name not in self._sources)]:
            self._admin.create(stream, counts.get(stream, 1))
        self.plan = plan(pipeline, partitions=self._admin.streams(), settings=self._settings)
        make_streams(self.plan, self._admin)
        self._decoder = Decoder(self.plan)
        self.records = StreamRecords(self._system, self._decoder.check, self._send)
        self._taken: dict[str, int] = {}
        refuse_running_loop("PipelineDriver")
        self._loop = VirtualLoop(start)
        self._container: Container | None = None
        self._tasks: list[LocalTask] = []
        self._ended = False
        self._open = ExitStack()
        self.restart()

    @property
    def now(self) -> int:
        """The time of the clock, in ms since epoch."""
        return self._start + self._loop.millis

    def advance(self, duration: timedelta) -> None:
        """Move the clock. All that is due happens at its own time: sleeps, timeouts and retries in asynchronous
        functions, commits, windows and triggers in processing time, clock timers, and partitions that become idle."""
        self._running()
        # In steps from timer to timer, so that each fires at the time for which it was set.
        target = self._loop.time() + millis("advance", duration, error=UsageError) / 1000

        async def work() -> None:
            await self._settle()
            while (stop := min(target, self._next_due())) < target or self._loop.has_timer(target):
                self._loop.jump(stop)
                await self._settle()
            self._loop.jump(target)
            await self._settle()

        self._run(work())

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
        """Write a message to an input, and process it. `value` and `key` are encoded as the stream declares.

        `timestamp` is that of the record, by default the time of the clock. `partition` is by default the one that
        Kafka's partitioner gives the key, or the first one without a key. While the pipeline is crashed, messages wait
        in the input.
        """
        source = self._source(stream)
        good = timestamp is None or type(timestamp) is int
        require(good, UsageError, f"send: timestamp={timestamp!r}", "ms since epoch, a whole number", _WHOLE)
        data = None if value is None else encoded("value", value, value_serde, source.value)
        known = None if key is None else encoded("key", key, key_serde, source.key)
        at = self.now if timestamp is None else timestamp
        good = are_headers(headers)
        remedy = 'write headers=(("name", b"data"),)'
        require(good, UsageError, f"send: headers={headers!r}", "a tuple of pairs of str and bytes", remedy)
        self.records.send(stream, [(known, data, at, headers)], partition=partition)

    def _send(self, stream: str, records: Sequence[Record], partition: int | None) -> None:
        self._source(stream)
        if (self._ended or self.shut_down) and self._container is not None:
            remedy = "call restart() to begin another run, which continues from here"
            ended = "the input has ended" if self._ended else "stream tasks have shut the run down"
            raise UsageError(explain(ended, "no message after end()", remedy))
        count = len(self._admin.ends(stream))
        good = partition is None or (type(partition) is int and 0 <= partition < count)
        expected = f"a number from 0 to {count - 1}, or None"
        remedy = f'write another number, or PipelineDriver(pipeline, partitions={{"{stream}": ...}})'
        require(good, UsageError, f"send: partition={partition!r}", expected, remedy)
        writing = self._system.producer().begin()
        for record in records:
            writing.append(stream, partition_for(record[0], count) if partition is None else partition, [record])
        writing.commit()
        if self._container is not None:
            self._run(self._settle())

    def end(self, *, drained: bool = False) -> Report:
        """End the input: process the rest, close all windows and commit, as a run with `until="end"` does, or one that
        is told to drain.

        The clock advances as far as calls in flight need it.
        """
        container = self._running()
        self._ended = True
        container.end_at(frozen_ends(self.plan, self._admin), drained=drained)

        async def work() -> None:
            await self._settle(force=True)
            while not (container.finished or container.shut_down):
                if not self._loop.has_timer():
                    wrong = (
                        "the pipeline does not come to an end: a call in flight waits for an event that cannot happen"
                    )
                    remedy = "check the asynchronous functions for one that waits for a socket, a thread or an event"
                    raise UsageError(explain(wrong, "functions that end by themselves", remedy))
                self._loop.jump(self._next_due())
                await self._settle(force=True)
            container.commit_ready()

        self._run(work())
        return self.report()

    @property
    def shut_down(self) -> bool:
        """Whether stream tasks have ended the run, by `coordinator.shutdown`."""
        return self._container is not None and self._container.shut_down

    def read(self, stream: str) -> list[Message[Any]]:
        """All messages of an output that readers can see so far, partition by partition, decoded."""
        return list(self._decoder.messages(stream, self.records.read(stream)))

    def take(self, stream: str) -> list[Message[Any]]:
        """The messages of an output that were added since its last `take`, in the order of their commits."""
        self._decoder.check(stream)
        ends = {(stream, number): end for number, end in enumerate(self._admin.ends(stream))}
        starts = {partition: self._taken.get(f"{partition}", 0) for partition in ends}
        self._taken.update({f"{partition}": end for partition, end in ends.items()})
        return list(self._decoder.messages(stream, self.records.read_from(starts)))

    @property
    def dead_letters(self) -> list[Message[Any]]:
        """The dead letters of `on_error=dead_letter()`: key and value as bytes, the error in the headers."""
        name = dead_letters(self.plan.name)
        return self.read(name) if name in self._admin.streams() else []

    def report(self) -> Report:
        """The counts of messages that were read, written, late and failed, since the start or the last restart."""
        return self._running().report()

    def commit(self) -> None:
        """Commit every task, and again until the downstream stages have processed all outputs.

        A task that waits for its asynchronous calls before it commits is left out while they are in flight.
        """

        self._running()

        async def work() -> None:
            await self._settle(commit=True)

        self._run(work())

    def crash(self) -> None:
        """Stop, and lose everything that was not committed; `restart` continues from the last commits."""
        container, self._container = self._container, None
        if container is not None:
            self._open.close()
            self._loop.run_until_complete(self._cancelled())

    def restart(self) -> None:
        """Begin a new run from the last commits; the last run crashes if it has not ended."""
        self._check_open()
        self.crash()
        self._ended = False
        self._open = stack = ExitStack()
        reset = reset_command(self.plan, self._system, self._settings)
        commits = TwoPhaseCommit(CommittedLog(self.plan, self._system, self._system.producer(), reset))
        if commits.journal is not None:
            stack.callback(commits.journal.drop)
        gate = None if self._gates is None else self._gates.wait
        run = RunContext(THIS_MACHINE.new_id(), self.plan, self._settings, commits, asyncio.sleep, gate)
        waiting = self._loop.run_waiting
        clients = OpenResources(waiting, self._settings.stall_timeout, self._given, remedy=GIVE_ANOTHER)
        try:
            tasks = self._tasks = make_tasks(run, self._system, self._admin, stack, resources=clients)
            open_sinks(self.plan, stack, waiting, None)  # on virtual time what waits for anything else is refused
        except BaseException:
            stack.close()
            raise
        self.state = DriverState(self.plan, self._running_tasks)
        clock, stop = self._loop.time, lambda: False
        reporter = ProgressReporter(self.plan, EndOffsets(self._admin), None, clock=clock)
        consumer = self._system.consumer()
        self._container = Container(
            self.plan,
            tasks,
            consumer,
            commits,
            self._settings,
            None,
            stop,
            reporter,
            machine=replace(THIS_MACHINE, clock=clock, wall=lambda: self.now),
        )
        self._container.start()
        self._run(self._settle())

    def rescale(self, elasticity: int | Mapping[str, int]) -> None:
        """Commit, and go on as a run with another `Settings.elasticity` does: tasks are split by key, or merged. Raises
        UsageError where tasks cannot be merged since calls are in flight."""
        self.commit()
        settings = structs.replace(self._settings, elasticity=elasticity)
        now = plan_on(self.plan.pipeline, self._admin.streams(), settings)
        self.crash()
        rescale(self.plan, now, self._system, settings, _refuse_calls)
        self.plan, self._settings = now, settings
        self.restart()

    def close(self) -> None:
        """Abandon calls in flight, and close the driver for good."""
        if not self._loop.is_closed():
            self.crash()
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    def _next_due(self) -> float:
        """The time of the loop at which a task next needs the clock. Times up to now are left out: what was due then
        has been done, or waits for something other than the clock."""
        schedules = [task.view.clock_schedule() for task in self._tasks]
        times = [schedule.timer for schedule in schedules]
        if any(schedule.waits for schedule in schedules):  # else it makes no difference which partitions are idle
            times += [schedule.idle for schedule in schedules]
        due = min((time for time in times if self.now < time < END), default=None)
        return math.inf if due is None else (due - self._start) / 1000

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            self._loop.run_until_complete(work)
        except BaseException:
            self.crash()
            raise

    async def _settle(self, *, force: bool = False, commit: bool = False) -> None:
        """Do all that can be done at this time: process messages, complete calls, and commit tasks that are due."""
        container, moved = self._running(), True
        while moved:
            moved = container.turn()
            await self._loop.quiet()
            moved |= container.turn()
            if not moved and container.shut_down:
                moved = container.commit_ready()
            if not moved and self._gates is not None:
                moved = self._gates.open(force)
            if not moved and (self._always or commit):
                moved = container.commit_ready()

    async def _cancelled(self) -> None:
        """Wait until cancelled calls have ended."""
        await self._loop.quiet()

    def _check_open(self) -> None:
        if self._loop.is_closed():
            raise UsageError(explain("the driver is closed", "a driver in use", "use it within its with block"))

    def _source(self, stream: str) -> ops.Source:
        self._check_open()
        source = self._sources.get(stream)
        if source is None:
            wrong = f"the pipeline reads no stream {stream!r}"
            raise UsageError(explain(wrong, f"one of its inputs: {', '.join(map(repr, self._sources))}", "send to one"))
        return source

    def _running_tasks(self) -> Sequence[LocalTask]:
        self._running()
        return self._tasks

    def _running(self) -> Container:
        self._check_open()
        if self._container is None:
            raise UsageError(explain("the pipeline is crashed", "a pipeline that runs", "call restart() first"))
        return self._container


def _refuse_calls(_: Plan, __: Mapping[Any, int], until: str) -> None:
    """Refuse to merge tasks that have not read equally far, since calls are in flight. An end all have reached."""
    if until == "end":
        return
    expected = "no calls in flight, as tasks are merged"
    raise UsageError(
        explain("rescale: calls are in flight", expected, "call advance(...) first, until they have ended")
    )
