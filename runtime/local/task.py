"""A task of the local engine: one partition of every input of a stage, with its state, outputs and checkpoints."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from msgspec import structs

from ...planner.commits import commits_wait
from ...planner.plan import PlannedStage
from ...planner.state_schema import carried
from ..kernel.code.program import Program
from ..kernel.stage import StageTask
from ..kernel.state_cache import Size
from ..kernel.task_requests import RunRequest
from ..kernel.time.border_watermarks import ControlMessage
from ..kernel.time.position import Position
from ..kernel.time.producer_watermarks import may_be_idle
from ..output_routes import MOST_IN_SINKS
from ..systems.contract import StreamPartition
from ..systems.provisioning import tables_by_stream
from .border_progress import BorderProgress
from .checkpoints.checkpoint import Checkpoint, Hold, Owner
from .commit.contract import Committed, TaskCommit
from .holds import TaskHolds
from .input_queue import InputQueue, InputQueues
from .input_turns import InputTurns
from .journals.task_journal import NO_JOURNALS, TaskJournal, journal_starts
from .key_checks import key_checks
from .output_router import Router
from .run_context import RunContext
from .slices import SLICE, StateSlice
from .task_metrics import CommitMetrics, TaskMetrics
from .task_setup import TaskSetup
from .task_view import TaskView
from .task_votes import due_requests
from .trim_offsets import trim_offsets


class LocalTask:
    """One task. The container reads into its `queues` and decides when the task works: `step` processes queued
    messages; `prepare_commit` and `committed` are the begin and the end of a commit.

    `new` says whether the task was never committed, and `changes_borders` whether its last commit has other schemas of
    the intermediate streams that it writes. `drains` says whether a commit waits for asynchronous calls: their results
    may change state, or the guarantee is `exactly_once`.
    """

    def __init__(
        self,
        run: RunContext,
        program: Program,
        setup: TaskSetup,
        checkpoint: Checkpoint,
        queues: InputQueues,
        journals: Mapping[str, TaskJournal] = NO_JOURNALS,
    ) -> None:
        checkpoint = checkpoint.within(run.id)
        self.name, self.setup, self.program = setup.name, setup, program
        self.queues, self.journals = queues, journals
        self._turns = InputTurns(queues, run.settings.turn_messages)
        self._may_idle = [queue for queue in queues if may_be_idle(program.graph.inputs[queue.name])]
        self._unread: Collection[str] = ()
        self.new = checkpoint.blank
        self._run, self._last = run, checkpoint
        self._work = self._stage_task(checkpoint)
        self.view = TaskView(setup, program, self._work, queues, journals)
        self._cache = Size(run.settings.cached_entries, run.settings.cached_bytes)
        self._state_slice = StateSlice(run.settings.cached_bytes) if self._work.stateful else None
        self._router = Router(run.plan, setup.stage, setup.number)
        self._staged = run.commits.staged_outputs()
        stage = run.plan.stage(setup.stage)
        self.drains = commits_wait([*map(run.plan.pipeline.operator, stage.operators)], run.settings)
        self._states = carried(checkpoint.states, setup.schemas)
        written = {name: run.border_schemas[name] for name in stage.outputs if name in run.border_schemas}
        self._border_schemas = checkpoint.borders | written
        self.changes_borders = self._border_schemas != checkpoint.borders
        tables = tables_by_stream(run.plan, stage.operators)
        self._tables = {id: name for name, id in tables.items() if name in setup.inputs}
        self._borders = self._open_borders(stage)
        self.generation = run.generation
        """That of the last assignment that the container follows."""
        self.busy_seconds = 0.0
        """The time in which it processed messages, which the container updates."""
        self._commits = 0
        self._resumed = self._waited = self._clock_fired = False
        self._owner = checkpoint.owner_in(run.id)
        self.holds = TaskHolds(run.plan, checkpoint.holds, queues)
        self.key_checks = key_checks(run.plan, setup)
        self.reopens = False
        """Whether it is to be opened again after its next commit, since it has got other partitions."""
        self._successors: Mapping[str, Owner] = {}
        # This may fire windows, whose outputs are routed at once: it must come last.
        self._work.inputs.ends.end_again()

    def _stage_task(self, checkpoint: Checkpoint) -> StageTask:
        run, setup = self._run, self.setup
        work = StageTask(
            self.program,
            setup.store,
            empty=checkpoint.blank,
            position=checkpoint.position,
            options=replace(
                run.options_of(setup), journals=self.journals, hand_over=self._route, full=self._is_full, turns=True
            ),
        )
        work.drained[0] = run.ends_by_drain
        return work

    def _open_borders(self, stage: PlannedStage) -> BorderProgress:
        # First: a border behind inputs that the task lacks never reports a watermark, and readers must not wait for it.
        for name in self.program.graph.inputs:
            if name not in self.setup.inputs:
                self._work.inputs.ends.leave_out(name)
        return BorderProgress(self._run.plan, stage, self._work.progress, self._control)

    def _control(self, watermark: int, ended: bool, idle: bool) -> ControlMessage:
        setup, numbers = self.setup, self._run.plan.stage(self.setup.stage).tasks
        producers = numbers * setup.elasticity
        return ControlMessage(self._run.id, self.generation, setup.producer, producers, watermark, ended, idle)

    def set_clock(self, now: int, unread: Collection[str] | None) -> None:
        """Set the clock to `now`, in ms since epoch. `unread` are the inputs that have messages which were not read
        yet; None if that is unknown."""
        if self._work.paused or self._work.excludes or self._clock_fired:
            return  # messages that have waited have their turn before something fires again
        self._unread = unread or ()
        if not self._work.joined.stale:  # what time makes fire must find no row that is out of date
            # First: the time of others that are idle goes on with the clock, and must not pass what waits to be read.
            self._wake_inputs()
        queued = (queue.name for queue in self.queues if queue.active)
        self._work.set_clock(now, None if unread is None else {*unread, *queued})
        self._clock_fired = self._work.excludes

    def step(self, most: int = SLICE) -> bool:
        """Feed queued messages of the inputs that come first to the stage, in turns: at most so many of each, fewer
        where a commit is due early, none while an exclusive firing is in flight. Returns whether there was any work."""
        if not self._resumed:
            if self._work.rebuild(most):
                self._work.state.evict(self._cache)
                return True
            self._resumed = True
            self._work.resume()
            self._route_outputs()
        moved = self._work.paused and self._go_on()
        waited, self._waited = self._waited, self._work.excludes
        if self._waited:
            if not self._work.paused:  # else more calls are to come
                self.drain()
            return moved or not waited
        moved, self._clock_fired = moved or waited or self._clock_fired, False
        self.queues.end_bootstraps()
        self._wake_inputs()
        self._work.check()
        for queue, share in self._turns.shares(most, lambda: self.commit_is_large, self._work.calls.parks):
            if self._work.halts:
                break
            moved |= self._process_state_slices(queue, share)
        if moved or self.program.asynchronous:
            self._work.state.evict(self._cache)
            self._route_outputs()
        return moved

    def _wake_inputs(self) -> None:
        """Let the watermark of each input count that has messages, be they held or still to be read, also behind the
        end of the run. Of a growth they must be there: it is never idle again, and offsets alone may be of marks."""
        for queue in self._may_idle:
            if queue.active or (queue.name in self._unread and not queue.growth):
                self._work.inputs.wake(queue.name)

    def _is_full(self) -> bool:
        """Whether a firing is to wait for a commit. Frees the memory of state that is committed."""
        self._work.state.evict(self._cache)
        return self.commit_is_large

    def _go_on(self) -> bool:
        """Go on with a firing that has paused, if there is room. Returns whether it went on."""
        moved = self._work.go_on()
        self._work.state.evict(self._cache)
        self._route_outputs()
        return moved

    def _process_state_slices(self, queue: InputQueue, most: int) -> bool:
        """Feed at most so many messages of an input's first batch, in slices that are small enough to look at the size
        of the state in between. Returns whether there was any work."""
        state_slice, state = self._state_slice, self._work.state
        _, start, stop = queue.front(most)
        if state_slice is None:
            return self._process(queue, most) > 0 or self._work.excludes
        left = stop - start
        while left:
            began = state.bytes
            processed = self._process(queue, min(state_slice.messages, left))
            if not processed:
                break
            left -= processed
            state.measure(processed)
            state_slice.took(processed, state.bytes - began)
            state.evict(self._cache)
            if self.commit_is_large or self._work.halts:
                break
        return left < stop - start or self._work.excludes

    def _process(self, queue: InputQueue, most: int) -> int:
        batch, start, stop = queue.front(min(most, self._work.calls.room(queue.name)))
        if stop == start:
            return 0
        marks = queue.begin(stop) if self.program.asynchronous else None
        whole = start == 0 and stop == len(batch.records)
        upto = None if whole else stop
        fed = self._work.feed(
            batch.stream,
            batch.partition,
            batch.offsets,
            batch.records,
            start,
            upto,
            marks,
            batch.buckets,
            queue.growth,
        )
        if marks is not None:
            queue.withdraw(stop - fed)
        elif fed > start:  # without asynchronous calls a message has landed once the code of the stage returns
            queue.land(fed)
        queue.remove(fed)
        return fed - start

    def drain(self) -> bool:
        """Let no call wait for more messages; route the outputs of those that have ended, and go on with a firing that
        keeps messages from landing. Returns whether it went on. Raises the errors of asynchronous calls."""
        self._work.calls.flush()
        return self._take_results()

    def _take_results(self) -> bool:
        self._work.check()
        moved = self._work.holds_messages and self._go_on()
        self._route_outputs()
        return moved

    def _route_outputs(self) -> None:
        """Route the outputs of the stage."""
        for id, outputs in self._work.drain_outputs():
            self._route(id, outputs)

    def _route(self, id: str, outputs: list[Any]) -> None:
        self._router.route(id, outputs, self._staged)

    def end_inputs(self, ends: Mapping[StreamPartition, int], *, drained: bool = False) -> bool:
        """End each input whose messages up to the run's end offset have landed, where the run was `drained` as one that
        was told to. Returns whether an input ended."""
        moved, left = False, self.view.open_inputs
        self._work.drained[0] |= drained
        if self.program.asynchronous and self.queues.are_read(left, ends):
            self._work.calls.flush()
        for name in left if not self._work.joined.stale else ():
            if self._work.paused or self._work.excludes:
                break
            queue = self.queues.of(name)
            end = ends.get((queue.stream, queue.partition))
            if end is not None and queue.has_landed(end):
                self._work.inputs.ends.end(name)
                self._route_outputs()
                moved = True
        return moved

    def leave_to(self, successors: Mapping[str, Owner]) -> None:
        """With the next commit these tasks go on from this one: see `TaskCommit`. Empty: it stays. Nothing is to be
        processed after that commit."""
        self._successors = successors

    @property
    def number(self) -> int:
        """The number of the last commit."""
        return self._last.number

    @property
    def rests(self) -> bool:
        """Whether nothing is in flight, no firing has paused, and the state is up to date, so that a commit has all of
        what was processed."""
        return self._resumed and not (self.view.busy or self.view.paused or self._work.joined.stale)

    @property
    def leaves(self) -> bool:
        """Whether the next commit is the last one here, after which another container has the task."""
        return bool(self._successors)

    @property
    def rests_next(self) -> bool:
        """Whether nothing is to be in flight at the next commit, after which the task is not this one any more."""
        return self.leaves or self.reopens

    @property
    def checkpoint(self) -> Checkpoint:
        """The last commit."""
        return self._last

    def take_requests(self) -> list[RunRequest]:
        """What its stream tasks ask of the run that counts now."""
        return due_requests(self._work.requests, self.queues)

    def close(self) -> None:
        """Cancel the asynchronous calls in flight, and let stream tasks end."""
        with suppress(RuntimeError):  # the loop is closed: calls that ignored their cancellation ended with it
            self._work.calls.cancel()
        self._work.close()

    @property
    def has_changes(self) -> bool:
        """Whether offsets, outputs or state have changed since the last commit."""
        moved = any(queue.landed != self._last.offsets.get(queue.name, 0) for queue in self.queues)
        return moved or self._borders.has_unreported_end or self._router.unflushed or self._work.state.changed > 0

    @property
    def commit_is_large(self) -> bool:
        """Whether so many outputs or changes of state wait for a commit that it is due early."""
        state, most = self._work.state, self._cache
        if self._staged.size >= self._run.settings.max_staged_bytes or self._router.in_sinks >= MOST_IN_SINKS:
            return True
        return state.changed >= most.entries or state.changed_bytes >= most.bytes

    def prepare_commit(self) -> TaskCommit | None:
        """Flush the sinks, and return the next commit; None if nothing has changed since the last one.

        The offsets are read first, so that the commit has the outputs of every message before them. Raises the errors
        of asynchronous calls since the last check: no message after a failed one is committed.
        """
        self._take_results()
        reported = self._borders.report(self._staged, len(self._successors) if len(self._successors) > 1 else 0)
        last, now = self._last, self._next_checkpoint()
        # A later clock alone needs no commit: a timer that fired has changed state as well.
        position = last.position
        timeless = structs.replace(
            now.position,
            clock=position.clock,
            reached=position.reached,
            clock_fired=position.clock_fired,
            quiet_since=now.position.quiet_since | position.quiet_since,
        )
        same = structs.replace(now, position=timeless, number=last.number, journals=last.journals) == last
        if same and not (reported or self.leaves or self._router.unflushed or self._work.state.changed):
            return None
        self._router.flush()
        return TaskCommit(self.setup, now, self._work.state.changes(), self._staged, self._successors)

    def _next_checkpoint(self) -> Checkpoint:
        last, position = self._last, self._position()
        offsets = last.offsets | self.queues.landed
        known = self._run.identities
        identities = {queue.stream: known[queue.stream] for queue in self.queues if queue.stream in known}
        return Checkpoint(
            offsets=offsets,
            position=position,
            changelogs=last.changelogs,
            run=self._run.id if position.ended else "",
            states=self._states,
            atomic=last.atomic,
            number=last.number + 1,
            identities=last.identities | identities,
            tables=(last.tables or {}) | {id: offsets[stream] for id, stream in self._tables.items()},
            borders=self._border_schemas,
            owner=self._successors.get(self.name, self._owner),
            bootstrapping=self.queues.bootstraps,
            holds=self._kept_holds() | self.holds.known,
            input=self.setup.input,
            journals=last.journals | journal_starts(self.journals, self.setup, offsets, self.view.fired_up_to),
        )

    def _kept_holds(self) -> dict[str, Hold]:
        """The holds of inputs that the stage no longer has, for these may come back."""
        return {name: hold for name, hold in self._last.holds.items() if name not in self.program.graph.inputs}

    def _position(self) -> Position:
        position = self._work.position()
        # The stage changes its own mapping when the clock advances.
        return structs.replace(position, clock_fired=dict(position.clock_fired))

    def committed(self, result: Committed) -> None:
        """Take over the result of the commit that was prepared."""
        self._staged = result.staged_outputs
        self._last = result.checkpoint
        self._commits += 1
        for journal in self.journals.values():
            journal.committed()
        if self.setup.stateful:
            self._work.state.mark_committed(*self._cache)

    def trimmable_offsets(self) -> dict[StreamPartition, int]:
        """The offsets of intermediate streams and journals before which no record is read again, not even after a power
        cut."""
        return trim_offsets(self._run.plan, self.setup, self.queues, self._last, self.journals)

    def metrics(self) -> TaskMetrics:
        """The figures of this moment, with the offsets of the last commit beside those that were read since."""
        commits = CommitMetrics(self._commits, self._last.offsets, self._staged.size)
        return self.view.metrics(commits, self._router.written, self.busy_seconds)
