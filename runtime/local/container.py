"""The container: one process with one event loop, which runs its tasks in turn."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial

from ...planner.plan import Plan
from ...planner.settings import Settings
from ..preflight.input_streams import InputStreamMonitor
from ..process.clock import ClockCheck
from ..process.machine import THIS_MACHINE, Machine
from ..report import Report
from ..systems.contract import Consumer, RecordBatch, StreamPartition
from .background_work import Steps, run_steps, run_steps_in_threads
from .commit.contract import Commits
from .container_inputs import ContainerInputs
from .coordination.membership import CHECK_SECONDS, MembershipGuard
from .coordination.wait_messages import WaitReporter
from .handover.task_moves import TaskMoves
from .input_growth import InputGrowth
from .observe.input_counts import InputCounts
from .observe.progress import ProgressReporter, report_of
from .open_tasks import close_tasks, ordered
from .slices import SLICE, SLICE_SECONDS, Slice
from .stall_check import StallCheck
from .task import LocalTask
from .task_clocks import TaskClocks
from .task_votes import TaskVotes

IDLE_SECONDS = 0.005
"""Pause of a container without work, unless records arrive."""
BUSY_SECONDS = 0.001
"""Pause of a container that waits for asynchronous calls."""
QUIET_SECONDS = 0.05
"""A container that runs to an end and has received no records for so long has read its inputs to the end."""
TRIM_SECONDS = 60.0
"""Seconds between two trims of intermediate streams."""

_log = logging.getLogger(__name__)


class Container:
    """Runs tasks until they are done, or `stop()` is true. Tasks never wait for each other.

    One turn of the loop: read the inputs that tasks want, let each task process a slice, commit the tasks that are due.
    A commit is due by time, by the size of the outputs and the state to be committed, and when a task has read its
    inputs to their ends.
    """

    def __init__(
        self,
        plan: Plan,
        tasks: list[LocalTask],
        consumer: Consumer,
        commits: Commits,
        settings: Settings,
        ends: dict[StreamPartition, int] | None,
        stop: Callable[[], bool],
        reporter: ProgressReporter,
        guard: MembershipGuard | None = None,
        machine: Machine = THIS_MACHINE,
        inputs: InputStreamMonitor | None = None,
        moves: TaskMoves | None = None,
        growth: InputGrowth | None = None,
    ) -> None:
        self._plan, self._settings = plan, settings
        self._consumer, self._commits = consumer, commits
        self._ends = ends
        self._stop = stop
        self._reporter = reporter
        self._clock, self._sleep = machine.clock, machine.sleep
        self._guard = guard
        self._moves = moves
        self._inputs = inputs
        self._growth = growth
        others = guard is not None and guard.membership.containers > 1
        stall_seconds = settings.stall_timeout.total_seconds()
        self._wait_reporter = WaitReporter(
            guard if others else None, None if ends is None else stall_seconds, machine.clock
        )
        self._stall = StallCheck(plan, stall_seconds, machine.clock, self._wait_reporter, reporter, others=others)
        self._clocks = TaskClocks(machine.wall, ClockCheck(), lambda task: self._stall.unread(task, self._ends))
        self._interval = settings.interval(seen_early=commits.early and not commits.together).total_seconds()
        self._started = self._fed_at = self._worked_at = machine.clock()
        self._next_commit: dict[str, float] = {}
        self._next_check = self._started + CHECK_SECONDS
        self._draining: set[str] = set()
        self._resumed = any(not task.new for task in tasks)
        self._slices: dict[str, Slice] = {}
        self._sliced, self._drained, self._first = False, False, 0
        self._votes = TaskVotes()
        reporter.inputs = self._counts = InputCounts()
        self._set_tasks(tasks)

    def _set_tasks(self, tasks: list[LocalTask]) -> None:
        """Run these tasks from now on."""
        self._tasks = tasks
        self._reading = ContainerInputs(tasks, self._clock, self._counts)
        self._clocks.set_tasks(tasks)
        self._asynchronous = any(task.program.asynchronous for task in tasks)
        due = self._clock() + self._interval
        self._next_commit = {task.name: self._next_commit.get(task.name, due) for task in tasks}
        self._slices = {task.name: self._slices.get(task.name, Slice()) for task in tasks}
        self._draining &= self._next_commit.keys()

    async def run(self) -> Report:
        """Run to the end, and commit what was processed."""
        self.start()
        if self._moves is not None:
            self._moves.start()
        self._sliced = True
        patience, done = 0.0, None
        try:
            while not (self._stop() or self.finished or self.shut_down or self._is_over()):
                moved = await run_steps_in_threads(self._turn(patience), self._calling)
                patience = await self._pause(moved)
            await self._finish()
            done = self.finished or self.shut_down
        finally:
            if self._moves is not None:
                self._moves.close(ended=done is not None)
            close_tasks(self._tasks)
        self._reporter.done(self._tasks)
        if self._guard is not None and (done or self._is_over()):
            self._guard.announce("done")
        # On brokers the next start trims: they remove records some time after the request.
        if not self._commits.early:
            self._trim(last=True)
        return self.report()

    def start(self) -> None:
        """Assign to the consumer the offsets of the tasks. No task has outputs of an earlier run left to publish.

        Where outputs are visible before they are committed, the tasks commit once before they read. This first
        checkpoint proves that the messages in intermediate streams are this pipeline's, and tells how they are encoded.
        It also fixes "latest" offsets: after a restart these would be later, and the messages in between would be left
        out.
        """
        if self._settings.offset_default == "latest" or self._commits.early:
            run_steps(self._commit([task for task in self._tasks if task.new or task.changes_borders]))
        self._consumer.assign(self._reading.positions)
        self._trim()

    def end_at(self, ends: dict[StreamPartition, int], *, drained: bool = False) -> None:
        """From now on, run to these end offsets of the sources, perhaps as a run does that is told to drain."""
        self._ends, self._drained = ends, drained

    @property
    def shut_down(self) -> bool:
        """Whether the stream tasks of the container have voted for the end of the run."""
        return self._votes.over(self._tasks)

    def _drain_to(self, ends: dict[StreamPartition, int]) -> None:
        """End a run that was told to drain. What was read of a partition behind its end is processed too: messages of
        an input that has ended would be late."""
        _log.warning("pipeline %r drains: it ends once all that its inputs held has left", self._plan.name)
        read = self._reading.read_to
        self.end_at({partition: max(end, read.get(partition, 0)) for partition, end in ends.items()}, drained=True)

    @property
    def finished(self) -> bool:
        """Whether the run has end offsets and all tasks have reached them, also those that are to come here."""
        if self._ends is None or not all(task.view.done for task in self._tasks):
            return False
        return self._moves is None or self._moves.settled

    def turn(self, patience: float = 0.0) -> bool:
        """One turn of the loop. Waits up to `patience` seconds for records. Returns whether there was any work."""
        return run_steps(self._turn(patience))

    def _calling(self) -> bool:
        """Whether asynchronous calls are in flight, which need the event loop."""
        return self._asynchronous and any(task.view.busy for task in self._tasks)

    def _turn(self, patience: float) -> Steps[bool]:
        fed = self._read(patience)
        moved = bool(fed)
        if not self.shut_down:
            self._clocks.advance(self._draining)
        left_at = self._clock()
        for task in self._tasks[self._first :] + self._tasks[: self._first]:
            if self.shut_down:
                break
            if self._sliced and self._clock() - left_at > SLICE_SECONDS and self._calling():
                yield None
                left_at = self._clock()
            moved |= task.drain() if task.name in self._draining else self._step(task)
            if self._ends is not None:
                moved |= task.end_inputs(self._ends, drained=self._drained)
            self._next_commit.update(dict.fromkeys(self._votes.heed(task, self._tasks), left_at))
        # What tasks share, such as a limit or threads, goes first to another one next time, while they want more.
        if self._asynchronous and not all(task.queues.empty for task in self._tasks):
            self._first = (self._first + 1) % len(self._tasks)
        moved |= yield from self._commit_due(fed)
        yield from self._supervise(moved)
        if self._clock() >= self._next_trim:
            self._trim()
        return moved

    def _step(self, task: LocalTask) -> bool:
        """Let a task process a slice of its messages, short enough that others, commits and reports are not late."""
        own = self._slices[task.name]
        began, processed = self._clock(), task.queues.processed
        if moved := task.step(own.messages if self._sliced else SLICE):
            task.busy_seconds += (took := self._clock() - began)
            own.took(task.queues.processed - processed, took)
        return moved

    def _trim(self, *, last: bool = False) -> None:
        """Trim the intermediate streams up to the offsets that no task reads again."""
        self._next_trim = self._clock() + TRIM_SECONDS
        self._commits.trim(self._reading.trimmable(self._commits.checkpoints, last=last))

    def _read(self, patience: float) -> set[str]:
        """Poll the consumer and queue each batch for the tasks that process its partition. Returns the names of the
        tasks that got records."""
        wanted = self._reading.wanted(self._ends)
        began = self._clock()
        # There is nothing to poll for: without a pause the loop would be busy.
        if patience and not wanted:
            self._sleep(patience)
        batches = self._consumer.poll(patience, wanted) if wanted else []
        if patience:
            self._reporter.idle_seconds += self._clock() - began
        return {name for batch in batches for name in self._reading.add(self._up_to_end(batch))}

    def _up_to_end(self, batch: RecordBatch) -> RecordBatch:
        """A batch without the records after the end of the run: these are for a later run."""
        end = None if self._ends is None else self._ends.get((batch.stream, batch.partition))
        return batch if end is None else batch.before(end)

    def _commit_due(self, fed: set[str]) -> Steps[bool]:
        """Commit the tasks that are due. A task that must wait for its asynchronous calls processes no more messages
        until they have ended."""
        now = self._clock()
        if fed:
            self._fed_at = now
        due = [task for task in self._tasks if self._is_due(task, now, starved=task.name not in fed)]
        if due and self._commits.together:
            due = self._tasks
        waiting = [task for task in due if (task.drains or task.rests_next or task.view.ends) and task.view.busy]
        self._draining.update(task.name for task in waiting)
        if waiting and self._commits.together:
            self._draining.update(task.name for task in due)
            return False
        ready = [task for task in due if task not in waiting]
        for task in ready:
            self._draining.discard(task.name)
            self._next_commit[task.name] = now + self._interval
        moved = yield from self._commit(ready)
        self._reopen([task for task in ready if task.reopens and task in self._tasks])
        return moved

    def _is_due(self, task: LocalTask, now: float, *, starved: bool) -> bool:
        if task.name in self._draining or task.rests_next or now >= self._next_commit[task.name]:
            return True
        if task.commit_is_large:
            return True
        if self._ends is None or not task.queues.empty or task.view.busy or task.view.paused or not starved:
            return False
        # On Kafka records arrive with a delay: one poll without any does not mean that the input is read to its end.
        caught_up = not self._commits.early or now - self._fed_at > QUIET_SECONDS or task.view.done
        return caught_up and task.has_changes

    def _commit(self, tasks: Iterable[LocalTask]) -> Steps[bool]:
        """Commit the tasks that have changed. Returns whether any has.

        Asynchronous calls may end while the commit waits. Their outputs belong to the next commit, because this one has
        read its offsets already. A task whose calls may change state has no call in flight here.
        """
        began = self._clock()
        ready = [(task, commit) for task in tasks if (commit := task.prepare_commit()) is not None]
        if not ready:
            return False
        if self._guard is not None:
            yield self._guard.check
        commits = [commit for _, commit in ready]
        if self._moves is not None:
            commits = self._moves.checked(commits)
        results = yield from self._commits.commit(commits)
        for (task, _), result in zip(ready, results, strict=True):
            task.committed(result)
        self._reporter.commit.add(self._clock() - began)
        self._part_with([task for (task, _), one in zip(ready, commits, strict=True) if one.successors])
        return True

    def _part_with(self, tasks: list[LocalTask]) -> None:
        """Run these tasks no more: with their last commit another container has them."""
        if not tasks:
            return
        for task in tasks:
            self._reporter.leaves(task.metrics())
            task.close()
        if self._moves is not None:
            self._moves.part_with(tasks)
        self._change_tasks([task for task in self._tasks if task not in tasks])

    def _reopen(self, tasks: list[LocalTask]) -> None:
        """Open these tasks again, which are committed, with the partitions that they have got."""
        if not tasks or self._growth is None:
            return
        for task in tasks:
            self._reporter.leaves(task.metrics())
            task.close()
        if self._moves is not None:
            self._moves.end_merges()
        again = {task.name: self._growth.reopened(task) for task in tasks}
        self._change_tasks([again.get(task.name, task) for task in self._tasks])

    def _change_tasks(self, tasks: list[LocalTask]) -> None:
        self._set_tasks(tasks)
        self._consumer.assign(self._reading.positions)

    def _move(self, moves: TaskMoves) -> None:
        """Take over tasks, and let those leave that another container is ready for."""
        if gained := moves.gained(self._tasks):
            self._change_tasks(ordered(self._plan, [*self._tasks, *gained]))
        moves.leave(self._tasks)

    def _is_over(self) -> bool:
        """Whether this container is one too many after a change, and has given its tasks to others."""
        return self._moves is not None and self._moves.is_over(self._next_commit)

    def commit_ready(self) -> bool:
        """Commit the tasks that need not wait for asynchronous calls. Returns whether any has changed."""
        waiting = [task for task in self._tasks if (task.drains or task.view.ends) and task.view.busy]
        if waiting and self._commits.together:
            return False
        return run_steps(self._commit([task for task in self._tasks if task not in waiting]))

    async def _pause(self, moved: bool) -> float:
        """Yield to the event loop. Returns how many seconds the next poll may wait for records."""
        if moved:
            if self._asynchronous:
                await asyncio.sleep(0)
            return 0.0
        if not self._asynchronous:
            await asyncio.sleep(0)
            return IDLE_SECONDS
        # Background work of users' clients continues meanwhile.
        began = self._clock()
        await asyncio.sleep(BUSY_SECONDS if any(task.view.busy for task in self._tasks) else IDLE_SECONDS)
        self._reporter.idle_seconds += self._clock() - began
        return 0.0

    async def _finish(self) -> None:
        """Wait for the calls in flight, and commit. A run that is asked to stop waits for `stop_timeout` from then on:
        the next run processes the messages of abandoned calls again. Another one ends where nothing moves."""
        patience, until = self._settings.stop_timeout.total_seconds(), 0.0
        while any(task.view.busy for task in self._tasks):
            moved = [task.drain() for task in self._tasks]
            if not self._stop():
                self._stall.check(self._tasks, self._ends, moved=any(moved), ending=True)
            elif self._clock() > (until := until or self._clock() + patience):
                _log.warning("calls that were in flight for %g s after the request to stop are abandoned", patience)
                self.commit_ready()
                return
            await run_steps_in_threads(self._check_membership(self._clock()), self._calling)
            self._reporter.running(self._tasks)
            await asyncio.sleep(0 if any(moved) else BUSY_SECONDS)
        run_steps(self._commit(self._tasks))

    def _supervise(self, moved: bool) -> Steps[None]:
        now = self._clock()
        if moved:
            self._worked_at = now
        self._stall.check(self._tasks, self._ends, moved=moved)
        if self._moves is not None and self._guard is not None:
            if (often := self._moves.check_seconds) is not None:
                yield partial(self._guard.check, often)
            self._move(self._moves)
            self._reporter.size = self._moves.size
        if self._growth is not None:
            self._growth.step(self._tasks, self._ends)
        if self._ends is None and self._guard is not None and (ends := self._guard.drain_ends) is not None:
            self._drain_to(ends)
        if now >= self._next_check:
            if self._inputs is not None:
                self._inputs.check()
            yield from self._check_membership(now)
            self._wait_reporter.report(now, self._worked_at)
        self._reporter.running(self._tasks)

    def _check_membership(self, now: float) -> Steps[None]:
        """Check now and then that no other process has replaced this container, and answer those who ask for it."""
        if now >= self._next_check:
            self._next_check = now + CHECK_SECONDS
            if self._guard is not None:
                yield self._guard.check

    def report(self) -> Report:
        """The report of the run so far."""
        metrics, seconds = [task.metrics() for task in self._tasks], self._clock() - self._started
        how = {"drained": self.finished and self._drained, "shut_down": self.shut_down}
        return report_of(self._plan, metrics, seconds, self._reporter, resumed=self._resumed, **how)
