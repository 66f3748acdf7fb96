"""A task before it runs: its name, its store and its inputs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..state.contract import TaskStore


@dataclass(frozen=True, slots=True)
class TaskSetup:
    """A task before it runs.

    `number` is its number within its stage. `changelogs` has the changelog of each operator that keeps state, by
    operator. `inputs` are the input streams that have a partition of the task's number. `keeps_more` says that the
    store may hold the state of operators that are no longer in the plan.
    """

    name: str
    stage: str
    number: int
    store: TaskStore
    changelogs: Mapping[str, str]
    inputs: Sequence[str] = ()
    keeps_more: bool = False

    @property
    def stateful(self) -> bool:
        """Whether the store of the task outlasts the run."""
        return bool(self.changelogs) or self.keeps_more
