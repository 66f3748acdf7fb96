"""What stream tasks ask of the run: when it counts, for one task, and what it comes to in a container."""

from collections.abc import Sequence
from typing import Protocol

from ..kernel.code.program import Program
from ..kernel.task_requests import RunRequest, RunRequests
from .input_queue import InputQueues


class Voter(Protocol):
    """A task whose stream tasks may ask something of the run."""

    name: str
    program: Program

    def take_requests(self) -> list[RunRequest]:
        """What counts now, once."""
        ...


def due_requests(requests: RunRequests, queues: InputQueues) -> list[RunRequest]:
    """The requests of a task that count now: those whose message has landed, and all before it of its partition. They
    are not given again."""
    if not requests.pending:
        return []
    due, left = list[RunRequest](), list[RunRequest]()
    for request in requests.pending:
        (due if _has_landed(request, queues) else left).append(request)
    requests.keep(left)
    return due


def _has_landed(request: RunRequest, queues: InputQueues) -> bool:
    """Whether a request counts, also where messages wait behind its own: one that no message has made always does."""
    stream, partition, offset = request.place
    own = [queue for queue in queues if (queue.stream, queue.partition) == (stream, partition)]
    return offset is None or all(queue.has_passed(offset + 1) for queue in own)


class TaskVotes:
    """The votes of the stream tasks in a container for the end of its run."""

    def __init__(self) -> None:
        self._voted = set[str]()

    def heed(self, task: Voter, tasks: Sequence[Voter]) -> list[str]:
        """Take what a task has asked for that counts now. Returns the names of the tasks that are to commit soon."""
        commits = list[str]()
        for request in task.take_requests():
            every = [one.name for one in tasks]
            if request.commit is not None:
                commits += every if request.commit == "all" else [task.name]
            if request.shutdown is not None:
                self._voted.update(every if request.shutdown == "all" else [task.name])
        return commits

    def over(self, tasks: Sequence[Voter]) -> bool:
        """Whether each of these tasks that has a stream task has voted."""
        voters = {task.name for task in tasks if task.program.graph.places} if self._voted else set[str]()
        return bool(voters) and voters <= self._voted
