"""A stage at work: compiled code bound to the state, the outputs and the timeline of one task."""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ...dsl.message import Record
from .calls.async_calls import Gate, Pool, Sleep, TaskCalls
from .calls.in_flight import InFlightTracker
from .compiler.bindings import bind
from .compiler.environment import StageCounts, StageEnvironment
from .compiler.program import Program
from .effects import MessageEffects
from .failures import Failures
from .message_counts import input_counts
from .message_failures import FedBatch, MessageFailures
from .operators.joined_tables import JoinedTables
from .output_buffer import HandOver, OutputBuffer
from .state_cache import CountedReads, StateBackend
from .stateful_operator import StatefulOperator
from .task_state import TaskState
from .time.bounds import START
from .time.input_progress import Accepts, InputProgress
from .time.position import Position
from .time.task_progress import TaskProgress
from .time.watermarks import WatermarkGraph
from .windows.grown_lateness import Lateness


def _every(_: object) -> bool:
    return True


class StageTask:
    """One task of a stage. Not for use by two threads; asynchronous stages need a running event loop.

    `empty` says that nothing is kept in `backend`, which saves reading there.

    `run` names the run, if one that is begun again goes on to the same end of input. `hand_over` takes outputs in the
    middle of a firing: see `OutputBuffer`.

    Feed it with `feed`, take what it made with `drain_outputs`; `changes` and `position()` are what a commit must keep.
    """

    def __init__(
        self,
        program: Program,
        backend: StateBackend,
        *,
        empty: bool = False,
        position: Position | None = None,
        producer: int = 0,
        producers: Mapping[str, int] | None = None,
        accepts: Accepts = _every,
        sleep: Sleep = asyncio.sleep,
        gate: Gate | None = None,
        hand_over: HandOver | None = None,
        run: str = "",
    ) -> None:
        position = position or Position()
        graph = program.graph
        self.program = program
        self.stateful: dict[str, StatefulOperator] = {}
        self.pools: dict[str, Pool] = {}
        self.counts = StageCounts(dict.fromkeys(graph.inputs, 0), [0] * len(graph.operators))
        failures = Failures(program.plan.pipeline)
        self.failures = MessageFailures(failures, graph.inputs, asynchronous=program.asynchronous)
        self.outputs = OutputBuffer(failures.letters, hand_over)
        effects = MessageEffects(self.stateful, self.outputs, self.counts.late, takes_back=program.takes_back)
        self.tracker = InFlightTracker(self.failures.landed, self.failures.in_flight, self._follow, effects)
        self.watermarks = WatermarkGraph(graph.nodes, self.tracker.floor, exact=graph.exact)
        self.inputs = InputProgress(
            graph.inputs, self.watermarks, position, producers or {}, accepts, self.tracker.opened
        )
        reads = CountedReads(backend)
        self.calls = TaskCalls(self.pools)
        self.progress = TaskProgress(self.watermarks, graph.node_in, self.tracker, asynchronous=program.asynchronous)
        self.state = TaskState(graph.operators, self.stateful, reads)
        self._environment = StageEnvironment(
            program=program,
            watermarks=self.watermarks,
            inputs=self.inputs,
            tracker=self.tracker,
            failures=self.failures,
            effects=effects,
            outputs=self.outputs,
            counts=self.counts,
            lateness=Lateness(position),
            rung=dict(position.rung),
            run=run,
            producer=producer,
            backend=reads,
            empty=empty,
            make_pool=partial(Pool, sleep=sleep, gate=gate),
            stateful=self.stateful,
            pools=self.pools,
        )
        self._reads = bind(self._environment)
        self.joined = JoinedTables(graph.operators.values(), self.stateful, position, self.failures.firing)

    def _follow(self) -> None:
        """Let time follow a message that has landed."""
        self.failures.deferred(self.watermarks.follow)

    # Messages.

    def feed(
        self,
        stream: str,
        partition: int,
        offsets: Sequence[int],
        records: Sequence[Record],
        start: int = 0,
        stop: int | None = None,
        marks: bytearray | None = None,
    ) -> None:
        """Process `records[start:stop]` of one partition. Raises `MessageError` under `on_error=fail()`.

        In an asynchronous stage a byte of `marks`, one for each of them, becomes 1 once the message has landed.
        """
        marks = marks or bytearray(len(records) - start)
        self.failures.batch = FedBatch(stream, partition, offsets, records, start, marks)
        part = records if start == 0 and stop is None else records[start:stop]
        self.counts.fed[stream] += len(part)
        self.inputs.arrived(stream)
        source = self.inputs.inputs[stream].clock == "source"
        high = self._reads[stream](part, start, self.inputs.highs.get(stream, START) if source else None)
        if source and high > START:
            self.inputs.highs[stream] = high
        self.check()

    def set_clock(self, now: int, active: Collection[str] | None = None) -> None:
        """It is now this time, in ms since epoch; what is due by it fires. `active` are the sources that have messages
        still to be processed, None where that is not known."""
        self.watermarks.set_clock(now)
        if active is not None:
            self.inputs.mark_idle(active)
        self.check()

    def rebuild(self, most: int) -> bool:
        """Make about so many rows of joined tables anew that are not made of what their tables have; whether more are
        left. To be called before `resume`, until none are."""
        left = bool(self.joined.stale) and self.joined.rebuild(most)
        self.check()
        return left

    def resume(self) -> None:
        """Let fire what fell due for an operator while the stage was without it. To be called before the first message,
        where what fires can be handed on."""
        self.watermarks.resume()
        self.check()

    def check(self) -> None:
        """Raise what asynchronous work has failed with."""
        self.failures.check()

    @property
    def input_counts(self) -> dict[str, int]:
        """How many messages each operator was given, since the task was made."""
        return input_counts(
            self.program.graph, self.counts.fed, self.inputs.controls, self.counts.made, self.failures.counts
        )

    # What was made, and what must be kept.

    def drain_outputs(self) -> Iterator[tuple[str, list[Any]]]:
        """The outputs made since the last call, by operator: see `OutputBuffer`."""
        return self.outputs.drain()

    def position(self) -> Position:
        """How far time had come for the messages that have landed."""
        position = self.inputs.position(self.tracker.floor, self.tracker.landed)
        environment, clock = self._environment, self.watermarks.clock
        environment.lateness.add_to(position, self.watermarks.now, self.program.graph.node_out)
        if clock > START:
            environment.rung.update(dict.fromkeys(environment.clock_users, clock))
        position.rung = environment.rung
        self.joined.add_to(position)
        return position
