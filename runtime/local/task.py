"""A task of the local engine: one partition of every input of a stage, with its state, outputs and checkpoints."""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import structs

from ...planner.plan import Plan, PlannedStage
from ...planner.settings import Settings
from ...planner.state_schema import carried
from ..kernel.pool import Gate, Sleep
from ..kernel.program import Program
from ..kernel.stage import StageTask
from ..kernel.stamps import Control, control_record
from ..kernel.state import Size
from ..kernel.times import END, START
from ..streams import tables_by_stream
from ..systems.contract import Batch, StreamPartition
from .checkpoint import Checkpoint
from .commits import Commits, Committed, Outbox, TaskCommit, TaskSetup
from .landing import Landing
from .routing import Router
from .slices import SLICE

_NOTHING = (START, False, False)
"""Nothing to tell of a border: no time yet, and neither ended nor idle."""


@dataclass(frozen=True, slots=True)
class Run:
    """What the tasks of a run share: who they are to others, and how they commit."""

    id: str
    plan: Plan
    settings: Settings
    commits: Commits
    sleep: Sleep
    gate: Gate | None = None
    container: int = 0
    generation: int = 0
    identities: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Queue:
    """Messages of one input that were read and not yet processed: batches, and the index in the first."""

    batches: deque[Batch] = field(default_factory=deque)
    index: int = 0


class LocalTask:
    """One task. `step` processes what is queued, `ready` and `committed` frame a commit; the container decides when."""

    def __init__(self, run: Run, program: Program, stage: PlannedStage, setup: TaskSetup, found: Checkpoint) -> None:
        number = setup.number
        self.name = setup.name
        self.number = number
        self.stage = stage
        self.setup = setup
        found = found.within(run.id)
        self._run = run
        self._program = program
        self.may_idle = program.may_idle
        self.inputs: Sequence[str] = setup.inputs
        self._queues = {name: _Queue() for name in self.inputs}
        self._landings = {name: Landing(found.offsets.get(name, 0)) for name in self.inputs}
        self._first: dict[str, int] = {}
        self._read_to = {name: found.offsets.get(name, 0) for name in self.inputs}
        self.work = StageTask(
            program,
            setup.store,
            relief=self.pass_on,
            run=run.id,
            empty=found.blank,
            position=found.position,
            producer=number,
            producers={name: self._writers(name) for name in stage.inputs},
            accepts=lambda control: control.run == run.id,
            sleep=run.sleep,
            gate=run.gate,
        )
        self.new = found.blank
        self._cache = Size(run.settings.cached_entries, run.settings.cached_bytes)
        self._router = Router(run.plan, stage.id, number)
        self.outbox: Outbox = run.commits.outbox()
        self._last = found
        own = {store.operator: store.schema for store in run.plan.stores if store.stage == stage.id}
        self._states = carried(found.states, own)
        self._identities = {name: run.identities[name] for name in self.inputs if name in run.identities}
        borders = [border.id for border in run.plan.pipeline.borders if border.id in stage.operators]
        self._borders = {id: run.plan.operator(id).writes[0] for id in borders}
        tables = tables_by_stream(run.plan, stage.operators)
        self._tables = {id: name for name, id in tables.items() if name in self.inputs}
        for name in stage.inputs:
            if name not in self.inputs:
                self.work.inputs.end(name)
        self._silent = {id for id in self._borders if self.work.watermark_of(id) == END}
        self._told: dict[str, tuple[int, bool, bool]] = {}
        self._processed: dict[str, int] = {}
        self._resumed = False
        self.taken: dict[str, int] = {}
        self.commits = 0
        # What fires then may be handed on at once, so all must be in place.
        self.work.inputs.end_again()

    def _writers(self, stream: str) -> int:
        """How many tasks write an intermediate stream."""
        plan = self._run.plan
        return sum(plan.stage(plan.operator(id).stage).tasks for id in plan.stream(stream).written_by)

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

    def bootstrap(self, stream: str, end: int) -> None:
        """Process this stream up to an offset before anything of the others."""
        self._first[stream] = end

    def wants(self, stream: str, end: int | None = None) -> bool:
        """Whether more of a stream should be read now, of which this run reads up to `end`."""
        if end is not None and self._read_to[stream] >= end:
            return False
        waits = self._first and stream not in self._first
        return not waits and len(self._queues[stream].batches) < 2

    def enqueue(self, batch: Batch) -> None:
        if batch.records:
            self._queues[batch.stream].batches.append(batch)
            self.taken[batch.stream] = self.taken.get(batch.stream, 0) + len(batch.records)
        self._read_to[batch.stream] = batch.next_offset

    @property
    def waiting(self) -> dict[str, int]:
        """How many records of each input were read and not yet processed."""
        return {
            name: sum(len(batch.records) for batch in queue.batches) - queue.index
            for name, queue in self._queues.items()
        }

    @property
    def queued(self) -> bool:
        return any(queue.batches for queue in self._queues.values())

    @property
    def processed(self) -> int:
        """How many records were processed, of all inputs."""
        return sum(self._processed.values())

    # Working.

    def tell_clock(self, now: int, unread: Collection[str] | None) -> None:
        """It is now this time, in ms since epoch; `unread` are the inputs that hold messages which were not read yet,
        None where that is not known."""
        queued = (stream for stream, queue in self._queues.items() if queue.batches)
        self.work.tell_clock(now, None if unread is None else {*unread, *queued})

    @property
    def clocked(self) -> bool:
        """Whether it must be told the time."""
        return self._program.clocked

    def step(self, most: int = SLICE) -> bool:
        """Process some of what is queued, at most so many messages of each input; whether there was anything to do."""
        if not self._resumed:
            if self.work.rebuild(most):
                self.work.evict(self._cache)
                return True
            self._resumed = True
            self.work.resume()
            self.pass_on()
        if self._first:
            self._first = {name: end for name, end in self._first.items() if not self._landed_all(name, end)}
        if not self._program.asynchronous and not self.queued:
            return False
        self.work.check()
        moved = False
        for stream, queue in self._queues.items():
            if queue.batches:
                moved |= self._process(stream, queue, most)
        self.work.evict(self._cache)
        self.pass_on()
        return moved

    def _process(self, stream: str, queue: _Queue, most: int) -> bool:
        batch = queue.batches[0]
        start = queue.index
        stop = min(start + min(most, self.work.room), len(batch.records))
        if stop == start:
            return False
        landing = self._landings[stream]
        marks = landing.begin(batch.offsets, start, stop) if self._program.asynchronous else None
        whole = start == 0 and stop == len(batch.records)
        self.work.feed(stream, self.number, batch.offsets, batch.records, start, None if whole else stop, marks)
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
            self._router.route(id, made, self.outbox)

    def reach_end(self, ends: Mapping[StreamPartition, int]) -> bool:
        """End the inputs that were read, and have landed, as far as the run is to go; whether there were any."""
        moved = False
        for stream in self.inputs if not self.work.joined.stale else ():
            end = ends.get((stream, self.number))
            if end is not None and self._landed_all(stream, end) and not self.work.inputs.ended(stream):
                self.work.inputs.end(stream)
                self.pass_on()
                moved = True
        return moved

    def _landed_all(self, stream: str, end: int) -> bool:
        # What was read says how far it is: the last offsets may hold no messages that could land.
        return self._read_to[stream] >= end and not self._queues[stream].batches and self._landings[stream].idle

    @property
    def done(self) -> bool:
        """Whether all inputs have ended and nothing is under way."""
        return not self.work.busy and not self.open_inputs and not self.work.joined.stale

    @property
    def open_inputs(self) -> list[str]:
        """The inputs that have not ended."""
        return [stream for stream in self.inputs if not self.work.inputs.ended(stream)]

    # Committing.

    @property
    def drains(self) -> bool:
        """Whether a commit waits for asynchronous work: where its results may change state, or outputs show once."""
        return self._program.asynchronous and (
            bool(self.work.stateful) or self._run.settings.guarantee == "exactly_once"
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
        ended = any(self.work.watermark_of(id) == END and not self._told.get(id, _NOTHING)[1] for id in self._borders)
        return moved or ended or self._router.unflushed or self.work.changed > 0

    @property
    def full(self) -> bool:
        """Whether so much waits for a commit that it should come early."""
        settings = self._run.settings
        return self.outbox.size >= settings.max_staged_bytes or self.work.changed >= settings.cached_entries

    def ready(self) -> TaskCommit | None:
        """What is to be committed now, once all outputs are in the outbox and what sinks were given is safe; None if
        nothing has changed since the last commit.

        The offsets are taken first, so that they cover no more than what is written after. Raises what asynchronous
        work has failed with since it was last looked at: nothing past it is committed.
        """
        self.work.check()
        self.pass_on()
        told = self._tell_borders()
        position = self.work.position()
        position.rung = dict(position.rung)  # the one that the stage goes on with changes with the clock
        offsets = {**self._last.offsets, **{name: landing.position() for name, landing in self._landings.items()}}
        now = Checkpoint(
            offsets=offsets,
            position=position,
            changelogs=self._last.changelogs,
            run=self._run.id if position.ended else "",
            states=self._states,
            atomic=self._last.atomic,
            number=self._last.number + 1,
            identities={**self._last.identities, **self._identities},
            tables={**(self._last.tables or {}), **{id: offsets[stream] for id, stream in self._tables.items()}},
        )
        # The clock alone is no news: what it has let fire has changed state.
        last, at = self._last, self._last.position
        timeless = replace(position, clock=at.clock, reached=at.reached, rung=at.rung)
        same = structs.replace(now, position=timeless, number=last.number) == last
        if same and not told and not self._router.unflushed and not self.work.changed:
            return None
        self._router.flush()
        return TaskCommit(self.setup, now, self.work.changes(), self.outbox)

    def committed(self, result: Committed) -> None:
        """What was ready has been committed."""
        self.outbox = result.outbox
        self._last = result.checkpoint
        self.commits += 1
        if self.setup.stateful:
            self.work.settle(*self._cache)

    def passed(self) -> dict[StreamPartition, int]:
        """How far intermediate streams have been read for good: not even after a power cut is more of them needed."""
        kinds = {name: self._run.plan.stream(name).kind for name in self.inputs}
        known = {name: self._last.offsets.get(name) for name, kind in kinds.items() if kind == "intermediate"}
        found = {(name, self.number): offset for name, offset in known.items() if offset is not None}
        if found:
            self.setup.store.sync()
        return found

    def _tell_borders(self) -> bool:
        """Tell each border how far time has come, where it does not know; whether there was anything to tell."""
        news = False
        for id, stream in self._borders.items():
            ended = self.work.watermark_of(id) == END and not self.work.busy
            # Where no input of this task leads there, time must not wait for it.
            idle = self.work.is_idle(id) and not self.work.busy
            told = END if id in self._silent else self.work.told_watermark_of(id), ended, idle
            if told == self._told.get(id, _NOTHING):
                continue
            self._told[id] = told
            news = True
            control = Control(self._run.id, self._run.generation, self.number, self.stage.tasks, *told)
            for partition in range(self._run.plan.stream(stream).partitions):
                self.outbox.append(stream, partition, [control_record(control, max(told[0], 0))])
        return news

    def close(self) -> None:
        """Give up what is under way."""
        with suppress(RuntimeError):  # the loop is closed: a call that would not end was stopped with it
            self.work.cancel()

    @property
    def read(self) -> dict[str, int]:
        """How many messages were read, by stream; control messages are none."""
        controls = self.work.inputs.controls
        found = {stream: number - controls.get(stream, 0) for stream, number in self._processed.items()}
        return {stream: number for stream, number in found.items() if number}

    @property
    def written(self) -> dict[str, int]:
        """How many messages were passed on, by stream or by sink."""
        return self._router.written

    @property
    def offsets(self) -> dict[str, int]:
        """The offset of each input in the last commit."""
        return self._last.offsets

    def counts(self) -> dict[str, dict[str, Any]]:
        """What this task did: see `Report`."""
        found = {"read": self.read, "written": self.written}
        return {**found, "late": self.work.late, "failed": self.work.failures.counts, "keyless": self.work.keyless}
