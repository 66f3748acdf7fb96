"""A stage at work: compiled code bound to the state, the outputs and the timeline of one task."""

import asyncio
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

from ...dsl.errors import FluvialError, PipelineError
from ...dsl.message import Record
from ...dsl.validation import explain
from .calls.async_calls import Gate, Pool, Sleep
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
from .state_cache import Change, CountedReads, Size, StateBackend, evict
from .stateful_operator import StatefulOperator
from .time.bounds import START
from .time.input_progress import Accepts, InputProgress
from .time.position import Position
from .time.watermarks import WatermarkGraph
from .windows.grown_lateness import Lateness

EIGHTH = 8
"""What part of the entries that may be in memory may be read before the oldest are looked for."""


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
        self._backend = CountedReads(backend)
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
            backend=self._backend,
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
    def capacity(self) -> int:
        """How many messages may be fed now."""
        return min((pool.capacity for pool in self.pools.values()), default=1 << 30)

    @property
    def in_flight(self) -> int:
        """Asynchronous calls under way."""
        return sum(pool.in_flight for pool in self.pools.values())

    @property
    def input_counts(self) -> dict[str, int]:
        """How many messages each operator was given, since the task was made."""
        return input_counts(
            self.program.graph, self.counts.fed, self.inputs.controls, self.counts.made, self.failures.counts
        )

    @property
    def busy(self) -> bool:
        """Whether messages or firings are under way."""
        return self.program.asynchronous and len(self.tracker) > 0

    def cancel(self) -> None:
        """Give up the calls under way."""
        for pool in self.pools.values():
            pool.cancel()

    def watermark_of(self, operator: str) -> int:
        """The watermark of what an operator is given, in ms since epoch; END once its inputs have ended. It is never
        less than the one up to which the operator has fired."""
        self.watermarks.catch_up()
        return max(self.watermarks.now[self.program.graph.node_in[operator]], self.watermarks.reached_by(operator))

    def is_idle(self, operator: str) -> bool:
        """Whether nothing comes to an operator for now."""
        self.watermarks.catch_up()
        return self.watermarks.idle[self.program.graph.node_in[operator]]

    def reported_watermark_of(self, operator: str) -> int:
        """The same, as the messages told it: the end of input does not count."""
        self.watermarks.catch_up()
        return max(self.watermarks.reported[self.program.graph.node_in[operator]], self.watermarks.reached_by(operator))

    # What was made, and what must be kept.

    def drain_outputs(self) -> Iterator[tuple[str, list[Any]]]:
        """The outputs made since the last call, by operator: see `OutputBuffer`."""
        return self.outputs.drain()

    @property
    def late(self) -> dict[str, int]:
        """Late messages by operator."""
        return self.counts.late

    @property
    def keyless(self) -> dict[str, int]:
        """Messages without key by table."""
        return self.counts.keyless

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

    @property
    def changed(self) -> int:
        """How many values of state have changed since the last `mark_committed`, about."""
        return sum(operator.changed for operator in self.stateful.values())

    def changes(self) -> Iterator[Change]:
        """The changes of state since the last `mark_committed`."""
        for id, operator in self.stateful.items():
            try:
                yield from operator.changes()
            except FluvialError:
                raise
            except Exception as error:
                raise self._unkept(id, error) from error

    def _unkept(self, id: str, error: Exception) -> PipelineError:
        operator = self.program.graph.operators[id]
        wrong = f"the state of {operator.label} cannot be encoded: {type(error).__name__}: {error}"
        expected = "values of the type that is declared, and whole numbers of 64 bits at most"
        origin = operator.origin
        return PipelineError(explain(wrong, expected, "mend what add returns, or the type", origin))

    def mark_committed(self, inputs: int, size: int = sys.maxsize) -> None:
        """The changes are kept; hold at most so many entries in memory, of so many bytes: see `Size`."""
        for operator in self.stateful.values():
            operator.mark_committed()
        self._evict(Size(inputs, size))

    def evict(self, most: Size) -> None:
        """Hold at most `most` entries in memory besides those that have changed, or an EIGHTH more: to be called now
        and then, for what is looked up is held too."""
        read = self._backend.size
        if read.entries * EIGHTH >= most.entries or read.bytes * EIGHTH >= most.bytes:
            self._evict(most)

    def _evict(self, most: Size) -> None:
        self._backend.begin()
        evict(chain.from_iterable(operator.caches() for operator in self.stateful.values()), most)
