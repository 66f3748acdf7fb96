"""Merges tasks of one container into one task of fewer key buckets, once they have come equally far."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from ....planner.plan import Plan
from ..checkpoints.checkpoint import Owner
from ..checkpoints.rescaled import fired_alike
from ..commit.contract import TaskCommit
from ..task import LocalTask

# While they are brought together they wait for each other. They fire the same once the watermark has moved on a little.
AGAIN_SECONDS = 5.0
"""Seconds that tasks which had not fired the same go on before they are brought together again."""


class _Meeting:
    """Brings tasks that are to be merged to the same offsets: each reads up to the largest offset that one of them has
    reached, and no further. Once all have reached it, their next commit, one for all of them, is their last."""

    def __init__(self, tasks: Sequence[LocalTask], successors: Mapping[str, Owner]) -> None:
        self.tasks = tasks
        self._successors = successors
        reached = [task.queues.reached for task in tasks]
        # Of each stream the furthest: none can go back, and all keys of the merged task go on from one offset.
        self._offsets = {stream: max(one[stream] for one in reached) for stream in reached[0]}
        for task in tasks:
            task.queues.hold_at(self._offsets)

    @property
    def leaves(self) -> bool:
        """Whether the next commit of its tasks is the last one."""
        return all(task.leaves for task in self.tasks)

    def step(self) -> None:
        """Let the tasks be merged with their next commit if all have reached the offsets."""
        if all(self._is_there(task) for task in self.tasks):
            for task in self.tasks:
                task.leave_to(self._successors)

    def _is_there(self, task: LocalTask) -> bool:
        reached = task.queues.reached
        return task.rests and all(reached[stream] >= offset for stream, offset in self._offsets.items())

    def end(self) -> None:
        """Give the merge up: the tasks go on as they are."""
        for task in self.tasks:
            task.queues.hold_at({})
            task.leave_to({})


class TaskMerges:
    """The merges of a container's tasks, by the task that they are to be merged into."""

    def __init__(self, plan: Plan, clock: Callable[[], float]) -> None:
        self._plan = plan
        self._clock = clock
        self._meetings: dict[str, _Meeting] = {}
        self._again: dict[str, float] = {}

    def bring_together(self, task: str, parts: Sequence[LocalTask], owner: Owner) -> None:
        """Go on bringing these tasks together, which are to be merged into a task of this owner. It begins once none of
        them processes bootstrap streams, during which other inputs are not read; once none is to be opened again; and
        once all read, and hold, the same inputs: else one could wait for an input that another lacks."""
        free = self._clock() >= self._again.get(task, float("-inf"))
        busy = any(part.queues.bootstraps or part.reopens for part in parts)
        alike = len({(frozenset(part.queues.reached), frozenset(part.holds.known)) for part in parts}) == 1
        if task not in self._meetings and free and alike and not busy:
            self._meetings[task] = _Meeting(parts, {task: owner})
        if task in self._meetings:
            self._meetings[task].step()

    def checked(self, commits: Iterable[TaskCommit]) -> list[TaskCommit]:
        """The commits. They merge tasks where all tasks of a merge are committed, and have fired the same. Tasks of
        other merges go on as they are, and are brought together again after a while."""
        by_task = {one.setup.name: one for one in commits}
        for task, meeting in [*self._meetings.items()]:
            if not meeting.leaves:
                continue
            own = [by_task[part.name] for part in meeting.tasks if part.name in by_task]
            stage = self._plan.stage(meeting.tasks[0].setup.stage)
            together = len(own) == len(meeting.tasks)
            if own and not (together and fired_alike(self._plan, stage, [one.checkpoint for one in own])):
                by_task |= {one.setup.name: replace(one, successors={}) for one in own}
                self._end(task)
        return [*by_task.values()]

    def forget(self, tasks: Collection[LocalTask]) -> None:
        """Note that these tasks are merged, or that other containers have them."""
        gone = {task.name for task in tasks}
        for task, meeting in [*self._meetings.items()]:
            if any(part.name in gone for part in meeting.tasks):
                del self._meetings[task]

    def end(self) -> None:
        """Give all merges up: the tasks go on as they are."""
        for task in [*self._meetings]:
            self._end(task)
        self._again.clear()

    def _end(self, task: str) -> None:
        self._meetings.pop(task).end()
        # Also where it was given up: the next try waits, so that the tasks get on meanwhile.
        self._again[task] = self._clock() + AGAIN_SECONDS
