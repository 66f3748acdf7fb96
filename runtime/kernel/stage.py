"""One task of a stage: compiled code bound to the task's state, outputs and watermarks."""

import logging
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from typing import Any

from ...dsl.message import Record
from ...dsl.text import visible
from ...planner.stream_names import growth_name
from .calls.in_flight import InFlightTracker
from .calls.task_calls import Pool, TaskCalls
from .code.program import Program
from .compiler.bindings import bind
from .counted_reads import CountedReads
from .effects import MessageEffects
from .environment import StageCounts, StageEnvironment
from .failures import Failures
from .firing_pauses import FiringPauses
from .key_buckets import discarded
from .kinds import KERNEL_KINDS
from .message_counts import input_counts
from .message_failures import FedBatch, MessageFailures
from .message_places import MessagePlaces
from .operators.joined_tables import JoinedTables
from .output_buffer import DEAD_LETTERS, OutputBuffer
from .state_backend import StateBackend
from .stateful_operator import StatefulOperator
from .task_options import ALONE, TaskOptions
from .task_requests import RunRequests
from .task_state import TaskState
from .time.bounds import START
from .time.idle_sources import IdleSources
from .time.input_progress import InputProgress
from .time.position import Position
from .time.task_progress import TaskProgress
from .time.watermarks import WatermarkGraph
from .windows.fired_windows import FiredWindowsOfTask
from .windows.grown_lateness import Lateness

_log = logging.getLogger(__name__)


def _failures_of(program: Program) -> Failures:
    operators = program.graph.operators.items()
    joining = frozenset(id for id, operator in operators if KERNEL_KINDS[operator].joins_rows)
    return Failures(program.plan.pipeline, joining=joining, limit=program.limits.get(DEAD_LETTERS))


class StageTask:
    """One task of a stage. It must be used by one thread only. An asynchronous stage needs a running event loop.

    `feed` processes messages, and `drain_outputs` returns the outputs. A commit must store `state.changes()` and
    `position()`. `progress` has the watermarks, `calls` the asynchronous calls, `counts` the counts.

    `empty` says that the `backend` holds no state, so that it need not be read. `requests` has what stream tasks have
    asked for; `drained[0]` tells these that the run was told to drain.
    """

    def __init__(
        self,
        program: Program,
        backend: StateBackend,
        *,
        empty: bool = False,
        position: Position | None = None,
        options: TaskOptions = ALONE,
    ) -> None:
        position = position or Position()
        graph, asynchronous = program.graph, program.asynchronous
        self.program = program
        self.stateful: dict[str, StatefulOperator] = {}
        self.pools: dict[str, Pool] = {}
        self.requests, self.drained = RunRequests(taken=options.takes_requests), [False]
        self.counts = StageCounts(dict.fromkeys(graph.inputs, 0), [0] * len(graph.operators))
        failures = _failures_of(program)
        self.failures = MessageFailures(failures, graph.inputs, asynchronous=asynchronous)
        self.outputs = OutputBuffer(failures.dead_letters, options.hand_over)
        self._effects = MessageEffects(self.stateful, self.outputs, self.counts.late, takes_back=program.takes_back)
        self.tracker = InFlightTracker(self.failures.landed, self.failures.in_flight, self._follow, self._effects)
        excludes = self.tracker.paused
        self.watermarks = WatermarkGraph(graph.nodes, self.tracker.floor, exact=graph.exact, excludes=excludes)
        self.tracker.precedes = self._precedes_firing(cache(graph.leads_to))
        self.inputs = self._inputs_from(position, options)
        self.idle_sources = IdleSources(self.inputs, position.quiet_since)
        reads = CountedReads(backend)
        self.calls = TaskCalls(self.pools, graph.inputs, lambda: self.tracker.waiting, self._pools_before_firings)
        self.progress = TaskProgress(
            self.watermarks, graph.node_in, self.inputs, graph.inputs_before, self.tracker, asynchronous=asynchronous
        )
        self.state = TaskState(graph.operators, self.stateful, reads)
        self._pauses = self._pauses_where(options.full, turns=options.turns)
        self._bucket = options.bucket
        self._environment = self._environment_of(position, reads, options, empty=empty)
        self._reads = bind(self._environment)
        self.joined = JoinedTables(graph.operators.values(), self.stateful, position, self.failures.firing)

    def _inputs_from(self, position: Position, options: TaskOptions) -> InputProgress:
        return InputProgress(
            self.program.graph.inputs,
            self.watermarks,
            position,
            options.producers,
            options.accepts,
            self.tracker.opened,
            catches_up=options.catches_up,
        )

    def _precedes_firing(self, leads_to: Callable[[str, str], bool]) -> Callable[[str], bool]:
        """A function that tells whether what an operator emits comes to the one that fires."""
        return lambda operator: leads_to(operator, self.watermarks.fires[0])

    def _pauses_where(self, full: Callable[[], bool], *, turns: bool) -> FiringPauses:
        """Where firings pause. No commit is made while they hold back what is in flight, so none is waited for then.
        Calls that have ended do not count as outstanding: what waits for its order may wait for the firing itself."""
        free = (lambda: self.calls.free) if self.program.asynchronous else None
        return FiringPauses(self.outputs, free, lambda: full() and not self._holds, turns=turns)

    @property
    def _holds(self) -> bool:
        """Whether what is in flight waits for the firing."""
        return self.watermarks.fires[0] not in self.watermarks.admitting and self.tracker.has_held

    def _pools_before_firings(self, start: str) -> Collection[Pool]:
        """The pools whose room messages of an input need. What an operator fires that takes messages meanwhile has its
        room for itself: it is emitted as there is some."""
        admitting = self.watermarks.admitting
        if not admitting:
            return self.pools.values()
        reached = self.program.graph.reached_before(start, admitting)
        return [pool for id, pool in self.pools.items() if id in reached]

    def _environment_of(
        self, position: Position, reads: CountedReads, options: TaskOptions, *, empty: bool
    ) -> StageEnvironment:
        return StageEnvironment(
            program=self.program,
            options=options,
            watermarks=self.watermarks,
            inputs=self.inputs,
            tracker=self.tracker,
            failures=self.failures,
            effects=self._effects,
            outputs=self.outputs,
            counts=self.counts,
            lateness=Lateness(position),
            fired_windows=FiredWindowsOfTask(position),
            pauses=self._pauses,
            clock_fired=dict(position.clock_fired),
            backend=reads,
            empty=empty,
            stateful=self.stateful,
            pools=self.pools,
            places=MessagePlaces(self.failures, self.tracker, self.program.without_offsets),
            requests=self.requests,
            drained=self.drained,
        )

    def close(self) -> None:
        """Let the stream tasks end. One that fails is logged, and the others end all the same."""
        closers = self._environment.closers
        while closers:
            operator, close = closers.pop()
            try:
                close()
            except Exception as error:
                trace = visible("".join(traceback.format_exception(error)))
                _log.warning("%s: close failed\n  at %s\n%s", operator.label, operator.origin, trace)

    @property
    def halts(self) -> bool:
        """Whether nothing is to be fed now: a firing is not over, or a stream task has asked for something."""
        return self.excludes or (self.requests.asked[0] and not self.program.asynchronous)

    def _follow(self, start: str) -> None:
        """Advance the watermarks after a message of an input or operator has landed."""
        self.failures.deferred(self.watermarks.landed, start)

    def feed(
        self,
        stream: str,
        partition: int,
        offsets: Sequence[int],
        records: Sequence[Record],
        start: int = 0,
        stop: int | None = None,
        marks: bytearray | None = None,
        buckets: bytes | None = None,
        growth: int = 0,
    ) -> int:
        """Feed `records[start:stop]` of one partition, which is of a `growth` of a source. Returns the index behind the
        last that was processed: `stop`, or less if a firing has paused. Raises `MessageError` under `on_error=fail()`.

        `buckets` has the key bucket of each record of an input that is split: see `key_buckets`.

        `marks` has a byte for each of these records. In an asynchronous stage the byte becomes 1 once the message has
        landed.
        """
        marks = marks or bytearray(len(records) - start)
        self.failures.batch = FedBatch(stream, partition, offsets, records, start, marks)
        part = records if start == 0 and stop is None else records[start:stop]
        self.counts.upto[0] = start + len(part)
        stream = growth_name(stream, growth)
        self.idle_sources.arrived(stream, self.watermarks.clock)
        source = self.inputs.inputs[stream].clock == "source"
        split = () if buckets is None else (buckets[start : start + len(part)],)
        high = self._reads[stream](part, start, self.inputs.highs.get(stream, START) if source else None, *split)
        if source and high > START:
            self.inputs.highs[stream] = high
        fed = self.counts.upto[0]
        others = 0 if buckets is None else discarded(buckets[start:fed], self._bucket)
        if others:
            self.counts.discarded[stream] = self.counts.discarded.get(stream, 0) + others
        self.counts.fed[stream] += fed - start - others
        self.check()
        return fed

    @property
    def paused(self) -> bool:
        """Whether a firing has paused. Nothing may be ended or fired until it has gone on to its end."""
        return self.watermarks.paused[0]

    @property
    def excludes(self) -> bool:
        """Whether messages are to wait for a firing: it has paused, or what it emitted is in flight. Nothing may be
        fed, ended or fired by the clock until then."""
        return self.watermarks.excludes[0] or bool(self.tracker.firings)

    def go_on(self) -> bool:
        """Go on with the firing that has paused, if there is room for what it emits. Returns whether it went on."""
        if not self._pauses.has_room:
            return False
        self.watermarks.go_on()
        self.tracker.release_held()
        self.check()
        return True

    @property
    def holds_messages(self) -> bool:
        """Whether a firing that has paused holds back what is in flight, so that no commit can be made before it goes
        on."""
        return self.paused and self._holds

    def set_clock(self, now: int, active: Collection[str] | None = None) -> None:
        """Set the processing time, in ms since epoch, and fire what is due by it. `active` are the sources with
        messages that are still to be processed; None if that is not known."""
        self.watermarks.set_clock(now)
        if active is not None:
            self.idle_sources.mark(active, self.watermarks.clock)
        self.check()

    def rebuild(self, most: int) -> bool:
        """Rebuild about so many rows of joined tables that are out of date; returns whether more are left. To be called
        before `resume`, until none are left."""
        left = bool(self.joined.stale) and self.joined.rebuild(most)
        self.check()
        return left

    def resume(self) -> None:
        """Fire what became due for an operator while the stage ran without it. To be called before the first message,
        once outputs can be handed over."""
        self.watermarks.resume()
        self.check()

    def check(self) -> None:
        """Raise the error of an asynchronous call that has failed."""
        self.failures.check()

    @property
    def input_counts(self) -> dict[str, int]:
        """How many messages each operator was given since the task was created."""
        return input_counts(
            self.program.graph, self.counts.fed, self.inputs.controls, self.counts.emitted, self.failures.counts
        )

    def drain_outputs(self) -> Iterator[tuple[str, list[Any]]]:
        """The outputs since the last call, by operator: see `OutputBuffer`."""
        return self.outputs.drain()

    def position(self) -> Position:
        """The position of the messages that have landed, to be committed with their offsets."""
        position = self.inputs.position(self.tracker.floor, self.tracker.landed)
        environment, clock = self._environment, self.watermarks.clock_fired
        environment.fired_windows.add_to(position)
        environment.lateness.add_to(position, self.watermarks.now, self.program.graph.node_out)
        if clock > START:
            environment.clock_fired.update(dict.fromkeys(environment.clock_users, clock))
        position.clock_fired = environment.clock_fired
        position.quiet_since = self.idle_sources.quiet_since
        self.joined.add_to(position)
        return position
