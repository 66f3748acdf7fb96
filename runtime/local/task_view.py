"""A read-only view of a task, for its container, for metrics and for `PipelineDriver`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..kernel.code.program import Program
from ..kernel.operators.tables import TableOperator
from ..kernel.stage import StageTask
from ..kernel.time.bounds import END
from .input_queue import InputQueue, InputQueues
from .journals.task_journal import TaskJournal
from .task_metrics import CommitMetrics, InputMetrics, TaskMetrics
from .task_setup import TaskSetup


@dataclass(frozen=True, slots=True)
class ClockSchedule:
    """The times at which a task next needs the clock, in ms since epoch: `timer` to fire a timer, `idle` to mark an
    input idle; END for never. `idle` matters only while an operator `waits` for event time."""

    timer: int
    idle: int
    waits: bool


class TaskView:
    """Reads what a task holds, and changes nothing: whether it is done, watermarks, rows of tables, and counts."""

    def __init__(
        self,
        setup: TaskSetup,
        program: Program,
        work: StageTask,
        queues: InputQueues,
        journals: Mapping[str, TaskJournal],
    ) -> None:
        self._setup = setup
        self._journals = journals
        self._program = program
        self._work = work
        self._queues = queues

    @property
    def done(self) -> bool:
        """Whether all inputs have ended, no message is in flight, and no firing has paused."""
        return not self.busy and not self.open_inputs and not self._work.joined.stale and not self.paused

    @property
    def open_inputs(self) -> list[str]:
        """The inputs of which more may come: not all of their producers have reported the end of input."""
        return [stream for stream in self._setup.inputs if not self._work.inputs.ends.ended(stream)]

    @property
    def ends(self) -> bool:
        """Whether an input has ended. What that makes stream tasks send is sent once, so commits wait until it has
        landed."""
        return len(self.open_inputs) < len(self._setup.inputs)

    @property
    def busy(self) -> bool:
        """Whether messages or firings are in flight."""
        return self._work.progress.busy

    @property
    def held_up(self) -> bool:
        """Whether messages wait for what a limit allows."""
        return self._work.calls.held_up

    @property
    def in_flight(self) -> int:
        """How many messages and firings are in flight."""
        return len(self._work.tracker)

    @property
    def paused(self) -> bool:
        """Whether a firing waits for room, or for a commit."""
        return self._work.paused

    @property
    def processing_time(self) -> int:
        """The processing time that the task has reached, in ms since epoch: it never goes back."""
        return self._work.watermarks.clock

    def watermark_of(self, operator: str) -> int | None:
        """The watermark in front of an operator, in ms since epoch, as messages have reported it; None if the operator
        is in another stage."""
        own = operator in self._program.graph.operators
        return self._work.progress.reported_watermark_of(operator) if own else None

    def fired_up_to(self, operator: str) -> int | None:
        """The watermark up to which an operator has fired, in ms since epoch; None if it has no state in this stage."""
        return self._work.progress.fired_up_to(operator)

    def rows_of(self, table: str) -> Iterable[tuple[bytes, Any]]:
        """The rows of a table in this task, by key bytes; none if the table is in another stage."""
        operator = self._work.stateful.get(table)
        return operator.rows() if isinstance(operator, TableOperator) else ()

    def clock_schedule(self) -> ClockSchedule:
        """When the task next needs the clock."""
        watermarks = self._work.watermarks
        idle = self._work.idle_sources.next_due()
        return ClockSchedule(watermarks.clock_users.next_due(), idle, waits=watermarks.next_fire[0] < END)

    def metrics(self, commits: CommitMetrics, written: Mapping[str, int], busy_seconds: float) -> TaskMetrics:
        """The metrics of the task now. `written` has the counts of its outputs, by stream or sink."""
        work = self._work
        watermarks = work.inputs.watermarks()
        return TaskMetrics(
            name=self._setup.name,
            stage=self._setup.stage,
            inputs=tuple(self._input_metrics(queue, watermarks, commits.offsets) for queue in self._queues),
            watermark=work.inputs.watermark(),
            highs=dict(work.inputs.highs),
            in_flight=len(work.tracker),
            busy_seconds=busy_seconds,
            calls={id: pool.in_flight for id, pool in work.pools.items()},
            most_calls={id: pool.most_in_flight for id, pool in work.pools.items()},
            at_once={id: pool.at_once for id, pool in work.pools.items() if pool.at_once is not None},
            hedges={id: pool.hedges for id, pool in work.pools.items() if pool.hedges is not None},
            given=work.input_counts,
            late=dict(work.counts.late),
            failed=dict(work.failures.counts),
            keyless=dict(work.counts.keyless),
            written=dict(written),
            commits=commits.number,
            staged_bytes=commits.staged_bytes,
            answered={id: journal.answered for id, journal in self._journals.items()},
            kept={id: journal.kept for id, journal in self._journals.items()},
        )

    def _input_metrics(
        self, queue: InputQueue, watermarks: Mapping[str, int], committed: Mapping[str, int]
    ) -> InputMetrics:
        controls = self._work.inputs.controls.get(queue.name, 0)
        discarded = self._work.counts.discarded.get(queue.name, 0)
        split = self._program.graph.inputs[queue.stream].split
        return InputMetrics(
            stream=queue.stream,
            partition=queue.partition,
            read=queue.read,
            processed=queue.processed - controls - discarded,
            discarded=discarded if split else None,
            waiting=queue.waiting,
            next_offset=queue.next_offset,
            committed_offset=committed.get(queue.name),
            watermark=watermarks[queue.name],
        )
