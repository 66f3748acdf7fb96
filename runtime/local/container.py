"""The container: one process, one event loop, and the tasks that it runs in turn."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable

from ...dsl.errors import NoProgressError
from ...dsl.validation import explain
from ...planner.plan import Plan
from ...planner.settings import Settings
from ..preflight.input_streams import InputStreamMonitor
from ..process.clock import wall_clock
from ..process.signals import DRAIN_SECONDS
from ..report import Report, sums
from ..systems.contract import Consumer, RecordBatch, StreamPartition
from .background_work import Steps, apart, at_once
from .commit.contract import Commits
from .coordination.membership import Place
from .coordination.wait_messages import WaitReporter
from .observe.progress import Telling
from .slices import SLICE_SECONDS, Slice
from .task import LocalTask

IDLE_SECONDS = 0.005
"""Rest of a container that has nothing to do, unless something comes to read."""
BUSY_SECONDS = 0.001
"""Rest of a container that waits for asynchronous calls."""
QUIET_SECONDS = 0.05
"""A container that runs to an end and was given nothing for that long has what there was."""
LOOK_SECONDS = 1.0
"""Time between two looks whether another process has this place."""
TRIM_SECONDS = 60.0
"""Time between two looks for what intermediate streams need no longer keep."""


_log = logging.getLogger(__name__)


class Container:
    """Runs tasks until they are done, or `stop` says so. Tasks never wait for each other.

    One turn of the loop: read what tasks want, let each process a slice, commit those that are due. Commits are due by
    time, by the bytes that wait, and when a task has read all there is.
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
        telling: Telling,
        clock: Callable[[], float] = time.monotonic,
        place: Place | None = None,
        wall: Callable[[], int] = wall_clock,
        inputs: InputStreamMonitor | None = None,
    ) -> None:
        self._plan = plan
        self._tasks = tasks
        self._owners = {place: task for task in tasks for place in task.queues.positions}
        self._consumer = consumer
        self._commits = commits
        self._settings = settings
        self._ends = ends
        self._stop = stop
        self._telling = telling
        self._clock = clock
        self._wall = wall
        self._clocked = [task for task in tasks if task.program.clocked]
        self._place = place
        self._inputs = inputs
        self._others = place is not None and place.membership.containers > 1
        limit = None if ends is None else settings.stall_timeout.total_seconds()
        self._waiting = WaitReporter(place if self._others else None, limit, clock)
        self._interval = settings.interval(seen_early=commits.early and not commits.together).total_seconds()
        self._started = self._moved_at = self._fed_at = self._worked_at = clock()
        self._next_commit = {task.name: self._started + self._interval for task in tasks}
        self._next_look = self._started + LOOK_SECONDS
        self._draining: set[str] = set()
        self._resumed = any(not task.new for task in tasks)
        self._asynchronous = any(task.program.asynchronous for task in tasks)
        self._slices = {task.name: Slice() for task in tasks}
        self._sliced = False

    async def run(self) -> Report:
        """Run to the end; what was processed is committed."""
        self.start()
        self._sliced = True
        patience = 0.0
        try:
            while not self._stop() and not self.finished:
                moved = await apart(self._turn(patience), self._calling)
                patience = await self._pause(moved)
            await self._finish()
            done = self.finished
        finally:
            for task in self._tasks:
                task.close()
        self._telling.done(self._tasks)
        if done and self._place is not None:
            self._place.tell("done")
        # On brokers this waits for the next start: they remove records some time after they were asked to.
        if not self._commits.early:
            self._trim()
        return self.report()

    def start(self) -> None:
        """Begin to read where the tasks are. None of them has anything left to publish from an earlier run.

        Where outputs can be seen before the first commit, one comes first: it tells that they are this pipeline's. It
        also keeps "latest" offsets: those of a restart would be later ones, and leave out what came in between.
        """
        if self._settings.offset_default == "latest" or self._commits.early:
            at_once(self._commit([task for task in self._tasks if task.new]))
        self._consumer.assign({place: at for task in self._tasks for place, at in task.queues.positions.items()})
        self._trim()

    def end_at(self, ends: dict[StreamPartition, int]) -> None:
        """From now on, run to these ends of the sources only."""
        self._ends = ends

    @property
    def finished(self) -> bool:
        """Whether all has been done up to the ends, if there are any."""
        return self._ends is not None and all(task.done for task in self._tasks)

    def turn(self, patience: float = 0.0) -> bool:
        """One turn of the loop; whether there was anything to do. Waits up to `patience` seconds for what to read."""
        return at_once(self._turn(patience))

    def _calling(self) -> bool:
        """Whether asynchronous calls are under way, which the loop must be left to."""
        return self._asynchronous and any(task.busy for task in self._tasks)

    def _turn(self, patience: float) -> Steps[bool]:
        fed = self._read(patience)
        moved = bool(fed)
        self._tell_clock()
        left_at = self._clock()
        for task in self._tasks:
            if self._sliced and self._clock() - left_at > SLICE_SECONDS and self._calling():
                yield None
                left_at = self._clock()
            if task.name not in self._draining:
                moved |= self._step(task)
            else:
                task.drain()
            if self._ends is not None:
                moved |= task.reach_end(self._ends)
        moved |= yield from self._commit_due(fed)
        yield from self._watch(moved)
        if self._clock() >= self._next_trim:
            self._trim()
        return moved

    def _step(self, task: LocalTask) -> bool:
        """Let a task process some messages; few while calls wait for the loop."""
        if not (self._sliced and self._calling()):
            return task.step()
        own = self._slices[task.name]
        began, processed = self._clock(), task.queues.processed
        moved = task.step(own.messages)
        own.took(task.queues.processed - processed, self._clock() - began)
        return moved

    def _tell_clock(self) -> None:
        """Tell tasks the time, but those that commit once what is under way has landed: nothing is to fire there."""
        if self._clocked:
            now = self._wall()
            for task in self._clocked:
                if task.name not in self._draining:
                    task.tell_clock(now, self._behind(task) if task.program.may_idle else None)

    def _trim(self) -> None:
        """Let go of what all tasks have passed of the streams between them."""
        self._next_trim = self._clock() + TRIM_SECONDS
        self._commits.trim({place: at for task in self._tasks for place, at in task.passed().items()})

    def _read(self, patience: float) -> set[str]:
        """Give tasks what there is to read; the names of those that got something."""
        wanted = frozenset([place for place, task in self._owners.items() if self._wants(place, task)])
        began = self._clock()
        if patience and not wanted:
            time.sleep(patience)
        batches = self._consumer.poll(patience, wanted) if wanted else []
        if patience:
            self._telling.rested += self._clock() - began
        fed = set()
        for batch in batches:
            task = self._owners[(batch.stream, batch.partition)]
            task.queues.add(self._up_to_end(batch))
            fed.add(task.name)
        return fed

    def _wants(self, place: StreamPartition, task: LocalTask) -> bool:
        end = None if self._ends is None else self._ends.get(place)
        return task.queues.wants(place[0], end)

    def _up_to_end(self, batch: RecordBatch) -> RecordBatch:
        """What of a batch is to be processed: messages that came after the run began are a later run's."""
        end = None if self._ends is None else self._ends.get((batch.stream, batch.partition))
        return batch if end is None else batch.before(end)

    def _commit_due(self, fed: set[str]) -> Steps[bool]:
        """Commit the tasks that are due; one that has to wait for asynchronous work takes no more until it has."""
        now = self._clock()
        if fed:
            self._fed_at = now
        due = [task for task in self._tasks if self._is_due(task, now, starved=task.name not in fed)]
        if due and self._commits.together:
            due = self._tasks
        waiting = [task for task in due if task.drains and task.busy]
        self._draining.update(task.name for task in waiting)
        if waiting and self._commits.together:
            self._draining.update(task.name for task in due)
            return False
        ready = [task for task in due if task not in waiting]
        for task in ready:
            self._draining.discard(task.name)
            self._next_commit[task.name] = now + self._interval
        return (yield from self._commit(ready))

    def _is_due(self, task: LocalTask, now: float, *, starved: bool) -> bool:
        if task.name in self._draining or now >= self._next_commit[task.name]:
            return True
        if task.full:
            return True
        if self._ends is None or not task.queues.empty or task.busy or not starved:
            return False
        # Where records travel, one turn without any says nothing.
        caught_up = not self._commits.early or now - self._fed_at > QUIET_SECONDS or task.done
        return caught_up and task.news

    def _commit(self, tasks: Iterable[LocalTask]) -> Steps[bool]:
        """Commit what there is to commit; whether there was anything.

        While it waits, calls may end. What comes of them is a later commit's: the offsets are taken before, and a task
        whose calls may change state has none under way.
        """
        began = self._clock()
        commits = [(task, task.ready()) for task in tasks]
        ready = [(task, commit) for task, commit in commits if commit is not None]
        if not ready:
            return False
        if self._place is not None:
            yield self._place.check
        results = yield from self._commits.commit([commit for _, commit in ready])
        for (task, _), result in zip(ready, results, strict=True):
            task.committed(result)
        self._telling.commit.add(self._clock() - began)
        return True

    def commit_ready(self) -> bool:
        """Commit every task that need not wait for asynchronous work; whether that changed anything."""
        waiting = [task for task in self._tasks if task.drains and task.busy]
        if waiting and self._commits.together:
            return False
        return at_once(self._commit(task for task in self._tasks if task not in waiting))

    async def _pause(self, moved: bool) -> float:
        """Let asynchronous work go on; how long to wait for something to read, in seconds, where there is no work."""
        if moved:
            if self._asynchronous:
                await asyncio.sleep(0)
            return 0.0
        if not self._asynchronous:
            await asyncio.sleep(0)
            return IDLE_SECONDS
        # What users' clients do in the background goes on meanwhile.
        began = self._clock()
        await asyncio.sleep(BUSY_SECONDS if any(task.busy for task in self._tasks) else IDLE_SECONDS)
        self._telling.rested += self._clock() - began
        return 0.0

    async def _finish(self) -> None:
        """Drain what is under way, and commit. A run that is to stop waits for calls for a bounded time: what it gives
        up comes again."""
        until = self._clock() + DRAIN_SECONDS
        while any(task.busy for task in self._tasks):
            for task in self._tasks:
                task.drain()
            if self._stop() and self._clock() > until:
                _log.warning("calls that were under way for %g s after the wish to stop are given up", DRAIN_SECONDS)
                self.commit_ready()
                return
            await asyncio.sleep(0)
        at_once(self._commit(self._tasks))

    def _watch(self, moved: bool) -> Steps[None]:
        now = self._clock()
        if moved:
            self._worked_at = now
        stuck = {} if moved else {task.name: waits for task in self._tasks if (waits := self._waits_for(task))}
        if not stuck:
            self._moved_at = now
        elif now - self._moved_at > self._settings.stall_timeout.total_seconds():
            seconds = self._settings.stall_timeout.total_seconds()
            waits_for = "; ".join(f"task {name} waits for {waits}" for name, waits in stuck.items())
            remedy = "look for a call that never returns, or raise stall_timeout"
            if absent := self._waiting.absent():
                waits_for += f"; this container waits for {absent}"
                remedy = "start the containers that are missing, or raise stall_timeout"
            wrong = f"nothing has moved for {seconds:g} s while there is work: {waits_for}"
            raise NoProgressError(explain(wrong, "progress", remedy))
        if now >= self._next_look:
            self._next_look = now + LOOK_SECONDS
            if self._inputs is not None:
                self._inputs.check()
            if self._place is not None:
                yield self._place.check
                self._waiting.report(now, self._worked_at)
        self._telling.running(self._tasks)

    def _waits_for(self, task: LocalTask) -> str:
        """What a task needs to go on; empty if it has nothing to do."""
        if not task.queues.empty or task.busy:
            return "messages under way"
        if self._ends is None:
            behind = self._behind(task)
            return "messages of " + ", ".join(behind) if behind else ""
        if task.done:
            return ""
        # What tasks of other containers are to end is theirs to wait for, as long as there are such containers.
        present = self._others and not self._waiting.absent()
        inputs = [name for name in task.open_inputs if not present or self._plan.stream(name).kind == "source"]
        return "the end of " + ", ".join(inputs) if inputs else ""

    def _behind(self, task: LocalTask) -> list[str] | None:
        """The inputs of a task that hold messages which were not read; None where that is not known."""
        return self._telling.behind(task.queues.positions)

    def report(self) -> Report:
        """What was done so far."""
        tasks = [task.metrics() for task in self._tasks]
        return Report(
            pipeline=self._plan.name,
            engine="local",
            seconds=self._clock() - self._started,
            checkpoints=sum(task.commits for task in tasks),
            restored=self._telling.restored[0],
            restore_seconds=self._telling.restored[1],
            resumed=self._resumed,
            read=sums(task.processed for task in tasks),
            written=sums(task.written for task in tasks),
            late=sums(task.late for task in tasks),
            failed=sums(task.failed for task in tasks),
            keyless=sums(task.keyless for task in tasks),
            warnings=self._telling.warnings,
        )
