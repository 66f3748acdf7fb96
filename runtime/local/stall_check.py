"""Tells when a container makes no progress while it has work, and what its tasks wait for."""

from collections.abc import Callable, Mapping, Sequence

from ...dsl.errors import NoProgressError
from ...dsl.validation import explain
from ...planner.plan import Plan
from ...planner.stream_names import growth_of
from ..systems.contract import StreamPartition
from .coordination.wait_messages import WaitReporter
from .observe.progress import ProgressReporter
from .task import LocalTask

_Ends = Mapping[StreamPartition, int]
"""The end offsets of the sources of a run."""


class StallCheck:
    """Ends a container that has had work for `seconds` and has made no progress. Where there are `others`, they report
    themselves that the end of an intermediate stream does not come from them."""

    def __init__(
        self,
        plan: Plan,
        seconds: float,
        clock: Callable[[], float],
        waits: WaitReporter,
        reporter: ProgressReporter,
        *,
        others: bool,
    ) -> None:
        self._plan, self._seconds, self._clock = plan, seconds, clock
        self._waits, self._reporter, self._others = waits, reporter, others
        self._moved_at = clock()
        self._in_flight: list[int] = []

    def check(self, tasks: Sequence[LocalTask], ends: _Ends | None, *, moved: bool, ending: bool = False) -> None:
        """Raise NoProgressError if the container has had work for too long and has made no progress. It has `moved`
        since the last call, or not. One that is `ending` waits for what is in flight alone."""
        now = self._clock()
        moved = moved or self._have_landed(tasks)
        working = [] if moved else [task for task in tasks if task.view.busy or not ending]
        stuck = {task.name: waits for task in working if (waits := self._waits_for(task, ends))}
        if not stuck:
            self._moved_at = now
        elif now - self._moved_at > self._seconds:
            waits_for = "; ".join(f"task {name} waits for {waits}" for name, waits in stuck.items())
            remedy = "look for a call that never returns, or raise stall_timeout"
            if absent := self._waits.absent():
                waits_for += f"; this container waits for {absent}"
                remedy = "start the containers that are missing, or raise stall_timeout"
            wrong = f"nothing has moved for {self._seconds:g} s while there is work: {waits_for}"
            raise NoProgressError(explain(wrong, "progress", remedy, self._plan.pipeline.origin))

    def _have_landed(self, tasks: Sequence[LocalTask]) -> bool:
        """Whether messages have landed since the last call. A commit may wait for many that are in flight, and no other
        is taken meanwhile."""
        before, self._in_flight = self._in_flight, [task.view.in_flight for task in tasks]
        return before != self._in_flight

    def _waits_for(self, task: LocalTask, ends: _Ends | None) -> str:
        """What a task waits for, as text; empty if it has no work. What is held waits for no progress, nor does what a
        limit holds up."""
        if task.view.held_up:
            return ""
        if not task.queues.empty or task.view.busy or task.view.paused:
            return "messages in flight"
        if ends is None:
            unread = [name for name in self.unread(task, ends) or () if not task.queues.of(name).held]
            return "messages of " + ", ".join(unread) if unread else ""
        if task.view.done:
            return ""
        # The end of an intermediate stream comes from tasks of other containers. While those run, they report a stall
        # themselves, so this container waits for sources only.
        present = self._others and not self._waits.absent()
        inputs = [name for name in task.view.open_inputs if not present or self._is_source(name)]
        return "the end of " + ", ".join(inputs) if inputs else ""

    def _is_source(self, name: str) -> bool:
        return self._plan.stream(growth_of(name)[0]).kind == "source"

    def unread(self, task: LocalTask, ends: _Ends | None) -> list[str] | None:
        """The inputs of a task that have messages which this run will read, and has not; None if that is unknown."""
        positions = task.queues.positions
        if ends is None:
            partitions = self._reporter.behind(positions)
        else:
            partitions = [partition for partition, offset in positions.items() if offset < ends.get(partition, offset)]
        return None if partitions is None else [task.queues.name_of(partition) for partition in partitions]
