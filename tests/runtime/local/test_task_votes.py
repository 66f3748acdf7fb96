"""Requests of stream tasks: when they count, and what they come to in a container."""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fluvial.runtime.kernel.task_requests import NOWHERE, MessagePlace, RunRequest, RunRequests
from fluvial.runtime.local.input_queue import InputQueue, InputQueues
from fluvial.runtime.local.task_votes import TaskVotes, due_requests
from fluvial.runtime.systems.contract import RecordBatch


@dataclass
class Graph:
    """Whether a task has a stream task."""

    places: bool


@dataclass
class Program:
    """The program of a task."""

    graph: Graph


@dataclass
class Task:
    """A task that asks for what it is told to."""

    name: str
    program: Any = field(default_factory=lambda: Program(Graph(places=True)))
    asked: list[RunRequest] = field(default_factory=list)

    def take_requests(self) -> list[RunRequest]:
        asked, self.asked = self.asked, []
        return asked


def land(queue: InputQueue, stop: int) -> None:
    """The messages of its batch before index `stop` have landed."""
    queue.land(stop)
    queue.remove(stop)


def test_a_request_counts_once_its_message_and_all_before_it_have_landed() -> None:
    requests, queue = RunRequests(taken=True), InputQueue("in", 0, 0)
    queue.add(RecordBatch("in", 0, range(9), [(None, b"", 0, ())] * 9))
    queues = InputQueues([queue, InputQueue("other", 0, 0)])
    later, sooner = (RunRequest("task", None, MessagePlace("in", 0, offset)) for offset in (2, 1))
    by_clock = RunRequest(None, "task", NOWHERE)
    for one in (later, sooner, by_clock):
        requests.note(one)
    assert due_requests(requests, queues) == [by_clock]
    assert requests.asked == [True]
    land(queue, 2)
    assert due_requests(requests, queues) == [sooner]
    land(queue, 3)
    assert due_requests(requests, queues) == [later]
    assert (requests.asked, due_requests(requests, queues)) == ([False], [])


@given(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["commit", "shutdown"]), st.sampled_from(["task", "all"])))
)
def test_c09_commits_are_of_one_or_all_and_the_run_ends_by_all_votes(asked: list[tuple[int, str, Any]]) -> None:
    tasks = [Task(name) for name in "abc"]
    passive = Task("d", Program(Graph(places=False)))
    votes, voted, every = TaskVotes(), set[str](), [*tasks, passive]
    for number, what, scope in asked:
        task = tasks[number]
        task.asked.append(RunRequest(scope, None, NOWHERE) if what == "commit" else RunRequest(None, scope, NOWHERE))
        names = [one.name for one in every] if scope == "all" else [task.name]
        assert votes.heed(task, every) == (names if what == "commit" else [])
        voted.update(names if what == "shutdown" else [])
        assert votes.over(every) == ({"a", "b", "c"} <= voted)
    assert not TaskVotes().over([passive])
