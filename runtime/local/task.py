"""A task of the local engine: one partition of every input of a stage, with its state, outputs and checkpoints."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...dsl.checks import explain
from ...dsl.errors import SystemProblem
from ...planner.plan import Plan, PlannedStage
from ...planner.settings import Settings
from ..kernel.pool import Gate, Sleep
from ..kernel.program import Program
from ..kernel.stage import StageTask
from ..kernel.stamps import Control, control_record
from ..kernel.times import END, START
from ..state.contract import TaskStore
from ..systems.contract import Batch, Publisher, StreamPartition
from . import checkpoint as checkpoints
from .checkpoint import Checkpoint
from .landing import Landing
from .routing import Router

_META = b"\0"
_CHECKPOINT, _PENDING = b"checkpoint", b"pending"
SLICE = 5000
"""Most messages that a task processes before the others have their turn."""


@dataclass(frozen=True, slots=True)
class Run:
    """What the tasks of a run share: who they are to others, and what they write through."""

    id: str
    plan: Plan
    settings: Settings
    producer: Publisher
    sleep: Sleep
    gate: Gate | None = None


@dataclass(slots=True)
class _Queue:
    """Messages of one input that were read and not yet processed: batches, and the index in the first."""

    batches: deque[Batch] = field(default_factory=deque)
    index: int = 0


class LocalTask:
    """One task. `step` processes what is queued, `commit` makes it last; the container decides when."""

    def __init__(
        self, run: Run, program: Program, stage: PlannedStage, number: int, store: TaskStore, kept: bytes | None
    ) -> None:
        self.name = f"{stage.id}/{number}"
        self.number = number
        self.stage = stage
        self._run = run
        self._program = program
        self._store = store
        found = self._resume(kept)
        self.inputs = [name for name in stage.inputs if number < run.plan.stream(name).partitions]
        self._queues = {name: _Queue() for name in self.inputs}
        self._landings = {name: Landing(found.offsets.get(name, 0)) for name in self.inputs}
        self._read_to = {name: found.offsets.get(name, 0) for name in self.inputs}
        self.work = StageTask(
            program,
            store,
            empty=found.blank,
            position=found.position,
            producer=number,
            producers={name: self._writers(name) for name in stage.inputs},
            accepts=lambda control: control.run == run.id,
            sleep=run.sleep,
            gate=run.gate,
            landed=lambda stream, offsets, index: self._landings[stream].land(offsets, index),
        )
        for name in stage.inputs:
            if name not in self.inputs:
                self.work.inputs.end(name)
        self._router = Router(run.plan, stage.id, number)
        self._transaction = run.producer.begin()
        self._last = found
        self._borders = {id: run.plan.operator(id).writes[0] for id in stage.operators if self._is_border(id)}
        self._silent = {id for id in self._borders if self.work.watermark_of(id) == END}
        self._told: dict[str, tuple[int, bool]] = {}
        self._processed: dict[str, int] = {}
        self.commits = 0

    def _is_border(self, id: str) -> bool:
        return self._run.plan.operator(id).kind == "partition_by"

    def _writers(self, stream: str) -> int:
        """How many tasks write an intermediate stream."""
        plan = self._run.plan
        return sum(plan.stage(plan.operator(id).stage).tasks for id in plan.stream(stream).written_by)

    def _resume(self, kept: bytes | None) -> Checkpoint:
        """Where to go on: a store knows best, for its state and offsets were written at one stroke."""
        pending = self._store.get(_META, _PENDING)
        if pending is not None:
            self._run.producer.publish(pending)
        data = self._store.get(_META, _CHECKPOINT)
        if data is None and kept is not None and self._program.stateful:
            wrong = f"the state of task {self.name} is gone, though the task has a checkpoint"
            remedy = "bring the folder of its store back, or run the pipeline under another name to start over"
            raise SystemProblem(explain(wrong, "the store that was written with the checkpoint", remedy, self.stage.id))
        data = data or kept
        return Checkpoint() if data is None else checkpoints.decode(data, self.name)

    # Reading.

    @property
    def positions(self) -> dict[StreamPartition, int]:
        """Where to read each input from."""
        return {(name, self.number): offset for name, offset in self._read_to.items()}

    def start_at(self, stream: str, offset: int) -> None:
        """Begin a stream that has no checkpoint at this offset."""
        if stream not in self._last.offsets:
            self._read_to[stream] = offset
            self._landings[stream] = Landing(offset)

    def wants(self, stream: str) -> bool:
        """Whether more of a stream should be read now."""
        return len(self._queues[stream].batches) < 2

    def enqueue(self, batch: Batch) -> None:
        if batch.records:
            self._queues[batch.stream].batches.append(batch)
        self._read_to[batch.stream] = batch.next_offset

    @property
    def queued(self) -> bool:
        return any(queue.batches for queue in self._queues.values())

    # Working.

    def step(self) -> bool:
        """Process some of what is queued; whether there was anything to do."""
        self.work.check()
        moved = False
        for stream, queue in self._queues.items():
            if queue.batches:
                moved |= self._process(stream, queue)
        self.pass_on()
        return moved

    def _process(self, stream: str, queue: _Queue) -> bool:
        batch = queue.batches[0]
        start = queue.index
        stop = min(start + min(SLICE, self.work.room), len(batch.records))
        if stop == start:
            return False
        landing = self._landings[stream]
        if self._program.asynchronous:
            landing.begin(batch.offsets, start, stop)
        whole = start == 0 and stop == len(batch.records)
        self.work.feed(stream, self.number, batch.offsets, batch.records, start, None if whole else stop)
        if not self._program.asynchronous:
            landing.land_all(batch.offsets, stop)
        queue.index = stop
        if stop == len(batch.records):
            queue.batches.popleft()
            queue.index = 0
        self._processed[stream] = self._processed.get(stream, 0) + stop - start
        return True

    def pass_on(self) -> None:
        """Put what the stage has made into the transaction."""
        for id, made in self.work.take():
            self._router.route(id, made, self._transaction)

    def reach_end(self, ends: Mapping[StreamPartition, int]) -> None:
        """End the inputs that were read, and have landed, as far as the run is to go."""
        for stream in self.inputs:
            end = ends.get((stream, self.number))
            if end is not None and not self.work.inputs.ended(stream) and self._landed_all(stream, end):
                self.work.inputs.end(stream)
        self.pass_on()

    def _landed_all(self, stream: str, end: int) -> bool:
        # What was read says how far it is: the last offsets may hold no messages that could land.
        return self._read_to[stream] >= end and not self._queues[stream].batches and self._landings[stream].idle

    @property
    def done(self) -> bool:
        """Whether all inputs have ended and nothing is under way."""
        return not self.work.busy and not self.open_inputs

    @property
    def open_inputs(self) -> list[str]:
        """The inputs that have not ended."""
        return [stream for stream in self.inputs if not self.work.inputs.ended(stream)]

    # Committing.

    @property
    def drains(self) -> bool:
        """Whether a commit waits for asynchronous work: where its results may change state, or outputs show once."""
        return self._program.asynchronous and (
            bool(self.work.windows) or self._run.settings.guarantee == "exactly_once"
        )

    @property
    def asynchronous(self) -> bool:
        return self._program.asynchronous

    @property
    def busy(self) -> bool:
        """Whether messages or firings are under way."""
        return self.work.busy

    @property
    def news(self) -> bool:
        """Whether a commit would say more than the last."""
        moved = any(landing.position() != self._last.offsets.get(name, 0) for name, landing in self._landings.items())
        ended = any(self.work.watermark_of(id) == END and not self._told.get(id, (0, False))[1] for id in self._borders)
        return moved or ended or self.staged > 0

    @property
    def staged(self) -> int:
        """Bytes of output that wait for a commit."""
        return self._transaction.size

    def commit(self) -> bool:
        """Make outputs visible and the checkpoint durable, in the order that loses nothing; False if nothing changed.

        Offsets first, so that they cover no more than what is written after; then the outputs, durable but not yet
        visible; then, at one stroke, state, offsets and the promise to publish; then the outputs become visible, and
        with them the checkpoint. After a crash in between, the promise is kept at the next start.

        Raises what asynchronous work has failed with since it was last looked at: nothing past it is committed.
        """
        self.work.check()
        self.pass_on()
        told = self._tell_borders()
        position = self.work.position()
        offsets = {**self._last.offsets, **{name: landing.position() for name, landing in self._landings.items()}}
        now = Checkpoint(offsets=offsets, highs=position.highs, producers=position.producers)
        if now == self._last and not told and self._transaction.size == 0 and not self._router.unflushed:
            return False
        self._router.flush()
        data = checkpoints.encode(now)
        token = self._transaction.prepare(self._run.plan.name, {self.name: data})
        if self.work.windows:
            self._store.write([*self.work.changes(), (_META, _CHECKPOINT, data), (_META, _PENDING, token)])
            self.work.settle(self._run.settings.cached_entries)
        self._run.producer.publish(token)
        self._transaction = self._run.producer.begin()
        self._last = now
        self.commits += 1
        return True

    def passed(self) -> dict[StreamPartition, int]:
        """How far intermediate streams have been read for good: not even after a power cut is more of them needed."""
        kinds = {name: self._run.plan.stream(name).kind for name in self.inputs}
        known = {name: self._last.offsets.get(name) for name, kind in kinds.items() if kind == "intermediate"}
        found = {(name, self.number): offset for name, offset in known.items() if offset is not None}
        if found:
            self._store.sync()
        return found

    def _tell_borders(self) -> bool:
        """Tell each border how far time has come, where it does not know; whether there was anything to tell."""
        news = False
        for id, stream in self._borders.items():
            ended = self.work.watermark_of(id) == END and not self.work.busy
            # Where no input of this task leads there, time must not wait for it.
            told = END if id in self._silent else self.work.told_watermark_of(id), ended
            if told == self._told.get(id) or told == (START, False):
                continue
            self._told[id] = told
            news = True
            control = Control(self._run.id, 0, self.number, self.stage.tasks, told[0], ended)
            for partition in range(self._run.plan.stream(stream).partitions):
                self._transaction.append(stream, partition, [control_record(control, max(told[0], 0))])
        return news

    def close(self) -> None:
        self.work.cancel()
        self._store.close()

    @property
    def read(self) -> dict[str, int]:
        """How many messages were read, by stream; control messages are none."""
        controls = self.work.inputs.controls
        found = {stream: number - controls.get(stream, 0) for stream, number in self._processed.items()}
        return {stream: number for stream, number in found.items() if number}

    def counts(self) -> dict[str, dict[str, Any]]:
        """What this task did: see `Report`."""
        found = {"read": self.read, "written": self._router.written}
        return {**found, "late": self.work.late, "failed": self.work.failures.counts}
