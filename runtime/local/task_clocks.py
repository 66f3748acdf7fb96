"""The processing time of the tasks of a container."""

from collections.abc import Callable, Collection, Sequence

from ..process.clock import ClockCheck
from .task import LocalTask


class TaskClocks:
    """Advances the processing time of those tasks that depend on it. `unread(task)` are the inputs of a task that have
    messages which it has not read, None if that is unknown."""

    def __init__(
        self, wall: Callable[[], int], check: ClockCheck, unread: Callable[[LocalTask], Collection[str] | None]
    ) -> None:
        self._wall, self._check, self._unread = wall, check, unread
        self._tasks: list[LocalTask] = []

    def set_tasks(self, tasks: Sequence[LocalTask]) -> None:
        """The container has these tasks from now on."""
        self._tasks = [task for task in tasks if task.program.clocked]

    def advance(self, draining: Collection[str]) -> None:
        """Set the clock of each task but those that drain for a commit, by their names: no timer may fire in them."""
        if not self._tasks:
            return
        now = self._wall()
        for task in self._tasks:
            if task.name not in draining:
                self._check.check(now, task.view.processing_time)
                task.set_clock(now, self._unread(task) if task.program.may_idle else None)
